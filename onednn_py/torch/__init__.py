"""PyTorch's own CPU convolutions run by oneDNN through `onednn_py`, models unchanged.

>>> import onednn_py.torch
>>> onednn_py.torch.enable()                                              # doctest: +SKIP
"""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError("onednn_py.torch needs PyTorch: pip install torch") from error

if not hasattr(_torch.library, "get_kernel"):
    raise ImportError(
        f"onednn_py.torch needs PyTorch 2.9 or newer, and this is {_torch.__version__}: "
        'pip install --upgrade "torch>=2.9"'
    )

from .registration import disable, enable, enabled
from .statistics import Statistics, statistics

__all__ = ["Statistics", "disable", "enable", "enabled", "statistics"]
