"""Rules of float32 layers between many channels, for CPUs that have AVX2 and no AVX-512.

Fitted on 853 large layers that `benchmarks/survey.py record --deep` timed, on two cores of an AMD
EPYC of family 25 without AVX-512. Ratios are of the rule's choice to that without it, by
`pairs --deep`, on problems that were drawn after the rules: geometric mean, worst, of so many. The
last three rules of `AVX2_DEEP` come from layers of 32 to 128 images, and are judged on such, too.
"""

from __future__ import annotations

from .rule import (
    BRGEMM_AVX2,
    BRGEMM_STRIDED,
    GEMM,
    JIT_1X1_AVX2,
    JIT_AVX2,
    Rule,
    Shape,
)

__all__ = ["AVX2_DEEP", "AVX2_DEEP_REST", "is_deep"]


def is_deep(shape: Shape) -> bool:
    """Whether a problem has the channels and flops of those that `--deep` draws."""
    return shape.channels >= 32 and shape.flops >= 1e8


# Asked before the other rules for such CPUs.
AVX2_DEEP = (
    # The rows of weights begin 4096 bytes apart, in the same sets of the cache.
    Rule(
        lambda s: (
            s.dense_first
            and s.data
            and s.is_product
            and not s.transposed
            and s.inputs % 1024 == 0
            and s.pixels >= 130
            and is_deep(s)
        ),
        "any",
        GEMM,
        "0.80, 1.32 of 30",
        formulation="flipped",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.data
            and s.is_product
            and not s.transposed
            and s.pixels < 130
            and is_deep(s)
        ),
        "any",
        JIT_1X1_AVX2,
        "0.80, 1.18 of 30",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.data
            and s.strided
            and not s.is_1x1
            and not s.transposed
            and s.outputs >= 150
            and s.pixels >= 16
            and s.flops >= 3e8
            and is_deep(s)
        ),
        "any",
        BRGEMM_STRIDED,
        "0.85, 1.29 of 30",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.forward
            and s.strided
            and s.is_1x1
            and not s.transposed
            and s.inputs >= 100
            and is_deep(s)
        ),
        "any",
        JIT_1X1_AVX2,
        "0.74, 1.02 of 30",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.forward
            and s.strided
            and not s.is_1x1
            and not s.transposed
            and s.inputs >= 300
            and s.outputs >= 400
            and (s.pixels >= 100 or s.images <= 2)
            and is_deep(s)
        ),
        "any",
        GEMM,
        "0.77, 1.15 of 30",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.forward
            and not s.transposed
            and not s.volume
            and s.positions >= 25
            and s.weights_size >= 1.5e6
            and s.all_pixels < 600
            and is_deep(s)
        ),
        "any",
        JIT_AVX2,
        "0.88, 1.16 of 30",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.weights
            and not s.is_1x1
            and not s.transposed
            and s.outputs >= 150
            and s.weights_size < 1.5e6
            and s.pixels >= 100
            and is_deep(s)
        ),
        "any",
        GEMM,
        "0.79, 1.19 of 30",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense
            and s.strided
            and s.is_1x1
            and not s.transposed
            and s.inputs >= 100
            and s.weights_size < 300_000
            and is_deep(s)
        ),
        "any",
        JIT_1X1_AVX2,
        "0.91, 1.16 of 30",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.weights
            and s.strided
            and s.is_1x1
            and not s.transposed
            and s.group_products >= 4096
            and is_deep(s)
        ),
        "given",
        GEMM,
        "0.90, 1.18 of 29",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.forward
            and s.is_1x1
            and not s.transposed
            and s.dst_size >= 300_000
            and is_deep(s)
        ),
        "given",
        JIT_1X1_AVX2,
        "0.89, 1.27 of 30",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.forward
            and not s.is_1x1
            and not s.volume
            and s.positions <= 25
            and s.all_pixels < 200
            and s.weights_size >= 1.3e6
            and is_deep(s)
        ),
        "given",
        GEMM,
        "0.78, 1.10 of 30",
        formulation="im2col",
    ),
    Rule(
        lambda s: (
            s.dense_first and s.data and s.transposed and s.in_patches and not s.line and is_deep(s)
        ),
        "any",
        JIT_1X1_AVX2,
        "0.75, 1.24 of 30",
        formulation="flipped",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.weights
            and not s.transposed
            and s.larger_kernel
            and s.is_strict
            and s.outputs >= 300
            and s.group_products >= 80_000
            and s.weights_size >= 1_000_000
            and is_deep(s)
        ),
        "given",
        GEMM,
        "0.68, 1.04 of 30",
        formulation="im2col",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.data
            and s.strided
            and not s.transposed
            and s.positions >= 16
            and s.pixels <= 16
            and s.all_pixels >= 64
            and is_deep(s)
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.71, 1.29 of 22",
        formulation="flipped",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.forward
            and s.strided
            and s.transposed
            and not s.in_patches
            and s.positions >= 16
            and s.pixels <= 16
            and is_deep(s)
        ),
        "given",
        BRGEMM_AVX2,
        "0.64, 0.77 of 8",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.data
            and s.transposed
            and s.in_patches
            and not s.line
            and s.all_pixels >= 100
            and is_deep(s)
        ),
        "nxc",
        JIT_1X1_AVX2,
        "0.82, 1.36 of 48",
        formulation="flipped",
    ),
)

# Asked before the general rules alone: in place of what oneDNN names first, and of nothing else.
AVX2_DEEP_REST = (
    Rule(
        lambda s: (
            s.dense_first and s.data and s.strided and s.is_1x1 and not s.transposed and is_deep(s)
        ),
        "any",
        JIT_1X1_AVX2,
        "0.40, 1.20 of 30",
        formulation="flipped",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.forward
            and s.strided
            and s.is_1x1
            and not s.transposed
            and is_deep(s)
        ),
        "any",
        GEMM,
        "0.60, 1.27 of 30",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.weights
            and s.transposed
            and s.in_patches
            and s.outputs >= 80
            and is_deep(s)
        ),
        "any",
        GEMM,
        "0.72, 0.94 of 30",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.dense_last and s.data and s.strided and not s.transposed and is_deep(s),
        "given",
        GEMM,
        "0.81, 1.26 of 30",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.weights
            and s.strided
            and not s.transposed
            and not s.is_1x1
            and s.positions <= 9
            and s.outputs >= 200
            and is_deep(s)
        ),
        "given",
        GEMM,
        "0.69, 1.16 of 30",
        formulation="im2col",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.weights
            and not s.strided
            and not s.transposed
            and not s.is_1x1
            and s.weights_size >= 1.1e6
            and s.outputs >= 200
            and 2 * s.outputs >= s.inputs
            and is_deep(s)
        ),
        "given",
        GEMM,
        "0.78, 1.23 of 30",
        formulation="im2col",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.weights
            and not s.strided
            and not s.transposed
            and not s.is_1x1
            and is_deep(s)
        ),
        "any",
        JIT_AVX2,
        "0.90, 1.07 of 30",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.weights
            and s.transposed
            and s.in_patches
            and s.outputs >= 100
            and is_deep(s)
        ),
        "given",
        GEMM,
        "0.91, 1.24 of 30",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.data
            and s.strided
            and not s.transposed
            and not s.is_1x1
            and not s.volume
            and not s.line
            and s.images <= 2
            and s.outputs <= 100
            and is_deep(s)
        ),
        "any",
        JIT_AVX2,
        "0.85, 1.02 of 21",
    ),
)
