"""Random depthwise layers on images, of as many channels as MobileNet and EfficientNet have.

The families of `survey_draw` end at 512 channels. From some hundreds on, with channels last, pixels
that follow each other along a column of an image lie kilobytes apart.
"""

from __future__ import annotations

import random

from survey_draw import DTYPES, Drawn, Shape, drawn_from

from onednn_py.tools.benchdnn.case import DATA_FORMATS

__all__ = ["DEPTHWISE_FAMILIES", "draw_depthwise"]

DIRECTIONS = ("FWD_D", "BWD_D", "BWD_W", "BWD_WB")

# Seconds by the estimate of `survey_draw`.
SHORTEST = 1e-5

# The square kernels and the stride of each family.
LAYERS = {
    "depthwise images": ((3, 3, 5, 7), 1),
    "depthwise images, strided": ((3, 3, 5, 7), 2),
}
DEPTHWISE_FAMILIES = tuple(LAYERS)

# Channels come in blocks of so many.
BLOCK = 16


def draw_depthwise(seed: int) -> Drawn:
    """Return the problem of a seed, a layer of `DEPTHWISE_FAMILIES`."""
    rng = random.Random(f"depthwise {seed}")
    direction, dtype = rng.choice(DIRECTIONS), rng.choice(DTYPES)
    data_format, family = rng.choice(DATA_FORMATS), rng.choice(DEPTHWISE_FAMILIES)

    def shape(rng: random.Random) -> Shape:
        kernels, stride = LAYERS[family]
        # Half of the channels are multiples of 256.
        channels = rng.choice((256 * rng.randint(1, 8), BLOCK * rng.randint(4, 128)))
        side, kernel = rng.randint(5, 30), rng.choice(kernels)
        return Shape(channels, channels, (side,) * 2, (kernel,) * 2, stride, groups=channels)

    return drawn_from(rng, shape, seed, family, direction, dtype, data_format, shortest=SHORTEST)
