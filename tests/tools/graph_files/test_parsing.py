"""Wrong graph files: refused with the place named, never a traceback, never a crash."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onednn_py
from onednn_py import GraphFileError
from onednn_py.cli import main
from tests.support import graph_writing as writing
from tests.support.graph_writing import UNKNOWN, chain, gradient, tensor, write


def remove(*path: str | int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return change


def put(value: Any, *path: str | int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


FIRST = ("graph", 0)
ATTRIBUTE = (*FIRST, "attrs", "strides")
INPUT = (*FIRST, "inputs", 1)
WRONG = {
    "no graph": (remove("graph"), "the field 'graph' is missing"),
    "graph": (put({}, "graph"), "graph: expected a list, got an object"),
    "operation": (put(3, *FIRST), r"graph\[0\]: expected an object, got 3"),
    "no id": (remove(*FIRST, "id"), r"graph\[0\]: the field 'id' is missing"),
    "id": (put(True, *FIRST, "id"), r"graph\[0\]: id: expected an integer, got true"),
    "negative id": (put(-1, *FIRST, "id"), "id: expected a non-negative integer, got -1"),
    "large id": (put(2**64, *FIRST, "id"), "expected an integer of 64 bits"),
    "name": (put(None, *FIRST, "name"), "name: expected a string, got null"),
    "no kind": (remove(*FIRST, "kind"), r"operation 0 \(gradient\): the field 'kind' is missing"),
    "attrs": (put([], *FIRST, "attrs"), "attrs: expected an object, got a list"),
    "attribute": (put(3, *ATTRIBUTE), "attrs: strides: expected an object, got 3"),
    "no type": (remove(*ATTRIBUTE, "type"), "strides: the field 'type' is missing"),
    "type": (put("u8", *ATTRIBUTE, "type"), "strides: type: expected one of s64, .*; got 'u8'"),
    "no value": (remove(*ATTRIBUTE, "value"), "strides: the field 'value' is missing"),
    "value": (put(2, *ATTRIBUTE, "value"), "strides: value: expected a list, got 2"),
    "entry": (put([1.5, 1], *ATTRIBUTE, "value"), r"value\[0\]: expected an integer, got 1.5"),
    "no inputs": (remove(*FIRST, "inputs"), "the field 'inputs' is missing"),
    "inputs": (put("01", *FIRST, "inputs"), 'inputs: expected a list, got "01"'),
    "no tensor id": (remove(*INPUT, "id"), r"inputs\[1\]: the field 'id' is missing"),
    "no dtype": (remove(*INPUT, "dtype"), r"inputs\[1\]: the field 'dtype' is missing"),
    "no shape": (remove(*INPUT, "shape"), r"inputs\[1\]: the field 'shape' is missing"),
    "shape": (put([4, -3, 3, 3], *INPUT, "shape"), "shape: expected no negative entries"),
    "stride": (put([1, 2], *INPUT, "stride"), "stride: expected 4 entries, one for each of shape"),
    "negative stride": (put([27, 9, 3, -2], *INPUT, "stride"), "stride: expected no negative"),
    "layout": (put("nchw", *INPUT, "layout_type"), "layout_type: expected one of strided, any"),
    "circle": (put(tensor(2, (2, 4, 5, 5)), *FIRST, "inputs", 0), "depend on their own results"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_an_error_that_says_where(
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
def test_what_is_no_graph_file(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(GraphFileError, match=message):
        onednn_py.load_graph(path)
    for unreadable in (tmp_path, tmp_path / "missing.json"):
        with pytest.raises(GraphFileError, match="cannot be read"):
            onednn_py.load_graph(unreadable)


def test_two_operations_that_contradict_each_other(tmp_path: Path) -> None:
    for first, second, message in (
        (gradient(), gradient(), "operation 0 is there twice"),
        (gradient(), {**gradient(), "id": 1}, "result of an operation: tensor 2 is there twice"),
    ):
        with pytest.raises(GraphFileError, match=message):
            onednn_py.load_graph(write(tmp_path, first, second))
    reader = copy.deepcopy(gradient())
    reader |= {"id": 1, "outputs": [tensor(5, (2, 3, 7, 7))]}
    reader["inputs"][0] = tensor(2, (2, 4, 5, 5))
    [_, report] = onednn_py.load_graph(write(tmp_path, gradient(), reader)).run().operations
    assert report.status == "failed"
    assert "tensor 2: is f32 of shape (2, 4, 5, 5) here, elsewhere" in report.notes[0]


FAILING = {
    "auto_pad": (put({"type": "string", "value": "SIDE"}, *FIRST, "attrs", "auto_pad"), "'SIDE'"),
    "unknown": (put({"type": "s64", "value": 3}, *FIRST, "attrs", "step"), "unknown attribute"),
    "required": (remove(*ATTRIBUTE), "required attribute missing: strides"),
    "stride 0": (put([0, 1], *ATTRIBUTE, "value"), "strides[0]"),
    "no tensors": (put([], *FIRST, "inputs"), "expected 2 or 3 inputs"),
    "no result": (put([], *FIRST, "outputs"), "outputs: expected 1, got 0"),
    "result": (put([2, 3, 8, 7], *FIRST, "outputs", 0, "shape"), "dst_shape"),
    "two types": (put("bf16", *INPUT, "dtype"), "one dtype"),
    "its type": (put("bf16", *FIRST, "outputs", 0, "dtype"), "is bf16, but the inputs are f32"),
    "read overlap": (put([0, 0, 0, 0], *INPUT, "stride"), "overlap"),
    "written overlap": (put([9, 1, 2, 1], *FIRST, "outputs", 0, "stride"), "overlap"),
}


@pytest.mark.parametrize("name", FAILING)
def test_an_operation_that_cannot_be_fails_alone(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = FAILING[name]
    other = gradient()
    other["id"] = 1
    for mention in (*other["inputs"], *other["outputs"]):
        mention["id"] += 10
    document = writing.graph(gradient(), other)
    change(document)
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(document))
    replay = onednn_py.load_graph(path).run()
    by_id = {report.operation.id: report for report in replay.operations}
    assert by_id[0].status == "failed"
    assert message in by_id[0].notes[0]
    assert by_id[1].status == "ok"
    assert not replay.ok
    assert main(["run", str(path)]) == 1
    assert "operation 0 (gradient): " in capsys.readouterr().out


@pytest.mark.parametrize(
    "shape", [(2**40, 4, 5, 5), (2, 4, 2**62, 5), (2**63 - 1, 4, 2**63 - 1, 2**63 - 1)]
)
def test_huge_tensors_are_refused_before_they_are_made(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    entry = gradient()
    entry["inputs"][0] |= {"shape": shape, "layout_type": "any"}
    entry["outputs"][0] |= {"shape": [UNKNOWN], "stride": [UNKNOWN]}
    assert main(["run", str(write(tmp_path, entry))]) == 1
    entry = gradient()
    entry["inputs"][0]["stride"] = [2**62, 25, 5, 1]
    with pytest.raises(GraphFileError, match="tensor 0 alone has"):
        onednn_py.load_graph(write(tmp_path, entry)).run()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([UNKNOWN, 2**62, 2**63])
    | st.floats(allow_nan=False) | st.sampled_from(["f32", "bf16", "any", "NXC", "SAME_UPPER", ""]),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=4,
)  # fmt: skip


@given(data=st.data())
@settings(max_examples=300)
def test_no_file_makes_anything_but_our_errors(
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
