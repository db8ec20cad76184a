"""Named suites: the convolutions of well-known networks, as batch files of benchdnn's format.

Each shape stands once, however often a network repeats it. A suite's convolutions are in
``conv/``, its transposed convolutions in ``deconv/``.
"""

from __future__ import annotations

from pathlib import Path

from onednn_py.errors import AttributeValueError

__all__ = ["SUITES", "suite_files"]

SUITES = ("resnet50", "mobilenet", "unet", "unet3d", "wavenet", "dcgan")


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
