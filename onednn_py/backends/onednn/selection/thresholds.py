"""Amounts: how many threads a problem is worth, and in how many pieces it is computed.

Figures are of oneDNN v3.2 on two cores with AVX-512 and 32 MB of cache for both, float32.
"""

from __future__ import annotations

from onednn_py.problem.arrays import DTYPES
from onednn_py.problem.problem import Direction, Problem

__all__ = ["good_pieces", "is_small", "may_run_on_one_thread"]

# Up to so much work a second thread costs more than it does: 16 channels of 16 x 16 take
# 20 us on two threads and 9 on one, 64 of 14 x 14 by 1x1 26 and 12; at 16 of 16 x 16 with
# minibatch 4 both take 25.
ONE_THREAD_FLOPS = 5_000_000
ONE_THREAD_ELEMENTS = 40_000

# Activations of so many bytes leave the caches between a reorder and the primitive, so that
# the minibatch is computed in pieces. At once, depthwise 128, 56 x 56, 3x3 takes 2.4 times as
# long (weights) or 1.8 times (data) as in pieces of 2 images, 3 MB; 64, 56 x 56, 3x3 takes 1.07
# times as long as in pieces of 4 images.
MANY_BYTES = 20_000_000
PIECE_BYTES = 4_500_000
DEPTHWISE_PIECE_BYTES = 3_200_000

# What is computed in another type is converted too, and NumPy's share of the work gains more from
# the caches: depthwise 128, 56 x 56, 3x3 in float16 with 4 images takes 1.5 times as long at once
# as one after the other, 32 -> 64, 112 x 112, 1x1 1.1 to 1.35 times.
MANY_CONVERTED_BYTES = 6_000_000

# Reorders give each thread its own images, depthwise weights gradients its own channels of all
# images, and what one thread wrote the other reads. With one image at a time both divide the
# channels: 512, 14 x 14, 3x3 takes 1.5 times as long at once, 256, 28 x 28 up to 2.3 times.
# Images of so many bytes are worth an execution each.
IMAGE_BYTES = 700_000

# In bfloat16 a depthwise weights gradient of one image at a time takes up to 1.5 times as long as
# at once, one of 4 images between 0.5 times (128, 56 x 56, 3x3) and 1.2 times.
FEWEST_HALF_IMAGES = 4


def is_small(problem: Problem, factor: int = 1) -> bool:
    """Whether one thread is taken to be the better choice for a problem."""
    elements = problem.src.size + problem.weights.size + problem.dst.size
    return problem.flops <= factor * ONE_THREAD_FLOPS and elements <= factor * ONE_THREAD_ELEMENTS


def may_run_on_one_thread(problem: Problem) -> bool:
    """Whether one thread is worth being measured."""
    return is_small(problem, factor=4)


def good_pieces(problem: Problem, compute_dtype: str) -> int:
    """Return in how many pieces a problem is computed if its activations are copied."""
    images = problem.src.shape[0]
    converted = compute_dtype != problem.dtype
    nbytes = (problem.src.size + problem.dst.size) * DTYPES[compute_dtype].itemsize
    depthwise = problem.groups > 1 and problem.weights.shape[1:3] == (1, 1)
    depthwise_weights = depthwise and problem.direction is Direction.BACKWARD_WEIGHTS
    if depthwise_weights and compute_dtype == "f32" and nbytes >= IMAGE_BYTES * images:
        return images
    if nbytes < (MANY_CONVERTED_BYTES if converted else MANY_BYTES):
        return 1
    fewest_images = 1 if converted else 2
    if depthwise_weights and compute_dtype == "bf16":
        fewest_images = FEWEST_HALF_IMAGES
    piece = DEPTHWISE_PIECE_BYTES if depthwise else PIECE_BYTES
    most = min(nbytes // piece, images // fewest_images)
    return max((pieces for pieces in range(1, most + 1) if images % pieces == 0), default=1)
