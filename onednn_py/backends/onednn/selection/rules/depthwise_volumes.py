"""Rules of float32 for depthwise volumes: problems on planes, with AVX-512.

Weights gradients that have no such kernel are forward passes with diff_dst as the weights. CPUs
with AVX2 alone ask the rules for these, too.

oneDNN's depthwise kernels take no volumes (v3.2). There remain kernels for groups, which fill
blocks of 16 channels with zeros, and a matrix product for each group. The copies of planes cost
time for each image, so that small problems have one thread, and very small ones keep the others'
rules. Fitted on 1,865 problems of `benchmarks/survey.py`, on two cores without AMX whose AVX-512
units have full width. Ratios are of the choice with these rules to that without any of them:
geometric mean, worst, of so many. The problems were drawn after the rules, which were then
narrowed: before that, 567 problems took 0.37 of the time, 2.99 at worst.
"""

from __future__ import annotations

from .rule import DEPTHWISE, Rule, Shape

__all__ = ["DEPTHWISE_VOLUMES", "LARGER_DEPTHWISE_VOLUMES"]


def _has_many_channels(shape: Shape) -> bool:
    return shape.volume and shape.depthwise and shape.positions > 1 and shape.groups >= 16


def _has_channels_first(shape: Shape) -> bool:
    """Whether many channels are first, and windows read elements of src more than once."""
    return _has_many_channels(shape) and not shape.channels_last and shape.positions > shape.steps


DEPTHWISE_VOLUMES = (
    Rule(
        lambda s: _has_many_channels(s) and s.channels_last and s.flops >= 5e5 * s.images,
        "nxc",
        DEPTHWISE,
        "0.27, 0.78 of 120",
        formulation="planes",
    ),
    Rule(
        lambda s: (
            _has_many_channels(s)
            and s.channels_last
            and s.positions > s.steps
            and s.flops >= (2e4 if s.groups >= 32 and not s.weights else 2e5) * s.images
        ),
        "nxc",
        DEPTHWISE,
        "0.35, 1.55 of 66; of no more positions than elements between windows, 0.57, 2.09 of 54",
        formulation="planes",
        threads=1,
    ),
    Rule(
        lambda s: _has_channels_first(s) and s.flops >= 1e6 * s.images,
        "any",
        DEPTHWISE,
        "0.29, 1.36 of 112",
        formulation="planes",
    ),
    Rule(
        lambda s: (
            _has_channels_first(s)
            and s.flops >= 2e5 * s.images
            and (not s.strided or s.groups >= 64 or s.weights)
        ),
        "any",
        DEPTHWISE,
        "0.49, 1.07 of 102; data gradients of patches, 2.99 at worst",
        formulation="planes",
        threads=1,
    ),
    Rule(
        lambda s: (
            _has_channels_first(s) and s.forward and s.groups >= 48 and s.flops >= 2e4 * s.images
        ),
        "any",
        DEPTHWISE,
        "0.34, 0.81 of 55",
        formulation="planes",
        threads=1,
    ),
)


def _is_larger(shape: Shape) -> bool:
    """Whether a weights gradient may have no kernel in planes, which the rules above ask for."""
    least = 8 if shape.has_avx2_alone else 16
    is_depthwise = shape.volume and shape.depthwise and shape.positions > 1
    return shape.weights and is_depthwise and shape.groups >= least


# oneDNN's kernels of weights gradients take 3x3 and smaller, without dilation. "AVX2": on the same
# CPU, with oneDNN kept to AVX2.
LARGER_DEPTHWISE_VOLUMES = (
    Rule(
        lambda s: _is_larger(s) and s.channels_last and s.flops >= 5e6 * s.images,
        "nxc",
        DEPTHWISE,
        "0.15, 0.45 of 91; AVX2 0.11, 0.25 of 80",
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: _is_larger(s) and s.channels_last and s.flops >= 2e5 * s.images,
        "nxc",
        DEPTHWISE,
        "0.23, 0.88 of 101; AVX2 0.21, 0.58 of 83",
        formulation="dst_as_weights",
        threads=1,
    ),
    Rule(
        lambda s: _is_larger(s) and not s.channels_last and s.flops >= 1e6 * s.images,
        "any",
        DEPTHWISE,
        "0.24, 1.09 of 150; AVX2 0.18, 1.04 of 100",
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: _is_larger(s) and not s.channels_last and s.flops >= 3e5 * s.images,
        "any",
        DEPTHWISE,
        "0.42, 0.91 of 38; AVX2 0.49, 2.16 of 24",
        formulation="dst_as_weights",
        threads=1,
    ),
)
