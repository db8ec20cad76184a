"""Rules of float32 for CPUs that have AVX2 and no AVX-512: bias gradients of 1x1 kernels.

A product of matrices sums no bias gradient: products with ones do, and NumPy, some 60
microseconds. gemm sums few elements of dst itself in less. Ratios are of the rule's choice to that
without it, by `benchmarks/survey.py pairs`, on problems that were drawn after the rules: geometric
mean, worst, of so many problems. Two cores of an AMD EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .rule import GEMM, GEMM_DECONVOLUTION, Rule, Shape

__all__ = ["AVX2_BIAS"]


def _has_small_sum(shape: Shape) -> bool:
    return (
        shape.dense
        and shape.weights
        and shape.is_1x1
        and not shape.strided
        and shape.has_bias_gradient
        and shape.dst_size < 2**16
        and shape.pixels > 1
    )


AVX2_BIAS = (
    Rule(
        lambda s: s.channels_last and not s.transposed and _has_small_sum(s) and s.channels >= 16,
        "given",
        GEMM,
        "0.47, 1.00 of 30; families 0.45, 0.94 of 30",
    ),
    Rule(
        lambda s: s.channels_last and s.transposed and _has_small_sum(s) and s.channels >= 16,
        "given",
        GEMM_DECONVOLUTION,
        "0.49, 0.94 of 30",
        weights="given",
    ),
    Rule(
        lambda s: not s.channels_last and s.transposed and _has_small_sum(s) and s.images < 8,
        "given",
        GEMM_DECONVOLUTION,
        "0.84, 1.32 of 18, after which more images were left out",
    ),
)
