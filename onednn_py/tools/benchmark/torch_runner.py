"""Cases on PyTorch: one ATen operator, asked for the results of the case's direction alone."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.descriptor import Descriptor

__all__ = ["UnsupportedCaseError", "end_padding", "prepare", "version"]

Array = npt.NDArray[Any]


class UnsupportedCaseError(Exception):
    """PyTorch has no call for a case; the message says why."""


def version() -> str:
    """Return PyTorch's name and version; set its threads to ``OMP_NUM_THREADS``.

    Raises
    ------
    ImportError
        Where it is not installed.
    """
    torch = importlib.import_module("torch")
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    return f"PyTorch {torch.__version__}"


def prepare(case: Case, inputs: list[Array]) -> Callable[[], object]:
    """Return a call that computes the results of a case into fresh tensors.

    The tensors are contiguous with NCX. With NXC all of them, the weights too, have the memory
    format channels_last, as in models that are trained in it.

    Raises
    ------
    UnsupportedCaseError
        Where PyTorch cannot have the case's pads at the end.
    """
    torch = importlib.import_module("torch")
    d = case.descriptor
    arrays = dict(zip(case.input_roles, inputs, strict=True))
    src, weights, dst = (
        _tensor(torch, case, role, arrays.get(role)) for role in ("src", "weights", "dst")
    )
    parameters = (d.strides, d.pads_begin, d.dilations, d.transposed, end_padding(d), d.groups)
    arguments: tuple[Any, ...]
    if case.is_forward:
        operator = torch.ops.aten.convolution
        bias = _from_numpy(torch, arrays["bias"]) if case.has_bias else None
        arguments = (src, weights, bias, *parameters)
    else:
        operator = torch.ops.aten.convolution_backward
        bias_sizes = [d.outputs] if case.has_bias else None
        mask = [role in case.result_roles for role in ("src", "weights", "bias")]
        arguments = (dst, src, weights, bias_sizes, *parameters, mask)
    return lambda: operator(*arguments)


def _tensor(torch: Any, case: Case, role: str, array: Array | None) -> Any:
    """Return a tensor in PyTorch's order of axes, with undefined values if there is no array."""
    if array is None:
        array = np.empty(case.shape(role), case.numpy_dtype)
    tensor = _from_numpy(torch, array)
    if case.data_format == "NCX":
        return tensor
    if role != "weights":
        return tensor.movedim(-1, 1)
    # XIO (XOI) weights become OIX (IOX) ones in channels_last: outermost the last axis.
    return tensor.movedim(-1, 0).contiguous().movedim(-1, 1)


def _from_numpy(torch: Any, array: Array) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        # PyTorch has the type, but does not know NumPy's name of it.
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def end_padding(d: Descriptor) -> tuple[int, ...]:
    """Return PyTorch's ``output_padding``; zeros for a convolution that is not transposed.

    Raises
    ------
    UnsupportedCaseError
        Where PyTorch, which pads both ends by pads_begin, has no call for the descriptor.
    """
    paddings = []
    for stride, dilation, begin, end in zip(
        d.strides, d.dilations, d.pads_begin, d.pads_end, strict=True
    ):
        missing = begin - end
        if not 0 <= missing < (max(stride, dilation) if d.transposed else stride):
            raise UnsupportedCaseError(
                f"PyTorch pads both ends alike: pads_begin {d.pads_begin}, pads_end {d.pads_end}"
            )
        paddings.append(missing if d.transposed else 0)
    return tuple(paddings)
