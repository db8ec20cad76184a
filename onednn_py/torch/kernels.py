"""The kernels: PyTorch's convolution and its gradients, computed by `onednn_py`."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch

import onednn_py
from onednn_py.config import Effort
from onednn_py.system.forks import in_forked_child

from .preference import reason_to_leave
from .signature import Geometry, memory_format, refusal
from .statistics import count_left, count_taken
from .tensors import Array, array_of, channels_first, channels_last, tensor_of

__all__ = ["Kernels"]

# Decisions that are kept, one for each signature of a call.
MOST_DECISIONS = 4096

# Where this environment variable is set, an error of a kernel is raised instead of counted.
RAISE = "ONEDNN_PY_TORCH_RAISE"


class _Decision(NamedTuple):
    """How calls of one signature run.

    Attributes
    ----------
    reason : str
        Why they are left to PyTorch, empty where they run here.
    attributes : dict
        As the functions of `onednn_py` take them.
    is_channels_last : bool
        Of the results.
    transposed : bool
    """

    reason: str
    attributes: dict[str, Any] = {}  # noqa: RUF012
    is_channels_last: bool = False
    transposed: bool = False


class Kernels:
    """Both kernels and what they remember, from `enable` to `disable`.

    Parameters
    ----------
    originals : dict
        PyTorch's own kernels by the operation's name.
    effort : str, optional
    """

    def __init__(self, originals: dict[str, Any], effort: Effort | None) -> None:
        self._originals = originals
        self._effort = effort
        self._decisions: dict[Any, _Decision] = {}
        self._lock = threading.Lock()
        _alive.append(self)

    def convolution(
        self,
        keyset: Any,
        src: torch.Tensor,
        weights: torch.Tensor,
        bias: torch.Tensor | None,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        transposed: bool,
        output_padding: Sequence[int],
        groups: int,
    ) -> torch.Tensor:
        """Compute `aten::convolution`."""

        def original() -> Any:
            return self._originals["convolution"].call_boxed(
                keyset,
                src,
                weights,
                bias,
                stride,
                padding,
                dilation,
                transposed,
                output_padding,
                groups,
            )

        geometry = Geometry(
            tuple(stride),
            tuple(padding),
            tuple(dilation),
            transposed,
            tuple(output_padding),
            groups,
        )
        others = () if bias is None else (bias,)
        decision = self._decide("convolution", geometry, src, weights, others, None)

        def run() -> torch.Tensor:
            function = _FORWARD[transposed]
            arrays = [array_of(tensor) for tensor in (src, weights, *others)]
            if not decision.is_channels_last:
                return tensor_of(function(*arrays, data_format="NCX", **decision.attributes))
            arrays[0] = channels_last(arrays[0])
            result = function(*arrays, data_format="NXC", **decision.attributes)
            return _moved(tensor_of(result))

        result: torch.Tensor = self._run("convolution", decision, run, original)
        return result

    def convolution_backward(
        self,
        keyset: Any,
        diff_dst: torch.Tensor,
        src: torch.Tensor,
        weights: torch.Tensor,
        bias_sizes: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        transposed: bool,
        output_padding: Sequence[int],
        groups: int,
        output_mask: Sequence[bool],
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        """Compute `aten::convolution_backward`."""

        def original() -> Any:
            return self._originals["convolution_backward"].call_boxed(
                keyset,
                diff_dst,
                src,
                weights,
                bias_sizes,
                stride,
                padding,
                dilation,
                transposed,
                output_padding,
                groups,
                output_mask,
            )

        geometry = Geometry(
            tuple(stride),
            tuple(padding),
            tuple(dilation),
            transposed,
            tuple(output_padding),
            groups,
        )
        mask = tuple(output_mask)
        decision = self._decide("convolution_backward", geometry, src, weights, (diff_dst,), mask)
        wrt = _WRT[mask]

        def run() -> tuple[torch.Tensor | None, ...]:
            function = _BACKWARD[transposed]
            arrays = [array_of(tensor) for tensor in (src, weights, diff_dst)]
            data_format, out = "NCX", None
            if decision.is_channels_last:
                data_format = "NXC"
                if mask[1]:
                    out = (None, _empty_channels_last(arrays[1]), None)
                arrays[0], arrays[2] = channels_last(arrays[0]), channels_last(arrays[2])
            found = function(
                *arrays, wrt=wrt, data_format=data_format, out=out, **decision.attributes
            )
            diff_src, diff_weights, diff_bias = (
                None if array is None else tensor_of(array) for array in found
            )
            if decision.is_channels_last and diff_src is not None:
                diff_src = _moved(diff_src)
            return diff_src, diff_weights, diff_bias

        gradients: tuple[Any, Any, Any] = self._run("convolution_backward", decision, run, original)
        return gradients

    def _decide(
        self,
        name: str,
        geometry: Geometry,
        src: torch.Tensor,
        weights: torch.Tensor,
        others: Sequence[torch.Tensor],
        mask: tuple[bool, ...] | None,
    ) -> _Decision:
        """Return how calls of this signature run."""
        enabled = torch._C._get_mkldnn_enabled()
        key = (
            name,
            geometry,
            mask,
            enabled,
            *((type(t), t.dtype, t.shape, t.stride(), t.layout) for t in (src, weights, *others)),
        )
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decision(name, geometry, src, weights, others, mask, enabled)
            with self._lock:
                while len(self._decisions) >= MOST_DECISIONS:
                    del self._decisions[next(iter(self._decisions))]
                self._decisions[key] = decision
        return decision

    def _decision(
        self,
        name: str,
        geometry: Geometry,
        src: torch.Tensor,
        weights: torch.Tensor,
        others: Sequence[torch.Tensor],
        mask: tuple[bool, ...] | None,
        enabled: bool,
    ) -> _Decision:
        if not enabled:
            return _Decision("torch.backends.mkldnn is disabled")
        reason = refusal(geometry, src, weights, others)
        if reason:
            return _Decision(reason)
        if mask is not None and not any(mask):
            return _Decision("nothing is asked for")
        geometry = geometry.expanded(src.dim() - 2)
        reason = reason_to_leave(name, geometry, src, weights)
        if reason:
            return _Decision(reason)
        bias_size = None
        if mask is None and others:
            bias_size = others[0].shape[0]
        elif mask is not None and mask[2]:
            bias_size = others[0].shape[1]
        is_channels_last = memory_format(geometry, src, weights, bias_size)
        attributes = {**geometry.attributes(), "backend": "onednn"}
        return _Decision("", attributes, is_channels_last, geometry.transposed)

    def _run(
        self,
        name: str,
        decision: _Decision,
        run: Callable[[], Any],
        original: Callable[[], Any],
    ) -> Any:
        if decision.reason:
            count_left(name, decision.reason)
            return original()
        try:
            with self._with_effort():
                result = run()
        except Exception as error:
            if os.environ.get(RAISE):
                raise
            _warn(error)
            count_left(name, "an error of onednn_py")
            return original()
        count_taken(name)
        return result

    def _with_effort(self) -> AbstractContextManager[Any]:
        if self._effort is None:
            return nullcontext()
        return onednn_py.use_effort(self._effort)

    def renew_lock(self) -> None:
        self._lock = threading.Lock()


# The functions by whether the convolution is transposed.
_FORWARD: dict[bool, Any] = {False: onednn_py.convolution, True: onednn_py.conv_transpose}
_BACKWARD: dict[bool, Any] = {
    False: onednn_py.convolution_backward,
    True: onednn_py.conv_transpose_backward,
}

# What `wrt` is for each mask of gradients.
_WRT: dict[tuple[bool, ...], tuple[str, ...]] = {
    (data, weights, bias): tuple(
        name
        for name, wanted in zip(("src", "weights", "bias"), (data, weights, bias), strict=True)
        if wanted
    )
    for data in (False, True)
    for weights in (False, True)
    for bias in (False, True)
}

_alive: list[Kernels] = []
_warned = False


def _moved(result: torch.Tensor) -> torch.Tensor:
    """Return (N, *spatial, C) as (N, C, *spatial), with the strides of channels last."""
    return result.permute(0, result.dim() - 1, *range(1, result.dim() - 1))


def _empty_channels_last(weights: Array) -> Array:
    """Return an array of the weights' shape whose second axis is the innermost in memory."""
    first, second, *kernel = weights.shape
    return channels_first(np.empty((first, *kernel, second), weights.dtype))


def _warn(error: Exception) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "onednn_py.torch left a convolution to PyTorch after an error of its own: "
            f"{error!r:.400}",
            RuntimeWarning,
            stacklevel=2,
        )


@in_forked_child
def _reset() -> None:
    for kernels in _alive:
        kernels.renew_lock()
