"""Rules of float32 gradients, of kinds without a rule before, for CPUs with AVX2 and no AVX-512.

Fitted on 1,576 recorded problems of the families and on 2,207 of all operations, and on pairs, on
two cores of an AMD EPYC of family 25 without AVX-512. Ratios are of the rule's choice to that
without it, by `pairs`, on problems that were drawn after the rule: geometric mean, worst, of so
many.
"""

from __future__ import annotations

from .rule import BRGEMM_AVX2, GEMM, JIT_AVX2, Rule, Shape

__all__ = ["AVX2_GRADIENTS"]

# Channels of diff_src that oneDNN's direct kernel computes at a time. Where the last ones do not
# fill it, they take as long as all; where they do, it is the faster kernel: 1.05 of 97.
KERNEL_CHANNELS = 32

# Inputs times pixels of dst from which oneDNN's first choice takes too much memory: what is chosen
# in its place is as fast as the rule's choice.
LONG_LINE = 900_000


def _is_dense_data_first(shape: Shape) -> bool:
    return shape.dense_first and shape.data and not shape.transposed and not shape.strided


def _is_strided_data_last(shape: Shape) -> bool:
    return shape.dense_last and shape.data and not shape.transposed and shape.strided


def _has_sides_beside_strides(shape: Shape) -> bool:
    """Whether sides of a strided 1x1 problem's larger tensor are no multiples of the strides.

    Then strided_1x1 has no layout for that tensor, whose elements ``dst_size`` counts.
    """
    return shape.dst_size < shape.images * shape.inputs * shape.pixels * shape.steps


AVX2_GRADIENTS = (
    Rule(
        lambda s: (
            _is_dense_data_first(s)
            and s.larger_kernel
            and not s.volume
            and not (s.line and s.dilated)
            and s.inputs >= 40
            and s.inputs % KERNEL_CHANNELS != 0
            and s.flops >= 2e7
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.88, 1.22 of 38 of families; 0.82, 1.83 of 22 of all operations",
    ),
    Rule(
        lambda s: (
            _is_dense_data_first(s)
            and s.line
            and s.dilated
            and s.inputs >= 8
            and s.outputs <= 16
            and s.positions >= 5
            and s.inputs * s.pixels < LONG_LINE
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.45, 1.26 of 13",
    ),
    Rule(
        lambda s: (
            _is_strided_data_last(s)
            and s.line
            and s.positions > 1
            and s.inputs == 1
            and s.outputs <= 32
        ),
        "any",
        GEMM,
        "0.38, 0.75 of 10 of families; 0.30, 0.54 of 4 of all operations",
    ),
    Rule(
        lambda s: (
            _is_strided_data_last(s)
            and not s.line
            and not s.volume
            and s.positions >= 25
            and s.inputs <= 4
            and s.outputs < 20
            and s.images < 16
            and s.pixels >= 50
        ),
        "any",
        GEMM,
        "0.73, 0.80 of 4 of families; 0.68, 0.96 of 7 of all operations",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.weights
            and not s.transposed
            and s.is_product
            and s.outputs < 32
            and (s.outputs <= 16 or s.inputs >= 22)
        ),
        "given",
        GEMM,
        "0.79, 1.11 of 40 of families; 0.75, 1.03 of 25 of all operations",
        formulation="matmul",
    ),
    # oneDNN's first choice computes blocks of dst's channels, which so few do not fill.
    Rule(
        lambda s: (
            _is_strided_data_last(s)
            and not s.line
            and not s.volume
            and not s.dilated
            and s.positions > 1
            and s.inputs >= 12
            and s.outputs <= 8
        ),
        "given",
        JIT_AVX2,
        "0.51, 0.89 of 21",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.weights
            and s.transposed
            and s.is_product
            and (s.inputs > 3 or s.images <= 4)
        ),
        "any",
        GEMM,
        "0.70, 1.09 of 40",
        formulation="as_convolution",
    ),
    # gemm gathers the elements that the kernel meets.
    Rule(
        lambda s: (
            s.dense_first
            and s.forward
            and s.transposed
            and s.strided
            and s.is_1x1
            and _has_sides_beside_strides(s)
        ),
        "any",
        GEMM,
        "0.65, 1.51 of 24 of all operations; 0.56, 0.80 of 5 of families",
        formulation="as_convolution",
    ),
    # With more pixels of dst, oneDNN's first choice is mostly the faster one.
    Rule(
        lambda s: (
            _is_strided_data_last(s)
            and not s.line
            and not s.volume
            and s.positions > 1
            and not s.in_patches
            and s.pixels <= 90
            and s.inputs >= 64
            and 12 <= s.outputs <= 64
        ),
        "given",
        GEMM,
        "0.69, 1.55 of 21 of all operations; 0.75, 1.31 of 7 of families",
    ),
)
