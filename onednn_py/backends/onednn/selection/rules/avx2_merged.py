"""Rules of float32 for CPUs that have AVX2 and no AVX-512: groups of few channels.

oneDNN v3.2 computes many of them by a matrix product for each group and image, unless groups are
merged until their channels fill registers. Ratios are of the rule's choice to that without it, by
`benchmarks/survey.py pairs`, on problems that were drawn after the rules: geometric mean, worst, of
so many problems. Two cores of an AMD EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .rule import BRGEMM_AVX2, JIT_AVX2, Rule, Shape

__all__ = ["AVX2_MERGED"]


def _has_part_of_a_register(channels: int, shape: Shape) -> bool:
    """Whether so many channels of all groups leave registers of 8 unfilled in each group."""
    return shape.in_groups and not shape.transposed and channels // shape.groups % 8 != 0


def _is_large_in_groups(shape: Shape) -> bool:
    """Whether a problem of several groups has work enough for reorders of all its tensors."""
    return (
        shape.in_groups
        and not shape.transposed
        and not shape.volume
        and shape.positions >= 9
        and shape.flops >= 5e6
    )


def _is_transposed_data(shape: Shape) -> bool:
    """Whether a problem is the data gradient of a transposed convolution in groups."""
    return shape.forward and shape.in_groups and shape.transposed


AVX2_MERGED = (
    # gemm otherwise computes few outputs of many inputs.
    Rule(
        lambda s: (
            not s.channels_last
            and s.forward
            and s.in_groups
            and not s.transposed
            and s.outputs < s.inputs
            and s.positions >= 8
            and s.flops >= 1.5e7
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.63, 1.15 of 30",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            s.channels_last
            and s.forward
            and s.in_groups
            and not s.transposed
            and s.inputs >= 32
            and s.all_pixels >= 1500
        ),
        "given",
        BRGEMM_AVX2,
        "0.73, 1.18 of 36",
        formulation="merged_groups",
    ),
    # The gradient of few outputs of a group: gemm computes one or two rows at a time.
    Rule(
        lambda s: (
            not s.channels_last
            and s.weights
            and s.in_groups
            and not s.transposed
            and s.larger_kernel
            and s.outputs <= 3 * s.groups
            and s.flops >= 3e5
        ),
        "any",
        JIT_AVX2,
        "0.39, 1.23 of 30",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and s.weights
            and _has_part_of_a_register(s.outputs, s)
            and s.larger_kernel
            and s.outputs > 3 * s.groups
            and s.inputs >= 2 * s.groups
            and (s.positions <= 9 or (s.inputs >= 8 * s.groups and s.positions <= 25))
            and s.flops >= 8e5 * s.images
            and s.dst_size >= 80_000
        ),
        "any",
        JIT_AVX2,
        "0.49, 1.43 of 30",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and s.weights
            and s.in_groups
            and s.transposed
            and s.groups >= 4
            and 1 < s.positions < 50
            and s.dst_size >= 260_000
        ),
        "any",
        JIT_AVX2,
        "0.49, 1.47 of 30",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and s.weights
            and s.in_groups
            and not s.transposed
            and not s.larger_kernel
            and s.groups >= 8
            and s.group_channels >= 2
            and s.inputs <= 6 * s.groups
            and (s.outputs <= 8 * s.groups or s.strided)
            and s.all_pixels >= 9800
            and s.dst_size >= 400_000
        ),
        "any",
        JIT_AVX2,
        "0.47, 1.26 of 14",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            s.channels_last
            and s.weights
            and s.in_groups
            and not s.line
            and s.outputs <= 3 * s.groups
            and 2e5 <= s.flops <= 1.5e7
        ),
        "given",
        JIT_AVX2,
        "0.63, 2.32 of 30",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            s.channels_last
            and _is_transposed_data(s)
            and s.group_products <= 12
            and s.inputs >= 4 * s.groups
            and not s.line
            and s.flops >= 2e6
        ),
        "given",
        BRGEMM_AVX2,
        "0.40, 0.99 of 15",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            s.channels_last
            and _is_transposed_data(s)
            and s.inputs <= 4 * s.groups
            and s.outputs <= 12 * s.groups
            and (s.group_products >= 16 or s.groups >= 16)
            and s.flops >= 8e5
        ),
        "given",
        JIT_AVX2,
        "0.52, 1.19 of 30",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and _is_transposed_data(s)
            and s.groups >= 4
            and s.outputs // s.groups % 8 != 0
            and s.group_products <= 24
            and s.positions > 1
            and (not s.volume or s.inputs <= 4 * s.groups)
            and s.flops >= 1.1e6 * s.images
        ),
        "any",
        JIT_AVX2,
        "0.63, 1.38 of 30",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            s.channels_last
            and s.forward
            and _has_part_of_a_register(s.inputs, s)
            and s.inputs >= 2 * s.groups
            and s.flops >= 1e6
        ),
        "given",
        JIT_AVX2,
        "0.49, 2.39 of 50",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and s.forward
            and _has_part_of_a_register(s.inputs, s)
            and not s.volume
            and s.positions >= 9
            and s.outputs <= 2 * s.inputs
            and s.flops >= 1e6
        ),
        "any",
        JIT_AVX2,
        "0.49, 1.23 of 46",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and s.data
            and _is_large_in_groups(s)
            and s.group_channels >= 4
            and s.group_products <= 64
            and s.groups >= 4
        ),
        "any",
        JIT_AVX2,
        "0.69, 1.41 of 30",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and s.weights
            and _is_large_in_groups(s)
            and (s.group_channels, s.group_products) == (4, 16)
            and s.groups >= 8
            and s.flops >= 1e7
        ),
        "any",
        JIT_AVX2,
        "0.64, 1.06 of 17",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            s.channels_last
            and s.weights
            and s.in_groups
            and s.outputs // s.groups % 4 != 0
            and s.flops >= 5e5
        ),
        "any",
        JIT_AVX2,
        "0.37, 1.95 of 30",
        formulation="merged_groups",
    ),
    # Larger kernels with channels first that the rules above leave.
    Rule(
        lambda s: (
            not s.channels_last
            and s.forward
            and s.in_groups
            and not s.transposed
            and s.larger_kernel
            and s.positions > 1
            and s.groups >= 4
            and s.outputs <= (4 * s.inputs if s.positions >= 8 else s.inputs)
            and s.flops >= 1e7
        ),
        "any",
        JIT_AVX2,
        "0.60, 1.60 of 30",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and s.data
            and s.in_groups
            and s.transposed
            and s.larger_kernel
            and s.positions > 1
            and s.groups >= 8
            and 3 * s.groups <= s.outputs <= 2 * s.inputs
            and s.flops >= 5e6
        ),
        "any",
        JIT_AVX2,
        "0.50, 1.03 of 24",
        formulation="merged_groups",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and _is_transposed_data(s)
            and s.larger_kernel
            and s.positions > 1
            and s.outputs <= 2 * s.inputs
            and s.inputs <= 2 * s.outputs
            and s.flops >= 1e7
        ),
        "any",
        JIT_AVX2,
        "0.65, 1.17 of 25",
        formulation="merged_groups",
    ),
)
