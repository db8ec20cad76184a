"""What is taken in place of deconvolutions whose bias costs plain loops.

Where oneDNN has no kernel of a transposed convolution, its deconvolution calls a convolution's, and
adds the bias, or sums its gradient, itself, element by element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from .candidate import Candidate
from .choice import Choice
from .preference import Preference
from .rules import GEMM, NOT_GEMM, Shape
from .thresholds import minibatch_chunks

__all__ = ["in_place_of_loops"]

# oneDNN's name of such a deconvolution has the convolution's behind it.
OF_CONVOLUTION = "conv:any"

# From so many elements of dst on, loops that sum a bias gradient of bfloat16 take longer than what
# sums it beside the primitive; in float32 they do in depthwise problems alone.
LEAST_SUMMED = 2**12
LEAST_SUMMED_DEPTHWISE = 2**18

# Without AMX, those by the dot products of AVX512_BF16 are the faster kernels of bfloat16.
DOT_PRODUCTS = re.compile(r"(^|\+)jit(_bf16|_dw)")


def in_place_of_loops(
    candidate: Candidate, preference: Preference, cpu_isa: str
) -> Iterator[Preference]:
    """Yield what to take rather than a candidate, best first; nothing where it has no such loops.

    Parameters
    ----------
    candidate : Candidate
        What a preference of the rules led to.
    preference : Preference
    cpu_isa : str
        oneDNN's name of the CPU's instruction sets.
    """
    choice, problem = candidate.choice, candidate.formulation.asked
    has_bias = problem.has_bias_gradient or problem.bias is not None
    is_of_convolution = choice.implementation.startswith(OF_CONVOLUTION)
    if not has_bias or choice.formulation != "direct" or not is_of_convolution:
        return
    shape = Shape(problem, choice.compute_dtype, cpu_isa=cpu_isa)
    other = replace(preference.choice, formulation="as_convolution")
    if shape.weights:
        if _sums_slowly(shape, choice):
            yield replace(preference, choice=other)
    elif not shape.bf16:
        yield replace(preference, choice=other)
    elif not _is_plain_gemm(shape, choice):
        # A sum that is rounded before the bias is added would be seen, so that flipped adds it.
        families = (DOT_PRODUCTS, NOT_GEMM) if shape.has_avx512_alone else (NOT_GEMM,)
        for activations in ("given" if shape.channels_last else "any", "nxc"):
            flipped = replace(other, formulation="flipped", activations=activations)
            for family in families:
                yield replace(preference, choice=flipped, family=family)
        if shape.has_amx:
            return
        # Strides of too many phases have no such convolutions. Of 1,750 drawn problems with a bias,
        # 28 take 0.17 of the time in float32 (0.72 at worst). AMX was not measured.
        yield replace(
            preference,
            choice=replace(other, compute_dtype="f32"),
            minibatch_chunks=minibatch_chunks(problem, "f32"),
        )


def _sums_slowly(shape: Shape, choice: Choice) -> bool:
    """Whether the loops over diff_dst take longer than a sum apart."""
    if choice.bias_apart:
        return False
    if shape.bf16:
        return shape.dst_size >= LEAST_SUMMED and not _is_plain_gemm(shape, choice)
    return shape.depthwise and shape.dst_size >= LEAST_SUMMED_DEPTHWISE


def _is_plain_gemm(shape: Shape, choice: Choice) -> bool:
    """Whether the loops run over whole lines: with channels first, on the memory of the caller."""
    plain = "ncx" if shape.channels_last else "given"
    return bool(GEMM.search(choice.implementation)) and choice.activations == plain
