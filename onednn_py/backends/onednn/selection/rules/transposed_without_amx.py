"""Rules of transposed convolutions on CPUs with AVX-512 but not AMX.

The last layers of generators and decoders have one to four channels of dst, of which kernels by
blocks of 16 channels compute most in vain, and a bias, with which `brgconv_strided` may not run
where channels are many. What deconvolutions then add with plain loops costs more than another
implementation.

Fitted on 1,320 problems drawn apart from the survey, on two cores of an AMD EPYC. Figures are times
by the rule over those of the rules behind it, in geometric mean and at worst, of the problems that
it applies to. docs/rules.md has what was gained on problems that were not looked at. Figures
of all draws are of `benchmarks/survey.py --broad`, of problems that the rule was fitted on and of
those that were drawn afterwards.
"""

from __future__ import annotations

from onednn_py.backends.onednn.selection.defects import MOST_SOUND_CHANNELS

from .rule import GEMM, JIT, JIT_BF16, Rule, Shape

__all__ = ["BF16_TRANSPOSED", "F32_TRANSPOSED"]

# Channels of dst of a transposed convolution, which are inputs of the convolution behind it.
FEW_INPUTS = 4


def _upsamples(shape: Shape) -> bool:
    return shape.data and shape.dense and shape.transposed and shape.strided


def _upsamples_to_few(shape: Shape) -> bool:
    return _upsamples(shape) and shape.inputs <= FEW_INPUTS and shape.positions > 1


def _adds_bias_to_few(shape: Shape) -> bool:
    # Kernels of odd lengths have no `brgconv_strided` for strides of 2.
    odd = shape.outputs >= 24 and shape.positions >= 9 and shape.positions % 2 == 1
    return _upsamples_to_few(shape) and shape.has_bias and (odd or shape.outputs >= 96)


def _adds_bias_to_strided(shape: Shape) -> bool:
    # Where `brgconv_strided` may not run.
    is_deep = shape.inputs > FEW_INPUTS and shape.outputs > MOST_SOUND_CHANNELS
    return _upsamples(shape) and shape.has_bias and is_deep


def _adds_bias_to_few_pixels(shape: Shape) -> bool:
    most = 64 if shape.in_patches else 256
    return (
        _adds_bias_to_strided(shape)
        and shape.outputs >= 192
        and shape.all_pixels <= most
        and not shape.is_1x1
    )


def _keeps_pixels(shape: Shape) -> bool:
    return shape.data and shape.transposed and not (shape.strided or shape.is_1x1)


BF16_TRANSPOSED = (
    Rule(
        lambda s: s.dense_first and _adds_bias_to_few(s),
        "given",
        GEMM,
        "0.30, 1.73 of 52; 160 -> 1, 14 x 14, 3x3/2, minibatch 4: 0.07; 512 -> 2, 6 x 6 x 6,"
        " 4x4x4/4, minibatch 2: 1.73",
    ),
    Rule(
        lambda s: s.dense_last and s.positions > 3 and _adds_bias_to_few(s),
        "ncx",
        GEMM,
        "0.52, 1.64 of 49; 512 -> 3, 7 x 7, 4x4/2, minibatch 2: 0.18; 512 -> 3, 1000, 5/2,"
        " minibatch 16: 1.64; full width 0.45 of 28, of larger dst 1.10 of 5",
        on_full_width=lambda s: s.dst_size < 40_000,
    ),
    Rule(
        lambda s: s.dense_first and not s.has_bias and _upsamples_to_few(s),
        "any",
        GEMM,
        "0.38, 1.12 of 58; 256 -> 1, 16 x 16, 4x4/2, minibatch 2: 0.11; 16 -> 4, 32 x 32, 4x4/2,"
        " minibatch 8: 1.12",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and not s.has_bias
            and s.outputs >= 64
            and s.positions >= 9
            and _upsamples_to_few(s)
        ),
        "any",
        GEMM,
        "0.57, 1.60 of 24; 256 -> 1, 16 x 16, 4x4/2, minibatch 2: 0.24; 512 -> 1, 32 x 32, 4x4/2,"
        " minibatch 4: 1.60",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.dense_first and _adds_bias_to_few_pixels(s),
        "given",
        GEMM,
        "0.40, 1.27 of 21; 1024 -> 64, 7 x 7, 5x5/2: 0.09; 192 -> 128, 8 x 8, 7x7/2, minibatch 4:"
        " 1.27",
    ),
    Rule(
        lambda s: s.dense_last and _adds_bias_to_few_pixels(s),
        "ncx",
        GEMM,
        "0.42, 1.25 of 21; 1024 -> 64, 7 x 7, 5x5/2: 0.10; 192 -> 128, 8 x 8, 7x7/2, minibatch 4:"
        " 1.25; full width 0.71 of 7, of more channels 1.90 of 25;"
        " half width 0.73 of 13, of larger dst 2.58 of 29",
        on_full_width=lambda s: s.channels < 24,
        on_half_width=lambda s: s.dst_size < 8000,
    ),
    Rule(
        lambda s: s.dense_first and _adds_bias_to_strided(s),
        "any",
        JIT_BF16,
        "of problems drawn apart 0.76, 2.12 of 47; transposed 96 -> 256, 16 x 16, 3x3/2,"
        " minibatch 8: 0.18; 768 -> 256, 7 x 7, 3x3/2, minibatch 2: 2.12",
        formulation="flipped",
    ),
    Rule(
        lambda s: s.dense_last and _adds_bias_to_strided(s),
        "nxc",
        JIT_BF16,
        "of problems drawn apart 0.66, 3.46 of 46; transposed 96 -> 256, 16 x 16, 3x3/2,"
        " minibatch 8: 0.07; 768 -> 256, 7 x 7, 3x3/2, minibatch 2: 3.46",
        formulation="flipped",
    ),
    Rule(
        lambda s: s.dense_first and not s.has_bias and _keeps_pixels(s),
        "nxc",
        JIT_BF16,
        "of all draws 0.67, 1.25 of 22; transposed 12 -> 8, 16 x 16, 3x3, minibatch 6: 0.66;"
        " 512 -> 1, 9 x 9 x 9, 3x3x3, minibatch 2: 1.25",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense_last
            and s.transposed
            and s.strided
            and s.inputs > 2
            and s.pixels <= 20_000
            and not s.is_1x1
        ),
        "given",
        JIT_BF16,
        "of all draws 0.65, 0.95 of 15; transposed 3 -> 16, 17 x 17, 2x2/2, minibatch 8: 0.62;"
        " 3 -> 3, 8 x 8, 2x2/2, minibatch 16: 0.95",
        formulation="as_convolution",
    ),
)

