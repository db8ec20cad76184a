"""Cases on native oneDNN: equal results, and cases that it must not run."""

from __future__ import annotations

import pytest

from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import DATA_FORMATS, Case
from onednn_py.tools.native_programs import ComparisonUnavailableError
from onednn_py.tools.verification.verifier import Verifier
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn


@pytest.fixture(scope="module")
def native_verifier() -> Verifier:
    try:
        return Verifier(["numpy", "native"])
    except ComparisonUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("direction", ["BWD_D", "BWD_W", "BWD_WB"])
@pytest.mark.parametrize("data_format", DATA_FORMATS)
def test_native_results_are_equal(
    native_verifier: Verifier, direction: str, data_format: str
) -> None:
    for transposed, text in (
        (False, "g2ic32ih9oc16kh3ph1"),
        (True, "ic16ih5oc32kh4sh2ph1"),
        (True, "ic8iw5oc6kw3oc6"),
    ):
        descriptor = parse_descriptor(text, transposed=transposed)
        for dtype in ("f32", "bf16"):
            outcome = native_verifier.verify(Case(descriptor, direction, dtype, data_format))
            assert outcome.status == "passed", outcome
            assert outcome.equal == ("onednn", "numpy", "native")


def test_what_is_only_slow_is_run(native_verifier: Verifier) -> None:
    """Weights of v3.2's jit:avx2 with an incomplete block of channels are right."""
    case = Case(parse_descriptor("ic4ih12oc3kh3ph1"), "BWD_W", "f32", "NXC")
    outcome = native_verifier.verify(case)
    assert outcome.status == "passed"
    assert outcome.equal == ("onednn", "numpy", "native")


def test_known_defects_are_not_run(native_verifier: Verifier) -> None:
    case = Case(parse_descriptor("ic4ih32oc8kh1sh2"), "BWD_W", "f32", "NCX")
    outcome = native_verifier.verify(case)
    assert outcome.status == "passed"
    assert outcome.equal == ("onednn", "numpy")
    (note,) = outcome.notes
    assert note.startswith("native: known defect, uxlfoundation/oneDNN#6035")
