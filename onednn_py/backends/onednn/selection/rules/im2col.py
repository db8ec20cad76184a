"""Rules of products with patches: weights gradients and forward passes of deep layers.

The fewer windows all images have beside the outputs, the less the copy of patches takes beside the
product. Weights of fewer elements are over before NumPy's calls for each position of the kernel.

Figures are times by the rule over those of the rules behind it, in geometric mean and at worst, of
the problems fitted on and of others that it was judged on. All are drawn problems of 48 to 2048
channels, 1 to 32 images, lines, planes and volumes of few pixels. Of 833 weights gradients of the
survey, whose layers are not as deep, the rules apply to 2, 0.76 and 1.11.

Two cores with AMX: 1412 weights gradients and 1185 forward passes, data gradients of transposed
convolutions included, judged on 659 and 634. Two cores of an AMD EPYC without AMX, where brgemm is
faster than gemm in forward passes: 771 weights gradients in bfloat16 and 2020 forward passes. The
rules of float32 weights gradients, fitted with AMX, were judged there on 351, too: 0.44, 1.71 of
129 and 0.59, 2.12 of 222.
"""

from __future__ import annotations

from .rule import AMX_MATMUL, GEMM, MATMUL, Rule, Shape

__all__ = ["IM2COL"]


def _has_patches(s: Shape) -> bool:
    return s.dense and s.positions > 1 and not s.converted and (s.bf16 or s.is_strict)


