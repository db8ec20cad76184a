"""Rules of float32 for CPUs that have AVX2 and no AVX-512: channels first.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems. Two cores of an AMD
EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .rule import (
    BRGEMM_AVX2,
    DEPTHWISE,
    GEMM,
    GEMM_DECONVOLUTION,
    JIT_AVX2,
    NOT_GEMM,
    Rule,
    Shape,
    upsamples_from_few,
)

__all__ = ["AVX2_FIRST"]


def _is_data_in_groups(shape: Shape) -> bool:
    """Whether a problem is a data gradient in groups of a kernel larger than 1x1 and patches."""
    return shape.data and not shape.transposed and shape.in_groups and shape.larger_kernel


AVX2_FIRST = (
    Rule(
        upsamples_from_few,
        "nxc",
        NOT_GEMM,
        "kept to AVX2 on a CPU with AVX-512, 0.34, 1.10 of 30",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.data
            and not s.transposed
            and s.depthwise
            and s.pixels < 80
            and s.all_pixels < 3000
            and s.inputs < 300
        ),
        "nxc",
        DEPTHWISE,
        "0.80, 1.47 of 46",
    ),
    Rule(
        lambda s: (
            _is_data_in_groups(s)
            and not s.strided
            and s.group_products <= 6
            and s.inputs >= 2 * s.groups
        ),
        "nxc",
        JIT_AVX2,
        "0.27, 1.01 of 5; of one input in each group, 0.93, 1.43 of 9",
    ),
    Rule(
        lambda s: (
            _is_data_in_groups(s)
            and s.group_channels < 6
            and s.group_products >= 8
            and s.outputs < 80
            and s.inputs >= 8
        ),
        "nxc",
        JIT_AVX2,
        "0.35, 1.68 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and not s.transposed
            and not s.volume
            and not s.is_1x1
            and s.inputs <= 3
            and s.outputs > 8
            and s.positions <= 25
        ),
        "any",
        GEMM,
        "0.57, 1.78 of 28",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and not s.transposed
            and s.volume
            and s.positions > 1
            and s.outputs > 8 * s.inputs
            and s.outputs * s.positions > 64
            and s.positions < 40
        ),
        "any",
        GEMM,
        "0.64, 1.30 of 11",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and s.transposed
            and not s.whole_blocks
            and s.outputs >= 50
            and s.weights_size < 100_000
            and s.images < 16
        ),
        "any",
        GEMM,
        "0.82, 1.35 of 46",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.data
            and s.transposed
            and s.in_groups
            and s.larger_kernel
            and s.outputs < 25
            and s.group_channels < 7
            and s.inputs >= 8
            and s.groups < 7
        ),
        "nxc",
        JIT_AVX2,
        "0.35, 1.02 of 30",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.data
            and s.transposed
            and not s.is_1x1
            and s.inputs < 6
            and s.outputs >= 12
            and s.flops < 1e8
        ),
        "any",
        GEMM,
        "0.46, 1.38 of 31",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.forward
            and not s.transposed
            and not s.is_split
            and s.inputs >= 8
            and s.dst_size < 500_000
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.91, 1.91 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.forward
            and not s.transposed
            and s.outputs <= 6
            and s.positions >= 8
            and not s.strided
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.83, 1.26 of 35",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.forward
            and not s.transposed
            and s.strided
            and s.is_1x1
            and s.outputs >= 40
            and s.all_pixels < 3000
            and s.pixels < 1000
            and s.weights_size < 100_000
        ),
        "any",
        GEMM,
        "0.58, 1.09 of 44",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and s.depthwise
            and s.small
            and s.inputs < 300
            and s.pixels < 40
            and s.flops < 500_000
        ),
        "nxc",
        DEPTHWISE,
        "0.91, 1.21 of 37",
    ),
    Rule(
        lambda s: (
            s.forward
            and s.larger_kernel
            and not s.depthwise
            and not s.volume
            and s.group_channels < 4
            and s.group_products < 50
            and s.weights_size >= 400
            and s.positions >= 16
            and s.pixels >= 150
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.50, 0.67 of 8",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.forward
            and s.transposed
            and s.positions < 9
            and s.outputs >= 50
            and s.channels < 25
            and s.flops >= 1.5e6
            and s.dst_size < 400_000
        ),
        "given",
        GEMM_DECONVOLUTION,
        "0.82, 1.43 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.forward
            and s.transposed
            and s.larger_kernel
            and s.inputs >= 4
            and s.images >= 8
            and s.dst_size < 6e6
            and not s.volume
            and s.pixels < 1000
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.89, 2.03 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and s.inputs < 4
            and s.channels < 3
            and s.group_products >= 18
            and s.all_pixels < 50_000
            and s.dst_size >= 15_000
            and s.flops >= 300_000
        ),
        "any",
        GEMM,
        "0.41, 1.43 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and s.inputs < 80
            and s.outputs >= 100
            and s.positions < 25
            and s.weights_size < 100_000
        ),
        "any",
        GEMM,
        "0.78, 1.25 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and not s.line
            and s.positions < 4
            and s.group_products < 1500
            and s.pixels >= 1000
        ),
        "any",
        GEMM,
        "0.48, 1.40 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and s.positions >= 4
            and s.inputs < 12
            and s.outputs < 12
            and s.channels < 3
            and s.group_products < 24
            and 2 <= s.images < 32
        ),
        "nxc",
        JIT_AVX2,
        "0.30, 0.54 of 20",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and s.transposed
            and s.channels < 2
            and s.all_pixels < 15_000
            and s.dst_size >= 3000
            and s.pixels < 3000
            and s.images < 16
        ),
        "given",
        GEMM_DECONVOLUTION,
        "0.85, 2.01 of 34",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and s.transposed
            and s.is_1x1
            and s.pixels >= 200
            and s.dst_size >= 150_000
            and s.inputs >= 32
        ),
        "any",
        GEMM,
        "0.68, 1.49 of 46",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and s.transposed
            and not s.whole_blocks
            and s.inputs < 16
            and s.outputs >= 80
        ),
        "given",
        GEMM_DECONVOLUTION,
        "0.74, 1.42 of 46",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.weights
            and not s.transposed
            and s.larger_kernel
            and s.inputs >= 64
            and s.outputs > 100
            and s.positions <= 9
            and s.images >= 4
            and s.flops >= 1e8
        ),
        "any",
        GEMM,
        "0.85, 1.25 of 50",
    ),
    Rule(
        lambda s: (
            s.dense
            and s.forward
            and s.transposed
            and s.strided
            and s.larger_kernel
            and not s.volume
            and not s.line
            and 2 <= s.images < 8
            and s.inputs >= 9
            and s.pixels <= 400
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.86, 1.72 of 103",
    ),
)
