"""Tensors of a case: benchdnn's integers, and normal numbers."""

from __future__ import annotations

import numpy as np
import pytest

from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import DIRECTIONS, Case
from onednn_py.tools.benchdnn.filling import density, fill_integers, fill_normal, largest


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_filling_keeps_benchdnns_bounds(dtype: str, direction: str) -> None:
    case = Case(parse_descriptor("mb4ic256ih14oc256kh3ph1"), direction, dtype, "NXC")
    digits = {"f32": 24, "bf16": 8, "f16": 11}[dtype]
    sparse = "src" if direction.startswith("FWD") else "dst"
    for role, tensor in zip(case.input_roles, fill_integers(case), strict=True):
        values = tensor.astype(np.float64)
        assert np.abs(values).max() == largest(case, role)
        assert values.min() == -largest(case, role)
        nonzero = np.count_nonzero(values) / values.size
        limit = largest(case, role)
        # Some of the drawn values are zero.
        assert nonzero == pytest.approx(density(case, role) * 2 * limit / (2 * limit + 1), rel=0.1)
        if role == sparse:
            worst = case.terms * density(case, role) * largest(case, "src")
            assert worst * largest(case, "weights") <= 2**digits
            assert (density(case, role) < 1) == (dtype != "f32")


def test_filling_depends_on_case_and_seed_alone() -> None:
    case = Case(parse_descriptor("ic8iw9oc8kw3nfirst"), "BWD_D", "bf16", "NCX")
    renamed = Case(parse_descriptor("ic8iw9oc8kw3nsecond"), "BWD_D", "bf16", "NCX")
    for fill in (fill_integers, fill_normal):
        first, again, other = fill(case), fill(renamed), fill(case, seed=1)
        for a, b, c in zip(first, again, other, strict=True):
            assert a.tobytes() == b.tobytes() != c.tobytes()
