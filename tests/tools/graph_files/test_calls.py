"""Operations of graph files as calls: shapes, attributes, data types, and wrong values."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest

import onednn_py
from onednn_py.cli import main
from tests.support import graph_writing as writing
from tests.support.graph_writing import (
    INPUT,
    OPERATION,
    STRIDES,
    UNKNOWN,
    gradient,
    operation,
    put,
    remove,
    tensor,
    write,
)

FAILING = {
    "auto_pad": (
        put({"type": "string", "value": "SIDE"}, *OPERATION, "attrs", "auto_pad"),
        "'SIDE'",
    ),
    "unknown": (put({"type": "s64", "value": 3}, *OPERATION, "attrs", "step"), "unknown attribute"),
    "required": (remove(*STRIDES), "required attribute missing: strides"),
    "stride 0": (put([0, 1], *STRIDES, "value"), "strides[0]"),
    "no tensors": (put([], *OPERATION, "inputs"), "expected 2 or 3 inputs"),
    "no result": (put([], *OPERATION, "outputs"), "outputs: expected 1, got 0"),
    "result": (put([2, 3, 8, 7], *OPERATION, "outputs", 0, "shape"), "dst_shape"),
    "two types": (put("bf16", *INPUT, "dtype"), "one dtype"),
    "its type": (put("bf16", *OPERATION, "outputs", 0, "dtype"), "is bf16, but the inputs are f32"),
    "read overlap": (put([0, 0, 0, 0], *INPUT, "stride"), "overlap"),
    "written overlap": (put([9, 1, 2, 1], *OPERATION, "outputs", 0, "stride"), "overlap"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_wrong_operation_does_not_stop_the_others(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = FAILING[name]
    other = gradient()
    other["id"] = 1
    for logical_tensor in (*other["inputs"], *other["outputs"]):
        logical_tensor["id"] += 10
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


def test_two_operations_that_contradict_each_other_about_a_tensor(tmp_path: Path) -> None:
    reader = copy.deepcopy(gradient())
    reader |= {"id": 1, "outputs": [tensor(5, (2, 3, 7, 7))]}
    reader["inputs"][0] = tensor(2, (2, 4, 5, 5))
    [_, report] = onednn_py.load_graph(write(tmp_path, gradient(), reader)).run().operations
    assert report.status == "failed"
    assert "tensor 2: is f32 of shape (2, 4, 5, 5) here, elsewhere" in report.notes[0]


def test_an_operation_that_contradicts_itself_about_a_tensor(tmp_path: Path) -> None:
    entry = gradient()
    entry["inputs"][1]["id"] = entry["inputs"][0]["id"]
    [report] = onednn_py.load_graph(write(tmp_path, entry)).run().operations
    assert report.status == "failed"
    assert "tensor 0: is f32 of shape" in report.notes[0]


@pytest.mark.parametrize("dtype", ["s8", "f8_e5m2", "f64"])
def test_other_data_types_are_unsupported(dtype: str, tmp_path: Path) -> None:
    entry = gradient()
    for logical_tensor in (*entry["inputs"], *entry["outputs"]):
        logical_tensor["dtype"] = dtype
    [report] = onednn_py.load_graph(write(tmp_path, entry)).run().operations
    assert report.status == "unsupported"
    assert f"tensor 0 is {dtype}; supported are f32, bf16, f16" in report.notes


def test_an_unknown_shape_comes_from_the_given_tensor(tmp_path: Path) -> None:
    entry = gradient()
    entry["inputs"][0] |= {"shape": [UNKNOWN], "stride": [UNKNOWN], "layout_type": "undef"}
    entry["outputs"][0] |= {"shape": [UNKNOWN] * 4, "stride": [UNKNOWN]}
    graph = onednn_py.load_graph(write(tmp_path, entry))
    [report] = graph.run().operations
    assert report.status == "unsupported"
    assert "the shape of tensor 0 is not in the file: give the tensor itself" in report.notes
    replay = graph.run({0: np.ones((2, 4, 6, 5), np.float32)})
    assert replay.results[2].shape == (2, 3, 8, 7)


def test_weights_shape_from_an_input_the_attribute_or_the_result(tmp_path: Path) -> None:
    attributes = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    inputs = [tensor(0, (1, 4, 2)), tensor(1, (1, 2, 3)), tensor(2, (3,), "s64")]
    kind = "ConvolutionBackwardWeights"
    entry = operation(0, kind, inputs, tensor(3, (3, 2, 3)), attributes)
    by_result = onednn_py.load_graph(write(tmp_path, entry)).run()
    assert by_result.results[3].shape == (3, 2, 3)
    entry["outputs"][0] |= {"shape": [UNKNOWN], "stride": [UNKNOWN]}
    graph = onednn_py.load_graph(write(tmp_path, entry))
    [report] = graph.run().operations
    assert (report.status, len(report.notes)) == ("failed", 1)
    assert "weights_shape is required" in report.notes[0]
    by_input = graph.run({"weights_shape": np.array([3, 2, 3])})
    np.testing.assert_array_equal(by_input.results[3], by_result.results[3])
    entry["attrs"]["weights_shape"] = writing.attribute((3, 2, 3))
    by_attribute = onednn_py.load_graph(write(tmp_path, entry)).run()
    np.testing.assert_array_equal(by_attribute.results[3], by_result.results[3])
    # As oneDNN writes an attribute of this kind that a program leaves out.
    entry["attrs"]["weights_shape"] = writing.attribute((0,) * 12)
    graph = onednn_py.load_graph(write(tmp_path, entry))
    by_input = graph.run({"weights_shape": np.array([3, 2, 3])})
    np.testing.assert_array_equal(by_input.results[3], by_result.results[3])
    entry["outputs"][0] |= {"shape": [3, 2, 3], "stride": [6, 3, 1]}
    by_result_again = onednn_py.load_graph(write(tmp_path, entry)).run()
    np.testing.assert_array_equal(by_result_again.results[3], by_result.results[3])


def test_the_older_name_and_its_attributes(backend: str, tmp_path: Path) -> None:
    entry = gradient()
    entry["kind"] = "ConvolutionBackpropData"
    entry["attrs"]["filter_format"] = entry["attrs"].pop("weights_format")
    graph = onednn_py.load_graph(write(tmp_path, entry))
    assert "output_delta" in graph.input_names
    assert graph.run(compare=["numpy"], backend=backend).ok


def test_attributes_added_by_partitioning_are_ignored(tmp_path: Path) -> None:
    entry = gradient(partition_id="1024", backend="dnnl_backend", output_padding=[0] * 12)
    entry["attrs"]["of_no_json_type"] = {}
    assert onednn_py.load_graph(write(tmp_path, entry)).run().ok
