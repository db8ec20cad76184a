"""Gradients of convolution and transposed convolution on NumPy arrays, run by oneDNN.

Importing the package opens no library and reads no environment variable; the first call
does. `info` tells what is in use.
"""

from . import wisdom
from .arrays import TensorSpec
from .config import use_backend, use_effort, use_fpmath_mode
from .errors import (
    AttributeValueError,
    DTypeError,
    GraphFileError,
    LibraryNotFoundError,
    OneDNNError,
    OneDNNMemoryError,
    OneDNNPyError,
    ShapeError,
    WisdomFileError,
)
from .graph import run_op
from .graph_files import load_graph
from .information import info
from .ops import (
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
from .planning import Plan, cache_clear, cache_info, plan, set_cache_limit
from .threads import get_num_threads, num_threads, set_num_threads

__all__ = [
    "AttributeValueError",
    "DTypeError",
    "Gradients",
    "GraphFileError",
    "LibraryNotFoundError",
    "OneDNNError",
    "OneDNNMemoryError",
    "OneDNNPyError",
    "Plan",
    "ShapeError",
    "TensorSpec",
    "WisdomFileError",
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
    "set_num_threads",
    "use_backend",
    "use_effort",
    "use_fpmath_mode",
    "wisdom",
]
