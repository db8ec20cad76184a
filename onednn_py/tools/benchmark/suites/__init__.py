"""Problems to measure: those of the commands by default, and suites, as benchdnn's batch files.

A suite lists the convolutions of a well-known network. Each shape stands once, however often the
network repeats it. A suite's convolutions are in ``conv/``, its transposed ones in ``deconv/``.
"""

from __future__ import annotations

from pathlib import Path

from onednn_py.errors import AttributeValueError

__all__ = ["DEFAULT_DIRECTIONS", "DEFAULT_PROBLEMS", "SUITES", "suite_files"]

SUITES = ("resnet50", "mobilenet", "unet", "unet3d", "wavenet", "dcgan")

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
