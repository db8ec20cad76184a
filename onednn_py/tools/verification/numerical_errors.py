"""Numerical errors on dense normal data, by data type and implementation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.filling import DIGITS, fill_normal

from .native_runner import NativeRunner

__all__ = [
    "UNIT_ROUNDOFF",
    "Group",
    "Measurement",
    "family",
    "grouped",
    "measure",
    "table",
    "to_json",
]

Array = npt.NDArray[Any]

# Largest relative error of one rounding to nearest.
UNIT_ROUNDOFF = {dtype: 2.0**-digits for dtype, digits in DIGITS.items()}

# Exponent of the smallest normal number, below which the distance of two numbers is constant.
LEAST_EXPONENT = {"f32": -126, "bf16": -126, "f16": -14}

# PyTorch's tolerances (relative, absolute); the absolute one grows with the square root of
# the terms of a sum, as the sum itself does.
TOLERANCES = {"f32": (1.3e-6, 1e-5), "bf16": (1.6e-2, 1e-5), "f16": (1e-3, 1e-5)}

# What n normal products lose if float32 adds them one after the other, in units of n * 2^-24:
# each rounding is relative to a partial sum. Implementations that do lose up to three.
SEQUENTIAL_LOSS = 8


@dataclass(frozen=True, slots=True)
class Measurement:
    """The errors of one implementation on one case, against float64 on the same inputs.

    Attributes
    ----------
    case : Case
    who : {"onednn", "numpy", "native"}
    implementation : str
        oneDNN's name of it, or ``"numpy"``.
    largest, mean : float
        Largest and mean absolute error, relative to the largest magnitude of the result.
    largest_ulps, mean_ulps : float
        Largest and mean error in distances between neighbouring numbers of the type, at
        each element of the reference; many where large terms cancel.
    tolerable : bool
        Whether each element is as near as sums in float32 can be expected to be.
    """

    case: Case
    who: str
    implementation: str
    largest: float
    mean: float
    largest_ulps: float
    mean_ulps: float
    tolerable: bool

    @property
    def family(self) -> str:
        return family(self.who, self.implementation)


@dataclass(frozen=True, slots=True)
class Group:
    """The measurements of one type and family: worst largest errors, mean of mean errors."""

    dtype: str
    family: str
    cases: int
    largest: float
    mean: float
    largest_ulps: float
    mean_ulps: float


def family(who: str, implementation: str) -> str:
    """Return what kind of implementation a name of oneDNN's stands for."""
    if implementation == "numpy":
        return "NumPy"
    name = implementation.rpartition("+")[2]
    kinds = {
        "brgemm": r"brg",
        "gemm": r"gemm",
        "jit depthwise": r"jit.*_dw",
        "jit 1x1": r"jit.*_1x1",
        "jit": r"jit",
        "reference": r"ref",
    }
    kind = next((kind for kind, pattern in kinds.items() if re.search(pattern, name)), name)
    return f"native {kind}" if who == "native" else f"oneDNN {kind}"


def measure(
    case: Case, *, seed: int = 0, numpy: bool = True, native: NativeRunner | None = None
) -> list[Measurement]:
    """Return the errors of oneDNN, and of NumPy and native if they are asked for.

    Raises
    ------
    OneDNNPyError
        As the case's function does.
    """
    inputs = fill_normal(case, seed)
    reference = case.call([tensor.astype(np.float64) for tensor in inputs], "numpy")
    plan = case.plan("onednn")
    results = plan(*inputs)
    found: list[tuple[str, str, Sequence[Array]]] = []
    if plan.backend == "onednn":
        arrays = results if isinstance(results, tuple) else (results,)
        found.append(("onednn", plan.implementation, arrays))
    if numpy or plan.backend == "numpy":
        found.append(("numpy", "numpy", case.call(inputs, "numpy")))
    if native is not None:
        native_arrays, detail = native.run(case, inputs)
        if native_arrays is not None:
            found.append(("native", detail, native_arrays))
    return [_measurement(case, *one, reference) for one in found]


