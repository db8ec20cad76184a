"""Convolutions and their gradients on dask arrays: images and volumes larger than memory.

The functions of the same names in `onednn_py`, block by block. Which part of the input a part of
the result needs is arithmetic that `onednn_py.overlap` has without dask, for users of MPI.

>>> import dask.array as da, numpy as np, onednn_py.dask
>>> src = da.zeros((1, 64, 64, 3), chunks=(1, 32, 32, 3), dtype=np.float32)
>>> weights = np.ones((3, 3, 3, 8), np.float32)
>>> onednn_py.dask.convolution(src, weights, pads_begin=1, pads_end=1).chunks
((1,), (32, 32), (32, 32), (8,))
"""

try:
    import dask._task_spec as _task_spec  # noqa: F401 - not in older versions
    import dask.array as _array  # the package of that name, not this one
except ImportError as error:
    raise ImportError(
        'onednn_py.dask needs dask 2024.12 or newer: pip install --upgrade "onednn_py[dask]"'
    ) from error

if getattr(_array, "array_expr_enabled", lambda: False)():
    raise ImportError(
        "onednn_py.dask does not know dask's experimental expressions of arrays: leave its setting"
        " array.query-planning (DASK_ARRAY__QUERY_PLANNING) at False"
    )

from onednn_py.overlap import InputPart, needed_part, reached_part

from .functions import (
    conv_transpose,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
    convolution,
    convolution_backward_data,
    convolution_backward_weights,
)

__all__ = [
    "InputPart",
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weights",
    "needed_part",
    "reached_part",
]
