"""Rules of images of one pixel, for CPUs that have AVX2 and no AVX-512: products of matrices.

They are 1x1 kernels behind a mean over all pixels, and kernels as large as src, which `equivalents`
reshapes to 1x1 kernels. Ratios are of the times of calls, with the rule and the reshape over
without them, on problems that were drawn after the rule: geometric mean, worst, of so many. Two
cores of an AMD EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .rule import GEMM, Rule

__all__ = ["AVX2_PIXELS"]

AVX2_PIXELS = (
    Rule(
        lambda s: s.dense_last and s.is_product and s.pixels == 1,
        "given",
        GEMM,
        "0.33, 1.05 of 84; of 1x1 kernels on one pixel 0.67, 1.75 of 96",
        formulation="matmul",
        weights="given",
    ),
)