def _measurement(
    case: Case,
    who: str,
    implementation: str,
    results: Sequence[Array],
    reference: Sequence[Array],
) -> Measurement:
    """Compare all results of a case; each is relative to its own largest magnitude."""
    relative_tolerance, absolute_tolerance = TOLERANCES[case.dtype]
    terms = max(case.terms, 1)
    absolute_tolerance *= terms**0.5
    absolute_tolerance += SEQUENTIAL_LOSS * terms * UNIT_ROUNDOFF["f32"]
    relative, ulps, tolerable = [], [], True
    for result, exact in zip(results, reference, strict=True):
        error = np.abs(result.astype(np.float64) - exact)
        magnitude = np.abs(exact)
        bound = relative_tolerance * magnitude + absolute_tolerance
        tolerable &= bool((error <= bound).all())
        relative.append((error / (magnitude.max() or 1.0)).ravel())
        ulps.append((error / _ulp(exact, case.dtype)).ravel())
    all_relative, all_ulps = np.concatenate(relative), np.concatenate(ulps)
    return Measurement(
        case,
        who,
        implementation,
        float(all_relative.max()),
        float(all_relative.mean()),
        float(all_ulps.max()),
        float(all_ulps.mean()),
        tolerable,
    )


def _ulp(exact: Array, dtype: str) -> Array:
    """Return the distance of the type's numbers around each element."""
    _, exponents = np.frexp(exact)
    digits = DIGITS[dtype]
    least = LEAST_EXPONENT[dtype] + 1 - digits
    distances: Array = np.ldexp(1.0, np.maximum(exponents - digits, least))
    return distances


def grouped(measurements: Sequence[Measurement]) -> list[Group]:
    """Return one group for each type and family, types in the order of the measurements."""
    keys = {(one.case.dtype, one.family) for one in measurements}
    dtypes = list(dict.fromkeys(one.case.dtype for one in measurements))

    def rank(key: tuple[str, str]) -> tuple[int, bool, str]:
        dtype, name = key
        return dtypes.index(dtype), name == "NumPy", name

    groups = []
    for dtype, name in sorted(keys, key=rank):
        some = [one for one in measurements if (one.case.dtype, one.family) == (dtype, name)]
        groups.append(
            Group(
                dtype,
                name,
                len(some),
                max(one.largest for one in some),
                sum(one.mean for one in some) / len(some),
                max(one.largest_ulps for one in some),
                sum(one.mean_ulps for one in some) / len(some),
            )
        )
    return groups


def table(groups: Sequence[Group]) -> list[str]:
    """Return the groups as lines of text: heading, one line each, what the units are."""
    width = max([len("implementation"), *(len(group.family) for group in groups)])
    lines = [
        f"{'type':4}  {'implementation':{width}}  {'cases':>5}"
        f"  {'max error':>9}  {'mean error':>10}  {'max ULP':>8}  {'mean ULP':>8}"
    ]
    for group in groups:
        lines.append(
            f"{group.dtype:4}  {group.family:{width}}  {group.cases:5}"
            f"  {group.largest:9.1e}  {group.mean:10.1e}"
            f"  {group.largest_ulps:8.2g}  {group.mean_ulps:8.2g}"
        )
    return [
        *lines,
        "error: of an element, relative to the largest magnitude of the result",
        "ULP: error over the distance of the type's numbers there; large where terms cancel",
    ]


def to_json(measurements: Sequence[Measurement], groups: Sequence[Group]) -> dict[str, Any]:
    """Return measurements and groups as what the json module writes."""
    return {
        "groups": [_finite(asdict(group)) for group in groups],
        "measurements": [
            _finite(
                {
                    "operation": one.case.descriptor.operation,
                    "descriptor": str(one.case.descriptor),
                    "direction": one.case.direction,
                    "dtype": one.case.dtype,
                    "format": one.case.data_format,
                    "who": one.who,
                    "implementation": one.implementation,
                    "family": one.family,
                    "largest": one.largest,
                    "mean": one.mean,
                    "largest_ulps": one.largest_ulps,
                    "mean_ulps": one.mean_ulps,
                    "tolerable": one.tolerable,
                }
            )
            for one in measurements
        ],
    }


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Write None for what JSON has no number for."""
    return {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in row.items()
    }
