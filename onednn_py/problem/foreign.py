"""Arrays of other libraries, taken where they lie: by their protocols, without importing anyone.

PyTorch's tensors are taken by methods of their own, since its bfloat16 passes neither protocol;
other objects by ``__dlpack__``, then ``__array__``, then as buffers. Nothing is detached, moved or
resolved on the way: an object whose elements do not lie in this process's memory is refused.
"""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onednn_py.errors import DTypeError

__all__ = ["as_array", "as_output", "is_foreign_array", "type_name"]

Array = npt.NDArray[Any]

# DLPack's numbers of devices (dlpack.h), and those whose memory the CPU reads as its own.
_DEVICES = {
    **{1: "CPU", 2: "CUDA", 3: "CUDAHost", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 9: "VPI"},
    **{10: "ROCM", 11: "ROCMHost", 12: "ExtDev", 13: "CUDAManaged", 14: "OneAPI", 15: "WebGPU"},
    **{16: "Hexagon", 17: "MAIA"},
}
_ON_HOST = (1, 3, 11)

# How much of another library's own message an error repeats.
_LONGEST_REASON = 200


def is_foreign_array(value: Any) -> bool:
    """Whether an object, no array of NumPy's, has one of the protocols of arrays.

    Protocols are looked up on types, so that classes, and objects that answer to every name, are
    no arrays.
    """
    if isinstance(value, (np.ndarray, np.generic, str, bytes, bytearray, list, tuple, int, float)):
        return False
    kind = type(value)
    return hasattr(kind, "__dlpack__") or hasattr(kind, "__array__") or _is_buffer(value)


def _is_buffer(value: Any) -> bool:
    if isinstance(value, memoryview):
        return True
    try:
        memoryview(value).release()
    except Exception:
        return False
    return True


def as_array(where: str, value: Any) -> Any:
    """Return an array of another library as a NumPy array on the same memory.

    Arrays of NumPy, and objects that are no arrays, are returned as they are.

    Parameters
    ----------
    where : str
        The function and its argument, for messages.
    value
        Of any type.

    Raises
    ------
    DTypeError
        If the elements are not in this process's memory, or the object does not give them.
    """
    if not is_foreign_array(value):
        return value
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    try:
        if isinstance(tensor, type) and isinstance(value, tensor):
            return _memory_of_tensor(where, value, torch)
        _refuse_other_device(where, value)
        return _by_protocol(value)
    except DTypeError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:_LONGEST_REASON]
        raise DTypeError(
            f"{where}: {type_name(value)} does not give its elements: {said}"
        ) from error


def as_output(where: str, value: Any) -> Any:
    """Return `as_array` of an object that is to be written.

    Raises
    ------
    DTypeError
        As `as_array` does, and if the object gives copies of its elements: what is written into a
        copy would be lost.
    """
    array = as_array(where, value)
    # Two arrays that live at the same time share memory only if neither is a copy.
    if array is not value and array.size and not np.may_share_memory(array, as_array(where, value)):
        raise DTypeError(
            f"{where}: {type_name(value)} gives copies of its elements, which cannot be written"
        )
    return array


def type_name(value: Any) -> str:
    """Return the name of an object's type, with its module if it is not built in."""
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")[-100:]


def _refuse_tensor(where: str, tensor: Any, torch: Any) -> None:
    """Raise a DTypeError for a PyTorch tensor whose memory does not hold its elements as they are.

    Also for a tensor whose gradients autograd would lose.
    """
    reason = None
    if tensor.requires_grad:
        reason = (
            "requires grad, which this call would lose: onednn_py.torch.enable() runs PyTorch's"
            " own convolutions here, gradients included; or give .detach() of it, and take"
            " gradients by convolution_backward"
        )
    elif _has_tangent(tensor, torch):
        reason = (
            "has a tangent, which this call would lose: give the primal of"
            " torch.autograd.forward_ad.unpack_dual"
        )
    elif tensor.device.type != "cpu":
        remedy = "it has no elements" if tensor.device.type == "meta" else "give .cpu() of it"
        reason = f"is on the device {tensor.device}: {remedy}"
    elif tensor.is_nested or tensor.layout is not torch.strided:
        layout = "nested" if tensor.is_nested else f"of layout {tensor.layout}"
        reason = f"is {layout}, not dense"
    elif tensor.is_quantized:
        reason = "is quantized: give .dequantize() of it"
    elif tensor.is_neg() or tensor.is_conj():
        reason = (
            "has other elements than its memory (its negative or conjugate bit is set):"
            " give .resolve_neg().resolve_conj() of it"
        )
    if reason:
        raise DTypeError(f"{where}: the {type_name(tensor)} {reason}")


def _has_tangent(tensor: Any, torch: Any) -> bool:
    """Whether a tensor is a dual number of PyTorch's forward mode."""
    return torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None


def _memory_of_tensor(where: str, tensor: Any, torch: Any) -> Array:
    array: Array
    # Both are refused here, since PyTorch itself gives the elements: of the first inside
    # torch.no_grad, of the second always.
    if tensor.requires_grad or _has_tangent(tensor, torch):
        _refuse_tensor(where, tensor, torch)
    try:
        if tensor.dtype is torch.bfloat16:
            array = tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        else:
            array = tensor.numpy()
    except Exception:
        _refuse_tensor(where, tensor, torch)
        raise
    return array


def _refuse_other_device(where: str, value: Any) -> None:
    if hasattr(type(value), "__dlpack_device__"):
        if getattr(value, "is_deleted", bool)():
            raise DTypeError(f"{where}: the {type_name(value)} was deleted or donated")
        kind, number = map(int, value.__dlpack_device__())
        on_host, name = kind in _ON_HOST, _DEVICES.get(kind, str(kind))
        device = f"{name.lower()}:{number} (kDL{name})"
    else:
        device = str(getattr(value, "device", "cpu"))[:100]
        on_host = not any(name in device.lower() for name in ("gpu", "cuda", "tpu", "xpu", "mps"))
    if not on_host:
        raise DTypeError(
            f"{where}: the {type_name(value)} is on the device {device}: copy it to the CPU first"
        )


def _by_protocol(value: Any) -> Array:
    """Return the memory of an object by the first of its protocols that works."""
    if hasattr(type(value), "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except Exception:  # NumPy takes no bfloat16 there, and older ones nothing read-only
            if not hasattr(type(value), "__array__"):
                raise
    return np.asarray(value if hasattr(type(value), "__array__") else memoryview(value))
