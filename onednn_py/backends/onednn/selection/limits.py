"""Limits: what oneDNN does not compute at all, whatever the implementation."""

from __future__ import annotations

from math import prod

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Problem

__all__ = ["compute_dtypes", "unsupported"]

# In which types oneDNN computes problems of a type, the first that has an implementation to be
# taken. A type that is missing here is not computed by oneDNN.
COMPUTE_DTYPES = {"f32": ("f32",), "bf16": ("bf16", "f32"), "f16": ("f16", "f32")}

# CPUs for which oneDNN has no kernels of 16 bits, nor looks for any.
WITHOUT_HALVES = ("sse41", "avx", "avx2", "avx2_vnni")

# oneDNN's kernels keep offsets into an image in 32 bits, padding included, and crash where
# it makes them overflow. Nobody pads like that; NumPy does it right.
LARGEST_IMAGE_BYTES = 2**31
# With a longer axis, oneDNN divides by a number of 32 bits that has become zero, and the process
# ends.
LONGEST_AXIS = 2**31 - 1
# For longer kernels along an axis, and for longer rows but for gradients of weights, some
# implementations with channels last, which copies may have, take minutes to be found, and others
# end the process.
LONGEST_KERNEL = 2**20
LONGEST_ROW = 2**25
LARGEST_STEP = 2**15
BYTES_PER_ELEMENT = 4


def compute_dtypes(problem: Problem, cpu_isa: str = "") -> tuple[str, ...]:
    """Return the data types in which oneDNN may compute a problem, in order of preference.

    Parameters
    ----------
    problem : Problem
    cpu_isa : str, optional
        oneDNN's name of the CPU's instruction sets. Types that the CPU lacks are left out: with
        AVX2, 300 drawn problems of 16 bits are planned in 0.57 of the time.
    """
    return ("f32",) if cpu_isa in WITHOUT_HALVES else COMPUTE_DTYPES[problem.dtype]


def unsupported(problem: Problem) -> str | None:
    """Return the reason why oneDNN cannot take a problem, None if it can."""
    if problem.dtype not in COMPUTE_DTYPES:
        return f"oneDNN has no {DTYPES[problem.dtype]} convolution"
    if problem.is_empty:
        return "empty tensors"
    if max(*problem.strides, *problem.dilations) >= LARGEST_STEP:
        return "strides or dilations beyond what oneDNN's kernels count"
    stepped = getattr(problem, problem.stepped_role)
    sizes = stepped.shape[2:]
    if any(-end >= size for size, end in zip(sizes, problem.pads_end, strict=True)):
        return "no window meets the tensor"
    padded = [
        size + begin + max(end, 0)
        for size, begin, end in zip(sizes, problem.pads_begin, problem.pads_end, strict=True)
    ]
    # The minibatch is left out, as no kernel divides by it.
    extents = (extent for layout in problem.layouts.values() for extent in layout.shape[1:])
    if max(*extents, *padded) > LONGEST_AXIS:
        return "an axis beyond what oneDNN's kernels count"
    if max(problem.kernel) > LONGEST_KERNEL:
        return "a kernel beyond what oneDNN finds implementations for"
    if problem.result_role != "weights" and sizes[-1] > LONGEST_ROW:
        return "a row beyond what oneDNN finds implementations for"
    image_bytes = prod(padded) * stepped.shape[1] * BYTES_PER_ELEMENT
    mostly_padding = prod(padded) > 4 * prod(sizes)
    if mostly_padding and (image_bytes >= LARGEST_IMAGE_BYTES or max(padded) >= LARGEST_STEP):
        return "padding beyond what oneDNN's kernels count"
    return None
