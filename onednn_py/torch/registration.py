"""Putting the kernels in place of PyTorch's, and PyTorch's back."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch

from onednn_py.backends.onednn import library
from onednn_py.config import Effort, effort_setting, freed_memory_setting
from onednn_py.errors import AttributeValueError, brief
from onednn_py.system.allocator import keep_freed_memory, return_freed_memory
from onednn_py.system.forks import in_forked_child
from onednn_py.system.small_holes import small_holes_filled

from .kernels import BACKWARD, CONVOLUTION, Kernels

__all__ = ["disable", "enable", "enabled"]


class _Settings(NamedTuple):
    """What `enable` was called with."""

    forward: bool
    effort: Effort | None


class _Request:
    """What the process's own calls ask for, or a ``with`` block."""

    def __init__(self, settings: _Settings | None) -> None:
        self.settings = settings


_lock = threading.RLock()
_kernels = Kernels()

# The process's own request, and those of the entered blocks; the last is in force. Blocks of
# several threads may end in any order.
_requests = [_Request(None)]

# The settings in force.
_settings: _Settings | None = None

# The registration of each operation, and the kernel as PyTorch holds it.
_registered: dict[str, tuple[Any, Any]] = {}

# Kernels that were taken back. A thread that waits for the interpreter's lock on its way into a
# kernel holds no reference to it, and would find its memory freed.
_retired: deque[Any] = deque(maxlen=4096)


def enable(*, forward: bool = True, effort: Effort | None = None) -> None:
    """Run PyTorch's convolutions on the CPU, and their gradients, by `onednn_py`.

    It concerns all threads of the process, and eager and compiled code alike. Models, tensors and
    results stay PyTorch's, with the strides that its own kernels give. Called again, it replaces
    the settings of the call before. A forked child is enabled as its parent was.

    float32, bfloat16 and float16 are computed here, and what PyTorch does faster is left to it, as
    are float64, empty tensors, subclasses of tensors, and arguments that are not valid:
    `statistics` tells. Settings of PyTorch are honoured: its number of threads, and
    ``torch.backends.mkldnn.flags(enabled=False)``, which leaves everything to it.

    Parameters
    ----------
    forward : bool
        False leaves the forward pass to PyTorch and takes the gradients alone.
    effort : {"heuristic", "measure"}, optional
        As `onednn_py.use_effort` takes it; left out, the setting in force at each call. With
        ``"measure"``, the first calls of each signature are computed here and by PyTorch in turn,
        and the faster goes on; results of equal calls may then differ in their last digits.

    Raises
    ------
    AttributeValueError
        For another effort.
    LibraryNotFoundError
        If no oneDNN library can be used: on NumPy, PyTorch would be slower than before.
    RuntimeError
        If another library has registered CPU kernels for these operations. Nothing is changed then.

    Notes
    -----
    Of each size of 64 KiB and more two results, and all of 32 MiB and more, lie on memory that is
    used again when the last tensor on it is gone, up to `onednn_py.set_cache_limit`. Other results
    lie on PyTorch's own memory. Storages of the former cannot be resized.

    On Linux, glibc's allocator is told to keep freed memory, up to a quarter of the machine's and
    2 GiB at the most, in place of returning it to the system at every step and taking it again.
    `disable` has it return memory again. The environment variable ``ONEDNN_PY_FREED_MEMORY=return``
    leaves the allocator alone, as do settings of your own (``MALLOC_TRIM_THRESHOLD_``,
    ``GLIBC_TUNABLES``) and other allocators; `onednn_py.info` tells under ``freed_memory``.

    An error inside a kernel is counted in `statistics` and warned of once, and PyTorch computes the
    call. With the environment variable ``ONEDNN_PY_TORCH_RAISE`` it is raised.

    Examples
    --------
    >>> import torch, onednn_py.torch
    >>> onednn_py.torch.enable()
    >>> dst = torch.nn.Conv2d(32, 64, 3)(torch.ones(8, 32, 28, 28))
    >>> onednn_py.torch.disable()
    """
    settings = _checked(forward, effort)
    with _lock:
        _apply(settings)
        _requests[-1].settings = settings


