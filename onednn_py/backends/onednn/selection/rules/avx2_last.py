"""Rules of float32 for CPUs that have AVX2 and no AVX-512: channels last.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems. Two cores of an AMD
EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .rule import DEPTHWISE, GEMM, GEMM_DECONVOLUTION, JIT_1X1_AVX2, JIT_AVX2, Rule, Shape

__all__ = ["AVX2_LAST"]


def _is_weights_of_lines(shape: Shape) -> bool:
    return (
        shape.dense
        and shape.weights
        and not shape.transposed
        and not shape.strided
        and shape.line
        and not shape.is_1x1
        and shape.pixels >= 500
    )


AVX2_LAST = (
    # The deconvolution sums the bias gradient with plain loops.
    Rule(
        lambda s: (
            s.transposed
            and s.weights
            and s.depthwise
            and s.has_bias_gradient
            and not s.volume
            and s.flops >= 1e6
        ),
        "given",
        DEPTHWISE,
        "kept to AVX2 on a CPU with AVX-512, 0.77, 1.09 of 30",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and not s.transposed
            and s.strided
            and s.positions >= 16
            and s.inputs <= 3
            and s.outputs >= 16
        ),
        "any",
        GEMM,
        "0.81, 1.22 of 24",
    ),
    Rule(
        lambda s: (
            s.data
            and not s.transposed
            and s.is_product
            and s.images == 1
            and s.pixels <= 100
            and s.group_products >= 50_000
        ),
        "given",
        GEMM,
        "0.55, 0.92 of 20",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and s.volume
            and s.strided
            and s.dilated
            and s.outputs < 64
            and s.pixels < 1500
        ),
        "any",
        GEMM,
        "0.65, 1.38 of 30",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and not s.transposed
            and s.is_1x1
            and s.outputs < 150
            and s.images >= 2
            and s.channels >= 2
        ),
        "given",
        JIT_1X1_AVX2,
        "0.77, 1.00 of 43",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and not s.transposed
            and s.strided
            and s.outputs >= 50
            and s.flops < 3e8
        ),
        "given",
        GEMM,
        "0.57, 1.31 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and not s.transposed
            and s.larger_kernel
            and s.inputs < 8
            and s.outputs < 24
            and s.channels >= 3
            and s.flops >= (1e6 if s.strided else 1e5)
        ),
        "given",
        JIT_AVX2,
        "0.54, 0.89 of 13",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and s.transposed
            and not s.line
            and s.outputs >= 100
            and s.dst_size < 100_000
            and not s.is_product
        ),
        "given",
        GEMM,
        "0.74, 1.50 of 46",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and s.transposed
            and not s.has_bias
            and s.positions >= 2
            and s.dst_size < 80_000
            and s.flops < 1e7
            and s.inputs >= 2
            and s.outputs < 40
        ),
        "given",
        JIT_AVX2,
        "0.86, 1.47 of 46",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and s.transposed
            and s.strided
            and s.inputs <= 4
            and s.outputs >= 24
            and s.positions >= 9
            and s.group_products < 200
            and s.images < 32
        ),
        "any",
        GEMM,
        "0.84, 1.50 of 34",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.forward
            and not s.transposed
            and s.is_1x1
            and not s.is_split
            and s.inputs < 150
            and s.outputs >= 3
        ),
        "given",
        JIT_1X1_AVX2,
        "0.82, 1.30 of 46",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.is_1x1
            and s.inputs < 8
            and s.group_products >= 50
            and s.weights_size < 4000
        ),
        "given",
        JIT_AVX2,
        "0.91, 1.19 of 43",
    ),
    Rule(
        lambda s: s.dense and s.forward and s.transposed and s.is_1x1 and s.inputs < 50,
        "given",
        JIT_1X1_AVX2,
        "0.78, 1.05 of 46",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and s.strided
            and s.outputs < 4
            and s.positions >= 7
            and s.pixels < 2000
            and s.images >= 2
            and s.group_products >= 4
        ),
        "any",
        GEMM,
        "0.62, 2.33 of 37",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and not s.is_product
            and s.inputs >= 16
            and s.outputs >= 200
            and s.weights_size < 800_000
            and s.flops < 1e9
            and s.pixels >= 12
        ),
        "given",
        GEMM,
        "0.88, 1.30 of 37",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and s.positions >= 4
            and s.all_pixels < 600
            and s.flops < 8e7
        ),
        "given",
        JIT_AVX2,
        "0.84, 2.03 of 40",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and not s.strided
            and s.is_1x1
            and s.inputs >= 400
            and 32 <= s.outputs < 600
            and s.group_products >= 100_000
            and s.images >= 8
            and s.all_pixels >= 700
        ),
        "any",
        JIT_1X1_AVX2,
        "0.84, 1.16 of 27",
    ),
    Rule(
        lambda s: _is_weights_of_lines(s) and s.inputs >= 32 and 16 <= s.outputs < 64,
        "any",
        JIT_AVX2,
        "0.57, 1.07 of 37",
    ),
    Rule(
        lambda s: (
            _is_weights_of_lines(s)
            and s.outputs >= 16
            and s.inputs >= max(50, 2 * s.outputs)
            and s.flops >= 5e8
        ),
        "any",
        GEMM,
        "0.77, 1.31 of 37",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and s.line
            and not s.is_1x1
            and s.positions < 13
            and s.outputs >= 32
            and not s.small
            and s.weights_size >= 300
        ),
        "given",
        GEMM,
        "0.76, 1.54 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and s.dilated
            and not s.whole_blocks
            and s.inputs >= 23
            and s.positions >= 3
            and not s.strided
            and s.weights_size < 10_000
        ),
        "any",
        GEMM,
        "0.78, 1.19 of 45",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.transposed
            and s.in_groups
            and s.pixels >= 200
            and s.flops >= 2e8
            and s.weights_size >= 2000
        ),
        "any",
        JIT_AVX2,
        "0.67, 1.08 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and s.transposed
            and not s.is_product
            and s.outputs >= 100
            and s.images < 4
            and s.weights_size < 50_000
            and s.dst_size < 1.5e6
        ),
        "given",
        GEMM_DECONVOLUTION,
        "0.85, 2.16 of 46",
        weights="given",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and s.transposed
            and s.inputs >= 4
            and s.group_products >= 1500
            and s.pixels >= 800
            and s.flops >= 1.5e8
        ),
        "any",
        JIT_AVX2,
        "0.72, 1.23 of 46",
    ),
    Rule(
        lambda s: (
            s.in_groups
            and s.weights
            and s.transposed
            and s.pixels >= (400 if s.groups >= 8 else 2000)
            and s.weights_size >= 5000
        ),
        "any",
        JIT_AVX2,
        "0.68, 0.85 of 12, after which fewer pixels were left out",
        formulation="as_convolution",
    ),
)
