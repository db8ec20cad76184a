"""The strategy: valid cases of every kind, and the error where hypothesis is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis.errors import Unsatisfiable

import onednn_py
from onednn_py import AttributeValueError
from onednn_py.testing import Case, assert_matches, cases, strategies
from onednn_py.tools.benchdnn.case import DIRECTIONS


@given(strategies.cases(dtypes=("f32", "bf16", "f16")))
@settings(max_examples=100)
def test_cases_are_valid_and_ids_give_them_again(case: Case) -> None:
    assert cases(case.id) == [case]
    assert case.problem().pads_end == case.descriptor.pads_end
    assert case.elements < 10**6


@given(strategies.cases(directions=tuple(DIRECTIONS)))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_our_own_functions_pass(backend: str, case: Case) -> None:
    def kernel(*tensors, **attributes):
        function = getattr(onednn_py, case.function)
        return function(*tensors, **attributes, backend=backend)

    assert_matches(kernel, case, against="float64")


def one_group_only(*tensors, groups, **attributes):
    if groups > 1:
        raise NotImplementedError("groups")
    return onednn_py.convolution(*tensors, groups=groups, **attributes, backend="numpy")


def wrong_at_large_strides(*tensors, strides, **attributes):
    result = one_group_only(*tensors, strides=strides, **attributes)
    result += max(strides) > 2
    return result


FORWARD = strategies.cases(operations=("conv",), directions=("FWD_D",), axes=(1, 2))
# Without a database, a failure that an earlier run found is not replayed.
SEARCH = settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))


def test_what_is_not_implemented_does_not_end_the_search_for_failures() -> None:
    compared = []

    @given(FORWARD)
    @SEARCH
    def right(case: Case) -> None:
        assert_matches(one_group_only, case, against="float64")
        compared.append(case)

    right()
    assert len(compared) > 10
    assert {case.descriptor.groups for case in compared} == {1}

    @given(FORWARD)
    @SEARCH
    def wrong(case: Case) -> None:
        assert_matches(wrong_at_large_strides, case, against="float64")

    with pytest.raises(AssertionError, match=r"dst: .* differ, the first at \(0, 0, 0"):
        wrong()


def test_a_search_that_compares_nothing_is_an_error() -> None:
    @given(FORWARD)
    @SEARCH
    def nothing(case: Case) -> None:
        assert_matches({"conv_transpose": print}, case, against="float64")

    with pytest.raises(Unsatisfiable):
        nothing()


@pytest.mark.parametrize(
    "wanted",
    [
        lambda d: d.transposed and min(d.pads_end) < 0,
        lambda d: not d.transposed and min(d.pads_end) < 0,
        lambda d: d.pads_begin != d.pads_end and max(d.pads_end) > 0,
        lambda d: d.groups == d.inputs > 1,
        lambda d: len(d.kernel) == 3 and len({*d.strides}) > 1,
        lambda d: max(d.dilations) > max(d.strides) > 1,
        lambda d: any(
            pad > (k - 1) * step
            for pad, k, step in zip(d.pads_begin, d.kernel, d.dilations, strict=True)
        ),
    ],
)
def test_every_kind_of_problem_is_drawn(wanted) -> None:
    find(strategies.cases(), lambda case: wanted(case.descriptor))


def test_choices_are_kept() -> None:
    strategy = strategies.cases(
        operations=["deconv"], directions="BWD_W", dtypes=("f16",), formats=["NXC"], axes=(2,)
    )
    case = find(strategy, lambda case: True)
    assert case.id.startswith("--deconv --dir=BWD_W --dt=f16 --stag=axb --dtag=axb ")
    assert len(case.descriptor.kernel) == 2


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"axes": (4,)}, r"axes: expected some of 1, 2, 3; got \(4,\)"),
        ({"axes": None}, "axes: expected some of 1, 2, 3; got None"),
        ({"axes": (2.0,)}, r"axes: expected some of 1, 2, 3; got \(2.0,\)"),
        ({"axes": (True,)}, r"axes: expected some of 1, 2, 3; got \(True,\)"),
        ({"dtypes": ()}, "dtypes: expected some of f32, bf16, f16"),
        ({"operations": ("conv", "matmul")}, "operations: expected some of conv, deconv"),
    ],
)
def test_wrong_choices(keywords: dict, message: str) -> None:
    with pytest.raises(AttributeValueError, match=message):
        strategies.cases(**keywords)


def test_without_hypothesis_the_command_is_said() -> None:
    code = """
import sys
sys.modules["hypothesis"] = None
import onednn_py
from onednn_py.testing import *
assert cases("ic4iw3oc8kw3")
try:
    from onednn_py.testing import strategies
except ImportError as error:
    assert isinstance(error, onednn_py.OneDNNPyError)
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "hypothesis is needed here: " in done.stdout
    assert "install" in done.stdout
