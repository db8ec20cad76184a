"""Rules for CPUs with AMX: float32, channels first.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import GEMM_DECONVOLUTION, JIT, Rule, exactly

__all__ = ["AMX_F32_FIRST"]


AMX_F32_FIRST = (
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.dense
            and s.strided
            and s.outputs < 150
            and s.channels < 24
            and s.positions >= 3
        ),
        "any",
        exactly("jit:avx512_core"),
        "0.87, 1.24 of 36",
    ),
    Rule(
        lambda s: (
            s.data
            and s.transposed
            and s.dense
            and s.larger_kernel
            and not s.whole_blocks
            and s.outputs < 32
            and s.inputs >= 2
        ),
        "nxc",
        exactly("jit:avx512_core"),
        "0.85, 1.77 of 36",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.data
            and s.transposed
            and s.outputs < 300
            and s.group_products >= 32
            and s.is_1x1
            and s.inputs < 200
        ),
        "any",
        exactly("x64:gemm:jit"),
        "0.84, 1.59 of 26",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.data
            and s.transposed
            and s.in_groups
            and s.larger_kernel
            and s.outputs < 32
            and s.group_products < 80
        ),
        "nxc",
        exactly("jit:avx512_core"),
        "0.61, 1.69 of 24",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.transposed
            and s.depthwise
            and not s.volume
            and s.strided
            and s.dst_size >= 100_000
            and s.weights_size >= 1_000
            and s.positions >= 15
        ),
        "any",
        exactly("jit_dw:avx2"),
        "0.89, 1.75 of 36",
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: s.data and s.transposed and s.dense and s.inputs < 12 and s.outputs >= 24,
        "any",
        exactly("x64:gemm:jit"),
        "0.32, 1.05 of 27",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.transposed
            and s.dense
            and s.larger_kernel
            and s.outputs < 4
            and s.inputs >= 8
            and s.weights_size >= 300
        ),
        "any",
        exactly("jit:avx2"),
        "0.84, 1.19 of 36",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.transposed
            and s.dense
            and s.inputs < 100
            and s.group_products < 80
            and not s.strided
            and s.pixels >= 3_000
        ),
        "given",
        exactly("gemm:jit:f32"),
        "0.51, 1.56 of 34",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.data
            and not s.transposed
            and s.dense
            and s.strided
            and s.inputs < 50
            and s.outputs < 8
            and s.larger_kernel
        ),
        "nxc",
        exactly("jit:avx512_core"),
        "0.49, 1.40 of 26",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.transposed
            and s.dense
            and s.inputs < 16
            and s.outputs >= 16
            and s.group_products < 600
            and s.all_pixels < 100_000
            and not s.is_1x1
        ),
        "any",
        exactly("jit:avx512_core"),
        "0.89, 1.58 of 36",
    ),
    Rule(
        lambda s: (
            s.weights and s.transposed and s.larger_kernel and s.outputs < 6 and s.inputs >= 16
        ),
        "any",
        exactly("jit:avx2"),
        "0.90, 1.54 of 26",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.dense
            and s.strided
            and s.inputs >= 80
            and s.pixels >= 200
            and s.weights_size < 400_000
            and s.is_1x1
        ),
        "any",
        exactly("x64:gemm:jit"),
        "0.72, 1.24 of 51",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.transposed
            and s.dense
            and s.outputs >= 150
            and s.weights_size < 150_000
            and s.flops < 6e8
            and s.dst_size >= 400_000
        ),
        "any",
        exactly("x64:gemm:jit"),
        "0.92, 1.32 of 56",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.transposed
            and s.in_groups
            and not s.line
            and s.group_products < 27
            and not s.small
            and s.larger_kernel
        ),
        "nxc",
        exactly("jit:avx2"),
        "0.86, 1.00 of 24",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and s.transposed
            and 4 <= s.inputs < 32
            and s.outputs < 64
            and s.pixels >= 150
            and s.images >= 6
        ),
        "nxc",
        JIT,
        "0.86, 1.97 of 36",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and s.transposed
            and s.outputs >= 100
            and s.group_products >= 800
            and s.pixels >= 19
            and s.flops < 3e7
        ),
        "given",
        GEMM_DECONVOLUTION,
        "0.85, 1.30 of 36",
    ),
)
