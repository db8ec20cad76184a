"""Rules of float32 for CPUs with AVX2 alone: small images between many channels, channels first.

oneDNN names kernels first that read its own blocked layout. Where images are small, copies to
channels last, or patches, cost less than those kernels lose. Ratios are of the rule's choice to
that without it, by `benchmarks/survey.py pairs --deep` and, behind the semicolon,
`--deep-many-images`, on problems that were drawn after the rules: geometric mean, worst, of so
many. Two cores of an AMD EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .avx2_deep import is_deep
from .rule import BRGEMM_AVX2, GEMM, Rule, Shape

__all__ = ["AVX2_DEEP_FIRST"]


def _is_first(shape: Shape) -> bool:
    """Whether a problem is of the kinds that the rules were fitted on."""
    return (
        shape.dense_first
        and not shape.is_1x1
        and not shape.line
        and not shape.dilated
        and is_deep(shape)
    )


def _is_one_image(shape: Shape) -> bool:
    """Whether the patches of a single small image are few beside the weights."""
    return (
        not shape.volume
        and _is_first(shape)
        and shape.images == 1
        and shape.pixels <= 64
        and shape.weights_size >= 2e6
        and not shape.converted
    )


def _is_small_volume(shape: Shape) -> bool:
    return (
        shape.volume
        and not shape.transposed
        and not shape.strided
        and _is_first(shape)
        and shape.positions >= 27
        and shape.pixels <= 1000
    )


AVX2_DEEP_FIRST = (
    Rule(
        lambda s: s.forward and not s.transposed and not s.has_bias and _is_one_image(s),
        "given",
        GEMM,
        "0.67, 0.94 of 24; 0.66, 0.94 of 16",
        formulation="im2col",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.transposed
            and not s.volume
            and _is_first(s)
            and s.images >= 8
            and s.pixels <= 150
            and s.inputs >= 48
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.83, 1.21 of 30; 0.79, 1.51 of 20",
    ),
    Rule(
        lambda s: s.forward and _is_small_volume(s) and s.inputs >= 64,
        "nxc",
        BRGEMM_AVX2,
        "0.87, 1.04 of 30; 0.83, 1.01 of 20",
    ),
    Rule(
        lambda s: (
            s.data and _is_small_volume(s) and s.outputs >= 64 and (s.images >= 4 or s.inputs <= 64)
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.78, 1.03 of 30; 0.83, 1.21 of 20",
    ),
    Rule(
        lambda s: (
            s.forward
            and s.transposed
            and s.strided
            and not s.in_patches
            and _is_one_image(s)
            and s.pixels >= 25
        ),
        "given",
        GEMM,
        "0.66, 0.94 of 20; 0.51, 0.87 of 18",
        formulation="im2col",
    ),
)
