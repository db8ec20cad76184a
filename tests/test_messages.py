"""Thousands of wrong calls: every error is the package's own, short, and in the caller's words."""

from __future__ import annotations

import inspect
import random
import re
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import OneDNNPyError
from onednn_py.api import FUNCTIONS
from onednn_py.errors import LONGEST_MESSAGE, ShapeError, brief
from tests.support.wrong_calls import LONG, wrong_call

KEYWORDS = {
    name: {
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY or parameter.name.endswith("_shape")
    }
    for name, function in FUNCTIONS.items()
}

# Arguments that only inner calls of `convolution_backward` and its like have.
INNER = re.compile(r"dst_shape|weights_shape|_backward_(data|weights)")


def outcome(function: Any, *tensors: Any, **attributes: Any) -> str | None:
    """Return the message of the package's error, None where there is a result."""
    try:
        function(*tensors, **attributes)
    except OneDNNPyError as error:
        return str(error)
    except MemoryError:
        return ""
    return None


@pytest.mark.parametrize("seed", range(4))
def test_wrong_calls(seed: int, backend: str) -> None:
    generator, found = random.Random(seed), 0
    for _ in range(800):
        name, tensors, attributes = wrong_call(generator, KEYWORDS)
        attributes.setdefault("backend", backend)
        message = outcome(FUNCTIONS[name], *tensors, **attributes)
        if not message:
            continue
        found += 1
        assert len(message) <= LONGEST_MESSAGE
        assert name in message or message.startswith(("backend", "fpmath_mode"))
        assert "array([" not in message
        assert len(message.splitlines()) <= 2
        if name in ("convolution_backward", "conv_transpose_backward"):
            assert not INNER.search(message), message
        planned = {key: value for key, value in attributes.items() if key != "out"}
        message = outcome(onednn_py.plan, FUNCTIONS[name], *tensors, **planned)
        assert message is None or len(message) <= LONGEST_MESSAGE
    assert found > 400


def test_a_message_that_is_too_long_lacks_its_middle() -> None:
    message = str(ShapeError(f"begin {LONG} end"))
    assert len(message) == LONGEST_MESSAGE
    assert message.startswith("begin x")
    assert message.endswith("x end")
    assert ShapeError(3).args == (3,)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, "3"),
        ("same", "'same'"),
        (np.float32(2), repr(np.float32(2))),
        (np.ones((3, 4)), "ndarray of shape (3, 4) and dtype float64"),
        ((np.ones(3), 2), "(ndarray of shape (3,) and dtype float64, 2)"),
        ([2**5000], "[an integer of 5001 bits]"),
        ((1,) * 1000, "(1, 1, 1, 1, 1, 1, ...)"),
    ],
)
def test_values_in_messages(value: Any, expected: str) -> None:
    assert brief(value) == expected


def test_values_in_messages_are_short() -> None:
    nested = [[{LONG: (LONG, LONG)}] * 100] * 100
    for value in (LONG, nested, {LONG: LONG}, (LONG,) * 9, np.ones((1,) * 30), range(10**30)):
        assert len(brief(value)) <= 120


def test_reprs_are_of_a_few_lines() -> None:
    src, weights = np.ones((4, 30, 30, 8), np.float32), np.ones((3, 3, 8, 8), np.float32)
    dst = np.ones((4, 28, 28, 8), np.float32)
    gradients = onednn_py.convolution_backward(src, weights, dst, wrt=("src", "weights"))
    text = repr(gradients)
    assert str(gradients) == text
    assert "diff_src: float32, shape (4, 30, 30, 8)" in text
    assert "diff_bias: None" in text
    assert len(text.splitlines()) <= 6
    spec = onednn_py.TensorSpec((4, 30, 30, 8), np.float32)
    mapped = onednn_py.Gradients((4, 30, 30, 8), 1.5, None)
    assert repr(mapped).splitlines()[1:3] == [
        "    diff_src: (4, 30, 30, 8)",
        "    diff_weights: 1.5",
    ]
    assert repr(spec) == "TensorSpec(shape=(4, 30, 30, 8), dtype=float32)"
    plans = (
        onednn_py.plan("convolution_backward", src, weights, dst, wrt=("src", "weights", "bias")),
        onednn_py.plan("conv_transpose_backward", dst, weights, src, backend="numpy"),
    )
    for plan in plans:
        assert len(repr(plan).splitlines()) <= 30
        assert len(repr(plan)) <= 3000


SRC, WEIGHTS = np.ones((1, 4, 4, 2), np.float32), np.ones((2, 2, 2, 3), np.float32)
REQUIRED = {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1}
WRONG: tuple[Any, ...] = (LONG, (1,) * 100_000, np.ones(1000), [LONG] * 9, 2**5000, {LONG: LONG})


@pytest.mark.parametrize(
    "wrong", WRONG, ids=["text", "tuple", "array", "list", "integer", "mapping"]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda wrong: onednn_py.run_op(wrong, [SRC, WEIGHTS], REQUIRED),
        lambda wrong: onednn_py.run_op("Convolution", wrong, REQUIRED),
        lambda wrong: onednn_py.run_op("Convolution", [SRC, WEIGHTS], wrong),
        lambda wrong: onednn_py.run_op("Convolution", [wrong, WEIGHTS], REQUIRED),
        lambda wrong: onednn_py.run_op(
            "Convolution", [SRC, WEIGHTS], {**REQUIRED, "groups": wrong}
        ),
        lambda wrong: onednn_py.run_op("Convolution", [SRC, WEIGHTS], {**REQUIRED, LONG: wrong}),
        lambda wrong: onednn_py.plan(wrong, SRC, WEIGHTS),
        lambda wrong: onednn_py.plan("convolution", SRC, WEIGHTS)(wrong, WEIGHTS),
        lambda wrong: onednn_py.plan("convolution", SRC, WEIGHTS).pack(wrong, WEIGHTS),
        lambda wrong: onednn_py.plan("convolution", SRC, WEIGHTS, effort=wrong),
        lambda wrong: onednn_py.TensorSpec((wrong,), np.float32),
        lambda wrong: onednn_py.TensorSpec((1,), wrong),
        lambda wrong: onednn_py.set_num_threads(wrong),
        lambda wrong: onednn_py.use_backend(wrong).__enter__(),
        lambda wrong: onednn_py.use_effort(wrong).__enter__(),
        lambda wrong: onednn_py.use_fpmath_mode(wrong).__enter__(),
        lambda wrong: onednn_py.set_idle_threads(wrong),
        lambda wrong: onednn_py.set_cache_limit(entries=wrong, bytes="x"),
    ],
)
def test_long_values_in_every_door(call: Any, wrong: Any) -> None:
    with pytest.raises(OneDNNPyError) as caught:
        call(wrong)
    assert len(str(caught.value)) <= LONGEST_MESSAGE
