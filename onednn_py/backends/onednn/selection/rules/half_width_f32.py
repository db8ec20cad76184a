"""Rules for CPUs without AMX whose AVX-512 units have half the registers' width: float32.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import BRGEMM_1X1, BRGEMM_AVX2, GEMM, JIT, JIT_1X1_AVX2, JIT_AVX2, MATMUL, Rule

__all__ = ["HALF_WIDTH_F32"]


HALF_WIDTH_F32 = (
    # The deconvolution sums the bias gradient of volumes with plain loops.
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.weights
            and s.transposed
            and s.volume
            and s.has_bias_gradient
            and s.flops < 40 * s.dst_size
            and not s.is_1x1
            and not s.small
        ),
        "given",
        JIT,
        "0.54, 1.18 of 15; of those that it was fitted on, 12 -> 64, 11 x 11 x 11, 3x3x3/3,"
        " minibatch 8: 0.14",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.weights
            and s.transposed
            and s.outputs <= 10
            and s.positions > 1
            and (s.strided or s.dst_size < 5e6)
            and not s.line
            and not s.small
        ),
        "given",
        JIT_AVX2,
        "0.76, 2.92 of 144; of larger dst without strides, 8 -> 100, 142 x 142, 3x3: 2.5",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.data
            and s.transposed
            and s.inputs < 8
            and s.outputs >= 12
        ),
        "any",
        GEMM,
        "0.31, 0.97 of 33",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.forward
            and s.transposed
            and not s.is_product
            and s.inputs < 7
            and s.outputs >= 100
            and s.positions < 16
            and s.dst_size < 300_000
        ),
        "any",
        GEMM,
        "0.75, 1.07 of 42",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.weights
            and not s.transposed
            and not s.is_product
            and s.inputs < 12
            and s.outputs < 12
            and 2 <= s.images < 32
        ),
        "nxc",
        JIT_AVX2,
        "0.68, 0.98 of 54",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.weights
            and s.transposed
            and s.larger_kernel
            and s.positions >= 9
            and s.inputs >= 12
            and s.outputs < 12
            and s.weights_size >= 1500
            and s.dst_size >= 150_000
        ),
        "any",
        JIT_AVX2,
        "0.74, 1.95 of 30",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and not s.channels_last
            and s.forward
            and s.larger_kernel
            and not s.volume
            and s.group_channels < 4
            and s.group_products < 50
            and s.weights_size >= 400
            and s.positions >= 16
            and s.pixels >= 150
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.76, 1.04 of 27",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.data
            and not s.transposed
            and s.positions == 1
            and 2 <= s.inputs < 12
            and s.group_products < 2000
        ),
        "given",
        JIT_1X1_AVX2,
        "0.73, 1.21 of 54",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
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
        "0.79, 1.39 of 51",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.data
            and s.transposed
            and s.larger_kernel
            and not s.strided
            and s.inputs < 12
            and s.outputs >= 3
        ),
        "given",
        JIT_AVX2,
        "0.76, 1.77 of 31",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.forward
            and not s.transposed
            and s.is_product
            and s.weights_size < 130_000
            and s.outputs >= 10
        ),
        "given",
        BRGEMM_1X1,
        "0.84, 1.23 of 51",
        weights="given",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.forward
            and s.transposed
            and not s.line
            and s.small
            and not s.is_product
            and s.channels < 11
            and s.pixels < 600
        ),
        "given",
        JIT,
        "0.87, 1.17 of 54",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.weights
            and not s.transposed
            and not s.is_product
            and not s.is_split
            and s.outputs < 10
        ),
        "given",
        JIT_AVX2,
        "0.73, 2.28 of 54",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.weights
            and not s.transposed
            and not s.is_product
            and s.inputs > 1
            and s.outputs < 200
            and s.group_products < 30_000
        ),
        "given",
        JIT,
        "0.85, 2.27 of 49",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.weights
            and s.transposed
            and not s.is_product
            and not s.line
            and s.channels >= 3
            and s.outputs < 200
            and s.group_products >= 200
            and s.dst_size >= 200_000
            and (not s.in_patches or s.dst_size < 3e6)
        ),
        "given",
        JIT,
        "0.85, 1.34 of 51",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.channels_last
            and s.forward
            and not s.volume
            and s.inputs >= 16
            and s.group_channels < 9
            and s.group_products < 300
            and s.pixels >= 27
            and 400 <= s.all_pixels < 40_000
        ),
        "given",
        BRGEMM_AVX2,
        "0.79, 1.19 of 30",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.channels_last
            and s.weights
            and s.thin_groups
            and s.positions >= 9
            and s.channels >= 6
            and s.group_products < 150
            and s.outputs < 80
            and 15_000 <= s.dst_size < 1.5e6
        ),
        "given",
        JIT_AVX2,
        "0.79, 1.39 of 30",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.forward
            and not s.transposed
            and s.is_product
            and s.pixels < 100
            and (s.flops < 1e8 or s.pixels % 16 == 0)
        ),
        "given",
        MATMUL,
        "0.80, 1.31 of 70; of more flops and pixels that leave a tail 1.23 of 26",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.forward
            and not s.transposed
            and not s.strided
            and s.inputs >= 8
            and s.outputs == 8
            and s.pixels >= 200
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.68, 1.22 of 67; strided 2.12",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.weights
            and not s.transposed
            and s.is_1x1
            and not s.strided
            and s.inputs >= 16
            and s.outputs >= 16
            and s.pixels >= 300
        ),
        "given",
        MATMUL,
        "0.75, 1.67 of 70; strided 2.11",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.forward
            and not s.transposed
            and not s.is_1x1
            and s.inputs < 15
            and s.dst_size < 1500
        ),
        "any",
        JIT,
        "0.89, 1.18 of 65",
    ),
    # gemm alone has both strides and dilations, and is slow on few channels in the caller's layout.
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.data
            and not s.transposed
            and s.strided
            and s.dilated
            and s.inputs <= 3
            and s.outputs < 64
        ),
        "any",
        GEMM,
        "0.48, 1.66 of 50; of 64 outputs and more 1.2 to 2.2",
    ),
)
