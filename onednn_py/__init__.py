"""Gradients of convolution and transposed convolution on NumPy arrays, run by oneDNN.

Importing the package opens no library and reads no environment variable; the first call
does. `info` tells what is in use.
"""

from typing import TYPE_CHECKING, Any

from . import wisdom
from .api import (
    Gradients,
    conv_transpose,
    conv_transpose_backward,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
    convolution,
    convolution_backprop_data,
    convolution_backward,
    convolution_backward_data,
    convolution_backward_weights,
)
from .api.cache import cache_clear, cache_info, set_cache_limit
from .api.info import info, package_version
from .api.packed import PackedTensor
from .api.plan import Plan, plan
from .api.run_op import run_op
from .api.threads import get_num_threads, num_threads, set_idle_threads, set_num_threads
from .api.types import ConvolutionAttributes, ConvTransposeAttributes
from .config import use_backend, use_effort, use_fpmath_mode
from .dispatch.plan_cache import CacheInfo
from .errors import (
    AttributeValueError,
    DTypeError,
    GraphFileError,
    LibraryNotFoundError,
    OneDNNError,
    OneDNNMemoryError,
    OneDNNPyError,
    ShapeError,
    SignatureError,
    WisdomFileError,
    WisdomFileNotFoundError,
    WisdomFileUnreadableError,
)
from .problem.arrays import TensorSpec

if TYPE_CHECKING:
    from .tools.graph_files import Graph, load_graph

    __version__: str

__all__ = [
    "AttributeValueError",
    "CacheInfo",
    "ConvTransposeAttributes",
    "ConvolutionAttributes",
    "DTypeError",
    "Gradients",
    "Graph",
    "GraphFileError",
    "LibraryNotFoundError",
    "OneDNNError",
    "OneDNNMemoryError",
    "OneDNNPyError",
    "PackedTensor",
    "Plan",
    "ShapeError",
    "SignatureError",
    "TensorSpec",
    "WisdomFileError",
    "WisdomFileNotFoundError",
    "WisdomFileUnreadableError",
    "cache_clear",
    "cache_info",
    "conv_transpose",
    "conv_transpose_backward",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "convolution",
    "convolution_backprop_data",
    "convolution_backward",
    "convolution_backward_data",
    "convolution_backward_weights",
    "get_num_threads",
    "info",
    "load_graph",
    "num_threads",
    "plan",
    "run_op",
    "set_cache_limit",
    "set_idle_threads",
    "set_num_threads",
    "use_backend",
    "use_effort",
    "use_fpmath_mode",
    "wisdom",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def __getattr__(name: str) -> Any:
    # Tools stand on the public names, so that public names among them come when asked for.
    if name in ("Graph", "load_graph"):
        from .tools import graph_files

        return getattr(graph_files, name)
    if name == "__version__":
        # Reading a distribution's metadata takes longer than a call.
        return package_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
