"""Rules for groups on CPUs without AMX whose AVX-512 units have half the registers' width.

oneDNN names gemm first where groups have few channels. gemm gathers the patches of a group and
multiplies them, one group after the other, and takes three to four times as long as kernels that
read channels last. Depthwise kernels of 1x1 are the reverse: a product with one number.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import (
    DEPTHWISE,
    GEMM,
    JIT,
    JIT_AVX2,
    JIT_BF16,
    NOT_GEMM,
    Rule,
    Shape,
    upsamples_from_few,
)

__all__ = ["HALF_WIDTH_GROUPS"]


def _multiplies_pixels(shape: Shape) -> bool:
    """Whether a depthwise kernel multiplies each channel of larger images by one number."""
    return (
        not shape.bf16
        and shape.depthwise
        and not shape.channels_last
        and not shape.volume
        and shape.is_1x1
        and not shape.strided
        and shape.pixels >= 300
    )


HALF_WIDTH_GROUPS = (
    Rule(
        lambda s: not s.bf16 and upsamples_from_few(s),
        "nxc",
        NOT_GEMM,
        "0.26, 1.59 of 87",
        formulation="as_convolution",
    ),
    # `brgconv_strided`, which comes before it, takes up to 8 times as long.
    Rule(
        lambda s: s.bf16 and upsamples_from_few(s),
        "nxc",
        JIT_BF16,
        "0.25, 1.09 of 50",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.transposed
            and s.data
            and s.in_groups
            and not s.channels_last
            and s.outputs == s.groups
            and s.pixels > 1
            and s.positions > s.steps
            and not s.dilated
        ),
        "nxc",
        JIT,
        "0.27, 0.85 of 42; of those that it was fitted on, 32 groups of 32 -> 1, 180, 5/2,"
        " minibatch 16: 1.74",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and not s.transposed
            and s.data
            and s.in_groups
            and s.channels_last
            and not s.strided
            and not s.volume
            and s.inputs <= 4 * s.groups
            and s.outputs >= 4 * s.inputs
            and s.positions >= 4
        ),
        "given",
        JIT_AVX2,
        "0.75, 1.89 of 38; of twice as many outputs as inputs 1.07 of 16",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.transposed
            and s.weights
            and s.in_groups
            and s.channels_last
            and s.inputs > s.groups
            and s.outputs <= 8 * s.groups
            and s.positions > 4
            and not s.small
            and not s.has_bias_gradient
        ),
        "given",
        JIT_AVX2,
        "0.87, 1.98 of 60; with a bias gradient 0.94, 1.56 of 21",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and not s.transposed
            and s.weights
            and s.in_groups
            and s.channels_last
            and s.thin_groups
            and s.outputs >= 16 * s.groups
        ),
        "given",
        JIT,
        "0.68, 1.16 of 83, before the kernels of AVX2 for so few inputs",
    ),
    # `brdgmm_dw`, which oneDNN names first, takes 1.2 times as long.
    Rule(
        lambda s: (
            s.transposed
            and s.forward
            and s.depthwise
            and s.channels_last
            and not s.volume
            and s.groups >= 16
            and s.positions > 1
            and s.pixels < 1500
            and s.flops < 3e7
        ),
        "given",
        DEPTHWISE,
        "backward data 0.81, 2.71 of 270; of more pixels, 192, 5687, 5/2: 3.2",
        formulation="as_convolution",
    ),
    # The deconvolution sums the bias gradient with plain loops.
    Rule(
        lambda s: (
            not s.bf16
            and s.transposed
            and s.weights
            and s.depthwise
            and s.has_bias_gradient
            and s.channels_last
            and not s.volume
            and s.flops >= 1e6
        ),
        "given",
        DEPTHWISE,
        "0.69, 0.98 of 12; of fewer flops, 32, 9 x 9, 3x3, minibatch 8: 1.8",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.transposed and not s.has_bias_gradient and _multiplies_pixels(s),
        "any",
        GEMM,
        "0.71, 1.41 of 56; with a bias gradient 1.26 of 11",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: not s.transposed and s.data and _multiplies_pixels(s),
        "any",
        GEMM,
        "0.47, 1.33 of 26; of those that it was fitted on, 512, 325, 1, minibatch 2: 1.99",
    ),
)
