"""Random layers between many channels, of some 2 to 60 ms: where a deep network's time goes.

Most problems of the families are small: a rule that loses on large ones alone goes unseen there.
"""

from __future__ import annotations

import random
from dataclasses import replace

from survey_draw import DTYPES, Drawn, Shape, drawn_from

from onednn_py.tools.benchdnn.case import DATA_FORMATS

__all__ = ["DEEP_FAMILIES", "draw_deep", "draw_deep_of_many_images"]

DIRECTIONS = ("FWD_D", "BWD_D", "BWD_W")

# Seconds by the estimate of `survey_draw`.
SHORTEST = 2e-3

# Of each layer: spatial axes, kernel, stride, whether it is transposed, and the largest side.
LAYERS = {
    "deep 1x1": (2, 1, 1, False, 112),
    "deep 1x1/2": (2, 1, 2, False, 112),
    "deep 3x3": (2, 3, 1, False, 112),
    "deep 3x3/2": (2, 3, 2, False, 112),
    "deep 4x4/2": (2, 4, 2, False, 64),
    "deep 5x5": (2, 5, 1, False, 56),
    "deep 3x3x3": (3, 3, 1, False, 32),
    "deep 3": (1, 3, 1, False, 8192),
    "deep 2x2/2 transposed": (2, 2, 2, True, 64),
    "deep 4x4/2 transposed": (2, 4, 2, True, 32),
}
DEEP_FAMILIES = tuple(LAYERS)

CHANNELS = (32, 48, 64, 64, 96, 128, 128, 160, 192, 256, 256, 320, 384, 512, 512, 768, 1024)
LOWEST = {1: 256, 2: 4, 3: 4}


def draw_deep(seed: int) -> Drawn:
    """Return the problem of a seed, a layer of `DEEP_FAMILIES`."""
    rng = random.Random(f"deep {seed}")
    direction, dtype = rng.choice(DIRECTIONS), rng.choice(DTYPES)
    data_format, family = rng.choice(DATA_FORMATS), rng.choice(DEEP_FAMILIES)

    def shape(rng: random.Random) -> Shape:
        return _shape(rng, family)

    return drawn_from(rng, shape, seed, family, direction, dtype, data_format, shortest=SHORTEST)


def draw_deep_of_many_images(seed: int) -> Drawn:
    """Return the layer of a seed with four times its images where that is a usual minibatch.

    That is where 8 images or more are at most 40 pixels wide and there are 64 channels or more.
    Other layers are those of `draw_deep`.
    """
    drawn = draw_deep(seed)
    (case,) = drawn.cases
    d = case.descriptor
    if d.minibatch < 8 or max(d.dst) > 40 or min(d.inputs, d.outputs) < 64:
        return drawn
    many = replace(case, descriptor=d.with_minibatch(4 * d.minibatch))
    return replace(drawn, cases=(many,))


def _shape(rng: random.Random, family: str) -> Shape:
    rank, side, stride, transposed, largest = LAYERS[family]
    low = LOWEST[rank]
    length = round(low * (largest / low) ** rng.random())
    dilation = rng.choice((1, 1, 2, 4, 16)) if rank == 1 else 1
    pads = ((side - 1) // 2,) * rank if transposed else None  # None: those that keep the size
    return Shape(
        rng.choice(CHANNELS),
        rng.choice(CHANNELS),
        (length,) * rank,
        (side,) * rank,
        stride,
        dilation,
        pads=pads,
        transposed=transposed,
    )
