"""Comparisons: right kernels pass against every reference, wrong ones are found and named."""

from __future__ import annotations

import re
import unittest
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError
from onednn_py.testing import (
    Case,
    ComparisonUnavailableError,
    assert_matches,
    cases,
    compare,
    comparison,
)
from onednn_py.tools import native_programs
from tests.support.reference import contract
from tests.support.requirements import has_dtype, needs_onednn

REFERENCES = ["float64", pytest.param("onednn", marks=needs_onednn), "native"]
PROBLEMS = ("g2ic4ih7iw6oc4kh3kw2sh2ph1", "deconv:ic4ih4oc4kh3sh2ph1oh8", "ic3iw9oc5kw3dw1")


@pytest.fixture(params=REFERENCES)
def against(request: pytest.FixtureRequest) -> str:
    if request.param == "native":
        try:
            native_programs.native_program("primitives")
        except ComparisonUnavailableError as error:
            pytest.skip(str(error))
    return request.param


def oracle(case: Case) -> Callable[..., Any]:
    """Return a kernel for a case in NCX that shares nothing with the package."""

    def kernel(*tensors: np.ndarray, strides, pads_begin, dilations, groups, **_: Any) -> Any:
        roles = dict(zip(case.input_roles, tensors, strict=True))
        bias = roles.pop("bias", None)
        result = case.operation.result_role
        shape = case.shape(result)
        if case.descriptor.transposed:
            # The form of the convolution whose data gradient the operation is.
            swap = {"src": "dst", "dst": "src"}
            roles = {swap.get(role, role): array for role, array in roles.items()}
            result = swap.get(result, result)
        found = contract(
            result, shape, roles, strides=strides, pads_begin=pads_begin,
            dilations=dilations, groups=groups,
        )  # fmt: skip
        if bias is not None:
            found = found + bias.reshape(-1, *[1] * len(strides)).astype(float)
        array = found.astype(case.numpy_dtype)
        if case.has_bias and not case.is_forward:
            diff_dst = tensors[1].astype(float)
            axes = tuple(axis for axis in range(diff_dst.ndim) if axis != 1)
            return array, diff_dst.sum(axes).astype(case.numpy_dtype)
        return array

    return kernel


@pytest.mark.parametrize("direction", ["FWD_D", "FWD_B", "BWD_D", "BWD_W", "BWD_WB"])
def test_a_right_kernel_passes(against: str, direction: str) -> None:
    for case in cases(PROBLEMS, directions=direction):
        report = compare(oracle(case), case, against=against)
        assert (report.passed, report.failed, report.skipped) == (1, 0, 0), str(report)
        assert report.failures == ()
        assert_matches(oracle(case), [case], against=against)


def test_half_types_are_compared(against: str) -> None:
    for case in cases(PROBLEMS, dtypes=("bf16", "f16")):
        report = compare(oracle(case), case, against=against)
        assert report.failed == 0, str(report)
        # Native oneDNN has float16 on few CPUs, and bfloat16 not on all.
        is_compared = against != "native" or has_dtype(case.dtype)
        assert report.passed == int(is_compared), str(report)


def call(name: str, *tensors: np.ndarray, **attributes: Any) -> Any:
    return getattr(onednn_py, name)(*tensors, **attributes, backend="numpy")


def border(*tensors: np.ndarray, **attributes: Any) -> np.ndarray:
    result = call("convolution", *tensors, **attributes)
    result[..., -1] = result[..., -2]
    return result


def transposed_weights(src: np.ndarray, weights: np.ndarray, **attributes: Any) -> np.ndarray:
    return call("convolution", src, np.swapaxes(weights, 0, 1), **attributes)


def not_flipped(diff_dst: np.ndarray, weights: np.ndarray, **attributes: Any) -> np.ndarray:
    return call("convolution_backward_data", diff_dst, weights[..., ::-1, ::-1], **attributes)


def shifted_bias(src: np.ndarray, weights: np.ndarray, bias: np.ndarray, **attributes: Any) -> Any:
    return call("convolution", src, weights, np.roll(bias, 1), **attributes)


def halved_bias_gradient(*tensors: np.ndarray, **attributes: Any) -> Any:
    weights, bias = call("convolution_backward_weights", *tensors, **attributes)
    return weights, bias / np.float32(2)


def one_image_less(src: np.ndarray, diff_dst: np.ndarray, **attributes: Any) -> np.ndarray:
    return call("convolution_backward_weights", src[1:], diff_dst[1:], **attributes)


def in_float64(*tensors: np.ndarray, **attributes: Any) -> np.ndarray:
    return call("convolution", *(t.astype(float) for t in tensors), **attributes)


def with_nan(*tensors: np.ndarray, **attributes: Any) -> np.ndarray:
    result = call("convolution", *tensors, **attributes)
    result[1, 2, 3, 4] = np.nan
    return result


