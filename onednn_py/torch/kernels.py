"""The kernels: PyTorch's convolution and its gradients, computed here or left to PyTorch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import torch

from onednn_py.config import Effort, effort_setting
from onednn_py.system.memory_pool import pool

from .bound_tensors import BoundTensors
from .contest import Contest
from .defects import is_defective
from .failures import failed, is_of_memory, is_of_program
from .preference import Call, reason_to_leave
from .products import Product, as_product
from .signature import NO_ELEMENTS, PLAIN, Geometry, native, output_shape, refusal
from .statistics import count_left, count_taken
from .tensors import are_allocated
from .traced import call_within

__all__ = ["Kernels"]

# Decisions that are kept, one for each signature of a call.
MOST_DECISIONS = 1024

CONVOLUTION, BACKWARD = "convolution", "convolution_backward"

_mkldnn_enabled = torch._C._get_mkldnn_enabled
_mkldnn_deterministic = torch._C._get_mkldnn_deterministic
_float32_precision = torch._C._get_fp32_precision_getter
_num_threads = torch.get_num_threads
_tracing_state = torch._C._get_tracing_state

_number_of_modes = torch._C._len_torch_function_stack
DisableTorchFunction = torch._C.DisableTorchFunction
_is_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded
_ExcludeDispatchKeys = torch._C._ExcludeDispatchKeyGuard
_VIEWS = torch._C.DispatchKey.ADInplaceOrView
_OF_VIEWS = torch._C.DispatchKeySet(_VIEWS)
_NOTHING_TO_DO: AbstractContextManager[None] = nullcontext()

FLOAT64 = torch.float64


class _Decision(NamedTuple):
    """How calls of one signature run.

    Attributes
    ----------
    reason : str
        Why they are left to PyTorch, empty where they run here.
    run : callable or None
        Takes the tensors; None where they are left.
    contest : Contest or None
        With the effort to measure, what decides for each call.
    """

    reason: str
    run: BoundTensors | Product | None = None
    contest: Contest | None = None


class Kernels:
    """Both kernels and what they remember.

    Attributes
    ----------
    originals : dict
        PyTorch's own kernels by the operation's name.
    active : frozenset of str
        The operations whose calls are considered. Others pass on to PyTorch: those of threads that
        were on their way here when a kernel was taken back, and of other libraries that kept it.
    """

    def __init__(self) -> None:
        self.originals: dict[str, Any] = {}
        self.active: frozenset[str] = frozenset()
        self._effort: Effort | None = None
        self._decisions: dict[Any, _Decision] = {}
        self._lock = threading.RLock()

    def convolution(self, keyset: Any, *arguments: Any) -> Any:
        """Compute ``aten::convolution``.

        Parameters
        ----------
        keyset : torch.DispatchKeySet
        *arguments
            src, weights, bias, stride, padding, dilation, transposed, output_padding and groups, as
            PyTorch's operation takes them.
        """
        src, weights, bias, *numbers = arguments
        tensors = (src, weights) if bias is None else (src, weights, bias)
        return self._call(CONVOLUTION, keyset, arguments, tensors, numbers, None, None)

    def convolution_backward(self, keyset: Any, *arguments: Any) -> Any:
        """Compute ``aten::convolution_backward``.

        Parameters
        ----------
        keyset : torch.DispatchKeySet
        *arguments
            diff_dst, src, weights, the bias's shape or None, stride, padding, dilation, transposed,
            output_padding, groups, and the mask of the gradients of src, weights and bias, as
            PyTorch's operation takes them.
        """
        diff_dst, src, weights, bias_shape, *numbers, mask = arguments
        tensors = src, weights, diff_dst
        return self._call(BACKWARD, keyset, arguments, tensors, numbers, bias_shape, mask)

    def use_effort(self, effort: Effort | None) -> None:
        """Plan calls with an effort from now on; None is the setting in force at each call."""
        if effort != self._effort:
            with self._lock:
                self._effort = effort
                self._decisions.clear()

    def renew_lock(self) -> None:
        """Make a new lock in a forked child, whose parent may have held it."""
        self._lock = threading.RLock()

    def _call(
        self,
        name: str,
        keyset: Any,
        arguments: Sequence[Any],
        tensors: tuple[torch.Tensor, ...],
        numbers: Sequence[Any],
        bias_shape: Sequence[int] | None,
        mask: Sequence[bool] | None,
    ) -> Any:
        """Compute a call, or have PyTorch compute it; the parameters are those of `_decide`."""
        contest = None
        if name in self.active:
            try:
                # A mode of the program, which is active where C++ calls the operation, would see
                # and may alter what is asked of the tensors here. And where custom operations and
                # operations of control flow run their bodies, below autograd, results that are
                # made as views would be views to the program, which may not write them in place.
                with (
                    DisableTorchFunction() if _number_of_modes() else _NOTHING_TO_DO,
                    _NOTHING_TO_DO if _is_excluded(_VIEWS) else _ExcludeDispatchKeys(_OF_VIEWS),
                ):
                    decision = self._decide(tensors, numbers, bias_shape, mask)
                    contest = decision.contest
                    if decision.run is not None and (contest is None or contest.is_ours):
                        start = perf_counter()
                        result = decision.run(tensors)
                        if contest is not None:
                            contest.add(True, perf_counter() - start)
                        count_taken(name)
                        return result
                reason = decision.reason if contest is None else contest.reason
            except Exception as error:
                if is_of_program(error):
                    raise
                contest, reason = None, failed(error)
            if contest is None:
                count_left(name, reason)
            if reason is _TRACED.reason:
                original = partial(self.originals[name].call_boxed, keyset, *arguments)
                return call_within(sys._getframe(2), original)
        if contest is None:
            try:
                return self.originals[name].call_boxed(keyset, *arguments)
            except RuntimeError as error:
                if not (is_of_memory(error) and pool.idle_bytes):
                    raise
            pool.clear()  # where PyTorch lacks what was kept here
            return self.originals[name].call_boxed(keyset, *arguments)
        start = perf_counter()
        try:
            result = self.originals[name].call_boxed(keyset, *arguments)
        except Exception as error:
            if is_of_program(error):
                raise
            contest.end()
        else:
            contest.add(False, perf_counter() - start)
            count_left(name, reason)
            return result
        return self._call(name, keyset, arguments, tensors, numbers, bias_shape, mask)

    def _decide(
        self,
        tensors: tuple[torch.Tensor, ...],
        numbers: Sequence[Any],
        bias_shape: Sequence[int] | None,
        mask: Sequence[bool] | None,
    ) -> _Decision:
        """Return how calls of this signature run, under PyTorch's settings of this moment.

        Parameters
        ----------
        tensors : tuple of Tensor
            src and weights; then the bias if there is one, or diff_dst for the gradients.
        numbers : sequence
            stride, padding, dilation, transposed, output_padding and groups.
        bias_shape : sequence of int or None
            Of the gradients, the bias's shape.
        mask : sequence of bool or None
            Of the gradients, which ones are asked for.
        """
        if _tracing_state() is not None:
            return _TRACED
        for tensor in tensors:
            # First, since a subclass may see whatever is asked of its tensors.
            if type(tensor) not in PLAIN:
                return _SUBCLASS
        dtype = tensors[0].dtype
        if dtype is FLOAT64:  # at once, since the key takes longer
            return _FLOAT64
        if not _mkldnn_enabled():
            return _DISABLED
        if _mkldnn_deterministic():
            return _DETERMINISTIC
        if dtype is torch.float32 and _float32_precision("mkldnn", "conv") not in _EXACT:
            return _REDUCED
        effort = self._effort or effort_setting.current()
        if effort == "measure" and torch.are_deterministic_algorithms_enabled():
            effort = "heuristic"  # times differ from run to run
        stride, padding, dilation, transposed, output_padding, groups = numbers
        key: tuple[Any, ...] = (
            *[(t.dtype, t.shape, t.stride()) for t in tensors],
            tuple(stride),
            tuple(padding),
            tuple(dilation),
            transposed,
            tuple(output_padding),
            groups,
            _num_threads(),
            effort,
            _float32_precision("mkldnn", "matmul"),
        )
        if mask is not None:
            key += (None if bias_shape is None else tuple(bias_shape), *mask)
        decision = self._decisions.get(key)
        if decision is not None:
            return decision if decision.run is None or are_allocated(tensors) else _FREED
        geometry = Geometry(*key[len(tensors) : len(tensors) + 6])
        decision = self._decision(geometry, tensors, bias_shape, mask, effort)
        if decision is not _FREED:
            with self._lock:
                while len(self._decisions) >= MOST_DECISIONS:
                    del self._decisions[next(iter(self._decisions))]
                self._decisions[key] = decision
        return decision

    def _decision(
        self,
        geometry: Geometry,
        tensors: tuple[torch.Tensor, ...],
        bias_shape: Sequence[int] | None,
        mask: Sequence[bool] | None,
        effort: Any,
    ) -> _Decision:
        """Return how calls of a signature run that was not met before.

        The parameters are those of `_decide`, and the effort.
        """
        reason = refusal(geometry, tensors, bias_shape, mask)
        if reason:
            return _Decision(reason)
        if not are_allocated(tensors):
            return _FREED
        src, weights = tensors[:2]
        geometry = geometry.expanded(src.dim() - 2)
        dst_shape = output_shape(geometry, src.shape, weights.shape)
        assert dst_shape is not None, "refusal compares it"
        found = native(geometry, tensors if mask is None else tensors[:2], bias_shape)
        if src.dtype is not torch.float32 or _float32_precision("mkldnn", "matmul") in _EXACT:
            product = as_product(geometry, tensors, mask, dst_shape, found)
            if product is not None:
                return _Decision("", product)
        kernel, is_last = found
        call = Call(
            geometry=geometry,
            dtype=src.dtype,
            src_shape=src.shape,
            weights_shape=weights.shape,
            dst_shape=dst_shape,
            forward=mask is None,
            kernel=kernel,
            is_channels_last=is_last,
            only_weights=mask is not None and not mask[0],
            threads=_num_threads(),
        )
        contest = None
        # PyTorch's kernel runs by our choice only where it is right.
        if not is_defective(call):
            if effort == "measure":
                contest = Contest()
            else:
                reason = reason_to_leave(call)
                if reason:
                    return _Decision(reason)
        names = ("src", "weights", "bias" if mask is None else "diff_dst")
        named = dict(zip(names, tensors, strict=False))
        run = BoundTensors(geometry, named, mask, dst_shape, is_last, effort)
        if not run.is_implemented():
            return _Decision("not implemented by oneDNN")
        return _Decision("", run, contest)


# What `fp32_precision` of `torch.backends.mkldnn.conv` and `matmul` is where float32 is exact.
_EXACT = frozenset(("none", "ieee"))

# Not kept: the next call's tensors may have memory.
_FREED = _Decision(NO_ELEMENTS)
_SUBCLASS = _Decision("a tensor is of a subclass")
_TRACED = _Decision("torch.jit.trace records the call")
_FLOAT64 = _Decision("data type float64")
_DISABLED = _Decision("torch.backends.mkldnn is disabled")
_DETERMINISTIC = _Decision("torch.backends.mkldnn.deterministic is set")
_REDUCED = _Decision("torch.backends.mkldnn.conv.fp32_precision is reduced")
