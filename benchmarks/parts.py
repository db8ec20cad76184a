"""The parts of docs/performance.md; each is measured by itself, in some minutes."""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["PARTS", "Part"]

# Seconds for each competitor and problem: six suites in two directions are 206 cases.
BUDGET = 0.12

ALL_SUITES = "--suite=resnet50,mobilenet,unet,unet3d,wavenet,dcgan"

SUITES_2D = "--suite=resnet50,mobilenet,unet,dcgan"

# Without the two U-Nets and WaveNet, which take as long as the other suites together.
SHORT_SUITES = "--suite=resnet50,mobilenet,dcgan"

# PyTorch takes seconds for the larger problems in float16.
FLOAT16 = (SHORT_SUITES, "--mb=4")

# A large kernel and a long sum over channels, for the sweeps of minibatch, threads and size.
SWEPT = ('ic64ih56oc64kh3ph1n"3x3"', 'ic256ih56oc64kh1n"1x1"')
SWEPT_BY_SIZE = ('ic64ih{0}oc64kh3ph1n"3x3"', 'ic256ih{0}oc64kh1n"1x1"')


@dataclass(frozen=True)
class Part:
    """One table of the document, and its figure.

    Attributes
    ----------
    name : str
    title : str
    runs : dict of str to tuple of str
        Options of the command bench, by the value that the part varies; under an empty key if
        it varies nothing.
    varies : str
        Name of what the part varies; may be empty.
    """

    name: str
    title: str
    runs: dict[str, tuple[str, ...]]
    varies: str = ""

    @property
    def is_tiny(self) -> bool:
        return self.name == "tiny"

    @property
    def is_of_suites(self) -> bool:
        """Whether the part is one run of suites, whose means can be compared across machines."""
        return not self.is_tiny and not self.varies


def _suites(dtype: str, data_format: str, effort: str, *more: str) -> Part:
    options = (*more, f"--dt={dtype}", f"--format={data_format}", f"--effort={effort}")
    return Part(
        f"{dtype}-{data_format.lower()}-{effort}",
        f"{dtype}, {data_format}, effort {effort}",
        {"": (*options, "--compare=native,torch", f"--budget={BUDGET}")},
    )


def _sweep(name: str, varies: str, runs: dict[str, tuple[str, ...]]) -> Part:
    common = ("--format=NCX", "--compare=native,torch")
    return Part(
        name, f"f32, NCX, by {varies}", {key: (*run, *common) for key, run in runs.items()}, varies
    )


def _threads() -> list[int]:
    """Return powers of two up to the number of cores, and that number."""
    cores = os.cpu_count() or 1
    return sorted({1, cores, *(2**n for n in range(1, 10) if 2**n < cores)})


_ALL = [
    *(
        _suites(dtype, data_format, effort, *problems)
        for dtype, data_format, problems in (
            ("f32", "NCX", (ALL_SUITES,)),
            ("f32", "NXC", (ALL_SUITES,)),
            ("bf16", "NCX", (SHORT_SUITES,)),
            ("f16", "NCX", FLOAT16),
        )
        for effort in ("heuristic", "measure")
    ),
    Part(
        "numpy",
        "f32, NCX, against our own NumPy backend",
        {
            "": (
                *(SUITES_2D, "--format=NCX", "--compare=native,numpy"),
                f"--budget={BUDGET}",
            )
        },
    ),
    _sweep(
        "batch",
        "minibatch",
        {str(mb): (f"--mb={mb}", "--conv", *SWEPT) for mb in (1, 2, 4, 8, 16, 32)},
    ),
    _sweep(
        "threads",
        "threads",
        {str(n): (f"--threads={n}", "--mb=16", "--conv", *SWEPT) for n in _threads()},
    ),
    _sweep(
        "size",
        "height and width",
        {
            str(size): ("--mb=16", "--conv", *(text.format(size) for text in SWEPT_BY_SIZE))
            for size in (7, 14, 28, 56, 112)
        },
    ),
    Part("tiny", "a call", {"": ("--tiny", "--compare=native,torch", "--budget=2")}),
]
PARTS = {part.name: part for part in _ALL}
