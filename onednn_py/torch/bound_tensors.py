"""A call whose signature is known, run on the memory of PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

import torch

from onednn_py.config import Effort
from onednn_py.dispatch.bound_call import BoundCall
from onednn_py.dispatch.settings import settings
from onednn_py.problem.arrays import element_strides, readable
from onednn_py.problem.call_spec import call_spec
from onednn_py.problem.formats import dense_strides
from onednn_py.system.small_holes import small_holes_filled

from .signature import Geometry
from .tensors import (
    SMALLEST_HOLE,
    Array,
    array_of,
    channels_last,
    lasting_maker,
    result_maker,
)

__all__ = ["BoundTensors"]

# For the forward pass and for the gradients, the functions by whether they are transposed.
_FORWARD = ("convolution", "conv_transpose")
_BACKWARD = ("convolution_backward", "conv_transpose_backward")

# The order of the gradients of `aten::convolution_backward`, and of `onednn_py.Gradients`.
_WRT = ("src", "weights", "bias")

# Tensors that have the format of a call, in the names of both passes.
_ACTIVATIONS = ("src", "diff_dst", "dst", "diff_src")


class BoundTensors:
    """A call of known shapes, strides and types, which takes tensors and gives tensors.

    The functions of `onednn_py` would do the same, and look up arguments that are known here.

    Parameters
    ----------
    geometry : Geometry
        With an entry per spatial axis.
    named : mapping
        Tensors by the function's names of them, in its order.
    mask : sequence of bool, optional
        Of the gradients of src, weights and bias, which ones are asked for; None for the forward
        pass.
    dst_shape : sequence of int
    is_channels_last : bool
        Of the results.
    effort : {"heuristic", "measure"}
    """

    def __init__(
        self,
        geometry: Geometry,
        named: Mapping[str, torch.Tensor],
        mask: Sequence[bool] | None,
        dst_shape: Sequence[int],
        is_channels_last: bool,
        effort: Effort,
    ) -> None:
        self._settings = settings("onednn", "strict", effort)
        self._is_last = is_channels_last
        self._part_of_element = named["src"].element_size() - 1
        self._formats = [
            _format_wanted(tensor, is_channels_last) if name in _ACTIVATIONS else None
            for name, tensor in named.items()
        ]
        named = dict(zip(named, self._prepared(list(named.values())), strict=True))
        self._in_data_format = [is_channels_last and name in _ACTIVATIONS for name in named]
        arrays = dict(
            zip(named, self._arrays(list(named.values()), self._in_data_format), strict=True)
        )
        shapes = _shapes_of_results(named, mask, dst_shape)
        dtype = named["src"].dtype
        elements = max(map(prod, (*shapes.values(), *(array.shape for array in arrays.values()))))
        self._is_large = elements * dtype.itemsize >= SMALLEST_HOLE
        self._makers = [
            result_maker(shape, dtype, is_channels_last)
            if name in _ACTIVATIONS
            else lasting_maker(
                shape, dtype, is_channels_last and name != "diff_bias", self._is_large
            )
            for name, shape in shapes.items()
        ]
        self._results_in_data_format = [is_channels_last and one in _ACTIVATIONS for one in shapes]
        # For each gradient, its place among the results.
        self._places = None
        if mask is not None:
            self._places = [
                sum(mask[:index]) if asked else None for index, asked in enumerate(mask)
            ]
        arguments: dict[str, Any] = geometry.attributes()
        arguments["data_format"] = "NXC" if is_channels_last else "NCX"
        functions = _FORWARD if mask is None else _BACKWARD
        if mask is not None:
            arguments["wrt"] = [one for one, asked in zip(_WRT, mask, strict=True) if asked]
        spec = call_spec(functions[geometry.transposed], {**arguments, **arrays})
        strides = {
            role: element_strides(array)
            for role, array in zip(spec.inputs, arrays.values(), strict=True)
        }
        # Tensors that oneDNN cannot read, such as those of strides of zero, are copied.
        self._copied = [index for index, found in enumerate(strides.values()) if found is None]
        known = {
            role: dense_strides(array.shape) if found is None else found
            for (role, found), array in zip(strides.items(), arrays.values(), strict=True)
        }
        if is_channels_last and "diff_weights" in shapes:
            known["diff_weights"] = _kernel_strides_last(shapes["diff_weights"])
        self._bound = BoundCall(spec, known, "strict")

    def is_implemented(self) -> bool:
        """Whether oneDNN computes all of it, but for a bias gradient that is a sum alone."""
        # A plan stays, and is made among the tensors of a step. The call makes it again where the
        # cache of plans has dropped it, which is rare enough.
        with small_holes_filled() if self._is_large else nullcontext():
            plan, _ = self._bound.plan(self._settings)
        return "numpy" not in plan.implementation.split(" and ")

    def __call__(
        self, tensors: Sequence[torch.Tensor]
    ) -> torch.Tensor | tuple[torch.Tensor | None, ...]:
        """Return dst, or the three gradients, None for those that are not asked for.

        Parameters
        ----------
        tensors : sequence of Tensor
            Of the shapes, strides and types that are known, in the function's order.
        """
        plan, pick = self._bound.plan(self._settings)
        made = [make() for make in self._makers]
        tensors = self._prepared(tensors)
        runner = plan.address_runner
        if runner is None or self._copied:
            arrays = self._arrays(tensors, self._in_data_format)
            for index in self._copied:
                arrays[index] = readable(arrays[index])[0]
            arrays += self._arrays(made, self._results_in_data_format)
            self._bound.run(plan, pick, arrays)
        else:
            pointer: Any = runner.pointer
            addresses: list[Any] = [pointer(tensor.data_ptr()) for tensor in tensors]
            addresses += [pointer(tensor.data_ptr()) for tensor in made]
            runner.run(list(pick(addresses)))
        if self._places is None:
            return made[0]
        return tuple(None if place is None else made[place] for place in self._places)

    def _prepared(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the tensors, or copies of those that begin or lie in memory as kernels do not."""
        return [
            self._aligned(tensor if wanted is None else tensor.contiguous(memory_format=wanted))
            for tensor, wanted in zip(tensors, self._formats, strict=True)
        ]

    def _aligned(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor, or a copy of equal strides of one that begins inside an element."""
        if tensor.data_ptr() & self._part_of_element:
            return torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu"
            ).copy_(tensor.detach())
        return tensor

    @staticmethod
    def _arrays(tensors: Sequence[torch.Tensor], are_last: Sequence[bool]) -> list[Array]:
        """Return the tensors' arrays, those that are so marked as (N, *spatial, C)."""
        return [
            channels_last(array_of(tensor)) if is_last else array_of(tensor)
            for tensor, is_last in zip(tensors, are_last, strict=True)
        ]


def _shapes_of_results(
    named: Mapping[str, torch.Tensor], mask: Sequence[bool] | None, dst_shape: Sequence[int]
) -> dict[str, Sequence[int]]:
    """Return the shapes of the results that are asked for, by name."""
    if mask is None:
        return {"dst": dst_shape}
    gradients = {
        "diff_src": named["src"].shape,
        "diff_weights": named["weights"].shape,
        "diff_bias": dst_shape[1:2],
    }
    return {
        name: shape for (name, shape), asked in zip(gradients.items(), mask, strict=True) if asked
    }


def _kernel_strides_last(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of weights whose input channels are the innermost axis in memory."""
    outputs, inputs, *kernel = shape
    outer, *spatial, inner = dense_strides((outputs, *kernel, inputs))
    return (outer, inner, *spatial)


_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _format_wanted(tensor: torch.Tensor, is_channels_last: bool) -> torch.memory_format | None:
    """Return the memory format of the results for activations in the other one, otherwise None.

    oneDNN's kernels take both activations in one format. What is left for two formats takes up to
    five times as long as a copy and they do: 32 to 4 channels, 64 x 64 x 64, 1x1x1 weights gradient
    6.4 ms, with the copy 1.5.
    """
    last = _CHANNELS_LAST.get(tensor.dim())
    if last is None:
        return None
    is_first, is_last = tensor.is_contiguous(), tensor.is_contiguous(memory_format=last)
    if is_first == is_last or is_last == is_channels_last:
        return None
    return last if is_channels_last else torch.contiguous_format
