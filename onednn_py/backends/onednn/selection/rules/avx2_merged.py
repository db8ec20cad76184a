"""Rules of float32 for CPUs that have AVX2 and no AVX-512: groups of few channels.

oneDNN v3.2 computes many of them by a matrix product for each group and image, unless groups are
merged until their channels fill registers. Ratios are of the rule's choice to that without it, by
`benchmarks/survey.py pairs`, on problems that were drawn after the rules: geometric mean, worst, of
so many problems. Two cores of an AMD EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .rule import JIT_AVX2, Rule, Shape

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


AVX2_MERGED = (
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
)
