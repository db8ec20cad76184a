"""Wrong graph files are errors that name the position, never tracebacks or crashes."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onednn_py
from onednn_py import GraphFileError
from onednn_py.cli import main
from tests.support import graph_writing as writing
from tests.support.graph_writing import (
    INPUT,
    OPERATION,
    STRIDES,
    UNKNOWN,
    chain,
    gradient,
    put,
    remove,
    tensor,
    write,
)

WRONG = {
    "no graph": (remove("graph"), "the field 'graph' is missing"),
    "graph": (put({}, "graph"), "graph: expected a list, got an object"),
    "operation": (put(3, *OPERATION), r"graph\[0\]: expected an object, got 3"),
    "no id": (remove(*OPERATION, "id"), r"graph\[0\]: the field 'id' is missing"),
    "id": (put(True, *OPERATION, "id"), r"graph\[0\]: id: expected an integer, got true"),
    "negative id": (put(-1, *OPERATION, "id"), "id: expected a non-negative integer, got -1"),
    "large id": (put(2**64, *OPERATION, "id"), "expected an integer of 64 bits"),
    "name": (put(None, *OPERATION, "name"), "name: expected a string, got null"),
    "no kind": (
        remove(*OPERATION, "kind"),
        r"operation 0 \(gradient\): the field 'kind' is missing",
    ),
    "attrs": (put([], *OPERATION, "attrs"), "attrs: expected an object, got a list"),
    "attribute": (put(3, *STRIDES), "attrs: strides: expected an object, got 3"),
    "no type": (remove(*STRIDES, "type"), "strides: the field 'type' is missing"),
    "type": (put("u8", *STRIDES, "type"), "strides: type: expected one of s64, .*; got 'u8'"),
    "no value": (remove(*STRIDES, "value"), "strides: the field 'value' is missing"),
    "value": (put(2, *STRIDES, "value"), "strides: value: expected a list, got 2"),
    "entry": (put([1.5, 1], *STRIDES, "value"), r"value\[0\]: expected an integer, got 1.5"),
    "no inputs": (remove(*OPERATION, "inputs"), "the field 'inputs' is missing"),
    "inputs": (put("01", *OPERATION, "inputs"), 'inputs: expected a list, got "01"'),
    "no tensor id": (remove(*INPUT, "id"), r"inputs\[1\]: the field 'id' is missing"),
    "no dtype": (remove(*INPUT, "dtype"), r"inputs\[1\]: the field 'dtype' is missing"),
    "no shape": (remove(*INPUT, "shape"), r"inputs\[1\]: the field 'shape' is missing"),
    "shape": (put([4, -3, 3, 3], *INPUT, "shape"), "shape: expected no negative entries"),
    "stride": (put([1, 2], *INPUT, "stride"), "stride: expected 4 entries, one for each of shape"),
    "negative stride": (put([27, 9, 3, -2], *INPUT, "stride"), "stride: expected no negative"),
    "layout": (put("nchw", *INPUT, "layout_type"), "layout_type: expected one of strided, any"),
    "circle": (
        put(tensor(2, (2, 4, 5, 5)), *OPERATION, "inputs", 0),
        "depend on their own results",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_an_error_with_the_position(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = WRONG[name]
    document = writing.graph(gradient())
    change(document)
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(document))
    with pytest.raises(GraphFileError, match=message) as raised:
        onednn_py.load_graph(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert main(["run", str(path)]) == 1
    assert str(raised.value) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON"),
        ('{"graph": [', "is no JSON"),
        ("[" * 100_000, "is no JSON: nested too deeply"),
        ("\xff", "is no JSON"),
        ("[]", "expected an object, got a list"),
        ('{"graph": [' + "9" * 5000 + "]}", "is no JSON"),
    ],
    ids=["empty", "cut", "deep", "latin", "list", "digits"],
)
def test_other_files_are_no_graph_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(GraphFileError, match=message):
        onednn_py.load_graph(path)
    for unreadable in (tmp_path, tmp_path / "missing.json"):
        with pytest.raises(GraphFileError, match="cannot be read"):
            onednn_py.load_graph(unreadable)


def test_two_operations_with_one_id_or_one_result(tmp_path: Path) -> None:
    for first, second, message in (
        (gradient(), gradient(), "operation 0 is there twice"),
        (gradient(), {**gradient(), "id": 1}, "result of an operation: tensor 2 is there twice"),
    ):
        with pytest.raises(GraphFileError, match=message):
            onednn_py.load_graph(write(tmp_path, first, second))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([UNKNOWN, 2**62, 2**63])
    | st.floats(allow_nan=False) | st.sampled_from(["f32", "bf16", "any", "NXC", "SAME_UPPER", ""]),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=4,
)  # fmt: skip


@given(data=st.data())
@settings(max_examples=300)
def test_altered_files_raise_only_errors_of_this_package(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    document: Any = copy.deepcopy(writing.graph(*chain()))
    for _ in range(data.draw(st.integers(1, 3), label="changes")):
        holder, key = document, "graph"
        while isinstance(holder[key], (dict, list)) and holder[key] and data.draw(st.booleans()):
            holder = holder[key]
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            key = data.draw(st.sampled_from(keys))
        holder[key] = data.draw(JSON_VALUES)
        if "graph" not in document or not document["graph"]:
            break
    path = tmp_path_factory.mktemp("fuzz") / "graph.json"
    path.write_text(json.dumps(document))
    with contextlib.suppress(onednn_py.OneDNNPyError):
        onednn_py.load_graph(path).run(compare=["numpy"])
