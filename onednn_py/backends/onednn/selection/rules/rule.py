"""What a rule says, and what it looks at: the sizes of a problem."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from onednn_py.backends.onednn.selection.thresholds import is_small, minibatch_chunks
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Direction, Problem

__all__ = [
    "AMX_1X1",
    "AMX_FAMILIES",
    "AMX_JIT",
    "AMX_MATMUL",
    "ANY_NAME",
    "BRGEMM",
    "BRGEMM_1X1",
    "BRGEMM_AVX2",
    "BRGEMM_AVX512",
    "BRGEMM_DECONVOLUTION",
    "BRGEMM_STRIDED",
    "BRGEMM_WEIGHTS",
    "DECONVOLUTION",
    "DEPTHWISE",
    "DEPTHWISE_AVX2",
    "GEMM",
    "GEMM_DECONVOLUTION",
    "JIT",
    "JIT_1X1",
    "JIT_1X1_AVX2",
    "JIT_AVX2",
    "JIT_BF16",
    "JIT_BF16_1X1",
    "MATMUL",
    "NOT_GEMM",
    "NOT_GEMM_NOR_STRIDED",
    "NOT_STRIDED",
    "Rule",
    "Shape",
    "always",
    "exactly",
    "is_strided_1x1",
    "never",
    "upsamples_from_few",
]

# Families of implementations by their names, of any instruction set.
GEMM = re.compile(r"(^|:|\+)gemm")
GEMM_DECONVOLUTION = re.compile(r"^conv:any\+.*gemm")
NOT_GEMM = re.compile(r"^(?!.*gemm)")
NOT_GEMM_NOR_STRIDED = re.compile(r"^(?!.*(gemm|brgconv_strided))")
NOT_STRIDED = re.compile(r"^(?!.*brgconv_strided)")
JIT_1X1 = re.compile(r"(^|\+)jit(_\w+)?_1x1")
JIT = re.compile(r"(^|\+)jit(_bf16)?:")
DEPTHWISE = re.compile(r"jit_dw")
DEPTHWISE_AVX2 = re.compile(r"^jit_dw:avx2$")
DECONVOLUTION = re.compile(r"jit_deconvolution")
BRDGMM = re.compile(r"brdgmm_dw")
BRGEMM = re.compile(r"brgconv:|brgemm")
BRGEMM_AVX2 = re.compile(r"(^|\+)brgconv:avx2$")
BRGEMM_AVX512 = re.compile(r"^brgconv:avx512")
BRGEMM_DECONVOLUTION = re.compile(r"^brg_conv.*\+brgconv")
BRGEMM_1X1 = re.compile(r"brgconv_1x1")
BRGEMM_STRIDED = re.compile(r"brgconv_strided")
BRGEMM_WEIGHTS = re.compile(r"brgconv_bwd_w")
JIT_AVX2 = re.compile(r"(^|\+)jit:avx2$")
JIT_1X1_AVX2 = re.compile(r"(^|\+)jit_1x1:avx2$")
JIT_BF16 = re.compile(r"(^|\+)jit_bf16:")
JIT_BF16_1X1 = re.compile(r"(^|\+)jit_bf16_1x1:")
MATMUL = re.compile(r"^brg:")
AMX_JIT = re.compile(r"(^|\+)jit:avx512_core_amx")
AMX_1X1 = re.compile(r"(^|\+)jit_1x1:avx512_core_amx")
AMX_MATMUL = re.compile(r"^brg:avx512_core_amx")
AMX_FAMILIES = (AMX_JIT, AMX_1X1, AMX_MATMUL)
ANY_NAME = re.compile("")

# Bytes, after which the sets of the first cache repeat.
PAGE = 4096


def exactly(name: str) -> re.Pattern[str]:
    """Return the family of one implementation alone, by oneDNN's name of it."""
    return re.compile(f"^{re.escape(name)}$")


def always(shape: Shape) -> bool:
    """Apply to every problem."""
    return True


def never(shape: Shape) -> bool:
    """Apply to no problem."""
    return False


