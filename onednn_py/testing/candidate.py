"""A user's kernels as a runner: called with copies of the tensors, their results checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py import AttributeValueError, DTypeError
from onednn_py.errors import brief
from onednn_py.problem.foreign import as_array, is_foreign_array, type_name
from onednn_py.problem.operations import OPERATIONS
from onednn_py.tools.benchdnn.case import CASE_FUNCTIONS, Case

__all__ = ["Candidate", "UnusableResultError"]

Array = npt.NDArray[Any]

# How much of an exception's message a line repeats.
LONGEST_REASON = 300


class UnusableResultError(Exception):
    """A candidate has no result to compare for a case.

    Attributes
    ----------
    status : str
        That of the outcome: failed, unimplemented or skipped.
    reason : str
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Candidate:
    """A callable for all cases, or one by the name of each function.

    Attributes
    ----------
    error : Exception or None
        The first that was raised.

    Raises
    ------
    AttributeValueError
        If the object is neither callable nor has a callable by the name of a function.
    """

    def __init__(self, candidate: Any) -> None:
        self._find = _finder(candidate)
        self.error: Exception | None = None

    def run(self, case: Case, inputs: Sequence[Array]) -> tuple[Sequence[Array], str]:
        """Call the candidate with copies of the inputs, and return its results as NumPy arrays.

        Raises
        ------
        UnusableResultError
            If it raises an exception, changes its inputs, or returns something else than its
            function does.
        """
        function = self._find(case.function)
        if function is None:
            raise UnusableResultError("skipped", f"no candidate for {case.function}")
        given = tuple(map(np.copy, inputs))
        try:
            returned = function(*given, **case.attributes)
        except NotImplementedError as error:
            said = _one_line(error) or "the candidate raised NotImplementedError"
            raise UnusableResultError("unimplemented", said) from error
        except Exception as error:
            self.error = error if self.error is None else self.error
            said = f"{type(error).__name__}: {_one_line(error)}".removesuffix(": ")
            raise UnusableResultError("failed", f"the candidate raised {said}") from error
        roles = zip(case.input_roles, given, inputs, strict=True)
        changed = [case.label(role) for role, mine, theirs in roles if not _same(mine, theirs)]
        if changed:
            raise UnusableResultError(
                "failed", f"the candidate changed its input {' and '.join(changed)}"
            )
        return _results(case, returned), ""


def _finder(candidate: Any) -> Callable[[str], Any]:
    """Return what gives the callable for a function's name, or None."""
    # A class can be called, too, but gives an instance and no result.
    if callable(candidate) and not isinstance(candidate, type):
        return lambda name: candidate
    if isinstance(candidate, Mapping):
        unknown = [name for name in candidate if name not in OPERATIONS]
        if unknown:
            raise AttributeValueError(
                f"compare: candidate: no function has the name {brief(unknown[0])}; expected some"
                f" of {', '.join(CASE_FUNCTIONS)}"
            )
        found = dict(candidate)
        if found and not any(name in CASE_FUNCTIONS for name in found):
            raise AttributeValueError(
                f"compare: candidate: no case is of {', '.join(map(brief, found))}; expected some"
                f" of {', '.join(CASE_FUNCTIONS)}"
            )
    else:
        found = {name: getattr(candidate, name) for name in OPERATIONS if hasattr(candidate, name)}
    if not found or not all(map(callable, found.values())):
        raise AttributeValueError(
            "compare: candidate: expected a callable, or callables by the names of functions such"
            f" as convolution_backward_data, got {brief(candidate)}"
        )
    return found.get


def _one_line(error: Exception) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:
        return "an exception without a message"
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]} ..."


def _same(mine: Array, theirs: Array) -> bool:
    # The candidate may even have changed its array's shape or type in place.
    alike = mine.shape == theirs.shape and mine.dtype == theirs.dtype
    return alike and mine.tobytes() == theirs.tobytes()


def _results(case: Case, returned: Any) -> list[Array]:
    """Return what a candidate returned as arrays, in the order of ``result_roles``."""
    labels = [case.label(role) for role in case.result_roles]
    if len(labels) == 1:
        values = [returned]
    elif isinstance(returned, (tuple, list)) and len(returned) == len(labels):
        values = list(returned)
    else:
        raise UnusableResultError(
            "failed", f"expected a tuple ({', '.join(labels)}), got {_described(returned)}"
        )
    return [_array(label, value) for label, value in zip(labels, values, strict=True)]


def _array(label: str, value: Any) -> Array:
    if is_foreign_array(value):
        try:
            value = as_array(label, value)
        except DTypeError as error:
            raise UnusableResultError("failed", _one_line(error)) from error
    if not isinstance(value, (np.ndarray, np.generic)):
        raise UnusableResultError("failed", f"{label}: expected an array, got {_described(value)}")
    # Comparing a masked array would leave out what its mask hides.
    return np.asarray(value)


def _described(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else type_name(value)
