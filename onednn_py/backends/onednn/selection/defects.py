"""Known defects of oneDNN: one table of what must not run, and where it was reported.

A guard names implementations, not problems: the search for an implementation passes
over them and takes the next one, so that the problem itself stays supported.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from onednn_py.problem.problem import Direction, Problem

from . import weights_defects
from .chunks import Addend
from .unpadded_depth import parts_along_depth

__all__ = ["DEFECTS", "MOST_SOUND_CHANNELS", "Defect", "forbidden", "is_reference"]

Version = tuple[int, int, int]

# Implementations, by name and version, whose defects are kept. A library has some hundred.
MOST_IMPLEMENTATIONS = 1024


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect of some implementations, on some problems, in some versions.

    Attributes
    ----------
    reference : str
        Where it is reported upstream, or described if it is not.
    harm : str
        What happens if the implementation runs.
    implementation : re.Pattern
        Searched in the implementation's name; a deconvolution's name contains that of
        the convolution inside.
    applies : callable
        Whether a Problem is affected, in the roles of a convolution unless ``of_transposed``.
    fixed_in : tuple of int or None
        First version without the defect.
    since : tuple of int
        First version that may have it.
    of_transposed : bool
        Whether it is a defect of transposed convolutions alone, which ``applies`` gets as they are.
    only_slow : bool
        Whether results are right and nothing crashes, so that native oneDNN may be compared with.
    """

    reference: str
    harm: str
    implementation: re.Pattern[str]
    applies: Callable[[Problem], bool]
    fixed_in: Version | None = None
    since: Version = (0, 0, 0)
    of_transposed: bool = False
    only_slow: bool = False

    def is_in(self, version: Version) -> bool:
        return self.since <= version and (self.fixed_in is None or version < self.fixed_in)

    def affects(self, problem: Problem, convolution: Problem) -> bool:
        """Whether a problem is affected, which is given in the roles of a convolution as well."""
        if self.of_transposed:
            return problem.transposed and self.applies(problem)
        return self.applies(convolution)


# Kernel times stride, in elements, from which brgconv_strided takes seconds to be created.
EXTREME_WINDOW = 2**12

# Input channels of a group up to which the bias of strided transposed convolutions is trusted.
MOST_SOUND_CHANNELS = 64

# Rows of an AMX tile, and with how many tiles of pixels in an image the 1x1 kernel goes beyond it.
TILE_ROWS = 16
TILES_BEYOND = 3

# Channels in a row of an AMX tile: 64 bytes of bfloat16.
TILE_CHANNELS = 32


def _has_gaps(problem: Problem) -> bool:
    return any(one.extent != one.size for one in (problem.src, problem.weights, problem.dst))


def _three_tiles_of_pixels(problem: Problem) -> bool:
    """A 1x1 forward pass whose images have three tiles of pixels, each as large as can be."""
    pixels = prod(problem.dst.shape[2:])
    rows = max(number for number in range(1, TILE_ROWS + 1) if pixels % number == 0)
    return (
        problem.direction is Direction.FORWARD
        and problem.dtype == "bf16"
        and prod(problem.kernel) == 1
        and pixels == TILES_BEYOND * rows
    )


def _rounds_to_bf16(problem: Problem) -> bool:
    return problem.dtype == "bf16" or problem.fpmath_mode != "strict"


def _folded_columns(problem: Problem) -> bool:
    """A forward pass whose strides over columns are folded into channels that fill whole tiles.

    Where images begin with no padding, a row is read as one of fewer columns of as many times the
    channels as the stride. Of 1,894 geometries 98 were wrong. In all of these that number is a
    multiple of a tile's row, the number of channels is not, and the columns are a multiple of the
    stride. Where the kernel is no multiple of the stride, some such geometries were right.
    """
    stride, inputs = problem.strides[-1], problem.weights.shape[2]
    return (
        problem.direction is Direction.FORWARD
        and _rounds_to_bf16(problem)
        and stride > 1
        and problem.pads_begin[-1] == 0
        and inputs % TILE_CHANNELS != 0
        and inputs * stride % TILE_CHANNELS == 0
        and inputs * stride > TILE_CHANNELS
    )


def _odd_channels_of_1x1(problem: Problem) -> bool:
    """A 1x1 kernel that sums over an odd number of channels, the innermost axis, two at a time."""
    summed = problem.src if problem.direction is Direction.FORWARD else problem.dst
    channels, stride = summed.shape[1] // problem.groups, summed.strides[1]
    return (
        problem.direction is not Direction.BACKWARD_WEIGHTS
        and _rounds_to_bf16(problem)
        and prod(problem.kernel) == 1
        and channels % 2 != 0
        and (stride == 1 or summed.shape[1] == 1)
    )


