"""Compare results of cases with a reference: one way for people's kernels and for `verify`."""

from __future__ import annotations

import sys
import time
import unittest
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py import AttributeValueError, LibraryNotFoundError, OneDNNPyError
from onednn_py.errors import brief
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.native_programs import ComparisonUnavailableError

from .candidate import Candidate, UnusableResultError
from .judgement import differences, fit_to_limits, too_many_zeros
from .report import Outcome, Report
from .runners import NativeRunner, Runner, run_float64, run_onednn

__all__ = ["assert_matches", "compare", "judge", "observers"]

Array = npt.NDArray[Any]

REFERENCES = ("native", "onednn", "float64")

# How a failure names what differs, with the implementation; the candidate needs no name.
LABELS = {"onednn": "oneDNN ({}): ", "numpy": "NumPy: ", "native": "native ({}): "}

# Called with each report, for pytest's plugin.
observers: list[Callable[[Report], None]] = []


def compare(
    candidate: Any,
    cases: Case | Iterable[Case],
    *,
    against: str = "native",
    exact: bool = True,
) -> Report:
    """Call a candidate for each case, and compare its results with oneDNN's.

    Parameters
    ----------
    candidate : callable, mapping or object
        A callable is called for every case as the function of the name ``case.function`` is:
        ``candidate(*case.tensors(), **case.attributes)``. Of a mapping, such as
        ``{"convolution": f, "convolution_backward_data": g}``, and of a module, class or other
        object, the item or attribute of that name is called; cases without one are skipped.
        The tensors are NumPy arrays, copies that belong to the candidate and that it must not
        change. It returns what the function does: an array, or a tuple of two for weights and bias.
        Arrays of other libraries on the CPU are taken as the functions take them. A candidate that
        raises NotImplementedError does not implement the case, which is no failure.
    cases : Case or iterable of Case
        As `cases` returns them. Cases of more than 2**28 elements run with minibatch 1.
    against : {"native", "onednn", "float64"}
        ``"native"`` is a C++ program that calls oneDNN's primitives without this package: it is
        compiled at the first use, and leaves out problems for which oneDNN has a known defect.
        ``"onednn"`` is this package's oneDNN backend, ``"float64"`` its NumPy backend in float64,
        rounded once to the case's data type.
    exact : bool
        Whether results must be equal to the last bit, which the integers of the tensors allow to
        every order of summation. Algorithms that round on the way, such as Winograd's or an FFT,
        take ``exact=False``: the L2 norm of the difference, relative to that of the result, may
        then be as large as benchdnn allows for Winograd's algorithm: 2e-5 in f32 and 7e-3 in f16
        and bf16; for weights gradients times (terms/8)**0.4, if terms, the products summed for
        one element, are more than 8. The difference of a single element may be four times as large,
        relative to the largest element.

    Returns
    -------
    Report
        Wrong results and exceptions are failures in it.

    Raises
    ------
    ComparisonUnavailableError
        If ``against="native"`` lacks a compiler, headers or the library; the message says which.
    LibraryNotFoundError
        If ``against="onednn"`` finds no oneDNN library.
    AttributeValueError
        If an argument is none of these.

    Examples
    --------
    >>> import onednn_py
    >>> from onednn_py.testing import cases, compare
    >>> chosen = cases("ic16ih7oc24kh3ph1", directions="BWD_D")
    >>> def without_padding(diff_dst, weights, dst_shape, **attributes):
    ...     del attributes["pads_begin"], attributes["pads_end"]
    ...     full = onednn_py.convolution_backward_data(diff_dst, weights, **attributes)
    ...     return full[:, :, :7, :7].copy()
    >>> report = compare(without_padding, chosen, against="float64")
    >>> report.passed, report.failed
    (0, 1)
    """
    return _compared(Candidate(candidate), cases, against, exact)


def assert_matches(
    candidate: Any,
    cases: Case | Iterable[Case],
    *,
    against: str = "native",
    exact: bool = True,
) -> None:
    """Do as ``compare`` does, and raise an AssertionError if a case failed.

    Parameters
    ----------
    candidate, cases, against, exact
        As for `compare`.

    Raises
    ------
    AssertionError
        With the report's lines, if a case failed, or if there is no case at all. The first
        exception that the candidate raised is its cause.
    unittest.SkipTest
        If no case could be compared, with the reasons: pytest and unittest count the test as
        skipped. In a test of hypothesis, which would end there, the example is rejected instead.
    OneDNNPyError
        As `compare` does.

    Examples
    --------
    >>> import onednn_py
    >>> from onednn_py.testing import assert_matches, cases
    >>> chosen = cases(["ic16ih7oc24kh3ph1", "deconv:ic8iw5oc6kw3"])
    >>> assert_matches(onednn_py, chosen, against="float64")
    """
    __tracebackhide__ = True  # pytest shows the caller's line instead
    tried = Candidate(candidate)
    report = _compared(tried, cases, against, exact)
    if report.failed or not report.outcomes:
        lines = str(report) if report.outcomes else "no case to compare"
        raise AssertionError(lines) from tried.error
    if not report.passed + report.mistrusted:
        # hypothesis would end its search for a failure at the first SkipTest.
        hypothesis = sys.modules.get("hypothesis")
        if hypothesis is not None and hypothesis.currently_in_test_context():
            hypothesis.reject()
        raise unittest.SkipTest(str(report))


