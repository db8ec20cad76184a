"""Rules of float32 for CPUs that have AVX2 and no AVX-512: weights gradients of few outputs.

oneDNN v3.2 computes them by matrix products alone where their channels do not fill a load, unless
zeros beside the channels do. Ratios are of the rule's choice to that without it, by
`benchmarks/survey.py pairs`, on problems that were drawn after the rules: geometric mean, worst, of
so many problems. Two cores of an AMD EPYC of family 25 without AVX-512.
"""

from __future__ import annotations

from .rule import JIT_AVX2, Rule, Shape

__all__ = ["AVX2_PADDED"]

# Below so many operations, the copies take longer than what they gain: of diff_dst alone, and of
# both tensors.
LEAST_FLOPS = 1.2e6
LEAST_FLOPS_OF_BOTH = 4e6


def _lacks_channels(shape: Shape) -> bool:
    """Whether a problem has fewer outputs than a register, and not as many as half of it."""
    return (
        shape.dense
        and shape.weights
        and shape.outputs < 8
        and shape.outputs != 4
        and not shape.is_1x1
    )


AVX2_PADDED = (
    # Of many channels and pixels: the kernel's own layout of src pays.
    Rule(
        lambda s: (
            s.channels_last
            and _lacks_channels(s)
            and not s.transposed
            and s.inputs >= 50
            and s.pixels >= 3000
            and s.flops >= LEAST_FLOPS_OF_BOTH
        ),
        "any",
        JIT_AVX2,
        "0.73, 1.35 of 38, compared with the rule behind it",
        formulation="padded_channels",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense_first
            and s.outputs == 1
            and s.inputs >= 32
            and not s.is_1x1
            and (not s.line or s.pixels >= 1000)
        ),
        "any",
        JIT_AVX2,
        "0.54, 2.65 of 101, before lines of fewer than 1000 pixels were left out, where it lost",
        formulation="padded_channels",
    ),
    Rule(
        lambda s: s.channels_last and _lacks_channels(s) and s.flops >= LEAST_FLOPS,
        "given",
        JIT_AVX2,
        "0.36, 1.04 of 120; of fewer than 4e6 flops 0.43, 1.16 of 30, families 0.54, 1.24 of 25",
        formulation="padded_channels",
    ),
    Rule(
        lambda s: (
            not s.channels_last
            and _lacks_channels(s)
            and not s.transposed
            and not s.strided
            and not s.volume
            and s.positions >= 25
            and (s.inputs <= 2 or s.outputs == 1)
            and s.flops >= LEAST_FLOPS_OF_BOTH
        ),
        "nxc",
        JIT_AVX2,
        "0.44, 1.26 of 82",
        formulation="padded_channels",
    ),
)
