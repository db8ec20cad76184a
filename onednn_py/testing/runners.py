"""What computes cases: oneDNN through this package, NumPy, float64, and native oneDNN from C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.native_programs import (
    Request,
    Token,
    known_defect,
    native_program,
    run_program,
)

__all__ = [
    "NativeRunner",
    "Runner",
    "native_defect",
    "native_tokens",
    "run_float64",
    "run_numpy",
    "run_onednn",
]

Array = npt.NDArray[Any]
# Returns the results and the implementation's name, or None and the reason.
Runner = Callable[[Case, Sequence[Array]], tuple[Sequence[Array] | None, str]]

# Seconds for one case: native oneDNN hangs on some problems that this package avoids.
TIMEOUT = 120.0

DIRECTIONS = {"FWD_D": "fwd", "FWD_B": "fwd", "BWD_D": "bwd_d", "BWD_W": "bwd_w", "BWD_WB": "bwd_w"}

PER_AXIS = ("src", "dst", "kernel", "strides", "dilations", "pads_begin", "pads_end")


def run_float64(case: Case, inputs: Sequence[Array]) -> tuple[Sequence[Array], str]:
    """Compute in float64 on NumPy, and round once to the case's data type."""
    exact = case.call([tensor.astype(np.float64) for tensor in inputs], "numpy")
    return [result.astype(case.numpy_dtype) for result in exact], "float64"


def run_numpy(case: Case, inputs: Sequence[Array]) -> tuple[Sequence[Array], str]:
    """Compute on this package's NumPy backend, in the case's data type."""
    return case.call(inputs, "numpy"), "numpy"


def run_onednn(case: Case, inputs: Sequence[Array]) -> tuple[Sequence[Array], str]:
    """Compute with ``backend="onednn"``; the implementation is ``"numpy"`` where oneDNN has none.

    Raises
    ------
    LibraryNotFoundError
        If no oneDNN library can be loaded.
    """
    plan = case.plan("onednn")
    results = plan(*inputs)
    return results if isinstance(results, tuple) else (results,), plan.implementation


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
