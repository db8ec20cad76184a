"""Rules of float32 forward passes for CPUs with AVX2 and no AVX-512, channels first.

Fitted on 2,207 recorded problems of all operations, and on pairs, on two cores of an AMD EPYC of
family 25 without AVX-512. Ratios are of the rule's choice to that without it, by `pairs`, on
problems that were drawn after the rule: geometric mean, worst, of so many.
"""

from __future__ import annotations

from .rule import GEMM, JIT_AVX2, Rule

__all__ = ["AVX2_FORWARD"]

AVX2_FORWARD = (
    # The kernel reads so few channels of src where the caller has them; a reorder saves it nothing.
    Rule(
        lambda s: (
            s.dense_first
            and s.forward
            and not s.transposed
            and s.positions > 1
            and 2 <= s.inputs <= 6
            and s.outputs <= 64
            and s.flops < 3e6
        ),
        "any",
        JIT_AVX2,
        "0.86, 1.08 of 40 of all operations; 0.87, 1.00 of 39 of families",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.forward
            and not s.transposed
            and s.positions > 1
            and s.images <= 2
            and (s.strided or s.dilated or s.pixels <= 25)
            and s.all_pixels <= 150
            and s.inputs >= 8
            and s.outputs >= 96
            and s.weights_size < 2e6
        ),
        "any",
        GEMM,
        "0.74, 1.79 of 40 of all operations; 0.46, 1.02 of 4 of families",
    ),
)
