"""Rules of data gradients with strides, asked after those of all data gradients."""

from __future__ import annotations

from .rule import GEMM, JIT, Rule

__all__ = ["STRIDED_DATA"]

STRIDED_DATA = (
    Rule(
        lambda s: (
            s.dense_first
            and not s.bf16
            and s.strided
            and s.channels >= 512
            and s.positions >= 16
            and s.pixels <= 16
        ),
        "nxc",
        JIT,
        "512 -> 1024, 8 x 8, 4x4/2: 1.5; left out, 256 -> 512, 16 x 16: 1.05",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and not s.bf16
            and s.strided
            and s.channels >= 256
            and 1 < s.positions < 16
        ),
        "nxc",
        JIT,
        "256, 28 x 28, 3x3/2: 1.04 to 1.07; 512, 14 x 14: 1.0; 4x4/2 loses",
    ),
    Rule(
        lambda s: s.dense_last and s.strided and s.positions >= 16 and s.pixels <= 16,
        "given",
        JIT,
        "512 -> 1024, 8 x 8, 4x4/2: 1.2",
    ),
    # oneDNN's first implementation of these is brgconv_strided.
    Rule(
        lambda s: (
            s.dense_first
            and not s.bf16
            and not s.transposed
            and s.strided
            and not s.is_1x1
            and s.inputs < 32
            and s.outputs >= 3 * s.inputs
        ),
        "any",
        GEMM,
        "0.67 of the time of 43 drawn problems, 1.65 at worst; 0.68 of 25 others, 1.88 at worst:"
        " 17 -> 68, 8 x 8, 7x7/2: 0.29; 10 -> 48, 28 x 28, 3x3/2: 0.67; 16 -> 64, 84 x 84, 4x4/2:"
        " 1.88",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and not s.bf16
            and not s.transposed
            and s.strided
            and not s.is_1x1
            and not s.line
            and not s.volume
            and (s.positions % 2 == 1 or s.outputs < 64 or s.pixels < 64)
        ),
        "any",
        JIT,
        "0.75 of the time of 142 drawn problems, 1.25 at worst; 0.71 of 77 others, 1.74 at worst:"
        " 32 -> 32, 56 x 56, 2x2/2: 0.49; 256 -> 96, 8 x 8, 3x3/2: 0.72; 8 -> 8, 80 x 80, 3x3/2:"
        " 1.74; 128 -> 256, 32 x 32, 4x4/2: 1.12",
    ),
)
