"""Rules for CPUs without AMX whose AVX-512 units have full width.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import DEPTHWISE, JIT_BF16, MATMUL, Rule

__all__ = ["FULL_WIDTH"]

# Up to so many elements of dst, reading channels last is worth its copies.
LARGEST_DST = 1.8e6


FULL_WIDTH = (
    Rule(
        lambda s: (
            s.bf16
            and s.channels_last
            and s.weights
            and not s.transposed
            and s.is_product
            and s.small
            and not s.has_bias_gradient
        ),
        "given",
        MATMUL,
        "0.73, 1.26 of 50; with a bias gradient 3.2 of 17",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.bf16
            and not s.channels_last
            and s.weights
            and not s.transposed
            and s.in_groups
            and s.larger_kernel
            and s.group_products < 128
        ),
        "nxc",
        JIT_BF16,
        "0.57, 3.07 of 50; of larger groups 1.26 of 36",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.data
            and not s.transposed
            and s.larger_kernel
            and not s.strided
            and 4 < s.channels < 16
            and s.dst_size < LARGEST_DST
        ),
        "nxc",
        JIT_BF16,
        "0.87, 1.66 of 50; of larger dst 1.13 of 9",
    ),
    # Data gradients of transposed convolutions: the arithmetic of a forward convolution.
    Rule(
        lambda s: s.bf16 and s.channels_last and s.transposed and s.forward and s.depthwise,
        "given",
        DEPTHWISE,
        "0.89, 1.35 of 25",
        formulation="as_convolution",
    ),
)
