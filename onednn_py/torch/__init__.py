"""PyTorch's own CPU convolutions, and their gradients, run by oneDNN, models unchanged.

`enable` puts kernels in place of PyTorch's, for eager and compiled code alike, and `disable` puts
PyTorch's back; `enabled` does both around a ``with`` block. What PyTorch computes faster, and what
is not computed here, is left to it: `statistics` tells how many calls ran where, and why.

It needs PyTorch 2.9 or newer, the first that hands out the kernels that it has in place.

Examples
--------
>>> import torch, onednn_py.torch
>>> onednn_py.torch.enable()
>>> model = torch.nn.Conv2d(32, 64, 3)
>>> model(torch.ones(8, 32, 28, 28)).sum().backward()
>>> onednn_py.torch.disable()
"""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError("onednn_py.torch needs PyTorch: pip install torch") from error

if not hasattr(getattr(_torch, "library", None), "get_kernel"):
    raise ImportError(
        f"onednn_py.torch needs PyTorch 2.9 or newer, and this is {_torch.__version__}: "
        'pip install --upgrade "torch>=2.9"'
    )

from .registration import disable, enable, enabled
from .statistics import Statistics, reset_statistics, statistics

__all__ = ["Statistics", "disable", "enable", "enabled", "reset_statistics", "statistics"]
