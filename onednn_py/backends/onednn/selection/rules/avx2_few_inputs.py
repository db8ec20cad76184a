"""Rules of float32 for CPUs that have AVX2 and no AVX-512: few inputs.

A network's first layer has few inputs. All rules but the last are for weights gradients, fitted on
1,753 problems; the last is for forward passes of strided lines. Ratios are of the rule's choice to
that without it, by `benchmarks/survey.py pairs`, on problems that were drawn after the rules:
geometric mean, worst, of so many problems. Two cores of an AMD EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .rule import GEMM, JIT_AVX2, Rule, Shape

__all__ = ["AVX2_FEW_INPUTS"]


def _has_few_inputs(shape: Shape) -> bool:
    return (
        shape.dense
        and shape.weights
        and not shape.transposed
        and shape.inputs <= 6
        and shape.larger_kernel
    )


AVX2_FEW_INPUTS = (
    Rule(
        lambda s: (
            not s.channels_last
            and _has_few_inputs(s)
            and s.inputs < 3
            and s.outputs <= 32
            and s.positions >= 25
            and s.all_pixels >= 2000
        ),
        "nxc",
        JIT_AVX2,
        "0.53, 0.97 of 24",
    ),
    Rule(
        lambda s: not s.channels_last and _has_few_inputs(s) and s.inputs <= 2 and s.is_split,
        "any",
        GEMM,
        "0.37, 0.56 of 9",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and _has_few_inputs(s)
            and s.group_products >= 200
            and not s.strided
            and s.positions < 25
            and s.all_pixels >= 10_000
            and not s.whole_pages
        ),
        "any",
        GEMM,
        "0.60, 1.05 of 6",
    ),
    Rule(
        lambda s: (
            s.channels_last
            and _has_few_inputs(s)
            and s.outputs >= 80
            and s.positions <= 25
            and s.pixels >= 1500
            and s.dst_size >= 400_000
        ),
        "given",
        GEMM,
        "0.62, 0.91 of 16, after which larger kernels were left out",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.forward
            and not s.transposed
            and s.line
            and s.strided
            and s.inputs <= 2
            and s.outputs >= 24
            and 1 < s.positions <= 3
            and s.flops >= 1.5e6
        ),
        "any",
        GEMM,
        "0.69, 1.18 of 12, after which larger kernels were left out",
    ),
)
