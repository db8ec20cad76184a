"""What computes cases: equal results from all, and cases that native oneDNN must not run."""

from __future__ import annotations

import numpy as np
import pytest

from onednn_py.backends.onednn.selection.defects import DEFECTS
from onednn_py.testing.judgement import differences
from onednn_py.testing.runners import NativeRunner, run_float64, run_numpy, run_onednn
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import DATA_FORMATS, DIRECTIONS, Case
from onednn_py.tools.native_programs import ComparisonUnavailableError, known_defect
from tests.support.requirements import needs_onednn

PROBLEMS = [
    parse_descriptor("g2ic32ih9oc16kh3ph1"),
    parse_descriptor("ic16ih5oc32kh4sh2ph1", transposed=True),
    parse_descriptor("ic8iw5oc6kw3oc6", transposed=True),
]


@pytest.fixture(scope="module")
def native() -> NativeRunner:
    try:
        return NativeRunner()
    except ComparisonUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("data_format", DATA_FORMATS)
@pytest.mark.parametrize("run", [run_numpy, pytest.param(run_onednn, marks=needs_onednn)])
def test_own_results_are_those_of_float64(run, direction: str, data_format: str) -> None:
    for descriptor in PROBLEMS:
        for dtype in ("f32", "bf16", "f16"):
            case = Case(descriptor, direction, dtype, data_format)
            results, implementation = run(case, case.tensors())
            expected, name = run_float64(case, case.tensors())
            assert differences(case, results, expected) == ""
            assert all(np.count_nonzero(array) for array in expected)
            assert (implementation == "numpy") == (run is run_numpy)
            assert name == "float64"


@needs_onednn
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("data_format", DATA_FORMATS)
def test_native_results_are_those_of_float64(
    native: NativeRunner, direction: str, data_format: str
) -> None:
    for descriptor in PROBLEMS:
        case = Case(descriptor, direction, "f32", data_format)
        results, implementation = native.run(case, case.tensors())
        expected, _ = run_float64(case, case.tensors())
        assert differences(case, results, expected) == "", implementation


@needs_onednn
def test_what_is_only_slow_is_run(native: NativeRunner) -> None:
    """Weights of v3.2's jit:avx2 with an incomplete block of channels are right."""
    case = Case(parse_descriptor("ic4ih12oc3kh3ph1"), "BWD_W", "f32", "NXC")
    results, _ = native.run(case, case.tensors())
    assert differences(case, results, run_float64(case, case.tensors())[0]) == ""


@needs_onednn
def test_known_defects_are_not_run(native: NativeRunner) -> None:
    case = Case(parse_descriptor("ic4ih32oc8kh1sh2"), "BWD_W", "f32", "NCX")
    results, reason = native.run(case, case.tensors())
    assert results is None
    assert reason.startswith("known defect, uxlfoundation/oneDNN#6035")


@needs_onednn
def test_a_defect_of_transposed_convolutions_concerns_no_others() -> None:
    (defect,) = [one for one in DEFECTS if "transposed convolutions with a bias" in one.harm]
    plain = Case(parse_descriptor("ic128ih7oc64kh3ph1"), "FWD_B", "f32", "NCX")
    descriptor = parse_descriptor("ic128ih7oc64kh4sh2ph1", transposed=True)
    transposed = Case(descriptor, "FWD_B", "f32", "NCX")
    assert known_defect(plain.problem()) == ""
    assert known_defect(transposed.problem()) == defect.reference