def channels_last(*tensors: np.ndarray, **attributes: Any) -> np.ndarray:
    return np.moveaxis(call("convolution", *tensors, **attributes), 1, -1)


WRONG = [
    (border, "FWD_D", r"dst: \d+ of 512 elements differ, the first at \(0, 0, 0, 7\): "),
    (transposed_weights, "FWD_D", r"dst: \d+ of 512 elements differ, the first at \(0, 0, 0, 0\)"),
    (not_flipped, "BWD_D", r"diff_src: \d+ of 512 elements differ, the first at \(0, "),
    (shifted_bias, "FWD_B", r"dst: \d+ of 512 elements differ"),
    (halved_bias_gradient, "BWD_WB", r"diff_bias: \d of 4 elements differ, the first at \("),
    (one_image_less, "BWD_W", r"diff_weights: \d+ of 144 elements differ, the first at \("),
    (in_float64, "FWD_D", r"dst: float64 \(2, 4, 8, 8\), expected float32 \(2, 4, 8, 8\)"),
    (with_nan, "FWD_D", r"dst: 1 of 512 elements differ, the first at \(1, 2, 3, 4\): nan, expec"),
    (channels_last, "FWD_D", r"dst: float32 \(2, 8, 8, 4\), expected float32 \(2, 4, 8, 8\)"),
]  # fmt: skip


@pytest.mark.parametrize(("candidate", "direction", "message"), WRONG)
def test_wrong_kernels_are_found(
    candidate: Callable[..., Any], direction: str, message: str, against: str
) -> None:
    (case,) = cases("ic4ih8oc4kh3ph1", directions=direction)
    report = compare(candidate, case, against=against)
    assert (report.passed, report.failed) == (0, 1)
    (line,) = report.failures
    assert re.match(rf"1:FAILED \({message}", line), line
    assert line.endswith(f") {case.id}")
    assert str(report).splitlines()[0] == line
    with pytest.raises(AssertionError, match=re.escape(line)):
        assert_matches(candidate, case, against=against)


@pytest.mark.parametrize(("candidate", "direction", "message"), WRONG)
def test_wrong_kernels_are_found_where_rounding_is_allowed(
    candidate: Callable[..., Any], direction: str, message: str
) -> None:
    (case,) = cases("ic4ih8oc4kh3ph1", directions=direction)
    report = compare(candidate, case, against="float64", exact=False)
    assert report.failed == 1, str(report)


def test_rounding_is_allowed_where_the_caller_says_so() -> None:
    def rounding(*tensors: np.ndarray, **attributes: Any) -> np.ndarray:
        result = call("convolution", *tensors, **attributes)
        return np.where(result == 0, result, np.nextafter(result, np.float32(np.inf)))

    (case,) = cases("ic4ih8oc4kh3ph1", directions="FWD_D")
    assert compare(rounding, case, against="float64", exact=False).passed == 1
    assert compare(rounding, case, against="float64").failed == 1


def test_results_of_both_gradients_may_be_a_list() -> None:
    (case,) = cases("ic4ih8oc4kh3ph1", directions="BWD_WB")

    def listed(*tensors: np.ndarray, **attributes: Any) -> list[np.ndarray]:
        return list(call("convolution_backward_weights", *tensors, **attributes))

    assert compare(listed, case, against="float64").passed == 1


def test_several_cases_and_all_statuses() -> None:
    def partly(*tensors: np.ndarray, groups: int, **attributes: Any) -> np.ndarray:
        if groups > 1:
            raise NotImplementedError("no groups")
        return call("convolution", *tensors, groups=groups, **attributes)

    chosen = cases(
        ["ic4ih8oc4kh3ph1", "g2ic4ih8oc4kh3ph1", "mb0ic4ih8oc4kh3ph1", "ic4iw2oc4kw1pw20"]
    )
    report = compare({"convolution": partly}, chosen, against="float64")
    assert [outcome.status for outcome in report.outcomes[::3]] == [
        "passed", "unimplemented", "skipped", "mistrusted",
    ]  # fmt: skip
    assert report.skipped == 1 + 2 * 4
    lines = str(report).splitlines()
    assert lines[0] == f"4:UNIMPLEMENTED (no groups) {chosen[3].id}"
    assert lines[1].startswith("10:MISTRUSTED (")
    assert "skipped: 3, no elements to compute" in lines
    assert "skipped: 3, no candidate for convolution_backward_data" in lines
    assert lines[-1] == "tests:12 passed:1 skipped:9 mistrusted:1 unimplemented:1 failed:0"


def test_nothing_compared_is_a_skipped_test_and_no_case_a_failed_one() -> None:
    chosen = cases("ic4ih8oc4kh3ph1", directions="BWD_D")
    with pytest.raises(unittest.SkipTest, match="no candidate for convolution_backward_data"):
        assert_matches({"convolution": print}, chosen, against="float64")
    with pytest.raises(AssertionError, match="no case to compare"):
        assert_matches(onednn_py, [], against="float64")