def _planes_behind_all_windows(problem: Problem) -> bool:
    """A data gradient of a volume whose last planes no window meets."""
    return (
        problem.direction is Direction.BACKWARD_DATA
        and _rounds_to_bf16(problem)
        and len(problem.kernel) == 3
        and problem.pads_end[0] < 0
    )


def _single_planes_of_kernels(problem: Problem) -> bool:
    """A volume of many inputs where depth leaves some window one plane of its kernel inside src.

    With 33 to 64 inputs, all of seven such geometries of 19 planes and more were wrong, one of 9
    planes was right; with 16 and 32 inputs, six were right. Eight with two planes or more, too.
    """
    if not (
        problem.direction is Direction.FORWARD
        and _rounds_to_bf16(problem)
        and len(problem.kernel) == 3
        and problem.src.shape[1] // problem.groups > TILE_CHANNELS
        and problem.kernel[0] > 1
    ):
        return False
    parts = parts_along_depth(problem)
    return parts is None or any(len(part.positions) == 1 for part in parts)


def _pads_that_cancel(problem: Problem) -> bool:
    """A forward pass whose columns have as much padding in front as windows leave out behind.

    Without AMX, columns are taken for unpadded where both pads sum up to zero. Sums of several
    steps then have no memory of their own, where they cannot be kept in dst: it is of another type,
    or holds what they are added to. Of 694 such geometries in bfloat16 45 were wrong, of 2,744
    others none.
    """
    begin, end = problem.pads_begin[-1], problem.pads_end[-1]
    adds = isinstance(problem, Addend) and problem.adds
    return (
        problem.direction is Direction.FORWARD
        and (problem.dtype != "f32" or adds)
        and begin > 0
        and begin + end == 0
    )


def _extreme_window(problem: Problem) -> bool:
    """A kernel and a stride for which code is generated step by step, for a minute or more."""
    steps = zip(problem.kernel, problem.strides, strict=True)
    return any(kernel * stride >= EXTREME_WINDOW for kernel, stride in steps)


def _bf16_forward_stride_beyond_kernel(problem: Problem) -> bool:
    return (
        problem.direction is Direction.FORWARD
        and problem.dtype == "bf16"
        and any(s > k for s, k in zip(problem.strides, problem.kernel, strict=True))
    )


def _forward_bias_of_many_channels(problem: Problem) -> bool:
    """A transposed convolution with a bias that sums over many channels.

    Of geometries with strides and a bias, 227 were wrong of 9,702 with 176 input channels of a
    group and more, and none of 9,060 with 160 and less. None of 1,961 without a bias was.
    """
    return (
        problem.direction is Direction.FORWARD
        and problem.bias is not None
        and problem.src.shape[1] // problem.groups > MOST_SOUND_CHANNELS
    )


def _of_weights(applies: Callable[[Problem], bool]) -> Callable[[Problem], bool]:
    def is_affected(problem: Problem) -> bool:
        return problem.direction is Direction.BACKWARD_WEIGHTS and applies(problem)

    return is_affected


def _forward_bias_over_gaps(problem: Problem) -> bool:
    """A transposed convolution whose bias is added to a dst that is not dense."""
    return (
        problem.direction is Direction.FORWARD
        and problem.bias is not None
        and problem.dst.extent != problem.dst.size
    )


