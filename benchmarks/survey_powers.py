"""Random layers of lines, images and volumes whose sides are powers of two, as networks often have.

With channels first, their channels begin whole pages apart, so that the elements of all channels at
one pixel share few places of the caches. Sides that are drawn from a range hardly ever do that.
"""

from __future__ import annotations

import random

from survey_draw import DTYPES, Drawn, Shape, drawn_from

from onednn_py.tools.benchdnn.case import DATA_FORMATS

__all__ = ["POWER_FAMILIES", "draw_powers_of_two"]

DIRECTIONS = ("FWD_D", "FWD_B", "BWD_D", "BWD_W", "BWD_WB")

# Seconds by the estimate of `survey_draw`.
SHORTEST = 2e-4

# Of each layer: spatial axes, kernels, stride, whether it is transposed, and the powers of two.
LAYERS = {
    "powers of two, line": (1, (1, 1, 2, 3), 1, False, (10, 14)),
    "powers of two, 1x1": (2, (1,), 1, False, (5, 8)),
    "powers of two, image": (2, (3, 3, 3, 5, 7), 1, False, (5, 8)),
    "powers of two, strided": (2, (1, 2, 3, 4), 2, False, (5, 8)),
    "powers of two, upsampling": (2, (2, 4, 4), 2, True, (4, 7)),
    "powers of two, volume": (3, (1, 3, 3, 3), 1, False, (4, 6)),
    "powers of two, volume upsampled": (3, (2, 4), 2, True, (3, 5)),
}
POWER_FAMILIES = tuple(LAYERS)

CHANNELS = (1, 3, 8, 16, 16, 32, 32, 48, 64, 64, 96, 128, 128, 192, 256, 256, 384, 512)


def draw_powers_of_two(seed: int) -> Drawn:
    """Return the problem of a seed, a layer of `POWER_FAMILIES`."""
    rng = random.Random(f"powers of two {seed}")
    direction, dtype = rng.choice(DIRECTIONS), rng.choice(DTYPES)
    data_format, family = rng.choice(DATA_FORMATS), rng.choice(POWER_FAMILIES)

    def shape(rng: random.Random) -> Shape:
        return _shape(rng, family)

    return drawn_from(rng, shape, seed, family, direction, dtype, data_format, shortest=SHORTEST)


def _shape(rng: random.Random, family: str) -> Shape:
    rank, sides, stride, transposed, powers = LAYERS[family]
    side = rng.choice(sides)
    dilation = rng.choice((1, 2, 4, 16)) if rank == 1 and side > 1 else 1
    # Pads that keep the size, or double it or halve it.
    pads = ((side - 1) // 2,) * rank if dilation == 1 else None
    return Shape(
        rng.choice(CHANNELS),
        rng.choice(CHANNELS),
        (2 ** rng.randint(*powers),) * rank,
        (side,) * rank,
        stride,
        dilation,
        pads=pads,
        transposed=transposed,
    )
