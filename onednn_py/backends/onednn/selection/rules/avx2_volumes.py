"""Rules of float32 for CPUs that have AVX2 and no AVX-512: volumes.

They are for depthwise volumes, and for gradients of others. Fitted on some 1,600 problems
of all draws of `benchmarks/survey.py`, on two cores of an AMD EPYC of family 25 without AVX-512.
They are asked before the other rules for such CPUs. Ratios are of the rule's choice to that without
it, by `pairs`, on problems that were drawn after the rules: geometric mean, worst, of so many.
"""

from __future__ import annotations

from .rule import DEPTHWISE, GEMM, JIT_AVX2, Rule

__all__ = ["AVX2_VOLUMES"]

AVX2_VOLUMES = (
    Rule(
        lambda s: (
            s.volume and s.depthwise and s.positions > 1 and s.groups >= 8 and s.channels_last
        ),
        "nxc",
        DEPTHWISE,
        "0.17, 1.08 of 72",
        formulation="planes",
    ),
    Rule(
        lambda s: s.volume and s.depthwise and s.positions > 1 and s.groups >= 8,
        "any",
        DEPTHWISE,
        "0.22, 1.74 of 72",
        formulation="planes",
    ),
    # Judged on two cores of a CPU with AVX-512, with oneDNN kept to AVX2.
    Rule(
        lambda s: (
            s.volume
            and s.depthwise
            and s.positions == 1
            and s.groups >= 16
            and s.channels_last
            and (s.forward or s.flops >= 3e4 * s.images)
        ),
        "nxc",
        DEPTHWISE,
        "0.09, 0.74 of 60; forward passes of fewer flops 0.14, 0.28 of 11",
        formulation="planes",
    ),
    # gemm is slow for few outputs, and the kernel for few inputs.
    Rule(
        lambda s: (
            s.weights
            and s.dense
            and s.padded_depth
            and s.inputs >= 8
            and (s.transposed or s.outputs <= 4 * s.inputs)
        ),
        "any",
        JIT_AVX2,
        "0.53, 1.62 of 96",
        formulation="unpadded_depth",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense
            and s.padded_depth
            and s.inputs < 8
            and s.outputs <= (32 if s.channels_last else 16) * s.inputs
        ),
        "nxc",
        JIT_AVX2,
        "0.50, 1.09 of 65; of more outputs than 32 for each input, 1.49, 1.99 of 7",
        formulation="unpadded_depth",
    ),
    Rule(
        lambda s: s.weights and s.in_groups and s.padded_depth,
        "nxc",
        JIT_AVX2,
        "0.41, 1.08 of 24",
        formulation="unpadded_depth",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.data
            and not s.transposed
            and s.volume
            and s.strided
            and 1 < s.positions <= 27
            and s.inputs >= 3
            and s.outputs >= (3 if s.pixels <= 125 else 9)
        ),
        "given",
        GEMM,
        "0.58, 1.29 of 66, after which larger kernels were left out",
    ),
    # gemm sums the bias gradient with plain loops.
    Rule(
        lambda s: (
            s.volume
            and s.weights
            and s.depthwise
            and s.positions == 1
            and s.has_bias_gradient
            and s.groups >= 16
            and 4e3 * s.images <= s.flops < 3e4 * s.images
        ),
        "nxc",
        DEPTHWISE,
        "NXC 0.35, 0.50 of 4; NCX 0.72, 1.30 of 11",
        formulation="planes",
    ),
)
