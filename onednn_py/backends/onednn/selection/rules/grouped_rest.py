"""Rules of problems in groups for which oneDNN names gemm or a strided brgemm kernel first.

gemm gathers the patches of a group and multiplies them, one group after the other. The strided
kernels take several times as long as any other where groups are thin.

Fitted on 2049 problems in groups, of 3357 that `benchmarks/survey.py --broad` draws, on two cores
of an AMD EPYC. Figures are times by a rule over those without it, in geometric mean and at worst,
of 1511 problems in groups that were drawn afterwards. The heuristic choice takes 1.17 times as long
as the fastest way there; it took 1.22 without these rules and those in groups without AMX.
"""

from __future__ import annotations

from .rule import GEMM, JIT, JIT_BF16, NOT_GEMM, NOT_GEMM_NOR_STRIDED, NOT_STRIDED, Rule, Shape

__all__ = ["GROUPED_REST"]

# Channels first, other kernels than gemm mostly exist where they read channels last.
FIRST = (
    "0.63, 1.20 of 20; f32 32 groups of 16 -> 1, 266, 4, minibatch 16: 1.09; bf16 2 groups of 4 ->"
    " 2, 42 x 42, 3x3, data gradient of transposed: 0.64; of eight times the outputs, 16 groups of"
    " 2 -> 32, 245, 4 dilated by 2, minibatch 16: 5.4"
)
FIRST_BF16 = (
    "0.58, 1.28 of 24; 64 channels, 9 x 9 x 9, 7x7x7, data gradient of transposed: 0.59; depthwise"
    " 96, 12 x 12 x 12, 3x3x3/4: 1.28"
)

# Channels last, gemm gathers the channels of a group from between those of the others.
LAST = (
    "0.34, 1.88 of 14; f32 depthwise 16, 12 x 12, 7x7/2 dilated by 1, minibatch 8, data: 0.35; bf16"
    " 8 groups of 16 -> 32, 11 x 11 x 11, 5x5x5/2 dilated by 1, data: 1.88; of fewer groups, 2 of"
    " 8 -> 4, 53 x 53, 3x3/3, minibatch 32, data: 16"
)
LAST_WEIGHTS = (
    "0.66, 1.58 of 20; bf16 16 groups of 2 -> 16, 20 x 20, 3x3/3 dilated by 1: 0.66; f32 32 groups"
    " of 4 -> 8, 63 x 63, 2x2/4 dilated by 1, minibatch 16: 1.58; of more pixels, 8 groups of 4 ->"
    " 32, 146 x 146, 3x3/4: 3.1"
)

STRIDED = (
    "of all draws 0.32, 1.67 of 13; f32 32 groups of 32 -> 32, 8 x 8, 3x3/2, data: 0.38; bf16 2"
    " groups of 32 -> 1, 144 x 144, 4x4/4, data: 1.67"
)
# With channels last, gemm in the caller's layout took up to 25 times as long on AVX2 alone, where
# no other kernel has both the strides and the kernel's size or dilation.
STRIDED_BY_COPIES = (
    "float32 on AVX2 alone 0.36, 1.43 of 77; of more inputs in a group, 2 of 32, 83 x 83, 3x3/4"
    " dilated by 2: 2.39; half width 0.53, 1.56 of 50, of fewer than 8 pixels 1.96 and 2.50"
)
STRIDED_TRANSPOSED = (
    "of all draws 0.34, 0.82 of 8; bf16 transposed 16 groups of 2 -> 32, 9 x 9, 4x4/2: 0.48"
)


def _forward_first(s: Shape) -> bool:
    return (
        s.forward
        and not s.channels_last
        and not s.in_patches
        and s.positions > (8 if s.depthwise else 3)
        and s.outputs < 8 * s.inputs
    )


def _forward_first_bf16(s: Shape) -> bool:
    return s.bf16 and s.has_avx512_alone and _forward_first(s)


def _last(s: Shape) -> bool:
    return not s.weights and s.channels_last and s.groups >= 8


def _weights_last(s: Shape) -> bool:
    return s.weights and s.channels_last and s.pixels < 1000


def _strided_data(s: Shape) -> bool:
    return s.data and s.strided and not (s.bf16 and s.has_amx)


def _strided_first(s: Shape) -> bool:
    return _strided_data(s) and not s.channels_last


def _strided_transposed_first(s: Shape) -> bool:
    return s.transposed and s.bf16 and _strided_first(s)


def _strided_last(s: Shape) -> bool:
    return _strided_data(s) and s.channels_last


def _strided_last_by_copies(s: Shape) -> bool:
    return (
        (s.has_avx2_alone or (s.has_half_width and not s.bf16 and s.pixels >= 8))
        and not s.transposed
        and _strided_last(s)
        and s.inputs <= (16 if s.pixels >= 40 else 8) * s.groups
    )


def _strided_transposed_last(s: Shape) -> bool:
    return s.transposed and _strided_last(s)


# The first rule of a pair takes what would be taken without it, but for what it leaves out.
GROUPED_REST = (
    Rule(_forward_first, "any", NOT_GEMM, FIRST),
    Rule(_forward_first_bf16, "nxc", JIT_BF16, FIRST_BF16),
    Rule(_forward_first, "nxc", NOT_GEMM, FIRST),
    Rule(_last, "given", NOT_GEMM, LAST),
    Rule(_last, "any", GEMM, LAST),
    Rule(_weights_last, "given", NOT_GEMM, LAST_WEIGHTS),
    Rule(_weights_last, "any", GEMM, LAST_WEIGHTS),
    Rule(_strided_first, "any", NOT_STRIDED, STRIDED),
    Rule(_strided_transposed_first, "nxc", JIT, STRIDED_TRANSPOSED, formulation="as_convolution"),
    Rule(_strided_last_by_copies, "given", NOT_GEMM_NOR_STRIDED, STRIDED_BY_COPIES),
    Rule(_strided_last_by_copies, "any", GEMM, STRIDED_BY_COPIES),
    Rule(_strided_last, "given", NOT_STRIDED, STRIDED),
    Rule(_strided_transposed_last, "given", JIT, STRIDED_TRANSPOSED, formulation="as_convolution"),
)
