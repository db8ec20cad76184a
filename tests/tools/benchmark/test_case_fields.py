"""Cases as dictionaries and back."""

from __future__ import annotations

import json

from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark.case_fields import case_fields, case_from_fields


def test_a_case_survives_the_pipe() -> None:
    descriptor = parse_descriptor('g2ic8ih5oc16kh4sh2ph1dh1n"a,b"', transposed=True)
    case = Case(descriptor, "BWD_WB", "bf16", "NXC")
    assert case_from_fields(json.loads(json.dumps(case_fields(case)))) == case
