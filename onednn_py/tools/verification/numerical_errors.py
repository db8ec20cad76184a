"""Measure numerical errors on normal data against float64, by data type and implementation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from math import isfinite
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.dtypes import DATA_TYPES
from onednn_py.testing.runners import Runner
from onednn_py.tools.benchdnn.case import Case, row
from onednn_py.tools.benchdnn.filling import fill_normal
from onednn_py.tools.text import aligned

__all__ = [
    "Group",
    "Measurement",
    "by_family",
    "family",
    "grouped",
    "measure",
    "table",
    "to_json",
]

Array = npt.NDArray[Any]

# PyTorch's relative and absolute tolerances. The absolute one is multiplied by the square root
# of the terms of a sum, as the magnitude of a sum of random terms grows.
TOLERANCES = {"f32": (1.3e-6, 1e-5), "bf16": (1.6e-2, 1e-5), "f16": (1e-3, 1e-5)}

# Tolerated error of n normal products added one after the other in float32, in units of
# n * 2^-24. The error of implementations that add in this order is up to 3 units.
SEQUENTIAL_LOSS = 8


TABLE_HEADING = (
    *("type", "implementation", "cases"),
    *("max error", "mean error", "max ULP", "mean ULP"),
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The errors of one implementation on one case.

    Attributes
    ----------
    source : {"onednn", "numpy", "native"}
    implementation : str
        oneDNN's name of the implementation, or ``"numpy"``.
    largest, mean : float
        Largest and mean absolute error, relative to the largest magnitude of the result.
    largest_ulps, mean_ulps : float
        Largest and mean error in distances between neighbouring numbers of the data type at
        each element of the reference; large where terms cancel.
    tolerable : bool
        Whether the error of each element is within the tolerance for sums in float32.
    """

    case: Case
    source: str
    implementation: str
    largest: float
    mean: float
    largest_ulps: float
    mean_ulps: float
    tolerable: bool

    @property
    def family(self) -> str:
        return family(self.source, self.implementation)


@dataclass(frozen=True, slots=True)
class Group:
    """Errors of all cases of a data type and family: the largest ones, and means of the means."""

    dtype: str
    family: str
    cases: int
    largest: float
    mean: float
    largest_ulps: float
    mean_ulps: float


def family(source: str, implementation: str) -> str:
    """Return the family of an implementation, such as ``"oneDNN jit"``."""
    if implementation == "numpy":
        return "NumPy"
    name = implementation.rpartition("+")[2]
    patterns = {
        "brgemm": r"brg",
        "gemm": r"gemm",
        "jit depthwise": r"jit.*_dw",
        "jit 1x1": r"jit.*_1x1",
        "jit": r"jit",
        "reference": r"ref",
    }
    matching = (label for label, pattern in patterns.items() if re.search(pattern, name))
    return f"{'native' if source == 'native' else 'oneDNN'} {next(matching, name)}"


def measure(case: Case, runners: Mapping[str, Runner], *, seed: int = 0) -> list[Measurement]:
    """Return the errors of each runner that computes the case.

    Raises
    ------
    OneDNNPyError
        As the case's function does.
    """
    inputs = fill_normal(case, seed)
    reference = case.call([tensor.astype(np.float64) for tensor in inputs], "numpy")
    measurements = {}
    for name, run in runners.items():
        results, implementation = run(case, inputs)
        if results is not None:
            # NumPy computes what oneDNN does not.
            source = "numpy" if implementation == "numpy" else name
            errors = _errors(case, results, reference)
            measurements[source] = Measurement(case, source, implementation, *errors)
    return list(measurements.values())


def _errors(
    case: Case, results: Sequence[Array], reference: Sequence[Array]
) -> tuple[float, float, float, float, bool]:
    """Return the errors and whether they are tolerable, in the order of `Measurement`."""
    relative_tolerance, absolute_tolerance = TOLERANCES[case.dtype]
    terms = max(case.terms, 1)
    absolute_tolerance *= terms**0.5
    absolute_tolerance += SEQUENTIAL_LOSS * terms * DATA_TYPES["f32"].unit_roundoff
    relative_errors, ulp_errors, tolerable = [], [], True
    for result, exact in zip(results, reference, strict=True):
        error = np.abs(result.astype(np.float64) - exact)
        magnitude = np.abs(exact)
        tolerance = relative_tolerance * magnitude + absolute_tolerance
        tolerable &= bool((error <= tolerance).all())
        relative_errors.append((error / (magnitude.max() or 1.0)).ravel())
        ulp_errors.append((error / spacing(exact, case.dtype)).ravel())
    relative, ulps = np.concatenate(relative_errors), np.concatenate(ulp_errors)
    return (
        float(relative.max()),
        float(relative.mean()),
        float(ulps.max()),
        float(ulps.mean()),
        tolerable,
    )


def spacing(exact: Array, dtype: str) -> Array:
    """Return the distance between neighbouring numbers of the data type at each element."""
    _, exponents = np.frexp(exact)
    # frexp gives 0 the exponent of numbers from 0.5 to 1.
    ulps = np.where(exact == 0, 0.0, np.ldexp(1.0, exponents - DATA_TYPES[dtype].digits))
    distances: Array = np.maximum(ulps, DATA_TYPES[dtype].smallest)
    return distances


def by_family(
    measurements: Sequence[Measurement],
) -> dict[tuple[str, str], list[Measurement]]:
    """Return the measurements by data type and family.

    Data types are in the order of the measurements, families in alphabetical order with NumPy
    last.
    """
    dtypes = list(dict.fromkeys(m.case.dtype for m in measurements))

    def rank(m: Measurement) -> tuple[int, bool, str]:
        return dtypes.index(m.case.dtype), m.family == "NumPy", m.family

    groups = groupby(sorted(measurements, key=rank), key=lambda m: (m.case.dtype, m.family))
    return {key: list(group) for key, group in groups}


def grouped(measurements: Sequence[Measurement]) -> list[Group]:
    """Return a Group for each data type and family, in the order of `by_family`."""
    return [
        Group(
            dtype,
            name,
            len(group),
            max(m.largest for m in group),
            fmean(m.mean for m in group),
            max(m.largest_ulps for m in group),
            fmean(m.mean_ulps for m in group),
        )
        for (dtype, name), group in by_family(measurements).items()
    ]


def table(groups: Sequence[Group]) -> list[str]:
    """Return lines of text: a heading, a line for each group, and a legend of the units."""
    rows = [
        (
            group.dtype,
            group.family,
            str(group.cases),
            *(f"{error:.1e}" for error in (group.largest, group.mean)),
            *(f"{ulps:.2g}" for ulps in (group.largest_ulps, group.mean_ulps)),
        )
        for group in groups
    ]
    return [
        *aligned([TABLE_HEADING, *rows], "<<>>>>>"),
        "error: of an element, relative to the largest magnitude of the result",
        "ULP: error over the distance of the type's numbers there; large where terms cancel",
    ]


def to_json(measurements: Sequence[Measurement], groups: Sequence[Group]) -> dict[str, Any]:
    """Return measurements and groups as JSON objects."""
    return {
        "groups": [_finite(asdict(group)) for group in groups],
        "measurements": [_measurement_to_json(m) for m in measurements],
    }


def _measurement_to_json(m: Measurement) -> dict[str, Any]:
    values = {**row(m), "who": m.source, "family": m.family}
    del values["source"]
    return _finite(values)


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """Replace infinities and NaN, which JSON lacks, by None."""
    return {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in values.items()
    }
