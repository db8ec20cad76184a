"""Rules for groups on CPUs without AMX whose AVX-512 units have half the registers' width.

oneDNN names gemm first where groups have few channels. gemm gathers the patches of a group and
multiplies them, one group after the other, and takes two to four times as long as kernels that read
channels last. Depthwise kernels of 1x1 are the reverse: a product with one number.

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
    """Whether a depthwise kernel multiplies each channel of an image by one number."""
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
        "0.32, 0.91 of 40",
        formulation="as_convolution",
    ),
    # `brgconv_strided`, which comes before it, takes up to 8 times as long.
    Rule(
        lambda s: s.bf16 and upsamples_from_few(s),
        "nxc",
        JIT_BF16,
        "0.30, 1.02 of 30",
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
        "f32 0.42, 1.74 of 39; 32 groups of 32 -> 1, 180, 5/2, minibatch 16: 1.74; bf16 0.23, 0.80"
        " of 30",
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
        "0.76, 1.45 of 40; of twice as many outputs as inputs 1.07 of 16",
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
        "0.82, 1.33 of 19; with a bias gradient 0.94, 1.56 of 21",
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
        "0.71, 0.97 of 40, before the kernels of AVX2 for so few inputs",
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
        "backward data f32 0.82, 1.78 of 40, bf16 0.84, 1.03 of 30; of more pixels, 192, 5687, 5/2:"
        " 3.2",
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
        "0.68, 1.07 of 40; of fewer flops, 32, 9 x 9, 3x3, minibatch 8: 1.8",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.transposed and not s.has_bias_gradient and _multiplies_pixels(s),
        "any",
        GEMM,
        "0.68, 1.49 of 27; with a bias gradient 1.26 of 11",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: not s.transposed and s.data and _multiplies_pixels(s),
        "any",
        GEMM,
        "0.61, 1.99 of 40; 512, 325, 1, minibatch 2: 1.99",
    ),
)
