"""Random problems of all operations, whoever may use them.

Families of uses hide what they do not draw: a bias that few of their transposed convolutions had
made the choice up to 195 times as slow as the fastest way. Here half the problems that can have a
bias have it.
"""

from __future__ import annotations

import random

from survey_draw import DTYPES, Drawn, Shape, drawn_from

from onednn_py.tools.benchdnn.case import DATA_FORMATS

__all__ = ["KINDS", "draw_broadly"]

DIRECTIONS = ("FWD_D", "FWD_B", "BWD_D", "BWD_W", "BWD_WB")
TRANSPOSED_SHARE = 0.35

CHANNELS = (1, 2, 3, 3, 4, 6, 8, 12, 16, 16, 24, 32, 32, 48, 64, 64, 96, 100, 128, 192, 256, 512)
LARGEST = {1: 8000, 2: 160, 3: 40}

KINDS = tuple(
    f"{kind}{suffix}"
    for suffix in ("", ", transposed")
    for kind in ("one group", "groups", "depthwise")
)


def draw_broadly(seed: int) -> Drawn:
    """Return the problem of a seed, which is no family's."""
    rng = random.Random(f"broad {seed}")
    direction, dtype = rng.choice(DIRECTIONS), rng.choice(DTYPES)
    data_format = rng.choice(DATA_FORMATS)
    kind = rng.choice(("one group", "one group", "one group", "one group", "groups", "depthwise"))
    transposed = rng.random() < TRANSPOSED_SHARE
    family = f"{kind}, transposed" if transposed else kind

    def shape(rng: random.Random) -> Shape:
        return _shape(rng, kind, transposed)

    return drawn_from(rng, shape, seed, family, direction, dtype, data_format)


def _shape(rng: random.Random, kind: str, transposed: bool) -> Shape:
    groups, inputs, outputs = _channels(rng, kind)
    rank = rng.choice((1, 2, 2, 2, 2, 3))
    side = rng.choice((1, 2, 3, 3, 3, 4, 5, 7))
    stride = rng.choice((1, 1, 1, 2, 2, 2, 3, 4)) if side > 1 else rng.choice((1, 1, 2))
    if transposed:
        stride = min(stride, side) if side > 1 else stride
    dilation = rng.choice((1, 1, 1, 1, 2, 3)) if side > 1 and not transposed else 1
    pads = (0,) * rank if rng.random() < 1 / 3 else None  # None: those that keep the size
    low = 16 if rank == 1 else 4
    length = round(low * (LARGEST[rank] / low) ** rng.random())
    return Shape(
        inputs,
        outputs,
        (length,) * rank,
        (side,) * rank,
        stride,
        dilation,
        pads=pads,
        groups=groups,
        transposed=transposed,
    )


def _channels(rng: random.Random, kind: str) -> tuple[int, int, int]:
    """Return the number of groups, and the channels of all groups of src and of dst."""
    if kind == "one group":
        return 1, rng.choice(CHANNELS), rng.choice(CHANNELS)
    if kind == "depthwise":
        groups = rng.choice(CHANNELS[8:])
        return groups, groups, groups
    groups = rng.choice((2, 4, 8, 16, 32))
    widths = (1, 2, 4, 4, 8, 8, 16, 32)
    return groups, groups * rng.choice(widths), groups * rng.choice(widths)
