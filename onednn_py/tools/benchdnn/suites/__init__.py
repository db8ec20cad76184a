"""Problems to measure: those of the commands by default, and suites, as benchdnn's batch files.

A suite lists the convolutions of a well-known network. Each shape stands once, however often the
network repeats it. A suite's convolutions are in ``conv/``, its transposed ones in ``deconv/``.
"""

from __future__ import annotations

from pathlib import Path

from onednn_py.errors import AttributeValueError
from onednn_py.tools.text import aligned

__all__ = [
    "ABOUT_MINUTES",
    "DEFAULT_DIRECTIONS",
    "DEFAULT_PROBLEMS",
    "SUITES",
    "number_of_problems",
    "suite_files",
    "suite_lines",
    "suites_text",
]

# What `bench --suite` takes in minutes, with native and NumPy on two cores with AVX-512.
ABOUT_MINUTES = {
    "resnet50": 4,
    "mobilenet": 3,
    "unet": 4,
    "unet3d": 3,
    "wavenet": 2,
    "dcgan": 2,
}
SUITES = tuple(ABOUT_MINUTES)

DEFAULT_DIRECTIONS = ("BWD_D", "BWD_W")

# The problems that are measured where the command line names none, as operations and descriptors:
# each kind of layer that networks are made of, once.
DEFAULT_PROBLEMS = (
    ("conv", 'mb16ic3ih224oc64kh7sh2ph3n"first_layer"'),
    ("conv", 'mb16ic64ih56oc64kh3ph1n"3x3"'),
    ("conv", 'mb16ic256ih56oc64kh1n"1x1"'),
    ("conv", 'mb16ic256ih28oc256kh3sh2ph1n"3x3_stride"'),
    ("conv", 'mb16g128ic128ih56oc128kh3ph1n"depthwise"'),
    ("conv", 'mb4ic32iw16000oc64kw2dw15n"1d_dilated"'),
    ("conv", 'mb1ic64id24oc64kd3pd1n"3d"'),
    ("deconv", 'mb16ic256ih16oc128kh4sh2ph1n"upsampling"'),
)


def suite_files(name: str) -> list[tuple[str, Path]]:
    """Return the batch files of a suite, each with its operation, conv or deconv.

    Raises
    ------
    AttributeValueError
        If there is no such suite.
    """
    if name not in SUITES:
        raise AttributeValueError(f"suite: expected some of {', '.join(SUITES)}; got {name!r}")
    folder = Path(__file__).parent
    files = [(operation, folder / operation / f"{name}.txt") for operation in ("conv", "deconv")]
    return [(operation, path) for operation, path in files if path.is_file()]


def number_of_problems(name: str) -> int:
    """Return how many problems a suite has."""
    lines = [
        line.strip()
        for _, path in suite_files(name)
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return sum(1 for line in lines if line and not line.startswith(("#", "--")))


def suites_text() -> str:
    """Return the suites with their numbers of problems and the minutes of `bench`, in one line."""
    return ", ".join(
        f"{name} ({number_of_problems(name)} problems, about {minutes} minutes)"
        for name, minutes in ABOUT_MINUTES.items()
    )


def suite_lines() -> list[str]:
    """Return a table of the suites, and what the minutes are of."""
    rows = [
        (name, str(number_of_problems(name)), f"about {minutes} minutes")
        for name, minutes in ABOUT_MINUTES.items()
    ]
    return [
        *aligned([("suite", "problems", "bench takes"), *rows]),
        "with native and numpy on two cores; each problem in two directions and two formats",
    ]