@dataclass(frozen=True, slots=True)
class Rule:
    """A choice to prefer for the problems that it applies to.

    Attributes
    ----------
    applies : callable
        Whether the rule is for a `Shape`.
    activations, family
        As in `Choice` and `Preference`.
    measured : str
        The measurements that justify it.
    formulation : str
        As in `Choice`.
    compute_dtype : str
        Another data type than the problem's that is faster, or empty.
    weights : str
        As in `Choice`.
    splits : bool
        Whether an implementation over the workspace limit is taken in chunks, in float32 too.
    threads : int or None
        As in `Choice`; None for as many as a choice is worth for a problem of its size.
    on_full_width, on_half_width : callable
        What must apply, too, on CPUs without AMX whose AVX-512 units have full width, and where
        they have half the registers' width: rules that were fitted on other CPUs may lose there.
    """

    applies: Callable[[Shape], bool]
    activations: str
    family: re.Pattern[str]
    measured: str
    formulation: str = "direct"
    compute_dtype: str = ""
    weights: str = "any"
    splits: bool = False
    threads: int | None = None
    on_full_width: Callable[[Shape], bool] = always
    on_half_width: Callable[[Shape], bool] = always

    def holds(self, shape: Shape) -> bool:
        """Whether the rule is for a problem, on the CPU that the shape tells."""
        if not self.applies(shape):
            return False
        if shape.has_full_width:
            return self.on_full_width(shape)
        return not shape.has_half_width or self.on_half_width(shape)


class Shape:
    """The sizes of a problem that rules look at, in the roles of a convolution.

    A problem without groups is ``dense_last`` where channels are the innermost axis, otherwise
    ``dense_first``. ``positions`` is the number of kernel positions, ``channels`` the smaller
    number of channels, ``pixels`` that of dst. Windows that neither overlap nor leave elements out
    are ``in_patches``. The product of all strides is ``steps``. A volume that is padded along its
    first axis has ``padded_depth``. A ``larger_kernel`` is neither 1x1 nor in patches. What
    products of matrices compute ``is_product``; ``all_pixels`` are those of the whole minibatch of
    ``images``. Of a group, ``group_channels`` is the smaller number of channels and
    ``group_products`` the product of both. Where a channel of dst has ``whole_pages``, its elements
    fill pages of 4096 bytes, so that, with channels first, those of all channels at one pixel share
    few places of the caches. ``dst_size`` is that of the caller's dst, whichever role it has, and
    ``weights_size`` that of all groups. ``flops`` are those of the whole minibatch. A call that has
    one thread ``is_single``, a call with two ``has_two_threads``. A ``large_depthwise`` problem, no
    volume, whose executions, one an image, are too short for two threads has ``short_steps``. A
    problem ``is_strict`` unless its float32 products may be rounded. A CPU ``has_amx``, or
    ``has_avx512_alone``, or ``has_avx2_alone``, or none of these; it ``has_half_width`` if its
    AVX-512, without AMX, takes halves of registers in turn, otherwise ``has_full_width``.
    """

    def __init__(
        self,
        problem: Problem,
        compute_dtype: str,
        *,
        available: int = 0,
        cpu_isa: str = "",
        halves_avx512: bool = False,
    ) -> None:
        self.is_single = available == 1
        self.has_two_threads = available == 2
        self.has_amx = "amx" in cpu_isa
        self.has_avx512_alone = not self.has_amx and "avx512" in cpu_isa
        self.has_full_width = self.has_avx512_alone and not halves_avx512
        self.has_half_width = self.has_avx512_alone and halves_avx512
        self.has_avx2_alone = "avx2" in cpu_isa
        self.is_strict = problem.fpmath_mode == "strict"
        inner = problem.as_convolution()
        self.data = inner.direction is Direction.BACKWARD_DATA
        self.weights = inner.direction is Direction.BACKWARD_WEIGHTS
        self.forward = inner.direction is Direction.FORWARD
        self.transposed = problem.transposed
        groups, outputs, inputs, *kernel = inner.weights.shape
        self.groups = groups
        self.inputs, self.outputs = inputs * groups, outputs * groups
        self.channels = min(self.inputs, self.outputs)
        # Of so few channels that a matrix product, or blocks of 16, mostly compute nothing.
        self.thin = groups == 1 and self.channels <= 4 and max(self.inputs, self.outputs) <= 16
        self.volume = len(kernel) == 3
        self.padded_depth = self.volume and max(inner.pads_begin[0], inner.pads_end[0]) > 0
        self.line = len(kernel) == 1 or (len(kernel) == 2 and inner.src.shape[2] == kernel[0] == 1)
        self.positions = prod(kernel)
        self.is_1x1 = self.positions == 1 and not any(inner.pads_begin)
        self.strided = any(stride > 1 for stride in inner.strides)
        self.steps = prod(inner.strides)
        self.in_patches = (
            self.strided and tuple(kernel) == inner.strides and not any(inner.pads_begin)
        )
        self.larger_kernel = not (self.is_1x1 or self.in_patches)
        self.pixels = prod(inner.dst.shape[2:])
        self.whole_pages = self.pixels * DTYPES[compute_dtype].itemsize % PAGE == 0
        self.images = inner.dst.shape[0]
        self.all_pixels = self.images * self.pixels
        self.is_product = groups == 1 and self.is_1x1 and not self.strided
        self.group_channels = min(inputs, outputs)
        self.group_products = inputs * outputs
        self.thin_groups = groups > 1 and bool(inputs % 16 or outputs % 16)
        self.has_bias = problem.bias is not None
        self.has_bias_gradient = problem.has_bias_gradient
        self.dst_size = problem.dst.size
        self.flops = problem.flops
        self.weights_size = problem.weights.size
        self.dilated = any(dilation > 1 for dilation in problem.dilations)
        self.depthwise = groups > 1 and inputs == 1 and outputs == 1
        self.in_groups = groups > 1 and not self.depthwise
        # Enough work for an execution an image, and for its conversion where there is one.
        self.converted = compute_dtype != problem.dtype
        self.large_depthwise = (
            self.depthwise
            and not self.volume
            and (
                self.channels > 20
                or (self.has_avx2_alone and self.channels > 4 and _has_enough_for_steps(problem))
                or (compute_dtype == "bf16" and self.channels > 8)
                or (self.channels > 4 and self.positions >= 15)
            )
            and not (self.converted and self.channels * self.pixels < 20_000)
        )
        most = 4e5 * problem.src.shape[0] if compute_dtype == "bf16" else 8e6
        self.short_steps = self.large_depthwise and problem.flops < most
        self.channels_last = _is_channels_last(problem)
        self.dense = groups == 1
        self.dense_last = self.dense and self.channels_last
        self.dense_first = self.dense and not self.channels_last
        self.small = is_small(problem)
        self.is_split = minibatch_chunks(problem, compute_dtype) > 1
        self.bf16 = compute_dtype == "bf16"
        self.whole_blocks = inputs % 16 == 0 and outputs % 16 == 0


