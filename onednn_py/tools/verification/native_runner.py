"""Run benchdnn's cases on native oneDNN, called from C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.native_programs import (
    Request,
    Token,
    known_defect,
    native_program,
    run_program,
)

__all__ = ["NativeRunner", "native_defect", "native_tokens"]

Array = npt.NDArray[Any]

# Seconds for one case: native oneDNN hangs on some problems that this package avoids.
TIMEOUT = 120.0

DIRECTIONS = {"FWD_D": "fwd", "FWD_B": "fwd", "BWD_D": "bwd_d", "BWD_W": "bwd_w", "BWD_WB": "bwd_w"}

PER_AXIS = ("src", "dst", "kernel", "strides", "dilations", "pads_begin", "pads_end")


class NativeRunner:
    """Runs each case in a process of its own, which isolates crashes of native oneDNN.

    Raises
    ------
    ComparisonUnavailableError
        If the program cannot be built; the message says why.
    """

    def __init__(self) -> None:
        self._program = native_program("primitives")

    def run(self, case: Case, inputs: Sequence[Array]) -> tuple[list[Array] | None, str]:
        """Return the results and the implementation's name, or None and the reason."""
        if defect := native_defect(case):
            return None, f"known defect, {defect}"
        request = Request(native_tokens(case), case.dtype, tuple(inputs))
        (outcome,) = run_program(self._program, [request], TIMEOUT)
        if outcome.status == "unimplemented":
            return None, outcome.status
        if outcome.status != "success":
            return None, f"{outcome.status}, {outcome.detail}"
        shapes = map(case.shape, case.result_roles)
        arrays = [a.reshape(shape) for a, shape in zip(outcome.arrays, shapes, strict=True)]
        return arrays, outcome.detail


def native_defect(case: Case) -> str:
    """Return the known defect that native oneDNN meets on a case; empty if there is none."""
    return known_defect(case.problem())


def native_tokens(case: Case) -> dict[str, Token]:
    """Return a case as the native programs of the primitive API read it, without ``dt``."""
    d = case.descriptor
    return {
        "op": d.operation,
        "dir": DIRECTIONS[case.direction],
        "bias": int(case.has_bias),
        "g": d.groups,
        "mb": d.minibatch,
        "ic": d.inputs,
        "oc": d.outputs,
        **{name: getattr(d, name) for name in PER_AXIS},
        "data": case.data_format.lower(),
        "weights": case.weights_format.lower(),
    }
