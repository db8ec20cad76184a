"""Rules of float32 for CPUs that have AVX2 and no AVX-512: upsampling with channels last.

They are for transposed problems with strides, whose forward pass is the data gradient of a
convolution (``s.data``) and whose data gradient is its forward pass (``s.forward``). Ratios are of
the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems that were drawn
after the rules: geometric mean, worst, of so many problems. Two cores of an AMD EPYC of family 25
without AVX-512.
"""

from __future__ import annotations

from .rule import BRGEMM_STRIDED, GEMM, GEMM_DECONVOLUTION, JIT_1X1_AVX2, JIT_AVX2, Rule, Shape

__all__ = ["AVX2_UPSAMPLING"]


def _upsamples(shape: Shape) -> bool:
    return shape.dense and shape.transposed and shape.strided


AVX2_UPSAMPLING = (
    Rule(
        lambda s: _upsamples(s) and s.data and s.positions == 1,
        "given",
        JIT_1X1_AVX2,
        "0.53, 1.22 of 24",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            _upsamples(s)
            and s.data
            and s.positions >= 9
            and not s.line
            and not s.volume
            and s.inputs >= 3
            and s.inputs <= 40
            and s.outputs >= 64
            and s.flops >= 1e8
        ),
        "any",
        BRGEMM_STRIDED,
        "0.81, 1.53 of 42",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            _upsamples(s)
            and s.data
            and s.positions >= 16
            and s.inputs <= 3
            and s.outputs >= 16
            and s.outputs < 24
        ),
        "any",
        GEMM,
        "0.35, 0.72 of 8",
        formulation="as_convolution",
    ),
    # Windows that overlap. For 3x3 kernels, the choices of later tables are faster.
    Rule(
        lambda s: (
            _upsamples(s)
            and s.data
            and s.positions > 1.2 * s.steps
            and s.positions != 9
            and s.inputs <= 6
            and s.outputs <= 8
            and s.flops >= 1e5
        ),
        "any",
        GEMM,
        "0.69, 1.55 of 24",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            _upsamples(s)
            and s.weights
            and s.positions > 1
            and s.outputs >= 200
            and s.weights_size >= 1500
        ),
        "given",
        GEMM_DECONVOLUTION,
        "0.80, 1.49 of 24",
        weights="given",
    ),
    Rule(
        lambda s: (
            _upsamples(s)
            and s.weights
            and s.positions == 1
            and s.outputs >= 128
            and not s.line
            and s.flops >= 2e6
        ),
        "nxc",
        GEMM,
        "0.72, 1.45 of 22",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: _upsamples(s) and s.forward and s.positions == 1 and s.volume,
        "nxc",
        JIT_1X1_AVX2,
        "0.63, 0.99 of 24",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            _upsamples(s)
            and s.forward
            and s.positions >= 8
            and not s.line
            and s.inputs <= 9
            and s.flops >= 1e6
        ),
        "given",
        JIT_AVX2,
        "0.91, 1.05 of 24",
        formulation="as_convolution",
    ),
)
