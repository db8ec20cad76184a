"""Rules for CPUs with AMX: bfloat16.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import AMX_MATMUL, JIT_BF16, MATMUL, Rule, exactly

__all__ = ["AMX_BF16_FIRST", "AMX_BF16_LAST"]


AMX_BF16_FIRST = (
    Rule(
        lambda s: (
            s.data
            and s.transposed
            and s.dense
            and s.strided
            and s.has_bias
            and s.positions < 50
            and s.weights_size < 500_000
        ),
        "any",
        exactly("jit_deconvolution:avx512_core_amx"),
        "0.49, 2.06 of 35",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.dense
            and s.larger_kernel
            and s.inputs >= 50
            and s.all_pixels < 3_000
            and s.inputs < 200
        ),
        "any",
        exactly("jit:avx512_core_amx"),
        "0.91, 1.27 of 56",
    ),
    Rule(
        lambda s: s.weights and not s.transposed and s.in_groups and s.positions >= 7,
        "any",
        exactly("brgconv_bwd_w:avx512_core_amx"),
        "0.80, 1.68 of 36",
    ),
    Rule(
        lambda s: (
            s.weights and s.transposed and s.dense and not s.small and s.is_1x1 and not s.strided
        ),
        "any",
        exactly("x64:gemm:jit"),
        "0.56, 2.39 of 25",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.data
            and not s.transposed
            and s.dense
            and s.outputs < 16
            and s.dst_size < 5_000
            and s.weights_size < 20_000
            and s.strided
        ),
        "nxc",
        exactly("jit_bf16:avx512_core_bf16"),
        "0.73, 1.33 of 36",
    ),
    Rule(
        lambda s: (
            s.data
            and not s.transposed
            and s.inputs < 16
            and s.outputs >= 80
            and s.dense
            and s.pixels < 5_000
            and s.pixels >= 16
        ),
        "any",
        exactly("x64:gemm:jit"),
        "0.70, 2.60 of 36",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense
            and s.is_product
            and s.all_pixels > 1_000
            and s.inputs >= 32
            and s.all_pixels < 200_000
        ),
        "given",
        AMX_MATMUL,
        "0.68, 1.20 of 56",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.transposed
            and s.dense
            and s.line
            and not s.is_1x1
            and s.inputs >= 4
            and not s.strided
            and s.outputs < 50
        ),
        "any",
        exactly("brgconv_bwd_w:avx512_core_amx"),
        "0.84, 1.47 of 36",
    ),
    Rule(
        lambda s: (
            s.data and s.transposed and s.dense and s.strided and s.outputs < 16 and s.inputs >= 2
        ),
        "nxc",
        exactly("jit_bf16:avx512_core_bf16"),
        "0.66, 1.15 of 27",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.transposed
            and s.in_groups
            and not s.larger_kernel
            and s.groups >= 8
            and s.pixels >= 100
        ),
        "given",
        exactly("conv:any+x64:gemm:jit"),
        "0.42, 1.32 of 24",
    ),
    Rule(
        lambda s: (
            s.data
            and not s.transposed
            and s.in_groups
            and s.outputs < 80
            and s.pixels < 300
            and s.inputs >= 16
            and s.group_channels < 4
        ),
        "nxc",
        exactly("jit_bf16:avx512_core_bf16"),
        "0.48, 1.49 of 24",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.dense
            and s.strided
            and s.inputs < 16
            and s.outputs >= 300
        ),
        "any",
        exactly("x64:gemm:jit"),
        "0.66, 1.75 of 24",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.in_groups
            and s.group_channels < 4
            and s.inputs < 80
            and s.pixels < 40
            and s.images >= 2
        ),
        "nxc",
        JIT_BF16,
        "0.80, 2.56 of 24",
    ),
    Rule(
        lambda s: (
            s.weights and s.transposed and s.dense and s.inputs < 3 and s.outputs < 32 and s.strided
        ),
        "nxc",
        exactly("jit_bf16:avx512_core_bf16"),
        "0.65, 1.63 of 31",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.transposed
            and s.dense
            and s.small
            and not s.whole_blocks
            and s.outputs >= 12
            and s.has_bias_gradient
            and s.inputs < 12
        ),
        "nxc",
        exactly("jit_bf16:avx512_core_bf16"),
        "0.71, 2.22 of 35",
    ),
    Rule(
        lambda s: (
            s.data
            and s.transposed
            and s.dense
            and s.strided
            and not s.line
            and s.dst_size < 800_000
            and s.inputs < 16
            and s.pixels < 150
            and s.outputs >= 24
        ),
        "given",
        exactly("conv:any+x64:gemm:jit"),
        "0.54, 1.62 of 35",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.dense
            and s.inputs < 3
            and s.outputs >= 6
            and s.positions < 27
            and not s.is_1x1
            and s.flops < 600_000
        ),
        "any",
        exactly("jit_bf16:avx512_core_bf16"),
        "0.87, 1.38 of 36",
    ),
)

AMX_BF16_LAST = (
    Rule(
        lambda s: (
            s.data
            and s.transposed
            and s.dense
            and s.strided
            and not s.whole_blocks
            and not s.is_1x1
            and s.inputs < 150
            and s.outputs < 16
        ),
        "given",
        exactly("jit_bf16:avx512_core_bf16"),
        "0.50, 2.52 of 27",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.data and not s.transposed and s.strided and s.outputs < 12 and s.dst_size < 200_000
        ),
        "given",
        exactly("jit_bf16:avx512_core_bf16"),
        "0.38, 1.73 of 36",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.transposed
            and s.dense
            and s.inputs < 4
            and s.all_pixels < 30_000
            and s.flops < 2e7
            and not s.has_bias_gradient
            and s.channels < 3
        ),
        "given",
        exactly("jit_bf16:avx512_core_bf16"),
        "0.66, 1.88 of 36",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.dense
            and s.inputs >= 60
            and s.all_pixels < 400
            and s.flops < 4e8
            and s.larger_kernel
            and not s.small
            and s.weights_size < 600_000
        ),
        "any",
        exactly("jit:avx512_core_amx"),
        "0.80, 1.18 of 40",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.in_groups
            and s.strided
            and s.group_channels < 2
            and s.inputs >= 8
            and s.inputs < 32
            and s.all_pixels < 1_500
        ),
        "given",
        exactly("jit_bf16:avx512_core_bf16"),
        "0.61, 1.26 of 17",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.forward
            and not s.transposed
            and s.is_product
            and s.all_pixels < 600
            and s.dst_size < 20_000
        ),
        "given",
        MATMUL,
        "0.70, 1.66 of 36",
        formulation="matmul",
        weights="given",
    ),
)