def disable() -> None:
    """Put PyTorch's own kernels back; does nothing where they are in place.

    Calls of other threads that are running go on to their end.
    """
    with _lock:
        _apply(None)
        _requests[-1].settings = None


@contextmanager
def enabled(*, forward: bool = True, effort: Effort | None = None) -> Iterator[None]:
    """Enable inside a ``with`` block, and restore what was before.

    The setting is the whole process's: other threads are enabled, too.

    Parameters
    ----------
    forward : bool
        As for `enable`.
    effort : {"heuristic", "measure"}, optional
        As for `enable`.

    Raises
    ------
    AttributeValueError, LibraryNotFoundError, RuntimeError
        As `enable` does.

    Examples
    --------
    >>> import torch, onednn_py.torch
    >>> model = torch.nn.Conv2d(32, 64, 3)
    >>> with onednn_py.torch.enabled():
    ...     model(torch.ones(8, 32, 28, 28)).sum().backward()
    """
    request = _Request(_checked(forward, effort))
    with _lock:
        _apply(request.settings)
        _requests.append(request)
    try:
        yield
    finally:
        with _lock:
            _requests.remove(request)
            _apply(_requests[-1].settings)


def _checked(forward: bool, effort: Effort | None) -> _Settings:
    if effort is not None:
        effort_setting.current(effort, "onednn_py.torch.enable")
    if not isinstance(forward, (bool, np.bool_)):
        raise AttributeValueError(
            f"onednn_py.torch.enable: forward: expected True or False, got {brief(forward)}"
        )
    return _Settings(bool(forward), effort)


def _apply(settings: _Settings | None) -> None:
    """Register and take back what differs from the settings in force.

    If that fails, the settings in force stay.
    """
    global _settings
    if settings == _settings and _registered.keys() == _kernels.active:
        return
    names: tuple[str, ...] = ()
    if settings is not None:
        names = (CONVOLUTION, BACKWARD) if settings.forward else (BACKWARD,)
        _check(names)
        new = [name for name in names if name not in _registered]
        keep_freed_memory()
        try:
            # Kernels stay when they are retired, and some programs enable them anew for each step.
            with small_holes_filled() if new else nullcontext():
                for name in new:
                    _register(name)
        except BaseException:
            for name in new:
                _take_back(name)
            if _settings is None:
                return_freed_memory()
            raise
        _kernels.use_effort(settings.effort)
    _kernels.active = frozenset(names)
    for name in _registered.keys() - set(names):
        _take_back(name)
    _settings = settings
    if settings is None:
        return_freed_memory()


def _check(names: Sequence[str]) -> None:
    """Raise the error of what cannot be enabled."""
    library()
    freed_memory_setting.current()
    for name in names:
        if name in _registered:
            is_theirs = not _is_in_place(name)
        else:
            is_theirs = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU")
        if is_theirs:
            raise RuntimeError(
                f"onednn_py.torch.enable: another library has registered a CPU kernel for "
                f"aten::{name}: disable that library first"
            )


def _is_in_place(name: str) -> bool:
    """Whether PyTorch calls our kernel, and no kernel that was registered after it."""
    # Kernels are told apart by the place of their registration alone.
    return repr(torch.library.get_kernel(f"aten::{name}", "CPU")) == repr(_registered[name][1])


def _register(name: str) -> None:
    _kernels.originals[name] = torch.library.get_kernel(f"aten::{name}", "CPU")
    registration = torch.library.Library("aten", "IMPL")
    try:
        registration.impl(name, getattr(_kernels, name), "CPU", with_keyset=True)
        _registered[name] = registration, torch.library.get_kernel(f"aten::{name}", "CPU")
    except BaseException:
        registration._destroy()
        raise


def _take_back(name: str) -> None:
    """Put PyTorch's own kernel back.

    Where another library has registered a kernel since, ours stays below it and passes calls on:
    the other kernel may call ours, which PyTorch would refuse once it is gone.
    """
    if name in _registered and _is_in_place(name):
        registration, kernel = _registered.pop(name)
        _retired.append(kernel)
        registration._destroy()


@in_forked_child
def _reset() -> None:
    global _lock
    _lock = threading.RLock()
    _kernels.renew_lock()
