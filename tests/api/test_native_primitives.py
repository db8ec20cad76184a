"""Results equal those of native oneDNN's primitives, run from C++.

Where onednn_py runs the same implementation as native oneDNN, results must be bit-identical;
elsewhere they may differ by the order of summation. Types that the CPU has no kernels of are
compared with native's float32.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.selection import decide as decide_module
from onednn_py.backends.onednn.selection import select as select_module
from tests.support.native_programs import (
    TOTALS,
    Outcome,
    assert_same_bits,
    compile_program,
    run_in_any_type,
)
from tests.support.primitive_cases import Case, all_cases

CASES = list(all_cases())
SUBJECT = "primitives"

# Relative and absolute tolerance of sums of products of standard normal numbers; the absolute
# tolerance is for one term, and grows with the square root of the number of terms.
TOLERANCES = {"f32": (1.3e-6, 1e-5), "bf16": (1.6e-2, 1e-5), "f16": (1e-3, 1e-5)}


class Comparisons:
    """Compares each case at most once, for several tests."""

    def __init__(self, outcomes: Mapping[Case, Outcome]) -> None:
        self._outcomes = outcomes
        self._verdicts: dict[Case, str] = {}

    def verdict(self, case: Case) -> str:
        """Return how our result agrees with native's; fail if it does not."""
        if case not in self._verdicts:
            self._verdicts[case] = self._compare(case, self._outcomes[case])
        return self._verdicts[case]

    @staticmethod
    def _compare(case: Case, native: Outcome) -> str:
        implementation, ours = case.run(case.inputs())
        assert [array.shape for array in ours] == case.result_shapes()
        assert native.status == "success", native.detail
        theirs = [
            array.reshape(shape)
            for array, shape in zip(native.arrays, case.result_shapes(), strict=True)
        ]
        pairs = list(zip(ours, theirs, strict=True))
        if innermost(implementation) == innermost(native.detail):
            for mine, yours in pairs:
                assert_same_bits(mine, yours)
            return "same implementation, bit-identical"
        for mine, yours in pairs:
            assert_close(mine, yours, case)
        same = all(mine.tobytes() == yours.tobytes() for mine, yours in pairs)
        return f"another implementation, {'bit-identical' if same else 'close'}"


def innermost(implementation: str) -> str:
    """Return the implementation of the convolution that a deconvolution runs on."""
    return re.sub(r"^(conv:any|brg_conv:\w+)\+", "", implementation)


def assert_close(ours: np.ndarray, native: np.ndarray, case: Case) -> None:
    """Fail unless the arrays agree up to rounding errors of the case's sums."""
    assert ours.shape == native.shape
    assert ours.dtype == native.dtype
    relative, absolute = TOLERANCES[case.dtype]
    np.testing.assert_allclose(
        ours.astype(np.float64),
        native.astype(np.float64),
        rtol=relative,
        atol=absolute * math.sqrt(case.terms),
    )


@pytest.fixture(autouse=True)
def no_preferences(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the package's preferences, plans use the implementation that native uses.

    It sums the bias gradient itself, as native's does.
    """
    monkeypatch.setattr(decide_module, "preferences", lambda *_, **__: iter(()))
    monkeypatch.setattr(select_module, "gains_from_bias_apart", lambda *_: False)
    onednn_py.cache_clear()
    yield
    onednn_py.cache_clear()


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> Comparisons:
    program = compile_program("primitives", tmp_path_factory.mktemp("primitives"))
    outcomes = run_in_any_type(program, [case.request() for case in CASES])
    return Comparisons(dict(zip(CASES, outcomes, strict=True)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_native(case: Case, comparisons: Comparisons) -> None:
    comparisons.verdict(case)


def test_most_are_bit_identical(
    comparisons: Comparisons, record_property: Callable[[str, object], None]
) -> None:
    verdicts = Counter(comparisons.verdict(case) for case in CASES)
    compared = verdicts.total()
    identical = sum(n for verdict, n in verdicts.items() if verdict.endswith("bit-identical"))
    totals = {"compared": compared, "bit_identical": identical}
    TOTALS[SUBJECT] = totals
    record_property(SUBJECT, totals)
    print(SUBJECT, totals, dict(verdicts))
    assert compared >= 700
    assert identical >= 0.9 * compared


def test_bit_comparison_sees_one_bit() -> None:
    right = np.linspace(-1, 1, 7, dtype=np.float32)
    assert_same_bits(right, right.copy())
    next_number = right.copy()
    next_number[3] = np.nextafter(right[3], np.float32(2))
    for wrong in (next_number, right[1:], right.astype(np.float64)):
        with pytest.raises(AssertionError):
            assert_same_bits(right, wrong)
    with pytest.raises(AssertionError):
        assert_same_bits(np.zeros(1, np.float32), np.full(1, -0.0, np.float32))


def test_tolerant_comparison_sees_a_missing_term() -> None:
    case = CASES[0]
    src, weights = (array.ravel()[: case.terms] for array in case.inputs()[:2])
    size = min(src.size, weights.size)
    products = src[:size] * weights[:size]
    whole = products.sum(keepdims=True)
    assert_close(whole, products[::-1].sum(keepdims=True), case)
    with pytest.raises(AssertionError):
        assert_close(whole, whole - np.abs(products).max(), case)
    with pytest.raises(AssertionError):
        assert_close(whole, np.full_like(whole, np.nan), case)