def test_an_exception_of_the_kernel_is_the_cause() -> None:
    def broken(*tensors: np.ndarray, **attributes: Any) -> None:
        raise ZeroDivisionError("here")

    (case,) = cases("ic4ih8oc4kh3ph1", directions="BWD_D")
    with pytest.raises(AssertionError, match="the candidate raised ZeroDivisionError: here") as e:
        assert_matches(broken, case, against="float64")
    assert isinstance(e.value.__cause__, ZeroDivisionError)


def test_float64_says_who_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong_reference(case: Case, inputs: Any) -> Any:
        return [call(case.function, *inputs, **case.attributes) + 1], "broken"

    monkeypatch.setattr(comparison, "run_onednn", wrong_reference)
    (case,) = cases("ic4ih8oc4kh3ph1", directions="FWD_D")
    (line,) = compare(oracle(case), case, against="onednn").failures
    assert "; float64 has these results: onednn is wrong" in line
    (line,) = compare(with_nan, case, against="onednn").failures
    assert "; onednn differs from float64, too" in line


@needs_onednn
def test_known_defects_of_native_are_skipped() -> None:
    (case,) = cases("ic4ih32oc8kh1sh2", directions="BWD_W")
    try:
        report = compare(onednn_py, case)
    except ComparisonUnavailableError as error:
        pytest.skip(str(error))
    assert report.skipped == 1
    assert "skipped: 1, native: known defect, uxlfoundation/oneDNN#6035" in str(report)


@pytest.mark.parametrize("exact", [1e-3, "no", None, 1])
def test_exact_is_a_boolean(exact: Any) -> None:
    (case,) = cases("ic4ih8oc4kh3ph1", directions="FWD_D")
    with pytest.raises(AttributeValueError, match="compare: exact: expected True or False"):
        compare(onednn_py, case, against="float64", exact=exact)


def test_what_native_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise ComparisonUnavailableError("no C++ compiler: set CXX, or install g++")

    monkeypatch.setattr(native_programs, "find_compiler", missing)
    (case,) = cases("ic4ih8oc4kh3ph1", directions="FWD_D")
    with pytest.raises(ComparisonUnavailableError, match='against="native": no ') as raised:
        compare(onednn_py, case)
    assert len(str(raised.value)) <= 600
    assert compare(onednn_py, case, against="float64").passed == 1


def test_without_a_library_native_and_onednn_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise onednn_py.LibraryNotFoundError("no usable oneDNN library")

    monkeypatch.setattr(native_programs, "library", missing)
    (case,) = cases("ic4ih8oc4kh3ph1", directions="FWD_D")
    with pytest.raises(ComparisonUnavailableError, match="no usable oneDNN library"):
        compare(onednn_py, case)
    monkeypatch.setattr(comparison, "run_onednn", missing)
    with pytest.raises(onednn_py.LibraryNotFoundError):
        compare(onednn_py, case, against="onednn")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"against": "torch"}, "against: expected native, onednn, float64; got 'torch'"),
        (
            {"against": np.zeros(2)},
            "against: expected native, onednn, float64; got ndarray of shape",
        ),
        ({"against": None}, "against: expected native, onednn, float64; got None"),
        ({"cases": "resnet50"}, "cases: expected what testing.cases returns, got 'resnet50'"),
        ({"cases": 3}, "cases: expected what testing.cases returns, got 3"),
        ({"cases": ["resnet50"]}, "cases: expected .*, got 'resnet50' among them"),
        ({"candidate": None}, "candidate: expected a callable"),
    ],
)
def test_wrong_arguments(arguments: dict, message: str) -> None:
    given = {"candidate": onednn_py, "cases": [], "against": "float64"} | arguments
    with pytest.raises(AttributeValueError, match=message):
        compare(**given)


def test_a_mask_hides_no_wrong_element() -> None:
    (case,) = cases("ic4ih8oc4kh3ph1", directions="FWD_D")

    def masked(*tensors: np.ndarray, **attributes: Any) -> np.ndarray:
        return np.ma.masked_invalid(with_nan(*tensors, **attributes))

    (line,) = compare(masked, case, against="float64").failures
    assert "the first at (1, 2, 3, 4): nan" in line


def test_kernels_may_return_bfloat16_by_any_name_of_the_type() -> None:
    (case,) = cases("ic4ih8oc4kh3ph1", directions="FWD_D", dtypes="bf16")

    def raw(*tensors: np.ndarray, **attributes: Any) -> np.ndarray:
        return call("convolution", *tensors, **attributes).view(np.uint16)

    (line,) = compare(raw, case, against="float64").failures
    assert "dst: uint16 (2, 4, 8, 8), expected bfloat16 (2, 4, 8, 8)" in line
    view = compare(lambda *t, **a: raw(*t, **a).view(ml_dtypes.bfloat16), case, against="float64")
    assert view.passed == 1
