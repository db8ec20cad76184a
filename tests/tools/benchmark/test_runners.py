"""The package's own runners compute the case that they time."""

from __future__ import annotations

import numpy as np
import pytest

from onednn_py.tools.benchmark.runners import RUNNERS, random_inputs
from tests.support.bench_cases import case


@pytest.mark.parametrize("name", ["ours", "plan", "numpy"])
@pytest.mark.parametrize("direction", ["BWD_D", "BWD_WB", "FWD_B"])
def test_a_runner_computes_the_case(name: str, direction: str) -> None:
    grouped = case("g2mb1ic4ih6iw5oc8kh3kw2sh2sw1ph1pw0", direction, data_format="NXC")
    inputs = random_inputs(grouped)
    call, implementation = RUNNERS[name].prepare(grouped, inputs)
    results = call()
    results = results if isinstance(results, tuple) else (results,)
    for result, expected in zip(results, grouped.call(inputs, "auto"), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert implementation
