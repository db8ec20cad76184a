"""Types of the functions' arguments, for type checkers and editors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypedDict

import numpy.typing as npt

from onednn_py.config import BackendName, Effort, FpmathMode

__all__ = [
    "AnyArray",
    "Array",
    "AutoPad",
    "AutoPadRule",
    "BackendName",
    "ConvTransposeAttributes",
    "ConvTransposeWeightsFormat",
    "ConvolutionAttributes",
    "ConvolutionWeightsFormat",
    "DataFormat",
    "Effort",
    "FpmathMode",
    "Ints",
    "Wrt",
]

Array = npt.NDArray[Any]
Ints = int | Sequence[int]


class SupportsDLPack(Protocol):
    """An array of another library, such as a tensor of PyTorch."""

    def __dlpack__(self, *, stream: None = ...) -> Any: ...


class SupportsArray(Protocol):
    """An array of another library, such as JAX."""

    def __array__(self) -> Array: ...


# What tensors may be given as.
AnyArray = Array | SupportsDLPack | SupportsArray | memoryview

# Names are taken in any case; these are the spellings of this package's documents and oneDNN's.
DataFormat = Literal["NXC", "NCX", "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW"]
ConvolutionWeightsFormat = Literal["XIO", "OIX", "WIO", "OIW", "HWIO", "OIHW", "DHWIO", "OIDHW"]
ConvTransposeWeightsFormat = Literal["XOI", "IOX", "WOI", "IOW", "HWOI", "IOHW", "DHWOI", "IODHW"]
AutoPad = Literal[
    "none", "valid", "same_upper", "same_lower", "None", "VALID", "SAME_UPPER", "SAME_LOWER"
]
AutoPadRule = Literal["native", "documented"]
Wrt = Literal["src", "weights", "bias"]


class _Attributes(TypedDict, total=False):
    strides: Ints
    pads_begin: Ints
    pads_end: Ints
    dilations: Ints
    auto_pad: AutoPad
    groups: int
    data_format: DataFormat
    backend: BackendName | None
    fpmath_mode: FpmathMode | None


class ConvolutionAttributes(_Attributes, total=False):
    """Keywords of the functions of convolution, but for ``bias``, ``out`` and ``wrt``."""

    weights_format: ConvolutionWeightsFormat


class ConvTransposeAttributes(_Attributes, total=False):
    """Keywords of transposed convolution's functions, but for ``bias``, ``out`` and ``wrt``."""

    weights_format: ConvTransposeWeightsFormat
    output_padding: Ints