def _has_enough_for_steps(problem: Problem) -> bool:
    """Whether a depthwise weights gradient of few channels, on AVX2, has flops enough.

    Executions an image are the other way than gemm. They leave the bias gradient to a pass of its
    own, so that more flops are needed where it is asked for. With fewer flops than these, they take
    up to 2.9 times as long as gemm.
    """
    least = 4e4 if problem.has_bias_gradient else 2e3
    return problem.flops >= least * problem.src.shape[0]


def is_strided_1x1(shape: Shape) -> bool:
    """Whether a problem, not a small one, is a 1x1 convolution in one group with strides.

    Such are the shortcuts of residual networks.
    """
    return (
        shape.dense and shape.is_1x1 and shape.strided and not shape.transposed and not shape.small
    )


def upsamples_from_few(shape: Shape) -> bool:
    """Whether windows give groups of one or two channels of src at least twice as many of dst.

    For transposed forward passes with channels first. The windows overlap.
    """
    return (
        shape.transposed
        and shape.data
        and shape.in_groups
        and not shape.channels_last
        and shape.outputs <= 2 * shape.groups
        and shape.inputs >= 2 * shape.outputs
        and shape.positions > shape.steps
        and shape.positions >= (5 if shape.line else 4)
    )


def _is_channels_last(problem: Problem) -> bool:
    """Whether channels are the innermost axis of both activations."""
    several = [layout for layout in (problem.src, problem.dst) if layout.shape[1] > 1]
    return bool(several) and all(layout.strides[1] == 1 for layout in several)
