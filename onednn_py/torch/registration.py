"""Putting the kernels in place of PyTorch's, and PyTorch's back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onednn_py import info
from onednn_py.config import Effort, effort_setting
from onednn_py.errors import LibraryNotFoundError

from .kernels import Kernels

__all__ = ["disable", "enable", "enabled"]

_lock = threading.RLock()
_library: Any = None
_how: tuple[bool, Effort | None] | None = None

OPERATIONS = ("convolution", "convolution_backward")


def enable(*, forward: bool = True, effort: Effort | None = None) -> None:
    """Run PyTorch's convolutions on the CPU, and their gradients, by `onednn_py`.

    All threads of the process, eager and compiled code alike. Called again, it replaces the
    settings of the call before.

    Parameters
    ----------
    forward : bool
        False leaves the forward pass to PyTorch and takes the gradients alone.
    effort : {"heuristic", "measure"}, optional
        As `onednn_py.use_effort` takes it; left out, the setting in force at each call.

    Raises
    ------
    AttributeValueError
        For another effort.
    LibraryNotFoundError
        If no oneDNN library can be used: on NumPy, PyTorch would be slower than before.
    RuntimeError
        If something else has registered CPU kernels for these operations.
    """
    global _library, _how
    if effort is not None:
        effort_setting.current(effort)
    with _lock:
        if _how == (forward, effort):
            return
        facts = info()
        if facts["library"] is None:
            raise LibraryNotFoundError(facts["error"] or "no oneDNN library can be used")
        disable()
        names = OPERATIONS if forward else OPERATIONS[1:]
        for name in names:
            if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU"):
                raise RuntimeError(
                    f"onednn_py.torch.enable: another library has registered a CPU kernel for "
                    f"aten::{name}; disable it first"
                )
        originals = {name: torch.library.get_kernel(f"aten::{name}", "CPU") for name in names}
        kernels = Kernels(originals, effort)
        library = torch.library.Library("aten", "IMPL")
        try:
            for name in names:
                library.impl(name, getattr(kernels, name), "CPU", with_keyset=True)
        except BaseException:
            library._destroy()
            raise
        _library, _how = library, (forward, effort)


def disable() -> None:
    """Put PyTorch's own kernels back; does nothing where they are in place."""
    global _library, _how
    with _lock:
        if _library is not None:
            _library._destroy()
            _library = _how = None


@contextmanager
def enabled(*, forward: bool = True, effort: Effort | None = None) -> Iterator[None]:
    """Enable inside a ``with`` block, and restore what was before; the parameters are `enable`'s.

    Examples
    --------
    >>> with onednn_py.torch.enabled():                                   # doctest: +SKIP
    ...     loss(model(images)).backward()
    """
    with _lock:
        before = _how
        enable(forward=forward, effort=effort)
    try:
        yield
    finally:
        with _lock:
            if before is None:
                disable()
            else:
                enable(forward=before[0], effort=before[1])
