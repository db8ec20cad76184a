"""Rules of channels first on CPUs with AVX-512 but not AMX.

Strided forward passes are faster in blocks of 16 channels than channels last. Groups of few
channels, and dilated lines, avoid gemm, which gathers patches: where no other kernel takes blocks
of channels, one reads channels last.

Fitted on 3,000 recorded problems and 3,900 pairs of choices that differ, drawn by
`benchmarks/survey.py`, on two cores of an AMD EPYC of family 26. Figures are times by the rule over
those of the rules behind it, in geometric mean and at worst, of problems that were drawn afterwards
and whose choice the rule changes.
"""

from __future__ import annotations

from .rule import BRGEMM, JIT, JIT_BF16, NOT_GEMM, Rule, Shape

__all__ = ["FIRST_WITHOUT_AMX", "LINES_WITHOUT_AMX"]

THIN_DATA = (
    "0.24, 1.57 of 24; 32 groups of 16 -> 1, 7 x 7, 3x3, minibatch 2: 0.26; 8 groups of 2 -> 1, 10"
    " x 10, 4x4 dilated by 3, minibatch 16: 1.57"
)
TRANSPOSED_DATA = (
    "0.89, 1.19 of 45; transposed 2 groups of 8 -> 4, 5 x 5, 4x4, minibatch 1: 0.91; transposed 4"
    " groups of 2 -> 4, 6 x 6, 4x4, minibatch 2: 1.19"
)
LINES = (
    "0.42, 1.09 of 34; 56 -> 52, 400, 7 dilated by 32, minibatch 8: 0.42; 16 -> 96, 2512, 3"
    " dilated by 16, minibatch 2: 1.09"
)


def _strided_forward(shape: Shape) -> bool:
    is_convolution = shape.forward and not shape.transposed
    return is_convolution and shape.dense_first and shape.strided and shape.larger_kernel


def _grouped(shape: Shape) -> bool:
    is_first = shape.in_groups and not shape.channels_last
    return is_first and not shape.strided and shape.larger_kernel


def _thin_data(shape: Shape) -> bool:
    return (
        not shape.bf16
        and shape.data
        and not shape.transposed
        and _grouped(shape)
        and shape.group_channels <= 4
        and shape.outputs < 4 * shape.inputs
    )


def _transposed_data(shape: Shape) -> bool:
    return (
        shape.bf16
        and shape.data
        and shape.transposed
        and _grouped(shape)
        and shape.group_channels >= 2
        and shape.outputs < 8 * shape.inputs
    )


def _line(shape: Shape) -> bool:
    return (
        shape.bf16
        and shape.forward
        and not shape.transposed
        and shape.dense_first
        and shape.line
        and not shape.strided
        and shape.group_channels >= 16
        and shape.larger_kernel
    )


FIRST_WITHOUT_AMX = (
    Rule(
        lambda s: s.bf16 and _strided_forward(s) and s.outputs >= 16 and not s.volume,
        "any",
        JIT_BF16,
        "0.88, 1.17 of 60; 3 -> 32, 7 x 7, 3x3/2 dilated by 2, minibatch 32: 0.89; 21 -> 18, 19 x"
        " 19, 3x3/2, minibatch 2: 1.17",
    ),
    Rule(
        lambda s: not s.bf16 and _strided_forward(s) and s.outputs > 4,
        "any",
        JIT,
        "0.85, 1.13 of 60; 5 -> 5, 14 x 14, 5x5/2, with bias, minibatch 6: 0.85; 1 -> 8, 16 x 16,"
        " 3x3/2 dilated by 3, with bias, minibatch 8: 1.13",
    ),
    # Kernels of at most 4 positions took up to 2.2 times as long.
    Rule(
        lambda s: (
            s.bf16
            and s.weights
            and s.transposed
            and _grouped(s)
            and s.group_channels <= 4
            and s.outputs < 2 * s.inputs
            and s.positions > 4
        ),
        "nxc",
        JIT_BF16,
        "0.53, 1.00 of 12; transposed 16 groups of 4 -> 4, 63 x 63, 3x3, minibatch 8: 0.55;"
        " transposed 8 groups of 2 -> 8, 25 x 25 x 25, 3x3x3, with bias, minibatch 4: 1.00",
        formulation="as_convolution",
    ),
    # The first rule of a pair takes what would be taken without it, but for gemm.
    Rule(
        _thin_data,
        "any",
        NOT_GEMM,
        f"{THIN_DATA}; full width 0.86 of 9, of fewer groups 1.10 of 54",
        on_full_width=lambda s: s.groups >= 8,
    ),
    Rule(_thin_data, "nxc", JIT, THIN_DATA),
    Rule(_transposed_data, "any", NOT_GEMM, TRANSPOSED_DATA, formulation="as_convolution"),
    Rule(_transposed_data, "nxc", NOT_GEMM, TRANSPOSED_DATA, formulation="as_convolution"),
)

# Asked behind all tables of directions.
LINES_WITHOUT_AMX = (
    Rule(_line, "any", NOT_GEMM, LINES),
    Rule(_line, "nxc", BRGEMM, LINES),
)
