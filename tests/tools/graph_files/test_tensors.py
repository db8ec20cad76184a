"""Tensors of graph files: random values, strides, and sizes beyond the machine's memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import GraphFileError
from onednn_py.cli import main
from tests.support.graph_writing import UNKNOWN, gradient, write


def test_random_inputs_depend_on_seed_and_id_alone(tmp_path: Path) -> None:
    graph = onednn_py.load_graph(write(tmp_path, gradient()))
    first, again, other = (graph.run(seed=seed, backend="numpy") for seed in (3, 3, 4))
    for id_, array in first.inputs.items():
        np.testing.assert_array_equal(array, again.inputs[id_])
        assert (array != other.inputs[id_]).any()
        assert (array == np.rint(array)).all()
        assert np.abs(array).max() <= 32
    weights = np.ones((4, 3, 3, 3), np.float32)
    partly = graph.run({"weights": weights}, seed=3, backend="numpy")
    np.testing.assert_array_equal(partly.inputs[0], first.inputs[0])


def test_strides_are_those_of_the_file(backend: str, tmp_path: Path) -> None:
    channels_last = [5 * 5 * 4 + 7, 1, 5 * 4, 4]
    with_gaps = [1000, 300, 35, 2]
    entry = gradient()
    entry["inputs"][0]["stride"] = channels_last
    entry["outputs"][0]["stride"] = with_gaps
    graph = onednn_py.load_graph(write(tmp_path, entry))
    replay = graph.run(backend=backend, compare=["numpy"])
    assert replay.ok
    assert [stride // 4 for stride in replay.inputs[0].strides] == channels_last
    assert [stride // 4 for stride in replay.results[2].strides] == with_gaps
    dense = onednn_py.load_graph(write(tmp_path, gradient())).run(backend=backend)
    np.testing.assert_array_equal(replay.results[2], dense.results[2])


@pytest.mark.parametrize(
    "layout",
    [
        {"layout_type": "any", "stride": []},
        {"layout_type": "undef", "stride": [UNKNOWN]},
        {"layout_type": "strided", "stride": [UNKNOWN]},
        {"layout_type": None, "stride": None},
    ],
    ids=str,
)
def test_an_open_layout_is_dense(layout: Mapping[str, Any], tmp_path: Path) -> None:
    entry = gradient()
    for logical_tensor in (*entry["inputs"], *entry["outputs"]):
        for field, value in layout.items():
            logical_tensor[field] = value
            if value is None:
                del logical_tensor[field]
    replay = onednn_py.load_graph(write(tmp_path, entry)).run(backend="numpy")
    assert replay.ok
    assert replay.results[2].flags.c_contiguous
    assert replay.inputs[0].flags.c_contiguous


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.full((2, 4, 5, 5), 2**53 + 1), "not exact"),
        (np.full((2, 4, 5, 5), 2**24 + 1), "not exact"),
        (np.ma.masked_equal(np.ones((2, 4, 5, 5), np.float32), 1), "without a mask"),
    ],
)
def test_arrays_that_are_not_what_a_tensor_holds(
    array: np.ndarray, words: str, tmp_path: Path
) -> None:
    with pytest.raises(onednn_py.DTypeError, match=words):
        onednn_py.load_graph(write(tmp_path, gradient())).run({0: array})


@pytest.mark.parametrize(
    "shape", [(2**40, 4, 5, 5), (2, 4, 2**62, 5), (2**63 - 1, 4, 2**63 - 1, 2**63 - 1)]
)
def test_huge_tensors_are_refused_before_any_is_allocated(
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