def _compared(
    candidate: Candidate, cases: Case | Iterable[Case], against: str, exact: bool
) -> Report:
    if not isinstance(exact, (bool, np.bool_)):
        raise AttributeValueError(f"compare: exact: expected True or False, got {brief(exact)}")
    reference = _reference(against)
    outcomes = [
        judge(case, {"": candidate.run}, reference, against=against, exact=exact)
        for case in _checked(cases)
    ]
    report = Report(tuple(outcomes))
    for observe in observers:
        observe(report)
    return report


def _checked(cases: Any) -> list[Case]:
    found = [cases] if isinstance(cases, Case) else cases
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise AttributeValueError(
            f"compare: cases: expected what testing.cases returns, got {brief(cases)}"
        )
    found = list(found)
    for case in found:
        if not isinstance(case, Case):
            raise AttributeValueError(
                f"compare: cases: expected what testing.cases returns, got {brief(case)} among them"
            )
    return found


def _reference(against: Any) -> Runner:
    if not isinstance(against, str) or against not in REFERENCES:
        raise AttributeValueError(
            f"compare: against: expected {', '.join(REFERENCES)}; got {brief(against)}"
        )
    if against == "float64":
        return run_float64
    if against == "onednn":
        return run_onednn
    try:
        return NativeRunner().run
    except ComparisonUnavailableError as error:
        raise type(error)(f'compare: against="native": {error}') from error


def judge(
    case: Case,
    runners: Mapping[str, Runner],
    reference: Runner = run_float64,
    *,
    against: str = "float64",
    exact: bool = True,
    seed: int = 0,
    max_flops: float = inf,
) -> Outcome:
    """Run a case, and compare the runners' results with the reference's.

    Parameters
    ----------
    runners : mapping of str to Runner
        By their names in the outcome; the name of a user's candidate is empty.
    reference, against : Runner, str
        What computes the expected results, and its name.
    exact : bool
        As for `compare`.
    seed : int
        Of the tensors.
    max_flops : float
        Floating-point operations above which a case runs with minibatch 1 or is skipped.

    Raises
    ------
    LibraryNotFoundError
        If a runner needs a oneDNN library and none can be loaded. Other errors of this package,
        and of a candidate, are failures.
    """
    start = time.perf_counter()
    case, reason = fit_to_limits(case, max_flops)
    if reason:
        outcome = Outcome(case, "skipped", reason)
    else:
        try:
            outcome = _judged(case, runners, reference, against, exact, seed)
        except LibraryNotFoundError:
            raise
        except UnusableResultError as error:
            outcome = Outcome(case, error.status, error.reason)
        except (OneDNNPyError, MemoryError) as error:
            outcome = Outcome(case, "failed", f"{type(error).__name__}: {error}")
    return replace(outcome, seconds=time.perf_counter() - start)


def _judged(
    case: Case,
    runners: Mapping[str, Runner],
    reference: Runner,
    against: str,
    exact: bool,
    seed: int,
) -> Outcome:
    inputs = case.tensors(seed)
    expected, name = reference(case, inputs)
    if expected is None:
        return Outcome(case, "skipped", f"{against}: {name}")
    wrong, implementations, notes = {}, {against: name}, []
    for source, run in runners.items():
        results, implementations[source] = run(case, inputs)
        if results is None:
            notes.append(f"{source}: {implementations[source]}")
        else:
            wrong[source] = differences(case, results, expected, exact=exact)
            if source == "" and wrong[source] and against != "float64":
                wrong[source] += _second_opinion(case, inputs, results, expected, against)
    implementation = next(
        (implementations[name] for name in ("onednn", "native") if name in implementations), ""
    )
    status, reason = "passed", ""
    if any(wrong.values()):
        status = "failed"
        reason = "; ".join(
            LABELS.get(source, "").format(implementations[source]) + text
            for source, text in wrong.items()
            if text
        )
    elif "onednn" in runners and implementations["onednn"] == "numpy":
        status, reason = "unimplemented", "no implementation of oneDNN, NumPy ran it"
    elif zeros := too_many_zeros(case, expected):
        status, reason = "mistrusted", zeros
    equal = tuple(source for source, text in wrong.items() if source and not text)
    return Outcome(case, status, reason, implementation, equal, tuple(notes))


def _second_opinion(
    case: Case,
    inputs: Sequence[Array],
    results: Sequence[Array],
    expected: Sequence[Array],
    against: str,
) -> str:
    """Return whether float64 sides with the results, where these differ from another reference."""
    exact, _ = run_float64(case, inputs)
    if exact is None or differences(case, expected, exact) == "":
        return ""
    if differences(case, results, exact):
        return f"; {against} differs from float64, too"
    return f"; float64 has these results: {against} is wrong"
