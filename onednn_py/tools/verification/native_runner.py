"""Runs benchdnn's cases on native oneDNN, from C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from onednn_py.problem.problem import Direction
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.native_programs import (
    Request,
    Token,
    known_defect,
    native_program,
    run_program,
)

__all__ = ["NativeRunner", "native_tokens"]

Array = npt.NDArray[Any]

# Seconds for one case: native oneDNN may hang, where this package would step aside.
TIMEOUT = 120.0

DIRECTIONS = {
    Direction.FORWARD: "fwd",
    Direction.BACKWARD_DATA: "bwd_d",
    Direction.BACKWARD_WEIGHTS: "bwd_w",
}


class NativeRunner:
    """Runs one case a process, so that a crash of native oneDNN ends that case alone.

    Raises
    ------
    ComparisonUnavailableError
        Where the program cannot be built; the message says why.
    """

    def __init__(self) -> None:
        self._program = native_program("primitives")

    def run(self, case: Case, inputs: Sequence[Array]) -> tuple[list[Array] | None, str]:
        """Return native's results and its implementation, or None and why there are none."""
        known = known_defect(case.problem())
        if known:
            return None, f"known defect, {known}"
        request = Request(native_tokens(case), case.dtype, tuple(inputs))
        (outcome,) = run_program(self._program, [request], TIMEOUT)
        if outcome.status == "unimplemented":
            return None, outcome.status
        if outcome.status != "success":
            return None, f"{outcome.status}, {outcome.detail}"
        shapes = map(case.shape, case.result_roles)
        arrays = [a.reshape(shape) for a, shape in zip(outcome.arrays, shapes, strict=True)]
        return arrays, outcome.detail


def native_tokens(case: Case) -> dict[str, Token]:
    """Return what the programs on the primitive API read of a case, without ``dt``."""
    d = case.descriptor
    return {
        "op": d.operation,
        "dir": DIRECTIONS[case.operation.direction],
        "bias": int(case.has_bias),
        "g": d.groups,
        "mb": d.minibatch,
        "ic": d.inputs,
        "oc": d.outputs,
        "src": d.src,
        "dst": d.dst,
        "kernel": d.kernel,
        "strides": d.strides,
        "dilations": d.dilations,
        "pads_begin": d.pads_begin,
        "pads_end": d.pads_end,
        "data": case.data_format.lower(),
        "weights": case.weights_format.lower(),
    }
