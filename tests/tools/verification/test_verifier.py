"""The verifier: outcomes of cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn import backend
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import DATA_FORMATS, DIRECTIONS, Case
from onednn_py.tools.verification import verifier
from onednn_py.tools.verification.verifier import Verifier
from tests.support.requirements import needs_onednn

SMALL = Case(parse_descriptor("ic16ih7oc24kh3ph1"), "BWD_D", "f32", "NCX")


@needs_onednn
@pytest.mark.parametrize(
    ("transposed", "text"),
    [
        (False, "g2ic16ih9iw7oc8kh3kw2sh2sw1ph1dh1dw0"),
        (False, "ic8ih9oc16kh1sh2"),
        (True, "g2ic8ih5iw7oc16oh10ow22kh3kw4sh2sw3ph1pw0"),
        (True, "ic17iw6oc5kw3dw1"),
    ],
)
def test_every_direction_type_and_format_passes(transposed: bool, text: str) -> None:
    descriptor = parse_descriptor(text, transposed=transposed)
    for direction in DIRECTIONS:
        for dtype in ("f32", "bf16", "f16"):
            for data_format in DATA_FORMATS:
                outcome = Verifier().verify(Case(descriptor, direction, dtype, data_format))
                assert outcome.status == "passed", outcome
                assert outcome.equal == ("onednn", "numpy")


@needs_onednn
def test_wrong_numpy_result_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Case.call

    def wrong(self, inputs, backend):
        results = call(self, inputs, backend)
        if inputs[0].dtype != np.float64:
            results[0][...] = np.nan
        return results

    monkeypatch.setattr(Case, "call", wrong)
    outcome = Verifier().verify(SMALL)
    assert outcome.status == "failed"
    assert outcome.reason.startswith("NumPy: diff_src")
    assert outcome.equal == ("onednn",)
    assert Verifier([]).verify(SMALL).status == "passed"


@needs_onednn
def test_wrong_native_result_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class WrongRunner:
        def run(self, case, inputs):
            return [np.zeros(case.shape(role), np.float32) for role in case.result_roles], "jit"

    monkeypatch.setattr(verifier, "NativeRunner", WrongRunner)
    outcome = Verifier(["native"]).verify(SMALL)
    assert outcome.status == "failed"
    assert outcome.reason.startswith("native (jit): diff_src: ")
    assert outcome.equal == ("onednn",)


@needs_onednn
def test_error_of_the_package_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self, *tensors):
        raise onednn_py.OneDNNError("dnnl_primitive_execute", "runtime_error")

    monkeypatch.setattr(onednn_py.Plan, "__call__", fail)
    outcome = Verifier().verify(SMALL)
    assert outcome.status == "failed"
    assert outcome.reason.startswith("OneDNNError: dnnl_primitive_execute failed")


@pytest.fixture
def no_implementation(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make oneDNN answer that it implements no problem."""

    def refuse(*_: object) -> None:
        raise onednn_py.OneDNNError("dnnl_primitive_desc_create", "unimplemented")

    monkeypatch.setattr(backend, "decide", refuse)
    onednn_py.cache_clear()
    yield
    onednn_py.cache_clear()


@needs_onednn
@pytest.mark.usefixtures("no_implementation")
@pytest.mark.parametrize("data_format", DATA_FORMATS)
def test_results_of_numpy_are_unimplemented(data_format: str) -> None:
    outcome = Verifier().verify(replace(SMALL, data_format=data_format))
    assert outcome.status == "unimplemented"
    assert outcome.equal == ("onednn", "numpy")


@needs_onednn
@pytest.mark.parametrize("data_format", DATA_FORMATS)
def test_result_of_mostly_zeros_is_mistrusted(data_format: str) -> None:
    # Nearly all windows of the forward pass lie in the padding.
    case = Case(parse_descriptor("ic4iw2oc4kw1pw20"), "FWD_D", "f32", data_format)
    outcome = Verifier().verify(case)
    assert outcome.status == "mistrusted"
    assert "of dst is not zero" in outcome.reason


@needs_onednn
def test_large_problem_runs_with_minibatch_1_or_is_skipped() -> None:
    flops = SMALL.with_minibatch(1).descriptor.flops
    reduced = Verifier(max_flops=flops).verify(SMALL.with_minibatch(8))
    assert reduced.status == "passed"
    assert reduced.case == SMALL.with_minibatch(1)
    skipped = Verifier(max_flops=flops - 1).verify(SMALL.with_minibatch(8))
    assert skipped.status == "skipped"
    assert skipped.reason.startswith("one image takes more than")
    huge = Case(parse_descriptor("ic1iw1000000000oc1kw1"), "BWD_D", "f32", "NCX")
    assert "elements" in Verifier().verify(huge).reason
    empty = Verifier().verify(SMALL.with_minibatch(0))
    assert (empty.status, empty.reason) == ("skipped", "no elements to compute")
