"""Rules of float32 for CPUs that have AVX2 and no AVX-512: depthwise gradients.

Fitted on 754 weights gradients of the survey's families, on 312 gradients of images of up to 2048
channels, and the first rule on 2,207 problems of all operations. Ratios are of the rule's choice to
that without it, by `benchmarks/survey.py pairs --depthwise`, or `--broad`, on problems that were
drawn after the rules: geometric mean, worst, of so many. Two cores of an AMD EPYC of family 25
without AVX-512.
"""

from __future__ import annotations

import math

from .rule import DEPTHWISE, DEPTHWISE_AVX2, Rule, Shape

__all__ = ["AVX2_DEPTHWISE"]


def _is_weights_of_images_last(shape: Shape) -> bool:
    """Whether a problem is the weights gradient of depthwise images with channels last."""
    return (
        shape.channels_last
        and shape.weights
        and shape.depthwise
        and not shape.transposed
        and not shape.line
        and not shape.volume
    )


def _is_data_of_images_first(shape: Shape) -> bool:
    """Whether a problem is the data gradient of depthwise images with channels first."""
    return (
        not shape.channels_last
        and shape.data
        and shape.depthwise
        and not shape.transposed
        and not shape.line
        and not shape.volume
    )


def _least_elements(channels: int) -> float:
    """Return the elements of dst from which oneDNN's own layout is worth its reorders."""
    if channels % 512 == 0:
        return 8e5
    if channels > 512:
        return 1.7e6
    return 3e6 if channels == 256 else math.inf


AVX2_DEPTHWISE = (
    # Without the elements that the strides leave out, src has a quarter of its pixels or fewer.
    Rule(
        lambda s: (
            s.channels_last
            and s.weights
            and s.depthwise
            and not s.transposed
            and s.positions == 1
            and s.strided
            and s.channels <= 64
        ),
        "nxc",
        DEPTHWISE,
        "0.34, 1.49 of 17",
        formulation="strided_1x1",
    ),
    # Reorders to blocks of channels are little beside so many products.
    Rule(
        lambda s: (
            _is_weights_of_images_last(s)
            and not s.strided
            and (s.positions > 9 or s.dilated)
            and s.pixels >= 80
            and s.weights_size >= 6000
        ),
        "any",
        DEPTHWISE_AVX2,
        "0.63, 0.88 of 60; families 0.78, 1.16 of 48",
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: (
            _is_weights_of_images_last(s)
            and s.strided
            and (s.positions > 9 or s.dilated)
            and s.pixels >= 36
            and s.channels >= 500
            and s.dst_size >= 100_000
        ),
        "any",
        DEPTHWISE_AVX2,
        "0.69, 1.24 of 60",
        formulation="dst_as_weights",
    ),
    # Pixels of a column lie far apart, by whole kilobytes in the worst case.
    Rule(
        lambda s: (
            _is_weights_of_images_last(s)
            and s.positions == 9
            and s.images >= 4
            and s.dst_size >= _least_elements(s.channels)
        ),
        "any",
        DEPTHWISE_AVX2,
        "0.60, 1.93 of 60",
    ),
    Rule(
        lambda s: (
            _is_data_of_images_first(s)
            and not s.strided
            and s.positions >= 9
            and s.pixels <= 200
            and s.flops >= 5e6
        ),
        "any",
        DEPTHWISE_AVX2,
        "0.77, 1.40 of 60",
        formulation="flipped",
    ),
    Rule(
        lambda s: (
            _is_data_of_images_first(s)
            and s.strided
            and s.positions >= 9
            and s.pixels <= (49 if s.channels % 256 else 25)
            and s.channels < (2000 if s.images >= 4 else 700)
        ),
        "nxc",
        DEPTHWISE,
        "0.59, 1.21 of 60",
    ),
)
