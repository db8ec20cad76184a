"""Rules of images cut into patches, on CPUs with AVX-512 but not AMX.

The kernel is as large as the stride and nothing is padded: patch embeddings, and the layers between
the stages of convolutional networks. No window shares an element with another, so that a product of
matrices reads what it needs without a copy for each kernel position.

Fitted on 880 problems, drawn apart from the survey, on two cores of an AMD EPYC. Of two sets of
problems drawn afterwards, the first narrowed some rules; figures are of the second, times by the
rule over those of the rules behind it, in geometric mean and at worst, of the problems whose choice
the rule changes.
"""

from __future__ import annotations

from .rule import GEMM, JIT, JIT_BF16, Rule, Shape

__all__ = ["PATCHES"]


def _is_of_patches(shape: Shape) -> bool:
    return (
        shape.in_patches
        and shape.dense
        and shape.positions > 1
        and not (shape.transposed or shape.volume or shape.line)
    )


PATCHES = (
    Rule(
        lambda s: (
            _is_of_patches(s) and s.data and s.dense_last and s.bf16 and s.outputs > 20 * s.inputs
        ),
        "any",
        GEMM,
        "0.24, 0.88 of 19; 3 -> 192, 288 x 288, 32x32/32: 0.07; 3 -> 80, 160 x 160, 4x4/4,"
        " minibatch 8: 0.88; full width 0.91 of 41, of more outputs 1.37 of 20;"
        " half width 0.90 of 14, of smaller kernels 1.27 of 42",
        on_full_width=lambda s: s.outputs < 100,
        on_half_width=lambda s: s.positions >= 16,
    ),
    Rule(
        lambda s: (
            _is_of_patches(s)
            and s.weights
            and s.dense_first
            and s.bf16
            and s.inputs <= 4
            and s.outputs * s.positions <= 50_000
        ),
        "any",
        JIT_BF16,
        "0.64, 1.16 of 28; 4 -> 32, 224 x 224, 4x4/4, minibatch 16: 0.17; 3 -> 384, 49 x 49,"
        " 7x7/7, with bias: 1.16",
    ),
    Rule(
        lambda s: (
            _is_of_patches(s)
            and s.weights
            and s.dense_first
            and s.bf16
            and s.inputs <= 288
            and s.outputs > 48
            and s.dst_size >= 2**15
        ),
        "any",
        GEMM,
        "0.76, 1.10 of 21; 3 -> 656, 112 x 112, 14x14/14, minibatch 6: 0.51; 272 -> 164, 72 x"
        " 72, 2x2/2, minibatch 6: 1.10",
    ),
    Rule(
        lambda s: _is_of_patches(s) and s.weights and s.dense_last and s.bf16 and s.outputs > 32,
        "given",
        JIT_BF16,
        "0.86, 1.00 of 16; 152 -> 88, 26 x 26, 2x2/2: 0.67; of an earlier set, 96 -> 432, 72 x"
        " 72, 2x2/2, with bias, minibatch 8: 1.59",
    ),
    Rule(
        lambda s: (
            _is_of_patches(s)
            and s.weights
            and s.dense_first
            and not s.bf16
            and s.inputs > 3
            and s.outputs * s.positions > 10_000
        ),
        "nxc",
        JIT,
        "0.44 and 0.72; 4 -> 192, 128 x 128, 8x8/8, with bias, minibatch 2: 0.44; of an earlier"
        " set, 4 -> 768, 196 x 196, 14x14/14: 1.14",
    ),
    Rule(
        lambda s: (
            _is_of_patches(s) and s.weights and s.dense_first and not s.bf16 and s.inputs == 4
        ),
        "any",
        GEMM,
        "4 -> 112, 224 x 224, 4x4/4, with bias: 0.47; of other inputs, 6 -> 48, 196 x 196,"
        " 4x4/4, minibatch 6: 1.24; half width 0.63 of 25, of fewer weights 1.55 of 16",
        on_half_width=lambda s: s.weights_size >= 1400,
    ),
    Rule(
        lambda s: (
            _is_of_patches(s)
            and s.weights
            and s.dense_last
            and not s.bf16
            and 1 < s.inputs <= 256
            and s.positions == 4
        ),
        "given",
        JIT,
        "0.87, 0.99 of 7; 152 -> 144, 52 x 52, 2x2/2: 0.78; of larger kernels, 32 -> 36, 224 x"
        " 224, 4x4/4, minibatch 2: 1.61",
    ),
    Rule(
        lambda s: (
            _is_of_patches(s)
            and s.forward
            and s.dense_first
            and s.bf16
            and s.inputs <= 3
            and s.outputs >= 36 * s.inputs
            and s.pixels > 49
        ),
        "any",
        GEMM,
        "0.73, 1.08 of 24; 3 -> 768, 128 x 128, 16x16/16: 0.46; 3 -> 128, 76 x 76, 4x4/4: 1.08",
    ),
)
