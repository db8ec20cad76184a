"""Rules of weights gradients of one input channel on CPUs with AVX-512 but not AMX.

First layers of grey images, of volumes and of sounds are such problems. gemm, which other rules
choose for them, multiplies matrices of one row for each kernel position; jit computes blocks of
outputs, which makes up for the reorder of diff_dst unless that is large.

Fitted on 118 problems, drawn apart from the survey, on two cores of an AMD EPYC. Figures are times
by the rule over those of the rules behind it, in geometric mean and at worst, of problems that were
drawn afterwards.
"""

from __future__ import annotations

from .rule import GEMM, JIT, Rule, Shape

__all__ = ["ONE_CHANNEL"]


def _is_of_one_channel(shape: Shape) -> bool:
    fills_blocks = shape.outputs in (24, 32) or (shape.outputs > 32 and shape.outputs % 16 == 0)
    is_small = shape.pixels <= 70_000 or shape.volume
    return (
        shape.weights
        and shape.inputs == 1
        and fills_blocks
        and shape.positions >= 9
        and not (shape.transposed or shape.strided)
        and shape.pixels >= 10_000
        and is_small
    )


ONE_CHANNEL = (
    Rule(
        lambda s: (
            s.weights
            and s.dense_first
            and s.is_product
            and s.inputs == 1
            and s.pixels >= 700
            and not (s.bf16 and s.volume)
        ),
        "any",
        GEMM,
        "float32 0.38, 1.34 of 67; bfloat16 0.34, 1.02 of 21; 1 -> 1, 600 x 600: 0.08; 1 -> 24, 34"
        " x 34 x 34, minibatch 16: 1.34; bfloat16 volumes, 1 -> 4, 53 x 53 x 53, minibatch 4: 4.1",
    ),
    Rule(
        lambda s: s.dense_first and not s.bf16 and _is_of_one_channel(s),
        "any",
        JIT,
        "0.60, 1.19 of 26; 1 -> 32, 29 x 29 x 29, 5x5x5, minibatch 4: 0.29; 1 -> 24, 128 x 128,"
        " 3x3, minibatch 16: 1.19; of other outputs, 1 -> 40, 152 x 152, 3x3, minibatch 2: 1.66",
    ),
    Rule(
        lambda s: s.dense_first and s.bf16 and s.volume and _is_of_one_channel(s),
        "nxc",
        JIT,
        "0.57, 1.28 of 5; 1 -> 24, 77 x 77 x 77, 5x5x5: 0.18; 1 -> 128, 69 x 69 x 69, 3x3x3: 1.28",
    ),
    Rule(
        lambda s: s.dense_last and _is_of_one_channel(s),
        "given",
        JIT,
        "float32 0.88, 1.58 of 22; bfloat16 0.46, 0.86 of 5; 1 -> 24, 49 x 49 x 49, 3x3x3: 0.26; 1"
        " -> 64, 49 x 49 x 49, 3x3x3, minibatch 4: 1.58; of smaller kernels, 1 -> 64, 60 x 60 x 60,"
        " 2x2x2: 2.5",
    ),
)