IM2COL = (
    Rule(
        lambda s: (
            _has_patches(s)
            and s.weights
            and s.dense_first
            and not s.bf16
            and (
                (s.all_pixels < 0.07 * s.outputs and s.weights_size >= 2**18)
                or (s.images >= 8 and s.all_pixels < 1.3 * s.outputs and s.weights_size >= 2**19)
            )
        ),
        "given",
        GEMM,
        "0.55, 1.40 of 92; 0.60, 1.86 of 44; 200 -> 1576, 7 x 5 x 4, 4x4x4/2, minibatch 2: 0.25;"
        " 432 -> 416 transposed, a line of 5, 3/2: 0.70; 80 -> 400, 8 x 8, 5x5/2: 1.40; half width"
        " of whole blocks, smaller weights and more pixels 1.08 of 46",
        formulation="im2col",
        weights="given",
        on_half_width=lambda s: (
            s.all_pixels < 0.6 * s.outputs or s.weights_size >= 2.5e6 or not s.whole_blocks
        ),
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.weights
            and s.dense_last
            and not s.bf16
            and (
                (s.all_pixels < 0.56 * s.outputs and s.weights_size >= 2**17)
                or (s.all_pixels < s.outputs and s.weights_size >= 2**20)
            )
        ),
        "given",
        GEMM,
        "0.64, 1.69 of 167; 0.66, 1.48 of 90; 112 -> 1552, 7 x 7, 3x3/2, minibatch 1: 0.39; 868"
        " -> 320 transposed, 5 x 5, 2x2: 0.68; 56 -> 256, 6 x 8, 5x5, minibatch 2: 1.69; full"
        " width 0.73 of 9, of fewer products 1.41 of 31;"
        " half width 0.63 of 41, the others 1.23 of 71",
        formulation="im2col",
        weights="given",
        on_full_width=lambda s: s.group_products >= 16_000,
        on_half_width=lambda s: (
            (s.pixels < 25 and s.group_products >= 8000) or s.weights_size >= 2e6
        ),
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.weights
            and s.dense_first
            and s.bf16
            and (
                (s.all_pixels < 0.07 * s.outputs and s.weights_size >= 2**18)
                or (s.images >= 8 and s.all_pixels < 0.7 * s.outputs and s.weights_size >= 2**18)
                or (
                    s.images >= 13
                    and s.pixels < 49
                    and s.all_pixels < 5 * s.outputs
                    and s.weights_size >= 2**19
                )
                or (
                    s.images >= 13
                    and s.pixels < 100
                    and s.all_pixels < 2 * s.outputs
                    and s.weights_size >= 2**20
                )
            )
        ),
        "given",
        AMX_MATMUL,
        "0.40, 1.45 of 110; 0.44, 1.28 of 58; 1312 -> 800, a line of 5, 5, minibatch 32: 0.18;"
        " 704 -> 86 transposed, 3 x 3 x 3, 3x3x3/2: 0.39; 32 -> 1168, 21 x 11, 4x4/2, minibatch 1:"
        " 1.45",
        formulation="im2col",
        weights="given",
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.weights
            and s.dense_last
            and s.bf16
            and (
                (s.all_pixels < 0.57 * s.outputs and s.weights_size >= 2**18)
                or (s.pixels < 39 and s.all_pixels < 7 * s.outputs and s.weights_size >= 2**19)
                or (
                    s.images > 4
                    and s.pixels < 100
                    and s.all_pixels < 3 * s.outputs
                    and s.weights_size >= 2**20
                )
            )
        ),
        "given",
        AMX_MATMUL,
        "0.42, 1.81 of 180; 0.41, 2.97 of 85; 864 -> 136, 7 x 7, 3x3/2, minibatch 32: 0.39; 106 ->"
        " 960, 5 x 5 x 5, 2x2x2/2: 0.43; 1536 -> 64, a line of 138, 3, minibatch 1: 2.97",
        formulation="im2col",
        weights="given",
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.forward
            and s.dense_first
            and not s.bf16
            and s.has_amx
            and not s.transposed
            and (
                (
                    s.all_pixels < 0.13 * s.outputs
                    and s.outputs > 132
                    and s.weights_size >= 3 * 2**20
                )
                or (s.all_pixels < 0.03 * s.outputs and s.weights_size >= 2**20)
            )
        ),
        "given",
        GEMM,
        "0.73, 1.18 of 32; 0.78, 1.12 of 18; 992 -> 568, 3 x 3, 5x5/2, minibatch 4: 0.69; 1080 ->"
        " 1984, 4 x 4, 3x3/2, minibatch 32: 0.58; not taken:"
        " transposed, 512 from 1024, 4 x 4, 4x4/2, minibatch 2: 2.2",
        formulation="im2col",
        weights="given",
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.forward
            and s.dense_last
            and not s.bf16
            and s.has_amx
            and (
                (s.all_pixels < 0.3 * s.outputs and s.weights_size >= 2**20)
                or (s.pixels <= 9 and s.all_pixels < 1.5 * s.outputs and s.weights_size >= 2**20)
                or (
                    s.all_pixels < min(600, 2 * s.outputs)
                    and s.outputs >= 256
                    and s.weights_size >= 2**22
                )
            )
        ),
        "given",
        GEMM,
        "0.50, 2.06 of 91; 0.62, 1.87 of 40; 1742 -> 155, 3 x 3, 3x3, minibatch 1: 0.35; 1040 ->"
        " 464, 16 x 16, 5x5, minibatch 1: 0.54; 88 -> 496, 4 x 4, 5x5, minibatch 1: 1.87",
        formulation="im2col",
        weights="given",
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.forward
            and s.dense_first
            and s.bf16
            and (
                (s.all_pixels < 0.05 * s.outputs and s.weights_size >= 2**18)
                or (s.all_pixels < 0.12 * s.outputs and s.weights_size >= 2**19)
            )
        ),
        "given",
        AMX_MATMUL,
        "0.52, 1.51 of 84; 0.61, 2.30 of 28; 512 -> 228, a line of 3, 3, minibatch 1: 0.24; 749"
        " from 1316 transposed, 5 x 5, 3x3: 0.42; 64 -> 1816, a line of 42, 3, minibatch 2: 2.30",
        formulation="im2col",
        weights="given",
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.forward
            and s.dense_last
            and s.bf16
            and (
                (s.all_pixels < 0.55 * s.outputs and s.weights_size >= 2**19)
                or (s.all_pixels < min(300, 3 * s.outputs) and s.weights_size >= 2**21)
            )
        ),
        "given",
        AMX_MATMUL,
        "0.43, 1.57 of 130; 0.45, 1.86 of 76; 776 -> 832, 5 x 5, 3x3/2, minibatch 4: 0.22; 496 ->"
        " 736, 5 x 5, 3x3, minibatch 6: 0.46; not taken: 512 ->"
        " 1024, 32 x 32, 3x3, minibatch 2: 2.1",
        formulation="im2col",
        weights="given",
    ),
    # From here on, for AVX-512 without AMX.
    Rule(
        lambda s: (
            _has_patches(s)
            and s.has_avx512_alone
            and s.forward
            and s.dense_first
            and not s.bf16
            and (
                (s.all_pixels < 0.02 * s.outputs and s.weights_size >= 2**20)
                or (s.all_pixels < 0.04 * s.outputs and s.weights_size >= 2**21)
            )
        ),
        "given",
        MATMUL,
        "0.59, 1.30 of 69; 0.57, 3.36 of 33; 528 -> 1024, 3 x 3, 2x2/2, minibatch 32: 0.57; 56 ->"
        " 1720, 4 x 4, 5x5, minibatch 4: 1.34; 144 from 1024 transposed, 4 x 4, 3x3/2, minibatch 1:"
        " 3.36",
        formulation="im2col",
        weights="given",
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.has_avx512_alone
            and s.forward
            and s.dense_last
            and not s.bf16
            and (
                (s.all_pixels < 0.13 * s.outputs and s.weights_size >= 2**19)
                or (s.all_pixels < 0.2 * s.outputs and s.weights_size >= 2**21)
            )
        ),
        "given",
        MATMUL,
        "0.57, 2.00 of 152; 0.63, 2.53 of 100; 392 -> 1752, 4 x 4, 2x2, minibatch 2: 0.65; 128 from"
        " 344 transposed, 3 x 3 x 3, 3x3x3/2, minibatch 2: 2.53;"
        " half width 0.62 of 16, of fewer channels 1.97 of 7",
        formulation="im2col",
        weights="given",
        on_half_width=lambda s: s.channels >= 100,
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.has_avx512_alone
            and s.forward
            and s.dense_first
            and s.bf16
            and (
                (s.all_pixels < 0.01 * s.outputs and s.weights_size >= 2**19)
                or (s.all_pixels < 0.02 * s.outputs and s.weights_size >= 2**20)
            )
        ),
        "given",
        MATMUL,
        "0.51, 1.30 of 55; 0.52, 1.06 of 44; 128 -> 2040, a line of 77, 5/2, minibatch 1: 0.54;"
        " 272 -> 512, 5 x 5, 3x3, minibatch 1: 1.06",
        formulation="im2col",
        weights="given",
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.has_avx512_alone
            and s.forward
            and s.dense_last
            and s.bf16
            and (
                (s.all_pixels < 0.2 * s.outputs and s.weights_size >= 2**18)
                or (s.all_pixels < 0.5 * s.outputs and s.weights_size >= 2**21)
            )
        ),
        "given",
        MATMUL,
        "0.55, 1.99 of 204; 0.57, 2.14 of 190; 2032 -> 1320, 4 x 4, 3x3, minibatch 4: 0.65; 88 ->"
        " 128, 3 x 3, 5x5, minibatch 1: 2.14; half width 0.79 of 54, the others 1.51 of 43",
        formulation="im2col",
        weights="given",
        on_half_width=lambda s: s.channels >= 100 and s.all_pixels < 100,
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.has_avx512_alone
            and s.weights
            and s.dense_first
            and s.bf16
            and (
                (s.all_pixels < 0.1 * s.outputs and s.weights_size >= 2**18)
                or (s.all_pixels < 0.2 * s.outputs and s.weights_size >= 2**21)
                or (s.all_pixels < 0.6 * s.outputs and s.weights_size >= 2**22)
            )
        ),
        "given",
        MATMUL,
        "0.47, 1.89 of 186; 0.52, 1.67 of 156; 120 -> 1024, a line of 9, 3, minibatch 8: 0.55;"
        " 104 -> 312 transposed, 3 x 3, 4x4, minibatch 1: 1.67",
        formulation="im2col",
        weights="given",
    ),
    Rule(
        lambda s: (
            _has_patches(s)
            and s.has_avx512_alone
            and s.weights
            and s.dense_last
            and s.bf16
            and (
                (s.all_pixels < 0.3 * s.outputs and s.weights_size >= 2**17)
                or (s.all_pixels < 0.8 * s.outputs and s.weights_size >= 2**20)
            )
        ),
        "given",
        MATMUL,
        "0.48, 1.47 of 301; 0.47, 1.60 of 297; 336 -> 304, 6 x 6, 2x2/2, minibatch 2: 0.5; 64 ->"
        " 120, 3 x 3 x 3, 3x3x3/2, minibatch 1: 1.60",
        formulation="im2col",
        weights="given",
    ),
)
