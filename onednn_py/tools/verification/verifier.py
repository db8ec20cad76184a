"""Verification: a case on oneDNN, and the same on others, against a float64 reference.

The inputs are benchdnn's integers, whose sums every implementation must give exactly: all
results are compared element for element with the reference, rounded once to the type.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.errors import AttributeValueError, LibraryNotFoundError, OneDNNPyError
from onednn_py.problem.arrays import DTYPES
from onednn_py.tools.benchdnn import Descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.filling import fill_integers

from .native_runner import NativeRunner

__all__ = [
    "COMPARABLE",
    "STATUSES",
    "Outcome",
    "Verifier",
    "cases_of",
    "difference",
    "fitted",
    "native_runner",
]

Array = npt.NDArray[Any]

STATUSES = ("passed", "skipped", "mistrusted", "unimplemented", "failed")
COMPARABLE = ("numpy", "native")

# Elements of all tensors of a case together: the float64 reference takes eight bytes for each.
MOST_ELEMENTS = 2**28

# Elements of a result from which benchdnn asks how many are zero.
FEWEST_TO_MISTRUST = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one case.

    Attributes
    ----------
    case : Case
        As it was run: perhaps with a smaller minibatch than was asked for.
    status : str
        One of `STATUSES`.
    reason : str
        Why it has not passed; empty if it has.
    implementation : str
        What ran it for ``backend="onednn"``; empty where nothing did.
    equal : tuple of str
        Whose results are those of the reference: some of onednn, numpy, native.
    notes : tuple of str
        Comparisons that were left out, and why.
    seconds : float
    """

    case: Case
    status: str
    reason: str = ""
    implementation: str = ""
    equal: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


class Verifier:
    """Verifies cases one after the other.

    Parameters
    ----------
    compare : sequence of {"numpy", "native"}
        Whose results to compare with the reference besides those of ``backend="onednn"``.
    seed : int
    max_flops : float
        Floating-point operations beyond which a case is run with minibatch 1, or not at all.

    Raises
    ------
    AttributeValueError
        If ``compare`` names something else.
    ComparisonUnavailableError
        If it names native, and that cannot be built.
    """

    def __init__(
        self, compare: Sequence[str] = ("numpy",), *, seed: int = 0, max_flops: float = inf
    ) -> None:
        self._seed = seed
        self._max_flops = max_flops
        self._native = native_runner(compare)
        self._numpy = "numpy" in compare

    def verify(self, case: Case) -> Outcome:
        """Run a case and judge it.

        Raises
        ------
        LibraryNotFoundError
            If there is no oneDNN to verify. Any other error of the package is the outcome.
        """
        start = time.perf_counter()
        outcome = self._outcome(case)
        return replace(outcome, seconds=time.perf_counter() - start)

    def _outcome(self, asked: Case) -> Outcome:
        case, reason = fitted(asked, self._max_flops)
        if reason:
            return Outcome(case, "skipped", reason)
        try:
            return self._judged(case)
        except LibraryNotFoundError:
            raise
        except (OneDNNPyError, MemoryError) as error:
            return Outcome(case, "failed", f"{type(error).__name__}: {error}")

    def _judged(self, case: Case) -> Outcome:
        inputs = fill_integers(case, self._seed)
        reference = case.call([tensor.astype(np.float64) for tensor in inputs], "numpy")
        expected = [result.astype(DTYPES[case.dtype]) for result in reference]
        plan = case.plan("onednn")
        results = plan(*inputs)
        found = {"onednn": results if isinstance(results, tuple) else (results,)}
        names = {"onednn": f"oneDNN ({plan.implementation})", "numpy": "NumPy"}
        notes: tuple[str, ...] = ()
        if self._numpy:
            found["numpy"] = case.call(inputs, "numpy")
        if self._native is not None:
            arrays, detail = self._native.run(case, inputs)
            names["native"] = f"native ({detail})"
            if arrays is None:
                notes = (f"native: {detail}",)
            else:
                found["native"] = tuple(arrays)
        wrong = {who: _differences(case, arrays, expected) for who, arrays in found.items()}
        failures = [f"{names[who]}: {text}" for who, text in wrong.items() if text]
        status, reason = "passed", ""
        if failures:
            status, reason = "failed", "; ".join(failures)
        elif plan.backend != "onednn":
            status, reason = "unimplemented", "no implementation of oneDNN, NumPy ran it"
        elif zeros := _too_many_zeros(case, expected):
            status, reason = "mistrusted", zeros
        equal = tuple(who for who, text in wrong.items() if not text)
        return Outcome(case, status, reason, plan.implementation, equal, notes)


