"""Compare a case's results, element for element, with a float64 reference.

The inputs are benchdnn's integers, for which every order of summation gives the same bits. All
results must therefore equal the reference rounded once to the data type.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py import AttributeValueError, LibraryNotFoundError, OneDNNPyError
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.filling import fill_integers

from .native_runner import NativeRunner

__all__ = ["STATUSES", "Outcome", "Verifier", "difference", "fit_to_limits", "runners"]

Array = npt.NDArray[Any]
# Returns the results and the implementation's name, or None and the reason.
Runner = Callable[[Case, Sequence[Array]], tuple[Sequence[Array] | None, str]]

STATUSES = ("passed", "skipped", "mistrusted", "unimplemented", "failed")
COMPARABLE = ("numpy", "native")
LABELS = {"onednn": "oneDNN ({})", "numpy": "NumPy", "native": "native ({})"}

# Largest number of elements in all tensors of a case, each 8 bytes in the float64 reference.
MOST_ELEMENTS = 2**28

# benchdnn does not count the zeros of smaller results.
FEWEST_TO_MISTRUST = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of verifying one case.

    Attributes
    ----------
    case : Case
        The case as it ran, possibly with minibatch 1 instead of the requested one.
    status : str
        One of `STATUSES`.
    reason : str
        Why the case did not pass; empty if it did.
    implementation : str
        Implementation that ran for ``backend="onednn"``; empty if none did.
    equal : tuple of str
        The compared results that equal the reference: some of onednn, numpy, native.
    notes : tuple of str
        Omitted comparisons with their reasons.
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
        Implementations to compare with the reference in addition to ``backend="onednn"``.
    max_flops : float
        Floating-point operations above which a case runs with minibatch 1 or is skipped.

    Errors are those of `runners`.
    """

    def __init__(
        self, compare: Sequence[str] = ("numpy",), *, seed: int = 0, max_flops: float = inf
    ) -> None:
        self._seed = seed
        self._max_flops = max_flops
        self._runners = runners(compare)

    def verify(self, case: Case) -> Outcome:
        """Run a case and compare its results; errors of the package become failures.

        Raises
        ------
        LibraryNotFoundError
            If no oneDNN library can be loaded.
        """
        start = time.perf_counter()
        case, reason = fit_to_limits(case, self._max_flops)
        if reason:
            outcome = Outcome(case, "skipped", reason)
        else:
            try:
                outcome = self._compared(case)
            except LibraryNotFoundError:
                raise
            except (OneDNNPyError, MemoryError) as error:
                outcome = Outcome(case, "failed", f"{type(error).__name__}: {error}")
        return replace(outcome, seconds=time.perf_counter() - start)

    def _compared(self, case: Case) -> Outcome:
        inputs = fill_integers(case, self._seed)
        reference = case.call([tensor.astype(np.float64) for tensor in inputs], "numpy")
        expected = [result.astype(case.numpy_dtype) for result in reference]
        wrong, implementations, notes = {}, {}, []
        for source, run in self._runners.items():
            results, implementations[source] = run(case, inputs)
            if results is None:
                notes.append(f"{source}: {implementations[source]}")
            else:
                wrong[source] = _differences(case, results, expected)
        status, reason = "passed", ""
        if any(wrong.values()):
            status = "failed"
            reason = "; ".join(
                f"{LABELS[source].format(implementations[source])}: {text}"
                for source, text in wrong.items()
                if text
            )
        elif implementations["onednn"] == "numpy":
            status, reason = "unimplemented", "no implementation of oneDNN, NumPy ran it"
        elif zeros := _too_many_zeros(case, expected):
            status, reason = "mistrusted", zeros
        equal = tuple(source for source, text in wrong.items() if not text)
        return Outcome(case, status, reason, implementations["onednn"], equal, tuple(notes))


def runners(compare: Sequence[str]) -> dict[str, Runner]:
    """Return what computes a case: oneDNN, and which of `COMPARABLE` the names select.

    Raises
    ------
    AttributeValueError
        If there is another name.
    ComparisonUnavailableError
        If the native program cannot be built.
    """
    for name in compare:
        if name not in COMPARABLE:
            raise AttributeValueError(
                f"compare: expected some of {', '.join(COMPARABLE)}; got {name!r}"
            )
    chosen: dict[str, Runner] = {"onednn": _run_onednn}
    if "numpy" in compare:
        chosen["numpy"] = lambda case, inputs: (case.call(inputs, "numpy"), "numpy")
    if "native" in compare:
        chosen["native"] = NativeRunner().run
    return chosen


def _run_onednn(case: Case, inputs: Sequence[Array]) -> tuple[Sequence[Array], str]:
    plan = case.plan("onednn")
    results = plan(*inputs)
    return results if isinstance(results, tuple) else (results,), plan.implementation


def fit_to_limits(case: Case, max_flops: float) -> tuple[Case, str]:
    """Reduce a case to minibatch 1 if it exceeds ``max_flops`` or the limit of elements.

    The text is empty, or says why the case cannot run even with minibatch 1.
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
    """Return how an array differs from the expected one; empty if they are equal.

    Zeros of either sign are equal; NaN equals nothing.
    """
    if result.dtype != expected.dtype or result.shape != expected.shape:
        return f"{result.dtype} {result.shape}, expected {expected.dtype} {expected.shape}"
    # Comparing float32 is faster than comparing bfloat16, and as exact.
    different = ~(result.astype(np.float32) == expected.astype(np.float32))
    if not different.any():
        return ""
    first = tuple(int(index) for index in np.argwhere(different)[0])
    return (
        f"{np.count_nonzero(different)} of {different.size} elements differ, the first at"
        f" {first}: {result[first]}, expected {expected[first]}"
    )


def _differences(case: Case, results: Sequence[Array], expected: Sequence[Array]) -> str:
    by_role = zip(case.result_roles, map(difference, results, expected), strict=True)
    return "; ".join(f"{case.label(role)}: {text}" for role, text in by_role if text)


def _too_many_zeros(case: Case, expected: Sequence[Array]) -> str:
    """Return why benchdnn would not trust the comparison; empty if it would."""
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
