"""Rules of 1x1 problems that are products of matrices, in all directions.

Fitted on one draw of 1x1 problems of networks, narrowed after two more, and judged on a fourth: 1
to 32 images of 16 to 2048 channels, 4 x 4 to 56 x 56. Figures are times by the rule over those
without it, in geometric mean and at worst, of the problems fitted on and of those judged on.

A problem of an earlier draw takes 1.54 with the first rule: 1536 -> 1536 channels, 4 x 4, minibatch
16, channels last, data gradient. The last rule's two worst problems of the draw judged on, 12.1 as
first timed, took 0.94 when timed again.
"""

from __future__ import annotations

from .rule import GEMM, MATMUL, Rule

__all__ = ["PRODUCTS"]

PRODUCTS = (
    Rule(
        lambda s: (
            s.is_product and s.dense_last and not s.weights and not s.bf16 and s.all_pixels < 2048
        ),
        "given",
        MATMUL,
        "0.85, 1.17 of 105; 0.80, 1.33 of 178",
        formulation="matmul",
        weights="given",
    ),
    # With few pixels, blocks of channels gain more than their reorders take.
    Rule(
        lambda s: (
            s.is_product and s.dense_first and not s.weights and not s.bf16 and s.pixels >= 100
        ),
        "given",
        GEMM,
        "0.82, 1.18 of 139; 0.76, 1.09 of 147",
        formulation="matmul",
        weights="given",
    ),
    Rule(
        lambda s: (
            s.is_product
            and s.dense_last
            and s.weights
            and not s.bf16
            and s.all_pixels <= 1024
            and s.channels >= 48
        ),
        "given",
        GEMM,
        "0.83, 1.07 of 80; 0.82, 1.31 of 46",
        formulation="matmul",
    ),
    Rule(
        lambda s: s.is_product and s.dense_last and s.weights and s.bf16 and s.channels >= 192,
        "given",
        GEMM,
        "0.62, 1.15 of 60; 0.62, 12.1 of 26; 16 x 512 -> 2048, 7 x 7: 0.48",
        formulation="matmul",
    ),
)
