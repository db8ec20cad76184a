"""Rules for channels that fill half a block, in float32, where AVX-512 units have half width.

oneDNN's own layouts have blocks of 16 channels for kernels of AVX-512, and of 8 for those of AVX2.
Where the last block is not full, zeros fill it, and oneDNN's kernel for transpositions does not
reorder between channels first and such blocks (`binding/channel_tails.py`). Blocks of 8 are full,
and units of half the registers' width compute as much by kernels of AVX2.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules, with reorders in parts: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import DEPTHWISE_AVX2, JIT_AVX2, Rule, Shape

__all__ = ["HALF_WIDTH_BLOCKS"]


def _fills_half(channels: int) -> bool:
    """Whether the last block of 16 channels is half full."""
    return channels % 16 == 8


def _is_depthwise(shape: Shape) -> bool:
    """Whether a problem, not on volumes, is depthwise and not too small for two threads."""
    return (
        not shape.bf16
        and not shape.channels_last
        and not shape.transposed
        and shape.depthwise
        and not shape.volume
        and _fills_half(shape.channels)
        and shape.pixels >= 64
        and not shape.small
    )


def _is_thin_line(shape: Shape) -> bool:
    """Whether a problem is one-dimensional, of few channels: copies with channels last serve it."""
    return shape.line and shape.channels <= 24


def _is_dense(shape: Shape) -> bool:
    """Whether a problem in one group, with channels first, has a kernel larger than 1x1."""
    return not shape.bf16 and shape.dense_first and not shape.transposed and not shape.is_1x1


HALF_WIDTH_BLOCKS = (
    Rule(
        lambda s: s.forward and _is_depthwise(s),
        "any",
        DEPTHWISE_AVX2,
        "0.71, 1.70 of 40",
    ),
    Rule(
        lambda s: s.data and _is_depthwise(s) and (s.strided or not s.is_1x1),
        "any",
        DEPTHWISE_AVX2,
        "0.73, 1.24 of 34; 1x1 without strides, which gemm computes: 2.59 and 6.03",
    ),
    Rule(
        lambda s: (
            s.weights
            and _is_depthwise(s)
            and s.positions <= 9
            and not s.dilated
            and not _is_thin_line(s)
        ),
        "any",
        DEPTHWISE_AVX2,
        "0.86, 1.23 of 35",
    ),
    Rule(
        lambda s: (
            s.weights
            and _is_depthwise(s)
            and (s.positions > 9 or s.dilated)
            and not _is_thin_line(s)
            and not s.short_steps
        ),
        "any",
        DEPTHWISE_AVX2,
        "0.83, 1.28 of 30",
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: (
            s.forward
            and _is_dense(s)
            and not s.volume
            and s.strided
            and s.inputs <= 4
            and _fills_half(s.outputs)
            and not s.small
        ),
        "any",
        JIT_AVX2,
        "0.80, 1.44 of 32; volumes 1.09 of 8",
    ),
    Rule(
        lambda s: (
            s.data
            and _is_dense(s)
            and s.channels == 8
            and s.inputs % 8 == 0
            and s.outputs % 8 == 0
            and not (s.strided and s.outputs > 128)
            and not s.small
        ),
        "any",
        JIT_AVX2,
        "0.84, 1.27 of 38; strided, of many outputs, which gemm computes: 1.37 and 1.86",
    ),
    Rule(
        lambda s: (
            s.weights and _is_dense(s) and s.outputs == 8 and s.inputs >= 16 and s.inputs % 8 == 0
        ),
        "any",
        JIT_AVX2,
        "0.64, 0.90 of 40",
    ),
)
