"""Problems of which some implementations of oneDNN compute the gradient of weights wrongly.

Each function returns whether a problem is one of them. Problems are gradients of weights, in the
roles of a convolution.
"""

from __future__ import annotations

from onednn_py.problem.geometry import effective_kernel
from onednn_py.problem.problem import Problem

__all__ = [
    "dilated_rows",
    "small_volume",
    "stale_lanes",
    "strided_1x1",
    "unrolled_rows",
    "wide_pads_of_strides",
    "without_whole_window",
]

# Kernels up to this size were right with all strides and pads, on any size of src.
LARGEST_SOUND_EXTENT = 3

# Input channels of a group that kernels of AVX-512 read at once.
CHANNEL_BLOCK = 16

# Channels that AVX2 loads at once: 4 and 8 of them are loaded with one instruction, which clears
# the rest of the register.
AVX2_BLOCK = 8
AVX2_CLEARING = (0, 4)

# jit:avx2 takes 80 ms to be created for so many columns with channels last. From twice as many on,
# gemm computes them in 0.2 to 1.6 of its time.
MOST_UNROLLED_COLUMNS = 2**14

# Columns of padding up to which strided weights gradients were right with any dilation.
WIDEST_SOUND_PAD = 14

# Columns of dst up to which a row is one pass of the kernels of AVX-512.
COLUMNS_OF_A_PASS = 28


def strided_1x1(problem: Problem) -> bool:
    """1x1 backward weights with a stride and an incomplete block of input channels.

    The report names fewer than one block, 8 on AVX2 and 16 on AVX-512. A last block that
    is incomplete takes the same path, so it is avoided as well.
    """
    return (
        problem.weights.shape[2] % CHANNEL_BLOCK != 0
        and all(extent == 1 for extent in problem.kernel)
        and any(stride > 1 for stride in problem.strides)
    )


def _lacks_a_whole_window(problem: Problem) -> list[bool]:
    """Whether on each axis the first window behind the padding in front ends behind src."""
    found = []
    for size, kernel, stride, dilation, begin in zip(
        problem.src.shape[2:],
        problem.kernel,
        problem.strides,
        problem.dilations,
        problem.pads_begin,
        strict=True,
    ):
        first_inside = -(-begin // stride) * stride - begin
        found.append(first_inside + effective_kernel(kernel, dilation) > size)
    return found


def without_whole_window(problem: Problem) -> bool:
    """bf16 backward weights with an axis on which every window reaches into the padding."""
    return problem.dtype == "bf16" and any(_lacks_a_whole_window(problem))


def small_volume(problem: Problem) -> bool:
    """3-D backward weights whose windows leave the padding in front for that behind at once.

    The kernel goes along the depth with a count of the planes of a window that lie in src, which
    grows while windows leave the padding in front, and is never made smaller for those that reach
    into that behind before. One case of the same was found along the height.
    """
    if len(problem.kernel) < 3:
        return False
    extents = map(effective_kernel, problem.kernel, problem.dilations)
    return any(
        begin > 0 and extent > LARGEST_SOUND_EXTENT and lacks
        for begin, extent, lacks in zip(
            problem.pads_begin, extents, _lacks_a_whole_window(problem), strict=True
        )
    )


def stale_lanes(problem: Problem) -> bool:
    """Backward weights with channels last and a block of output channels that is incomplete.

    A load of 1 to 3 or 5 to 7 channels leaves in other lanes of its register what was there before.
    """
    dst = problem.dst
    is_last = dst.strides[1] == 1 or dst.shape[1] == 1
    return is_last and problem.weights.shape[1] % AVX2_BLOCK not in AVX2_CLEARING


def unrolled_rows(problem: Problem) -> bool:
    """Backward weights of wide rows of src with channels last.

    Code is generated for each column: 300,000 columns take 3 s and 250 MiB, which stay as long as
    the plan does. Kernels that read other layouts generate it for some columns.
    """
    return problem.src.strides[1] == 1 and problem.dst.shape[-1] > MOST_UNROLLED_COLUMNS


def wide_pads_of_strides(problem: Problem) -> bool:
    """Strided backward weights with more than 14 columns of padding in front of src.

    All of 495 drawn problems were wrong that had 29 to 55 columns of dst, and behind src at least
    as many columns of padding as dst has beyond 28. The guard has a margin around these.
    """
    return (
        problem.strides[-1] > 1
        and problem.pads_begin[-1] > WIDEST_SOUND_PAD
        and problem.dst.shape[-1] > COLUMNS_OF_A_PASS
    )


def dilated_rows(problem: Problem) -> bool:
    """bf16 backward weights with dilated rows, an incomplete block of inputs and wide rows of dst.

    Of 9,044 geometries of two axes 1,137 were wrong or crashed. All of these have a dilation above
    1 along the height, more than 28 columns of dst, and input channels of a group that are no
    multiple of 16. Some such geometries of less than 16 inputs in one group were right.
    """
    return (
        problem.dtype == "bf16"
        and max(problem.dilations[:-1], default=1) > 1
        and problem.dst.shape[-1] > COLUMNS_OF_A_PASS
        and problem.weights.shape[2] % CHANNEL_BLOCK != 0
    )
