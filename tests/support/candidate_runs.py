"""Problems, and any of oneDNN's ways to compute them, compared with the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import onednn_py
from onednn_py.backends.onednn.binding.runtime import runtime
from onednn_py.backends.onednn.execution.plan import NativePlan
from onednn_py.backends.onednn.selection.candidate import Part
from onednn_py.backends.onednn.selection.select import candidates
from onednn_py.dispatch import bound_call as calls
from onednn_py.problem.arrays import element_strides
from onednn_py.problem.problem import Problem
from tests.support.cases import CURATED, Case, Tensors, case
from tests.support.reference import assert_exact

__all__ = ["FORMATS", "GEOMETRIES", "NETWORKS", "LaidOut", "Way", "assert_apart", "of_images"]

# One of each kind that the suites have, in small; the first few are large enough for threads.
NETWORKS = {
    "first_layer": case((36, 36), 7, 2, pads=3, inputs=3, outputs=64),
    "3x3": case((28, 28), 3, pads=1, inputs=32, outputs=32),
    "3x3_stride": case((28, 28), 3, 2, pads=1, inputs=32, outputs=48),
    "1x1": case((20, 20), 1, minibatch=3, inputs=64, outputs=32),
    "1x1_stride": case((20, 20), 1, 2, minibatch=3, inputs=32, outputs=64),
    "1x1_stride_tail": case((15, 14), 1, 2, inputs=16, outputs=32),
    "depthwise": case((24, 24), 3, pads=1, groups=32, inputs=32, outputs=32),
    "depthwise_stride": case((24, 24), 3, 2, pads=1, groups=32, inputs=32, outputs=32),
    "thin_groups": case((10, 10), 3, pads=1, groups=8, inputs=32, outputs=32),
    "1d_dilated": case(90, 2, dilations=16, inputs=32, outputs=64),
    "3d": case((9, 8, 10), 3, pads=1, inputs=16, outputs=32),
    "3d_stride": case((8, 8, 8), 2, 2, inputs=32, outputs=16),
    "upsampling": case((16, 16), 4, 2, pads=1, inputs=32, outputs=48),
    "upconv": case((16, 16), 2, 2, inputs=16, outputs=32),
    "classes": case((16, 16), 1, inputs=64, outputs=2),
    "whole_image": case((4, 4), 4, minibatch=4, inputs=64, outputs=1),
    "stride_and_tail": case((11, 11), 2, 3, pads=(0, 1), inputs=16, outputs=16),
    "dilation_beyond_stride": case((13, 12), 3, (2, 1), (3, 2), pads=(2, 3), inputs=16, outputs=8),
}
FORMATS = {"NCX": True, "NXC": False}

GEOMETRIES = {
    **NETWORKS,
    **{name: CURATED[name] for name in ("2d_groups_16", "2d_depthwise", "2d_channel_tail")},
}


def of_images(geometry: Case, images: int) -> Case:
    return replace(geometry, minibatch=images)


class Way:
    """An operation on a geometry, that any of oneDNN's ways may compute."""

    def __init__(self, tensors: Tensors, operation: str, data_format: str) -> None:
        positional, keywords = tensors.arguments(operation, data_format, FORMATS[data_format])
        function = getattr(onednn_py, operation)
        planned = onednn_py.plan(function, *positional, **keywords, backend="onednn")
        self._task = planned._task
        (self._job,) = planned._bound.jobs
        arrays = [array for array in positional if isinstance(array, np.ndarray)]
        self._inputs = dict(zip(self._task.inputs, arrays, strict=True))
        self._check = tensors, operation, data_format

    @property
    def problem(self) -> Problem:
        return self._job.problem

    def parts(self) -> Iterator[Part]:
        return candidates(runtime(), self.problem)

    def check(self, plan: NativePlan) -> None:
        """Run a plan twice, into memory that holds something else, and compare every bit."""
        assert_apart(plan)
        outs = [
            np.full(view.shape, 77, next(iter(self._inputs.values())).dtype)
            for view in self._task.results.values()
        ]
        for _ in range(2):
            results = calls.run(self._task, self._inputs, outs, calls.settings(), plan.execute)
        self._compare(plan, results)

    def _compare(self, plan: NativePlan, results: list[np.ndarray]) -> None:
        tensors, operation, data_format = self._check
        whole = self._task.returned(results)
        pairs = tensors.results(operation, whole, data_format, FORMATS[data_format], "native")
        for actual, expected in pairs:
            try:
                assert_exact(actual, expected, tensors.dtype)
            except AssertionError as error:
                raise AssertionError(f"{plan.choice} on {self.problem.name}: {error}") from None


class LaidOut(Way):
    """The same on activations, result included, that lie in memory as ``form`` puts them."""

    def __init__(
        self, tensors: Tensors, operation: str, data_format: str, form: Callable[[Any], Any]
    ) -> None:
        super().__init__(tensors, operation, data_format)
        self._views = {**self._task.inputs, **self._task.results}
        self._arrays = {}
        for name, view in self._views.items():
            array = self._inputs.get(name)
            if array is None:
                array = np.empty(view.shape, next(iter(self._inputs.values())).dtype)
            self._arrays[name] = form(array) if name in ("src", "dst") else array
        strides = {name: element_strides(array) for name, array in self._arrays.items()}
        (self._job,) = self._task.jobs(strides, "strict")

    def check(self, plan: NativePlan) -> None:
        assert_apart(plan)
        results = [self._arrays[name] for name in self._task.results]
        for result in results:
            result[...] = 77
        canonical = {name: view.canonical(self._arrays[name]) for name, view in self._views.items()}
        for _ in range(2):
            plan.execute(canonical)
        self._compare(plan, results)


def assert_apart(plan: NativePlan) -> None:
    """Fail if what a plan keeps in its workspace overlaps, or ends behind it."""
    program, api = plan.program, plan.api
    taken = [(one.offset, one.nbytes) for one in plan._converted]
    for buffer in program.buffers:
        if buffer.operand is None:
            taken.append((buffer.offset, api.nbytes(buffer.desc)))
    # One piece after the other uses a place, and one scratchpad that behind all others.
    spans: dict[int, int] = {}
    for begin, nbytes in sorted(taken):
        spans[begin] = max(spans.get(begin, 0), begin + nbytes)
    begins, ends = list(spans), list(spans.values())
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False)), spans
    assert max(ends, default=0) <= plan.workspace_bytes
    # Each tensor has a place of its own.
    kinds = {(one.name, one.role) for one in plan._converted}
    assert len({one.offset for one in plan._converted}) == len(kinds)
