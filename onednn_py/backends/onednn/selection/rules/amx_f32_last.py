"""Rules for CPUs with AMX: float32, channels last.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import JIT, JIT_AVX2, Rule, exactly

__all__ = ["AMX_F32_LAST"]


AMX_F32_LAST = (
    Rule(
        lambda s: (
            s.weights
            and not s.transposed
            and s.dense
            and s.strided
            and s.group_products < 30_000
            and s.weights_size < 800_000
        ),
        "given",
        exactly("jit:avx512_core"),
        "0.55, 1.75 of 56",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense
            and not s.transposed
            and not s.is_1x1
            and s.inputs > 4
            and s.dst_size <= 2**20
            and ((s.strided and not s.line) or (s.pixels < 2_000 and s.outputs * s.pixels < 50_000))
            and s.inputs < 128
        ),
        "given",
        JIT,
        "0.90, 2.02 of 56",
    ),
    Rule(
        lambda s: s.forward and s.transposed and s.depthwise and not s.line,
        "given",
        exactly("jit_dw:avx512_core"),
        "0.84, 1.16 of 24",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.dense
            and s.group_products < 100
            and s.images >= 2
            and s.pixels < 400
            and s.positions >= 4
        ),
        "given",
        exactly("jit:avx512_core"),
        "0.86, 1.32 of 36",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.dense
            and s.line
            and s.channels < 6
            and s.channels >= 3
            and s.positions < 7
        ),
        "given",
        exactly("brgconv:avx512_core"),
        "0.90, 1.16 of 25",
        weights="given",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.transposed
            and s.dense
            and s.strided
            and s.inputs < 100
            and s.pixels >= 150
        ),
        "given",
        exactly("x64:gemm:jit"),
        "0.87, 1.31 of 29",
    ),
    Rule(
        lambda s: (
            s.data
            and s.transposed
            and s.dense
            and s.larger_kernel
            and s.outputs < 50
            and s.channels < 24
        ),
        "given",
        exactly("jit:avx512_core"),
        "0.86, 1.23 of 36",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and s.transposed
            and s.positions >= 2
            and s.outputs < 80
            and s.dst_size >= 50_000
        ),
        "given",
        JIT,
        "0.75, 1.05 of 35",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.data
            and not s.transposed
            and s.depthwise
            and s.positions < 9
            and s.pixels >= 100
            and s.inputs >= 32
            and s.dst_size >= 150_000
        ),
        "given",
        exactly("jit_dw:sse41"),
        "0.89, 1.55 of 36",
    ),
    Rule(
        lambda s: s.weights and s.in_groups and s.group_products <= 64 and s.inputs >= 8,
        "given",
        JIT_AVX2,
        "0.76, 1.01 of 36",
    ),
)