F32_TRANSPOSED = (
    Rule(
        lambda s: s.dense_last and s.outputs >= 24 and s.positions >= 9 and _upsamples_to_few(s),
        "any",
        GEMM,
        "0.41, 1.82 of 100; 256 -> 1, 16 x 16, 5x5/2, minibatch 16: 0.12; 32 -> 4, 32 x 32, 4x4/2,"
        " minibatch 4: 1.82",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.dense_last and s.inputs > 40 and _adds_bias_to_strided(s),
        "given",
        JIT,
        "0.67, 1.21 of 67; 160 -> 256, 6 x 6 x 6, 1x1x1/2: 0.15; 65 -> 64, 7 x 7, 4x4/4: 1.21",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.forward
            and s.dense_last
            and s.transposed
            and s.strided
            and s.inputs <= FEW_INPUTS
            and not s.is_1x1
        ),
        "given",
        JIT,
        "backward data 0.80, 1.04 of 50; 512 -> 3, 6 x 6 x 6, 4x4x4/2, minibatch 16: 0.68",
        formulation="as_convolution",
    ),
    # oneDNN's kernels of three channels and fewer read channels first themselves.
    Rule(
        lambda s: (
            s.weights
            and s.dense_first
            and s.transposed
            and s.strided
            and s.inputs == FEW_INPUTS
            and s.positions >= 9
            and not s.has_bias_gradient
        ),
        "nxc",
        JIT,
        "0.67, 1.07 of 10; 24 -> 4, 28 x 28, 3x3/2, minibatch 4: 0.44; full width 0.83 of 49, of"
        " more outputs 1.34 of 3",
        formulation="as_convolution",
        on_full_width=lambda s: s.outputs < 96,
    ),
    Rule(
        lambda s: s.dense_first and not s.whole_blocks and _keeps_pixels(s),
        "nxc",
        JIT,
        "of all draws 0.68, 1.11 of 22; transposed 24 -> 100, 5 x 5 x 5, 7x7x7, minibatch 4:"
        " 0.68; 96 -> 2, 5897, 5: 1.11",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.data and s.dense_first and s.transposed and s.is_product and s.inputs <= 8,
        "any",
        GEMM,
        "of all draws 0.36, 1.02 of 7; transposed 32 -> 6, 18 x 18, 1x1, minibatch 16: 0.38;"
        " 512 -> 8, 691, 1, minibatch 6: 1.02",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.forward
            and s.dense_first
            and s.transposed
            and s.strided
            and not s.is_1x1
            and s.inputs >= 32
            and s.outputs >= 64
            and s.all_pixels >= 32
            and (s.outputs <= 256 or s.images >= 8)
            and (s.pixels <= 64 or not s.in_patches)
        ),
        "any",
        JIT,
        "backward data, of 29 problems drawn afterwards 0.55, 1.01; 96 -> 128, 2 x 2 x 2, 6x6x6/2,"
        " minibatch 64: 0.15; 160 -> 256, 14 x 14, 4x4/2, minibatch 16: 1.01; of patches of many"
        " pixels, 128, 24 x 24 x 24, 2x2x2/2: 1.72",
    ),
)
