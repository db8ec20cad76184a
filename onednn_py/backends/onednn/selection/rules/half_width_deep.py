"""Rules of layers between many channels, where AVX-512 units have half the registers' width.

Fitted on 824 large layers that `benchmarks/survey.py record --deep` timed, on two cores of an AMD
EPYC with AVX-512 and no AMX. Ratios are of the rule's choice to that without it, by `pairs`, on
problems that were drawn after the rules: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import GEMM, JIT, JIT_1X1, JIT_BF16, JIT_BF16_1X1, Rule, Shape, is_strided_1x1

__all__ = ["HALF_WIDTH_DEEP"]


def _deep(shape: Shape) -> bool:
    """Whether a problem has no groups, and many channels in src and in dst."""
    return shape.dense and shape.channels >= 32


def _upsamples(shape: Shape) -> bool:
    """Whether a problem is the forward pass of a transposed convolution with strides."""
    return shape.data and shape.transposed and shape.strided and not shape.is_1x1 and _deep(shape)


def _is_deep_strided_1x1(shape: Shape) -> bool:
    """Whether a problem is a strided 1x1 convolution between many channels."""
    return is_strided_1x1(shape) and shape.channels >= 32


def _src_size(shape: Shape) -> int:
    """Return about how many elements src has: a side may end within a stride."""
    return shape.all_pixels * shape.steps * shape.inputs


F32 = (
    Rule(
        lambda s: (
            not s.bf16
            and not s.channels_last
            and _upsamples(s)
            and (s.outputs <= 256 or s.larger_kernel)
            and s.all_pixels > 100
        ),
        "any",
        JIT,
        "0.85, 1.05 of 40",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.channels_last
            and _upsamples(s)
            and s.images >= 4
            and s.flops < 2e9
            and (s.outputs < 512 or s.larger_kernel)
        ),
        "given",
        JIT,
        "0.91, 1.05 of 40",
        formulation="as_convolution",
    ),
    # oneDNN has no layout for every second element of an odd side: there, the next rule decides.
    Rule(
        lambda s: (
            not s.bf16
            and s.forward
            and not s.channels_last
            and _is_deep_strided_1x1(s)
            and s.whole_blocks
            and 2 * s.outputs <= 5 * s.inputs
            and s.pixels >= 100
        ),
        "any",
        JIT_1X1,
        "0.79, 1.01 of 40",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.forward
            and not s.channels_last
            and _is_deep_strided_1x1(s)
            and s.whole_blocks
            and s.outputs >= 192
            and s.weights_size < 1e6
            and s.pixels >= 36
        ),
        "any",
        GEMM,
        "0.89, 1.08 of 40",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.data
            and s.channels_last
            and _is_deep_strided_1x1(s)
            and s.inputs >= 128
            and s.outputs >= 48
            and s.weights_size <= 80_000
            and s.pixels >= 256
            and _src_size(s) >= 4e6
        ),
        "given",
        GEMM,
        "0.81, 1.13 of 38",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.weights
            and s.channels_last
            and _is_deep_strided_1x1(s)
            and 128 <= s.outputs <= 320
            and s.pixels >= 450
            and _src_size(s) >= 3e6
        ),
        "given",
        JIT_1X1,
        "0.89, 1.31 of 40",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.weights
            and not s.channels_last
            and _is_deep_strided_1x1(s)
            and s.whole_blocks
            and s.outputs <= 64
            and s.pixels >= 500
        ),
        "any",
        JIT_1X1,
        "0.70, 0.92 of 37",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.weights
            and not s.channels_last
            and not s.transposed
            and not s.strided
            and _deep(s)
            and s.padded_depth
            and s.outputs >= 128
            and s.pixels < 5000
            and s.images < 32
            and s.larger_kernel
        ),
        "nxc",
        JIT,
        "0.94, 1.07 of 40",
    ),
)

BF16 = (
    Rule(
        lambda s: (
            s.bf16
            and s.weights
            and not s.channels_last
            and s.transposed
            and _deep(s)
            and s.in_patches
            and s.outputs <= 128
            and s.inputs >= 160
            and not s.is_split
        ),
        "any",
        JIT_BF16,
        "0.78, 1.03 of 40",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.weights
            and s.channels_last
            and _is_deep_strided_1x1(s)
            and s.whole_blocks
            and s.pixels >= 16
            and s.images >= 4
        ),
        "given",
        JIT_BF16_1X1,
        "0.86, 1.19 of 40",
    ),
    # The implementation of the rule before takes no sides that are no multiple of the stride: this
    # rule decides there.
    Rule(
        lambda s: (
            s.bf16
            and s.weights
            and s.channels_last
            and _is_deep_strided_1x1(s)
            and s.whole_blocks
            and s.channels >= 64
            and s.images >= 4
        ),
        "given",
        GEMM,
        "0.73, 1.31 of 40",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.data
            and not s.channels_last
            and _is_deep_strided_1x1(s)
            and s.whole_blocks
            and s.inputs >= 320
        ),
        "any",
        JIT_BF16_1X1,
        "0.90, 1.17 of 40",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.forward
            and not s.channels_last
            and _is_deep_strided_1x1(s)
            and s.whole_blocks
            and s.outputs <= s.inputs
        ),
        "any",
        JIT_BF16,
        "asked before the next rule, whose choice takes longer: 0.72, 0.94 of 40",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.forward
            and not s.channels_last
            and _is_deep_strided_1x1(s)
            and s.whole_blocks
            and 48 <= s.outputs <= s.inputs
            and s.pixels >= 400
        ),
        "any",
        JIT_BF16,
        "0.86, 1.41 of 40",
    ),
)

HALF_WIDTH_DEEP = (*F32, *BF16)
