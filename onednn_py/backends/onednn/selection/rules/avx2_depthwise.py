"""Rules of float32 for CPUs that have AVX2 and no AVX-512: depthwise weights gradients.

With channels last, the elements of a channel lie apart by as many bytes as all channels take.
Fitted on 754 problems; ratios are of the rule's choice to that without it, by `benchmarks/survey.py
pairs`, on problems that were drawn after the rules: geometric mean, worst, of so many problems. Two
cores of an AMD EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .rule import DEPTHWISE_AVX2, Rule, Shape

__all__ = ["AVX2_DEPTHWISE"]


def _is_of_images(shape: Shape) -> bool:
    return (
        shape.channels_last
        and shape.weights
        and shape.depthwise
        and not shape.transposed
        and not shape.line
        and not shape.volume
    )


AVX2_DEPTHWISE = (
    Rule(
        lambda s: _is_of_images(s) and not s.strided and s.pixels >= 80 and s.weights_size >= 6000,
        "any",
        DEPTHWISE_AVX2,
        "0.78, 1.16 of 48",
        formulation="dst_as_weights",
    ),
    # Pixels lie whole kilobytes apart, so that those of a column share few places of the caches.
    Rule(
        lambda s: (
            _is_of_images(s)
            and s.channels % 256 == 0
            and s.positions == 9
            and s.images >= 4
            and s.dst_size >= (3_000_000 if s.channels % 512 else 800_000)
        ),
        "any",
        DEPTHWISE_AVX2,
        "0.80, 1.11 of 13",
    ),
)