DEFECTS = (
    Defect(
        reference="uxlfoundation/oneDNN#6035",
        harm="strided 1x1 backward weights write outside their scratchpad: hang, crash or"
        " wrong gradients",
        # "jit_1x1:avx2", "jit_avx2_1x1", "jit_avx512_common_1x1", ...; not "brgemm...".
        implementation=re.compile(r"jit(_\w+)?_1x1"),
        applies=_of_weights(weights_defects.strided_1x1),
    ),
    Defect(
        reference="uxlfoundation/oneDNN#5568",
        harm="bf16 forward convolution on AMX silently wrong for stride > kernel",
        implementation=re.compile(r"amx"),
        applies=_bf16_forward_stride_beyond_kernel,
        fixed_in=(3, 13, 0),
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0 and v3.7.2",
        harm="reads scratchpad that was never written where no window lies wholly inside src:"
        " wrong gradients",
        # On AMX "jit:avx512_core_amx" and "brgconv_bwd_w:avx512_core_amx".
        implementation=re.compile(r"jit_bf16:|avx512_core_amx"),
        applies=_of_weights(weights_defects.without_whole_window),
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0",
        harm="writes a fourth tile of pixels where an image has three: memory corruption",
        implementation=re.compile(r"jit_1x1:avx512_core_amx"),
        applies=_three_tiles_of_pixels,
    ),
    Defect(
        reference="not reported upstream; docs/native.md, seen in v3.2.0",
        harm="reads and writes beyond the tensors where a 3-D src is smaller than the kernel: wrong"
        " gradients or a crash",
        implementation=re.compile(r"(^|\+)jit:avx512"),
        applies=_of_weights(weights_defects.small_volume),
    ),
    Defect(
        reference="not reported upstream; docs/native.md, seen in v3.7.2, not in v3.2.0",
        harm="takes tensors with gaps between their elements for dense ones: wrong results or a"
        " crash",
        implementation=re.compile(""),
        applies=_has_gaps,
        since=(3, 3, 0),
    ),
    Defect(
        reference="not reported upstream; seen in v3.2.0",
        harm="adds the bias beyond the scratchpad where dst has gaps between its elements: memory"
        " corruption",
        implementation=re.compile(r"^conv:any\+ref"),
        applies=_forward_bias_over_gaps,
        of_transposed=True,
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0 and PyTorch 2.13",
        harm="leaves products of the padded columns out: wrong gradients",
        implementation=re.compile(r"(^|\+)jit:avx512"),
        applies=_of_weights(weights_defects.wide_pads_of_strides),
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0 and PyTorch 2.13",
        harm="reads other memory where rows are dilated: wrong gradients or a crash",
        implementation=re.compile(r"jit_bf16:"),
        applies=_of_weights(weights_defects.dilated_rows),
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0",
        harm="wrong results of transposed convolutions with a bias and many input channels",
        implementation=re.compile(r"brgconv_strided"),
        applies=_forward_bias_of_many_channels,
        of_transposed=True,
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0 and PyTorch 2.13",
        harm="wrong results where strides may be folded into channels",
        implementation=re.compile(r"brgconv:avx512_core_amx"),
        applies=_folded_columns,
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0 and PyTorch 2.13",
        harm="writes sums beyond their memory where the pads of columns cancel each other: wrong"
        " results or a crash",
        implementation=re.compile(r"(^|\+)(brgconv|brg_conv_fwd):(?!.*amx)"),
        applies=_pads_that_cancel,
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0",
        harm="wrong sums over an odd number of channels",
        implementation=re.compile(r"jit_bf16_1x1"),
        applies=_odd_channels_of_1x1,
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0 and PyTorch 2.13",
        harm="leaves columns of planes that no window meets unwritten: what memory held before",
        # "jit:...", "conv:any+jit:..." and "jit_deconvolution:...".
        implementation=re.compile(r"jit(_deconvolution)?:avx512_core_amx"),
        applies=_planes_behind_all_windows,
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0",
        harm="wrong sums of windows that have one plane of their kernel inside src",
        implementation=re.compile(r"(^|\+)jit:avx512_core_amx"),
        applies=_single_planes_of_kernels,
    ),
    Defect(
        reference="uxlfoundation/oneDNN@40603d8, which mends it",
        harm="computes with what a vector register held before, in lanes that are not stored: 40 to"
        " 100 times as slow where these are denormal numbers, as halves of addresses are",
        implementation=re.compile(r"(^|\+)jit:avx2$"),
        applies=_of_weights(weights_defects.stale_lanes),
        fixed_in=(3, 3, 0),
        only_slow=True,
    ),
    Defect(
        reference="not reported upstream; docs/semantics.md, seen in v3.2.0",
        harm="creating the primitive takes seconds to minutes, and gigabytes, for very wide rows",
        implementation=re.compile(r"(^|\+)jit:avx2$"),
        applies=_of_weights(weights_defects.unrolled_rows),
        only_slow=True,
    ),
    Defect(
        reference="pytorch/pytorch#120982",
        harm="creating the primitive takes a minute and more",
        implementation=re.compile(r"brgconv_strided"),
        applies=_extreme_window,
    ),
)


def forbidden(implementation: str, problem: Problem, version: Version) -> Defect | None:
    """Return the defect for which this implementation must not run, None if there is none.

    ``problem`` is in the layouts that the implementation is given.
    """
    convolution = problem.as_convolution()
    for defect in _defects_of(implementation, version):
        if defect.affects(problem, convolution):
            return defect
    return None


@lru_cache(MOST_IMPLEMENTATIONS)
def _defects_of(implementation: str, version: Version) -> tuple[Defect, ...]:
    return tuple(
        defect
        for defect in DEFECTS
        if defect.is_in(version) and defect.implementation.search(implementation)
    )


def is_reference(implementation: str) -> bool:
    """Whether an implementation is oneDNN's plain loop nest, hundreds of times too slow."""
    return re.search(r"(^|\+)ref(:|_|$)", implementation) is not None
