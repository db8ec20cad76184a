"""A case as PyTorch computes it: one operator of ATen, asked for the direction's results alone."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onednn_py.problem.geometry import effective_kernel
from onednn_py.problem.problem import Direction
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.descriptor import Descriptor

from .requests import Unsupported

__all__ = ["prepared", "version"]

Array = npt.NDArray[Any]

# Which of the gradients of src, weights and bias aten::convolution_backward is to compute.
OUTPUT_MASKS = {
    "BWD_D": [True, False, False],
    "BWD_W": [False, True, False],
    "BWD_WB": [False, True, True],
}


def version() -> str:
    """Return PyTorch's name and version, and give it the threads of the others.

    Raises
    ------
    ImportError
        Where it is not installed.
    """
    torch = importlib.import_module("torch")
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    return f"PyTorch {torch.__version__}"


def prepared(case: Case, inputs: list[Array]) -> Callable[[], object]:
    """Return a call that computes the results of a case into fresh tensors.

    The tensors are contiguous with NCX, and in the memory format channels_last with NXC, the
    weights too: the way models are trained in it.

    Raises
    ------
    Unsupported
        Where begin and end pads cannot be what the case asks for.
    """
    torch = importlib.import_module("torch")
    d = case.descriptor
    output_padding = _output_padding(d)
    given = dict(zip(case.input_roles, inputs, strict=True))
    tensors = {
        role: _tensor(torch, case, role, given.get(role)) for role in ("src", "weights", "dst")
    }
    parameters = (d.strides, d.pads_begin, d.dilations, d.transposed, output_padding, d.groups)
    arguments: tuple[Any, ...]
    if case.operation.direction is Direction.FORWARD:
        bias = _torch_view(torch, given["bias"]) if case.has_bias else None
        operator = torch.ops.aten.convolution
        arguments = (tensors["src"], tensors["weights"], bias, *parameters)
    else:
        bias_sizes = [d.outputs] if case.has_bias else None
        operator = torch.ops.aten.convolution_backward
        arguments = (tensors["dst"], tensors["src"], tensors["weights"], bias_sizes, *parameters)
        arguments += (OUTPUT_MASKS[case.direction],)

    def call() -> object:
        return operator(*arguments)

    return call


def _tensor(torch: Any, case: Case, role: str, array: Array | None) -> Any:
    """Return a tensor in PyTorch's order of axes, without defined values if there is no array."""
    d = case.descriptor
    channels_last = case.data_format == "NXC"
    if array is None:
        shape, dtype = case.shape(role), _torch_dtype(torch, case.dtype)
        tensor = torch.empty(shape, dtype=dtype)
    else:
        tensor = _torch_view(torch, array)
    if not channels_last:
        return tensor
    rank = len(d.kernel)
    if role != "weights":
        return tensor.movedim(-1, 1)
    # The array is spatial first; channels_last weights lie outer channels first in memory.
    outermost_first = tensor.movedim(-1, 0).contiguous()
    return outermost_first.movedim(rank + 1, 1)


def _torch_view(torch: Any, array: Array) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        # PyTorch has the type, but does not know NumPy's name of it.
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _torch_dtype(torch: Any, name: str) -> Any:
    return {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[name]


def _output_padding(d: Descriptor) -> tuple[int, ...]:
    """Return what PyTorch adds at the end of a transposed convolution's dst; zeros for others."""
    paddings = []
    for size, count, kernel, stride, dilation, pad in zip(
        d.size, d.windows, d.kernel, d.strides, d.dilations, d.pads_begin, strict=True
    ):
        extent = effective_kernel(kernel, dilation)
        smallest = stride * (count - 1) + extent - 2 * pad
        rest = size - smallest
        most = max(stride, dilation) if d.transposed else stride
        if not 0 <= rest < most:
            raise Unsupported(
                f"PyTorch pads both ends alike: pads_begin {d.pads_begin}, pads_end {d.pads_end}"
            )
        paddings.append(rest if d.transposed else 0)
    return tuple(paddings)
