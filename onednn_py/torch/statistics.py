"""Counts of the calls that ran here, and of those left to PyTorch, by reason."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from onednn_py.system.forks import in_forked_child

__all__ = ["Statistics", "count_left", "count_taken", "reset_statistics", "statistics"]

_taken: Counter[str] = Counter()
_left: Counter[tuple[str, str]] = Counter()
# Reentrant: a destructor may run a convolution while its thread counts another.
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class Statistics:
    """Calls of PyTorch's convolution operations while the kernels were in place.

    ``print`` shows them in lines.

    Attributes
    ----------
    taken : dict
        By the operation's name, ``"convolution"`` or ``"convolution_backward"``, the number of
        calls that ran here.
    left : dict
        By the operation's name, a dict: the number of calls left to PyTorch by reason.
    """

    taken: dict[str, int]
    left: dict[str, dict[str, int]]

    def __str__(self) -> str:
        lines = []
        for name in ("convolution", "convolution_backward"):
            lines.append(f"{name}: {self.taken.get(name, 0)} calls taken")
            reasons = sorted(self.left.get(name, {}).items(), key=lambda item: -item[1])
            lines += [f"  {number} left to PyTorch: {reason}" for reason, number in reasons]
        return "\n".join(lines)


def count_taken(name: str) -> None:
    with _lock:
        _taken[name] += 1


def count_left(name: str, reason: str) -> None:
    with _lock:
        _left[name, reason] += 1


def statistics() -> Statistics:
    """Return how many calls ran here, and how many were left to PyTorch for which reason.

    The counts are those of all threads since the process began, or since `reset_statistics`. A
    forked child begins with those of its parent.

    Returns
    -------
    Statistics

    Examples
    --------
    >>> import torch, onednn_py.torch
    >>> onednn_py.torch.reset_statistics()
    >>> with onednn_py.torch.enabled():
    ...     dst = torch.nn.Conv2d(32, 64, 3)(torch.ones(8, 32, 28, 28))
    >>> onednn_py.torch.statistics().taken
    {'convolution': 1}
    """
    with _lock:
        taken, left = dict(_taken), dict(_left)
    reasons: dict[str, dict[str, int]] = {}
    for (name, reason), number in left.items():
        reasons.setdefault(name, {})[reason] = number
    return Statistics(taken, reasons)


def reset_statistics() -> None:
    """Begin to count anew.

    Examples
    --------
    >>> import onednn_py.torch
    >>> onednn_py.torch.reset_statistics()
    >>> print(onednn_py.torch.statistics())
    convolution: 0 calls taken
    convolution_backward: 0 calls taken
    """
    with _lock:
        _taken.clear()
        _left.clear()


@in_forked_child
def _reset() -> None:
    global _lock
    _lock = threading.RLock()
