"""Rules of float32 for CPUs that have AVX2 and no AVX-512: strided 1x1 kernels.

Such kernels visit few elements of src. Where these are copied first (formulation strided_1x1), or
gathered by gemm, a product of matrices is left. Fitted on 1,354 problems; ratios are of the rule's
choice to that without it, by `benchmarks/survey.py pairs`, on problems that were drawn after the
rules: geometric mean, worst, of so many problems. Two cores of an AMD EPYC of family 25 without
AVX-512.
"""

from __future__ import annotations

from .rule import GEMM, JIT_1X1_AVX2, JIT_AVX2, Rule, Shape

__all__ = ["AVX2_STRIDED_1X1"]


def _is_first(shape: Shape) -> bool:
    return not shape.channels_last and _steps_over_src(shape)


def _is_last(shape: Shape) -> bool:
    return shape.channels_last and _steps_over_src(shape)


def _steps_over_src(shape: Shape) -> bool:
    """Whether a 1x1 kernel leaves elements of src out, in one group or several."""
    return shape.is_1x1 and shape.strided and not (shape.transposed or shape.depthwise)


AVX2_STRIDED_1X1 = (
    Rule(
        lambda s: _is_first(s) and s.forward and s.dense and s.inputs >= 3,
        "any",
        GEMM,
        "0.65, 1.26 of 40",
        formulation="strided_1x1",
    ),
    # Sides that are no multiple of the stride have no strided_1x1 in oneDNN's layouts.
    Rule(
        lambda s: (
            _is_first(s)
            and s.forward
            and s.dense
            and s.inputs >= 8
            and not s.line
            and not s.is_split
        ),
        "any",
        GEMM,
        "0.59, 0.89 of 15",
    ),
    Rule(
        lambda s: (
            _is_first(s)
            and s.forward
            and s.dense
            and s.outputs > s.inputs
            and s.images >= 2
            and s.flops < 1e7
            and not s.small
        ),
        "any",
        GEMM,
        "0.84, 1.28 of 9",
    ),
    Rule(
        lambda s: _is_first(s) and s.forward and s.in_groups and s.inputs >= 16 and s.flops >= 5e4,
        "any",
        GEMM,
        "0.76, 1.38 of 16",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            _is_first(s)
            and s.data
            and s.dense
            and s.inputs < 500
            and s.pixels >= max(9, 2 * s.images)
            and s.all_pixels < 1500
            and s.weights_size < 150_000
        ),
        "any",
        GEMM,
        "0.55, 1.35 of 13, after which larger weights were left out",
    ),
    Rule(
        lambda s: (
            _is_first(s)
            and s.weights
            and s.dense
            and s.inputs >= 4
            and s.pixels >= 100
            and s.flops < 1.5e8
        ),
        "any",
        GEMM,
        "0.73, 1.04 of 40",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            _is_first(s)
            and s.weights
            and s.in_groups
            and s.group_channels < 8
            and s.dst_size < 500_000
        ),
        "nxc",
        JIT_AVX2,
        "0.80, 0.99 of 11",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: _is_last(s) and s.data and s.dense and s.inputs < 300,
        "given",
        JIT_1X1_AVX2,
        "0.77, 1.17 of 8",
    ),
    Rule(
        lambda s: (
            _is_last(s)
            and s.forward
            and s.dense
            and s.inputs < 12
            and s.all_pixels >= 800
            and not s.small
        ),
        "nxc",
        JIT_1X1_AVX2,
        "0.89, 1.15 of 20",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: _is_last(s) and s.weights and s.dense and s.outputs >= 16 and s.channels < 24,
        "nxc",
        JIT_1X1_AVX2,
        "0.76, 1.07 of 27",
        formulation="strided_1x1",
    ),
)
