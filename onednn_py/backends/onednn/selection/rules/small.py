"""Rules of small problems, which one thread computes on most CPUs, in all directions."""

from __future__ import annotations

from .rule import GEMM, JIT, JIT_BF16, Rule

__all__ = ["SMALL"]

SMALL = (
    # Tiles of 16 rows of 64 bytes are mostly empty there, and setting them up takes time as well.
    Rule(
        lambda s: (
            s.small
            and s.data
            and s.bf16
            and s.dense_first
            and s.positions > 1
            and s.outputs <= 4 < s.inputs
        ),
        "nxc",
        JIT_BF16,
        "implementations with tiles take 1.31 times as long in geometric mean over 20 problems,"
        " 0.92 at least; 34 -> 2, 4 x 4, 5x5: 2.1; 9 -> 3, 10 x 10, 3x3: 0.92",
    ),
    Rule(
        lambda s: (
            s.small
            and s.data
            and s.bf16
            and s.dense_last
            and s.positions > 1
            and s.outputs <= 3
            and s.inputs > 8
        ),
        "given",
        JIT_BF16,
        "38 -> 3, 7 x 5, 5x5/2: 2.4; 21 -> 2, 5 x 5, 3x3: 1.8; 45 -> 3, 10 x 10, 3x3: 0.89",
    ),
    Rule(
        lambda s: (
            s.small
            and s.weights
            and s.bf16
            and s.dense_first
            and s.positions > 1
            and s.inputs <= 3
            and s.pixels < 4000
        ),
        "nxc",
        JIT_BF16,
        "17 problems: 2.1 in geometric mean; 2 -> 11, 14 x 14, 3x3: 1.3; 2 -> 20, 9 x 9 x 9,"
        " 5x5x5/2: 4.8; 3 -> 2, 70 x 70, 5x5: 0.71",
    ),
    Rule(
        lambda s: (
            s.small
            and s.weights
            and s.bf16
            and s.dense_last
            and s.positions > 1
            and 2 <= s.inputs <= 4
            and s.pixels < 1000
        ),
        "given",
        JIT_BF16,
        "15 problems: 1.4 in geometric mean; 2 -> 23, 6 x 6, 3x3: 2.2; 4 -> 26, 7 x 7, 3x3: 0.92;"
        " 2 -> 1, 56 x 56, 5x5: 0.73",
    ),
    Rule(
        lambda s: (
            s.small
            and s.data
            and not s.bf16
            and s.dense_first
            and not s.is_1x1
            and not s.strided
            and not s.volume
            and s.inputs <= 4
            and s.outputs >= 9
        ),
        "any",
        GEMM,
        "1 -> 46, 6 x 6, 3x3: 3.4; 2 -> 29, 6 x 6, 5x5: 2.1; 4 -> 10, 9 x 9, 3x3: 0.8; 10 problems:"
        " 1.7 in geometric mean; 8 outputs and fewer 0.4 to 0.9",
    ),
    Rule(
        lambda s: s.small and s.dense_first and not s.is_1x1 and not s.whole_blocks,
        "nxc",
        JIT,
        "8 -> 8, 8 x 8, 3x3 on one thread: 3.7 us, 4.3 with blocks of 16 channels; full width"
        " 0.88 of 78, of fewer inputs 1.20 of 30;"
        " half width 0.93 of 89, of fewer inputs 1.14 of 41",
        on_full_width=lambda s: s.inputs >= 4,
        on_half_width=lambda s: s.inputs >= 4,
    ),
)
