"""Rules of float32 for CPUs that have AVX2 and no AVX-512: layers whose sides are powers of two.

Fitted on 844 such layers that `benchmarks/survey.py record --powers-of-two` timed, on two cores of
an AMD EPYC of family 25 without AVX-512. A rule that does not ask for whole pages holds for
other sides, too. Ratios are of the rule's choice to that without it, by `pairs`, on problems of
three draws after the rule: geometric mean, worst, of so many.
"""

from __future__ import annotations

from .rule import GEMM, JIT_1X1_AVX2, Rule

__all__ = ["AVX2_POWERS"]

AVX2_POWERS = (
    # The rules behind it mostly multiply by the weights in the caller's layout.
    Rule(
        lambda s: (
            s.dense_first
            and s.data
            and not s.transposed
            and s.is_product
            and s.outputs >= 64
            and s.pixels >= 130
            and s.flops >= 2e8
        ),
        "given",
        GEMM,
        "0.92, 1.13 of 63",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.forward
            and not s.transposed
            and s.is_product
            and s.whole_pages
            and s.has_bias
            and s.inputs >= 8
            and s.outputs >= 96
            and s.all_pixels >= 10_000
        ),
        "any",
        JIT_1X1_AVX2,
        "0.89, 1.11 of 24",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.data
            and s.transposed
            and s.in_patches
            and s.volume
            and not s.has_bias
            and s.channels <= 16
            and s.outputs >= 2
            and s.images >= 2
        ),
        "any",
        GEMM,
        "0.59, 0.98 of 27",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.data
            and s.transposed
            and s.in_patches
            and not s.line
            and not s.has_bias
            and s.positions < 9
            and s.inputs <= s.outputs
            and s.outputs >= 64
            and s.images < 6
        ),
        "given",
        GEMM,
        "0.86, 1.30 of 55",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.weights
            and not s.transposed
            and s.is_product
            and s.outputs < 80
            and s.inputs >= max(32, s.outputs)
            and s.inputs <= 768
            and s.all_pixels >= 2048
        ),
        "given",
        GEMM,
        "0.80, 1.29 of 72",
    ),
)
