"""Problem: every field tells problems apart, in comparisons and in the name that wisdom uses."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

import onednn_py
from onednn_py import TensorSpec
from onednn_py.problem.problem import Direction, Problem
from tests.support.candidate_runs import sub_problems


def problem() -> Problem:
    specs = [TensorSpec(shape, "float32") for shape in ((2, 6, 7, 3), (3, 3, 3, 4), (4,))]
    (found,) = sub_problems(onednn_py.convolution, *specs)
    return found.problem


OTHERS: dict[str, Any] = {
    "transposed": True,
    "direction": Direction.BACKWARD_DATA,
    "dtype": "bf16",
    "bias": None,
    "fpmath_mode": "bf16",
}


@pytest.mark.parametrize("name", [field.name for field in fields(Problem)])
def test_every_field_tells_problems_apart(name: str) -> None:
    one = problem()
    value = getattr(one, name)
    if name in ("src", "weights", "dst"):
        other = replace(value, strides=value.strides[::-1])
    elif name in OTHERS:
        other = OTHERS[name]
    else:
        other = tuple(entry + 1 for entry in value)
    changed = replace(one, **{name: other})
    assert changed != one
    assert changed.name != one.name
    assert problem() == one
    assert hash(problem()) == hash(one)
