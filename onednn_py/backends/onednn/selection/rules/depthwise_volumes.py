"""Rules of float32 for depthwise volumes: problems on planes, with AVX-512.

Weights gradients that have no such kernel are forward passes with diff_dst as the weights. CPUs
with AVX2 alone ask the rules for these, too.

oneDNN's depthwise kernels take no volumes (v3.2). There remain kernels for groups, which fill
blocks of 16 channels with zeros, and a matrix product for each group. The copies of planes cost
time for each image, so that small problems have one thread, and very small ones keep the others'
rules. The limits of planes were fitted on 607 problems of `benchmarks/survey.py`, on two cores
without AMX whose AVX-512 units have half the registers' width, and the other rules on units of full
width. Ratios are of the choice with these rules to that without any of them: geometric mean, worst,
of so many, which were drawn after the rules.
"""

from __future__ import annotations

from math import inf

from .rule import DEPTHWISE, Rule, Shape

__all__ = ["DEPTHWISE_VOLUMES", "LARGER_DEPTHWISE_VOLUMES"]


def _has_many_channels(shape: Shape) -> bool:
    return shape.volume and shape.depthwise and shape.groups >= 16


def _by_channels(shape: Shape, most: float, many: float, few: float) -> float:
    """Return a limit for 64 channels and more, for 32, or for fewer."""
    return most if shape.groups >= 64 else many if shape.groups >= 32 else few


def _least_last(shape: Shape) -> float:
    """Return from how many operations an image planes are faster, on one thread, channels last."""
    if shape.positions == 1:
        return 1e4 if shape.weights else 3e3
    if shape.positions <= shape.steps:
        return 1e6 if shape.weights else _by_channels(shape, 3e3, 3e4, 1e5)
    if shape.forward:
        return 1e4
    if shape.weights:
        return _by_channels(shape, 3e4, 2e5, 2e5)
    return _by_channels(shape, 2e4, 2e4, 2e5)


def _least_first(shape: Shape) -> float:
    """Return the same for channels first, where copies cost more."""
    if shape.positions == 1:
        return 2e4 if shape.weights else inf
    if shape.positions <= shape.steps:
        if shape.data:
            return inf
        limits = (3e3, 3e4, 1e5) if shape.forward else (1e5, 1e5, 1e6)
        return _by_channels(shape, *limits)
    if shape.forward:
        return 2e4 if shape.groups >= 48 else 1e5
    if shape.weights:
        return _by_channels(shape, 3e4, 1e5, 1e5)
    if shape.strided:
        return _by_channels(shape, 2e5, 1e6, 1e6)
    return _by_channels(shape, 2e4, 2e5, 2e5)


def _gains(shape: Shape, *, on_several: bool = False) -> bool:
    """Whether planes are faster on one thread, or ``on_several`` threads."""
    if not _has_many_channels(shape):
        return False
    is_last, is_one = shape.channels_last, shape.positions == 1
    least = _least_last(shape) if is_last else _least_first(shape)
    if on_several and is_last:
        least = max(least, 3e4 if is_one else 2e5 if shape.data else 1e6)
    elif on_several:
        least = max(least, 1e5 if is_one else 1e6 if shape.data else 2e6)
    return shape.flops >= least * shape.images


DEPTHWISE_VOLUMES = (
    Rule(
        lambda s: s.channels_last and _gains(s, on_several=True),
        "nxc",
        DEPTHWISE,
        "0.25, 1.36 of 150",
        formulation="planes",
    ),
    Rule(
        lambda s: s.channels_last and _gains(s),
        "nxc",
        DEPTHWISE,
        "0.32, 1.91 of 150",
        formulation="planes",
        threads=1,
    ),
    Rule(
        lambda s: not s.channels_last and _gains(s, on_several=True),
        "any",
        DEPTHWISE,
        "0.25, 1.98 of 150",
        formulation="planes",
    ),
    Rule(
        lambda s: not s.channels_last and _gains(s),
        "any",
        DEPTHWISE,
        "0.35, 1.44 of 150",
        formulation="planes",
        threads=1,
    ),
    # Larger 1x1x1 problems are faster as products of matrices.
    Rule(
        lambda s: (
            _has_many_channels(s)
            and not (s.channels_last or s.weights)
            and s.positions == 1
            and s.groups >= 64
            and 5e3 * s.images <= s.flops < 1e5 * s.images
        ),
        "any",
        DEPTHWISE,
        "0.26, 1.74 of 150",
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
