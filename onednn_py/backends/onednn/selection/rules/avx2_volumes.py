"""Rules of float32 for CPUs that have AVX2 and no AVX-512: weights gradients of volumes.

Fitted on 1,200 such gradients of all draws of `benchmarks/survey.py`, on two cores of an AMD EPYC
of family 25 without AVX-512. They are asked before the other rules for such CPUs. Ratios are of the
rule's choice to that without it, by `pairs`, on problems that were drawn after the rules: geometric
mean, worst, of so many. Volumes without padding along the depth have no parts, so that the rules
for `unpadded_depth` leave them to those behind.
"""

from __future__ import annotations

from .rule import DEPTHWISE, JIT_AVX2, Rule

__all__ = ["AVX2_VOLUMES"]

AVX2_VOLUMES = (
    Rule(
        lambda s: s.weights and s.volume and s.depthwise and s.positions > 1,
        "any",
        DEPTHWISE,
        "0.20, 1.32 of 24",
        formulation="planes",
    ),
    # gemm is slow for few outputs, and the kernel for few inputs.
    Rule(
        lambda s: (
            s.weights
            and s.volume
            and s.dense
            and s.inputs >= 8
            and (s.transposed or s.outputs <= 4 * s.inputs)
        ),
        "any",
        JIT_AVX2,
        "x",
        formulation="unpadded_depth",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.volume
            and s.dense
            and s.inputs < 8
            and (s.channels_last or s.outputs <= 16 * s.inputs)
        ),
        "nxc",
        JIT_AVX2,
        "x",
        formulation="unpadded_depth",
    ),
    Rule(
        lambda s: s.weights and s.volume and s.in_groups and s.positions > 1,
        "nxc",
        JIT_AVX2,
        "x",
        formulation="unpadded_depth",
    ),
)
