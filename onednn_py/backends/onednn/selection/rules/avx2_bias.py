"""Rules of float32 for CPUs with AVX2 and no AVX-512: bias gradients of transposed 1x1 kernels.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems. Two cores of an AMD
EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .rule import GEMM_DECONVOLUTION, Rule

__all__ = ["AVX2_BIAS"]

AVX2_BIAS = (
    # In place of the kernel for 1x1 in oneDNN's own layout. Larger ones were not measured.
    Rule(
        lambda s: (
            s.transposed
            and s.weights
            and not s.channels_last
            and s.is_1x1
            and not s.strided
            and s.has_bias_gradient
            and s.images < 8
            and s.dst_size < 2**16
        ),
        "given",
        GEMM_DECONVOLUTION,
        "0.75, 2.04 of 26",
    ),
)
