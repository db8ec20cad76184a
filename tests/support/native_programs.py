"""Native programs for tests, which skip where these cannot be compiled."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import onednn_py
from onednn_py.problem.dtypes import DTYPES
from onednn_py.tools import native_programs
from onednn_py.tools.native_programs import Outcome, Request
from onednn_py.tools.native_programs import run_program as run

__all__ = [
    "DTYPES",
    "TOTALS",
    "Outcome",
    "Request",
    "assert_same_bits",
    "compile_program",
    "data_shape",
    "run",
    "run_in_any_type",
    "weights_shape",
]

# Counts of compared cases by subject, for the summary of the test run.
TOTALS: dict[str, dict[str, int]] = {}


def compile_program(name: str, directory: Path) -> Path:
    """Compile a program into `directory`; skip the test where that cannot be done."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the native comparison needs Linux on x86-64")
    include = os.environ.get("ONEDNN_PY_TEST_INCLUDE", "").split(os.pathsep)
    try:
        return native_programs.native_program(
            name, include=list(filter(None, include)), folder=directory
        )
    except native_programs.NativeProgramError as error:
        pytest.fail(str(error))
    except native_programs.ComparisonUnavailableError as error:
        pytest.skip(str(error))


def run_in_any_type(program: Path, requests: Sequence[Request]) -> list[Outcome]:
    """Return the outcomes of requests, in float32 where this CPU has no kernels of their type.

    Those take the same numbers, and their results are rounded to the type, as the package does.
    """
    outcomes = run(program, requests)
    found = onednn_py.info()["supports"]
    assert found is not None
    lacking = [
        position
        for position, outcome in enumerate(outcomes)
        if outcome.status == "unimplemented" and not found[requests[position].dtype]
    ]
    if not lacking:
        return outcomes
    through = [
        replace(one, dtype="f32", inputs=tuple(array.astype(np.float32) for array in one.inputs))
        for one in (requests[position] for position in lacking)
    ]
    for position, outcome in zip(lacking, run(program, through), strict=True):
        dtype = DTYPES[requests[position].dtype]
        arrays = tuple(array.astype(dtype) for array in outcome.arrays)
        outcomes[position] = replace(outcome, arrays=arrays)
    return outcomes


def data_shape(
    minibatch: int, channels: int, spatial: Sequence[int], data_format: str
) -> tuple[int, ...]:
    """Return the shape of activations in `data_format` order."""
    if data_format.upper() == "NCX":
        return (minibatch, channels, *spatial)
    return (minibatch, *spatial, channels)


def weights_shape(
    outer: int, inner: int, kernel: Sequence[int], groups: int, weights_format: str
) -> tuple[int, ...]:
    """Return the shape of weights, in `weights_format` order.

    `outer` is the number of output channels of a convolution, of input channels of a transposed
    one; `inner` is that of the other channels, which the weights divide by the groups.
    """
    if weights_format.upper() in ("OIX", "IOX"):
        return (outer, inner // groups, *kernel)
    return (*kernel, inner // groups, outer)


def assert_same_bits(ours: np.ndarray, native: np.ndarray) -> None:
    """Fail unless both arrays have the same shape, type and bits."""
    assert ours.shape == native.shape
    assert ours.dtype == native.dtype
    bits = np.dtype(f"u{ours.dtype.itemsize}")
    different = np.ascontiguousarray(ours).view(bits) != np.ascontiguousarray(native).view(bits)
    assert not different.any(), f"{different.sum()} of {different.size} elements differ"
