"""Rules of float32 for CPUs that have AVX2 and no AVX-512: bias gradients of 1x1 kernels.

Products of matrices sum no bias gradient: products with ones and NumPy do it apart, in some 60
microseconds. For few elements of dst, gemm sums them itself in less. Ratios are of the rule's
choice to that without it, by `benchmarks/survey.py pairs`, on problems that were drawn after the
rules: geometric mean, worst, of so many problems. Two cores of an AMD EPYC of family 25 without
AVX-512.
"""

from __future__ import annotations

from .rule import GEMM, GEMM_DECONVOLUTION, Rule, Shape

__all__ = ["AVX2_BIAS"]

# With more elements of dst, the sum is computed apart from gemm too
# (`heuristics.LEAST_SUMMED_APART`).
MOST_ELEMENTS = 2**16


def _has_small_sum(shape: Shape) -> bool:
    return (
        shape.weights
        and shape.is_1x1
        and not shape.strided
        and shape.has_bias_gradient
        and shape.dst_size < MOST_ELEMENTS
    )


def _is_small_product(shape: Shape) -> bool:
    """Whether a problem is one of those that products of matrices would compute."""
    return (
        shape.channels_last
        and _has_small_sum(shape)
        and shape.channels >= 16
        and shape.inputs <= 512
        and shape.all_pixels < 2048
    )


AVX2_BIAS = (
    Rule(
        lambda s: not s.transposed and _is_small_product(s),
        "given",
        GEMM,
        "0.47, 1.00 of 30; families 0.42, 0.94 of 25",
    ),
    Rule(
        lambda s: s.transposed and _is_small_product(s),
        "given",
        GEMM_DECONVOLUTION,
        "0.49, 0.94 of 30",
        weights="given",
    ),
    # In place of the kernel for 1x1 in oneDNN's own layout.
    Rule(
        lambda s: s.transposed and not s.channels_last and _has_small_sum(s) and s.images < 8,
        "given",
        GEMM_DECONVOLUTION,
        "0.84, 1.32 of 18, after which more images were left out",
    ),
)
