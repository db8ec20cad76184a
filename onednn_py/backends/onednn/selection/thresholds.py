"""Thresholds: up to which size one thread is enough, and from which one the minibatch is split.

Figures are of oneDNN v3.2 on two cores with AVX-512 and 32 MB of cache for both, float32.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Direction, Problem

__all__ = [
    "EXECUTION_FLOPS",
    "GEMM_EXECUTION_FLOPS",
    "MOST_MINIBATCH_CHUNKS",
    "Work",
    "is_small",
    "may_run_on_one_thread",
    "minibatch_chunks",
    "one_thread_is_enough",
]

# Single-threaded up to this much work: 16 channels of 16 x 16 take 20 us on two threads and 9 on
# one, 64 of 14 x 14 by 1x1 26 and 12; at 16 of 16 x 16 with minibatch 4 both take 25.
# With twice this limit, float32 problems of the survey take 1.01 times as long on average.
ONE_THREAD_FLOPS = 2_500_000
ONE_THREAD_ELEMENTS = 40_000

# Where AVX-512 units have half width, or the CPU has AVX2 alone, and a call has two threads, a
# small problem runs on one thread if its work is at most so many flops for each execution, since
# threads wait for each other at the end of an execution. The work has the channels rounded up to
# what the units take at a time, and so many flops for each element. Most primitives take two
# executions where they read activations in place, one for weights that are reordered, and four
# where activations are reordered, too.
#
# Fitted on 14,709 problems in float32 and bfloat16 on half width. With a second thread, 632 of
# 18,629 problems that were drawn afterwards take 0.86 of the time in geometric mean (3.2 at worst),
# 0.88 with 0.2 ms of other work between calls; both gradients in one call 0.79 (1.4) of 375.
# Problems of 0.6 to 1.0 of this limit gain 0.95 on idle cores, and take 1.0 to 1.1 times as long on
# busy ones. With AVX2 alone, 988 of 4,771 small problems, all drawn afterwards, take 0.80 (2.8) of
# the time, 0.87 with other work between calls; both gradients 0.75 (2.3) of 960.
EXECUTION_FLOPS = 1_000_000
ELEMENT_FLOPS = 40
FILLED_CHANNELS = 8
IN_PLACE_EXECUTIONS = 2
COPYING_EXECUTIONS = 4

# With AVX2 alone, gemm takes longer for so little work, since it copies windows of src. So few
# flops for each execution were fitted on 1,465 problems. Of those drawn afterwards, 3,752 get a
# second thread by this limit alone, and take 0.77 of the time, 0.85 with other work between calls.
GEMM_EXECUTION_FLOPS = 300_000

# Activations of so many bytes leave the caches between a reorder and the primitive, so that
# the minibatch is split. In one chunk, depthwise 128, 56 x 56, 3x3 takes 2.4 times as long
# (weights) or 1.8 times (data) as in chunks of 2 images, 3 MB; 64, 56 x 56, 3x3 takes 1.07 times as
# long as in chunks of 4 images.
LEAST_BYTES = 20_000_000
CHUNK_BYTES = 4_500_000
DEPTHWISE_CHUNK_BYTES = 3_200_000
# More are beyond the memory of machines.
MOST_MINIBATCH_CHUNKS = 2**16

# A problem that is computed in another type is converted too, and NumPy's share of the work gains
# more from the caches: depthwise 128, 56 x 56, 3x3 in float16 with 4 images takes 1.5 times as long
# in one chunk as image by image, 32 -> 64, 112 x 112, 1x1 1.1 to 1.35 times.
LEAST_CONVERTED_BYTES = 6_000_000

# Reorders give each thread its own images, depthwise weights gradients its own channels of all
# images, so that each thread reads what the other wrote. With one image at a time both divide the
# channels: 512, 14 x 14, 3x3 takes 1.5 times as long in one chunk, 256, 28 x 28 up to 2.3 times.
# Images of so many bytes are worth an execution each.
IMAGE_BYTES = 700_000

# In bfloat16 a depthwise weights gradient of one image at a time takes up to 1.5 times as long as
# in one chunk, that of 4 images between 0.5 times (128, 56 x 56, 3x3) and 1.2 times.
LEAST_BF16_IMAGES = 4


def is_small(problem: Problem, factor: int = 1) -> bool:
    """Whether a problem has so few flops and elements that one thread computes it on most CPUs."""
    most_flops, most_elements = factor * ONE_THREAD_FLOPS, factor * ONE_THREAD_ELEMENTS
    return problem.flops <= most_flops and _elements(problem) <= most_elements


class Work(NamedTuple):
    """What is computed on one thread or on several.

    Attributes
    ----------
    problem : Problem
    activations : str
        Their layout, as in `Choice`.
    execution_flops : int
        Up to how many flops an execution is better on one thread.
    """

    problem: Problem
    activations: str
    execution_flops: int = EXECUTION_FLOPS


def one_thread_is_enough(works: Iterable[Work]) -> bool:
    """Whether one thread is enough for small problems.

    For calls of two threads, where AVX-512 units have half width or the CPU has AVX2 alone.

    Parameters
    ----------
    works : iterable of Work
        What is computed, one after the other.

    Returns
    -------
    bool
        False if two threads are faster.
    """
    executions = 0.0
    for problem, activations, execution_flops in works:
        executions += _flops(problem) / execution_flops
        executions -= IN_PLACE_EXECUTIONS if activations == "given" else COPYING_EXECUTIONS
    return executions <= 0


def _flops(problem: Problem) -> float:
    """Return the flops of a problem with channels rounded up, and those that its elements cost."""
    groups, outputs, inputs = problem.weights.shape[:3]
    if groups > 1 and outputs == inputs == 1:
        flops = problem.flops / groups * _filled(groups)
    else:
        flops = problem.flops / (outputs * inputs) * _filled(outputs) * _filled(inputs)
    return flops + ELEMENT_FLOPS * _elements(problem)


def _elements(problem: Problem) -> int:
    return problem.src.size + problem.weights.size + problem.dst.size


def _filled(channels: int) -> int:
    return -(-channels // FILLED_CHANNELS) * FILLED_CHANNELS


def may_run_on_one_thread(problem: Problem) -> bool:
    """Whether one thread is worth being measured."""
    return is_small(problem, factor=4)


def minibatch_chunks(problem: Problem, compute_dtype: str) -> int:
    """Return into how many chunks to split the minibatch of a problem whose activations are copied.

    Parameters
    ----------
    problem : Problem
    compute_dtype : str
        Data type of the primitive.
    """
    images = problem.src.shape[0]
    is_cast = compute_dtype != problem.dtype
    nbytes = (problem.src.size + problem.dst.size) * DTYPES[compute_dtype].itemsize
    depthwise = problem.groups > 1 and problem.weights.shape[1:3] == (1, 1)
    depthwise_weights = depthwise and problem.direction is Direction.BACKWARD_WEIGHTS
    if depthwise_weights and compute_dtype == "f32" and nbytes >= IMAGE_BYTES * images:
        return images if images <= MOST_MINIBATCH_CHUNKS else 1
    if nbytes < (LEAST_CONVERTED_BYTES if is_cast else LEAST_BYTES):
        return 1
    least_images = 1 if is_cast else 2
    if depthwise_weights and compute_dtype == "bf16":
        least_images = LEAST_BF16_IMAGES
    chunk_bytes = DEPTHWISE_CHUNK_BYTES if depthwise else CHUNK_BYTES
    most = min(nbytes // chunk_bytes, images // least_images, MOST_MINIBATCH_CHUNKS)
    return max((number for number in range(1, most + 1) if images % number == 0), default=1)
