"""Rules for CPUs without AMX whose AVX-512 units have half the registers' width: bfloat16.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import DEPTHWISE, GEMM, JIT, JIT_BF16, JIT_BF16_1X1, MATMUL, Rule

__all__ = ["HALF_WIDTH_BF16"]


HALF_WIDTH_BF16 = (
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.data
            and not s.transposed
            and s.strided
            and not s.volume
            and s.positions >= 5
            and s.inputs < 200
            and 17 <= s.outputs < 100
            and s.channels >= 10
            and s.pixels < 80
            and s.images >= 4
            and s.flops < 3e7
        ),
        "nxc",
        JIT_BF16,
        "0.69, 2.52 of 36",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.data
            and s.transposed
            and not s.is_1x1
            and s.inputs < 12
            and s.outputs >= 50
        ),
        "any",
        GEMM,
        "0.59, 1.55 of 36",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.data
            and s.transposed
            and s.larger_kernel
            and not s.whole_blocks
            and 2 <= s.inputs < 26
            and s.outputs < 32
            and s.dst_size >= 3000
        ),
        "nxc",
        JIT_BF16,
        "0.61, 1.55 of 37",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.bf16
            and not s.channels_last
            and s.forward
            and not s.transposed
            and s.depthwise
            and s.positions < 16
            and s.channels >= 80
            and s.pixels >= 10
            and (s.line or s.pixels < 700)
        ),
        "any",
        DEPTHWISE,
        "0.68, 1.58 of 34",
    ),
    Rule(
        lambda s: (
            s.bf16
            and not s.channels_last
            and s.forward
            and not s.transposed
            and s.in_groups
            and s.group_channels < 4
            and s.inputs < 80
            and s.pixels < 80
        ),
        "nxc",
        JIT_BF16,
        "0.53, 1.25 of 30",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.weights
            and not s.transposed
            and not s.is_1x1
            and s.positions >= 3
            and s.inputs < 29
            and s.outputs < 16
            and s.weights_size < 300
            and s.pixels >= 150
        ),
        "nxc",
        JIT_BF16,
        "0.49, 1.48 of 41",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.weights
            and not s.transposed
            and not s.is_1x1
            and s.inputs < 16
            and s.channels >= 3
            and s.images < 6
        ),
        "any",
        JIT_BF16,
        "0.74, 1.26 of 54",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.weights
            and s.transposed
            and not s.is_1x1
            and s.thin
            and s.outputs < 16
            and s.dst_size >= 1000
        ),
        "nxc",
        JIT_BF16,
        "0.64, 1.24 of 38",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.weights
            and s.transposed
            and s.is_1x1
            and not s.strided
            and s.inputs >= 12
            and s.outputs < 100
            and s.all_pixels >= 200
            and s.dst_size < 300_000
        ),
        "any",
        GEMM,
        "0.64, 1.02 of 30",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_last
            and s.data
            and not s.transposed
            and s.line
            and s.positions < 15
            and s.inputs < 200
            and s.channels < 40
            and s.images >= 2
        ),
        "given",
        JIT_BF16,
        "0.61, 1.16 of 52",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_last
            and s.forward
            and not s.transposed
            and s.is_product
            and s.pixels < 150
            and s.all_pixels < 2000
        ),
        "given",
        MATMUL,
        "0.80, 1.39 of 54",
        formulation="matmul",
        weights="given",
    ),
    Rule(
        lambda s: (
            s.bf16
            and not s.channels_last
            and s.data
            and not s.transposed
            and s.larger_kernel
            and s.outputs < 8
            and s.pixels > 1
        ),
        "nxc",
        JIT_BF16,
        "0.50, 1.62 of 30",
    ),
    Rule(
        lambda s: (
            s.bf16
            and not s.channels_last
            and s.weights
            and not s.transposed
            and s.larger_kernel
            and s.thin_groups
            and s.group_channels >= 3
            and not s.strided
        ),
        "nxc",
        JIT_BF16,
        "0.52, 1.42 of 54",
    ),
    # An image of one channel is in oneDNN's own layout as it is.
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.forward
            and not s.transposed
            and s.larger_kernel
            and s.inputs == 1
            and s.outputs < 10
        ),
        "any",
        JIT_BF16,
        "0.81, 1.55 of 60",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_last
            and s.forward
            and not s.transposed
            and s.inputs == 1
            and s.outputs < 10
            and s.positions >= 49
            and not s.strided
            and not s.volume
            and s.all_pixels >= 20_000
        ),
        "nxc",
        JIT,
        "0.81, 1.06 of 34",
        compute_dtype="f32",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_last
            and s.data
            and not s.transposed
            and s.is_product
            and s.outputs < 20
            and s.all_pixels >= 800
        ),
        "given",
        JIT_BF16_1X1,
        "0.93, 1.28 of 70",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.weights
            and not s.transposed
            and s.positions > 1
            and s.inputs < 300
            and s.outputs >= 300
            and s.flops < 1e8
        ),
        "any",
        GEMM,
        "0.81, 3.28 of 70",
    ),
)
