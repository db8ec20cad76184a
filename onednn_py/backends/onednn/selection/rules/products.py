"""Rules of 1x1 problems that are products of matrices, in all directions.

The first rules were fitted on one draw of 1x1 problems of networks, narrowed after two more, and
judged on a fourth: 1 to 32 images of 16 to 2048 channels, 4 x 4 to 56 x 56. Figures are times by
the rule over those without it, in geometric mean and at worst, of the problems fitted on and of
those judged on.

A problem of an earlier draw takes 1.54 with the first rule: 1536 -> 1536 channels, 4 x 4, minibatch
16, channels last, data gradient. The last rule's two worst problems of the draw judged on, 12.1 as
first timed, took 0.94 when timed again.

The others were fitted on 1507 problems of a further draw, of which their figures are, and keep what
held in 130 products of the survey. Two say themselves what they were judged on.
"""

from __future__ import annotations

from .rule import AMX_MATMUL, BRGEMM_WEIGHTS, GEMM, MATMUL, Rule

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
    Rule(
        lambda s: s.is_product and s.dense_last and s.data and s.bf16 and s.all_pixels < 1000,
        "given",
        AMX_MATMUL,
        "0.56, 1.02 of 8: 43 -> 384, 5 x 6, minibatch 8: 0.47; 176 -> 312, 7 x 7, minibatch 16:"
        " 0.14; of more pixels, 320 -> 64, 6 x 6, minibatch 32: 1.1",
        formulation="matmul",
        weights="given",
    ),
    Rule(
        lambda s: s.is_product and s.dense_first and s.data and not s.bf16 and s.small,
        "given",
        MATMUL,
        "0.70, 1.35 of 13: 11 -> 4, 6 x 10: 0.59; 34 -> 14, 11 x 20: 1.35",
        formulation="matmul",
        weights="given",
    ),
    Rule(
        lambda s: (
            s.is_product
            and s.dense_first
            and s.forward
            and not s.bf16
            and s.pixels < 100
            and s.channels <= 64
        ),
        "any",
        GEMM,
        "0.54, 0.76 of 5: 840 -> 16, 8 x 8: 0.39; 60 -> 672, 7 x 3: 0.76",
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
            and s.dense_first
            and s.weights
            and not s.bf16
            and s.inputs <= 11
            and s.pixels >= 700
        ),
        "given",
        MATMUL,
        "0.67, 1.37 of 8: 2 -> 8, 24 x 24 x 24: 0.32; 4 -> 84, 21 x 21 x 21: 0.73; of fewer pixels,"
        " 2 -> 37, 17 x 17, minibatch 8: 2.1",
        formulation="matmul",
    ),
    # The others read a matrix for each image twice, where it does not stay in the caches.
    Rule(
        lambda s: (
            s.is_product
            and s.dense_first
            and s.weights
            and not s.bf16
            and s.pixels >= 480
            and s.all_pixels >= 3000
            and (s.outputs >= 128 or (s.channels >= 32 and s.pixels >= 2000))
        ),
        "given",
        MATMUL,
        "0.83, 1.23 of 53 drawn after the rule, on memory that no cache holds: 64 -> 256, 152 x"
        " 152: 0.68; 16 -> 256, 40 x 40: 0.58; 64 -> 51, 117 x 117, minibatch 1: 1.23",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.is_product
            and s.dense_first
            and s.forward
            and s.has_bias
            and not s.bf16
            and (
                (s.pixels <= 1100 and (s.pixels >= 64 or s.channels < 160))
                or s.inputs >= max(256, s.outputs)
            )
        ),
        "any",
        GEMM,
        "0.79, 1.5 of 113 drawn after the rule: 256 -> 64, 13 x 13: 0.79; 16 -> 52, 171 pixels:"
        " 0.71; 32 -> 26, 4 x 4, minibatch 32: 1.5; of more pixels, 35 -> 192, 59 x 59: 1.5",
    ),
    Rule(
        lambda s: (
            s.is_product
            and s.dense_last
            and s.weights
            and not s.bf16
            and s.all_pixels < 2048
            and s.channels >= 16
        ),
        "given",
        GEMM,
        "0.84, 1.17 of 137; up to 1024 pixels of 48 channels and more 0.83, 1.07 of 80; 0.82,"
        " 1.31 of 46; full width 0.92 of 97, of smaller"
        " weights with a bias gradient 1.12 of 51",
        formulation="matmul",
        on_full_width=lambda s: not s.has_bias_gradient or s.weights_size >= 500_000,
    ),
    Rule(
        lambda s: (
            s.is_product
            and s.dense_last
            and s.weights
            and s.bf16
            and s.all_pixels < 1024
            and s.channels < 192
            and not s.small
        ),
        "given",
        MATMUL,
        "0.50, 1.38 of 75 of any number of channels; 48 -> 360, 8 x 8: 0.27; 256 -> 1024, 14 x"
        " 14: 1.2 times as long as gemm; full width 0.64 of 14, with a bias gradient 1.51 of 34",
        formulation="matmul",
        on_full_width=lambda s: not s.has_bias_gradient,
    ),
    Rule(
        lambda s: (
            s.is_product
            and s.dense_last
            and s.weights
            and s.bf16
            and not s.small
            and s.channels < 16
            and max(s.inputs, s.outputs) <= 80
            and s.pixels < 20_000
        ),
        "any",
        BRGEMM_WEIGHTS,
        "0.53, 0.78 of 7: 2 -> 20, 24 x 17 x 43: 0.36; 9 -> 11, 44 x 44: 0.37; 80 -> 9, 16 x 16 x"
        " 16: 0.78; of more channels, 896 -> 14, 91 x 91: 2.0; of more pixels, 64 -> 2, 388 x 388:"
        " 1.6",
    ),
    Rule(
        lambda s: (
            s.is_product
            and s.dense_first
            and s.weights
            and s.bf16
            and s.inputs <= 4
            and s.pixels >= 2700
        ),
        "given",
        GEMM,
        "0.49, 0.65 of 8: 4 -> 96, 14 x 14 x 14: 0.37; 4 -> 56, 48 x 26 x 37: 0.65; of fewer"
        " pixels, 1 -> 40, 19 x 19: 3.3",
        formulation="matmul",
    ),
    Rule(
        lambda s: s.is_product and s.dense_last and s.weights and s.bf16 and s.channels >= 192,
        "given",
        GEMM,
        "0.62, 1.15 of 60; 0.62, 12.1 of 26; 16 x 512 -> 2048, 7 x 7: 0.48",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.is_product
            and s.dense_first
            and s.data
            and not s.bf16
            and s.pixels >= 25
            and s.channels <= 256
        ),
        "given",
        GEMM,
        "0.56, 1.19 of 12; 8 -> 144, 8 x 5: 0.37; 28 -> 96, 7 x 7: 0.73; half width of more flops"
        " 1.07 of 25",
        formulation="matmul",
        weights="given",
        on_half_width=lambda s: s.flops < 1e8,
    ),
    # With more pixels, the implementation by tiles takes up to 3 to 4 times as long.
    Rule(
        lambda s: s.is_product and s.dense_first and s.forward and s.bf16 and s.pixels < 400,
        "given",
        MATMUL,
        "0.41, 1.02 of 62; 96 -> 112, 16 x 10: 0.31",
        formulation="matmul",
    ),
    Rule(
        lambda s: s.is_product and s.dense_first and s.forward and s.bf16 and s.channels > 32,
        "given",
        GEMM,
        "0.70, 1.56 of 51",
        formulation="matmul",
        weights="given",
    ),
    Rule(
        lambda s: (
            s.is_product
            and s.dense_first
            and s.data
            and s.bf16
            and 25 <= s.pixels < 400
            and s.channels < 1024
        ),
        "given",
        MATMUL,
        "0.52, 1.27 of 40; 32 -> 64, 6 x 11: 0.38; 12 -> 800, 5 x 5: 0.45; half width of more"
        " images and flops 1.06 of 19",
        formulation="matmul",
        weights="given",
        on_half_width=lambda s: s.images <= 2 or s.flops < 1e8,
    ),
    Rule(
        lambda s: (
            s.is_product
            and s.dense_first
            and not s.weights
            and s.bf16
            and s.pixels >= 400
            and s.inputs <= 8
        ),
        "given",
        MATMUL,
        "0.36, 0.66 of 3: 4 -> 16, 35 x 35 x 35; 2 -> 56, 14 x 14 x 14; 8 -> 11, 59 x 59;"
        " 64 -> 2, 388 x 388: 1.5",
        formulation="matmul",
    ),
)