def native_runner(compare: Sequence[str]) -> NativeRunner | None:
    """Return what runs native if ``compare``, some of `COMPARABLE`, names it.

    Raises
    ------
    AttributeValueError
        If ``compare`` names something else.
    ComparisonUnavailableError
        If native cannot be built.
    """
    for name in compare:
        if name not in COMPARABLE:
            raise AttributeValueError(
                f"compare: expected some of {', '.join(COMPARABLE)}; got {name!r}"
            )
    return NativeRunner() if "native" in compare else None


def cases_of(
    descriptors: Iterable[Descriptor],
    directions: Sequence[str],
    dtypes: Sequence[str],
    data_formats: Sequence[str],
) -> list[Case]:
    """Return the cases of all descriptors, those of one descriptor together."""
    return [
        Case(descriptor, direction, dtype, data_format)
        for descriptor in descriptors
        for direction in directions
        for dtype in dtypes
        for data_format in data_formats
    ]


def fitted(case: Case, max_flops: float) -> tuple[Case, str]:
    """Return a case of at most ``max_flops``, by minibatch 1 if need be.

    Returns
    -------
    (Case, str)
        The text is empty, or says why even minibatch 1 is too large.
    """
    if not case.descriptor.minibatch:
        return case, "no elements to compute"
    smallest = case.with_minibatch(1)
    for candidate in (case, smallest):
        if candidate.descriptor.flops <= max_flops and candidate.elements <= MOST_ELEMENTS:
            return candidate, ""
    if smallest.descriptor.flops > max_flops:
        return case, f"one image takes more than {max_flops:g} floating-point operations"
    return case, f"one image takes more than {MOST_ELEMENTS} elements"


def difference(result: Array, expected: Array) -> str:
    """Return how an array differs from what was expected, an empty string if it does not.

    Zeros of either sign are equal; nothing is equal to NaN.
    """
    if result.dtype != expected.dtype or result.shape != expected.shape:
        return f"{result.dtype} {result.shape}, expected {expected.dtype} {expected.shape}"
    # ml_dtypes compares slowly; float32 holds each value of the shorter types.
    different = ~(result.astype(np.float32) == expected.astype(np.float32))
    if not different.any():
        return ""
    first = tuple(int(index) for index in np.argwhere(different)[0])
    return (
        f"{np.count_nonzero(different)} of {different.size} elements differ, the first at"
        f" {first}: {result[first]}, expected {expected[first]}"
    )


def _differences(case: Case, results: Sequence[Array], expected: Sequence[Array]) -> str:
    found = {
        case.label(role): difference(result, wanted)
        for role, result, wanted in zip(case.result_roles, results, expected, strict=True)
    }
    return "; ".join(f"{label}: {text}" for label, text in found.items() if text)


def _too_many_zeros(case: Case, expected: Sequence[Array]) -> str:
    """Return why benchdnn would not trust the comparison, an empty string if it would."""
    for role, array in zip(case.result_roles, expected, strict=True):
        nonzero, least = np.count_nonzero(array) / array.size, _least_nonzero(case, role)
        if array.size >= FEWEST_TO_MISTRUST and nonzero < least:
            return (
                f"{nonzero:.1%} of {case.label(role)} is not zero, less than the {least:.1%}"
                " that make the comparison meaningful"
            )
    return ""


def _least_nonzero(case: Case, role: str) -> float:
    """Return benchdnn's least share of nonzero elements (``get_non_zero_trust_percent``)."""
    d = case.descriptor
    if role == "bias":
        return 0.8
    if role == "src":
        return 0.3 / prod(d.strides)
    if role == "weights":
        positions = prod(d.kernel)
        return 0.3 * min(positions, prod(d.src), prod(d.dst)) / positions
    grows = any(dst > src for src, dst in zip(d.src, d.dst, strict=True))
    return 0.3 / 2 if grows else 0.3
