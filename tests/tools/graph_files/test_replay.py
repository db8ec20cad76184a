"""Graph files are replayed: right results, in order, compared with other backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn import OneDNNBackend
from onednn_py.tools import native_programs
from onednn_py.tools.graph_files import replay as replay_module
from onednn_py.tools.graph_files.parsing import parse_graph
from tests.support import graph_writing as writing
from tests.support.cases import CURATED, OPERATIONS
from tests.support.graph_writing import chain, gradient, operation, tensor, write
from tests.support.reference import assert_exact

CASES = ("2d", "1d_strided", "2d_strided_dilated", "2d_groups", "2d_depth_multiplier", "3d_groups")


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("function", OPERATIONS)
@pytest.mark.parametrize("name", CASES)
def test_equals_the_oracle(
    name: str, function: str, dtype: str, backend: str, tmp_path: Path
) -> None:
    case = CURATED[name]
    forms = ("native", "documented") if case.groups > 1 else ("native",)
    for data_format, weights_first in (("NCX", True), ("NXC", False)):
        for form in forms:
            entry, arrays, tensors = writing.of_case(
                case, function, dtype, data_format, weights_first, form
            )
            graph = onednn_py.load_graph(write(tmp_path, entry))
            replay = graph.run(dict(enumerate(arrays)), backend=backend, compare=["numpy"])
            assert replay.ok, replay.operations[0].notes
            result = replay.results[9]
            pairs = tensors.results(
                function, (result, result) if function.endswith("weights") else result,
                data_format, weights_first, form,
            )  # fmt: skip
            assert_exact(*pairs[0], dtype)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("function", OPERATIONS)
def test_random_inputs_must_give_equal_results(
    function: str, dtype: str, backend: str, tmp_path: Path
) -> None:
    for name in ("2d_first_layer", "2d_blocked_channels"):
        entry, _, _ = writing.of_case(CURATED[name], function, dtype, "NXC", False, "native")
        graph = onednn_py.load_graph(write(tmp_path, entry))
        [report] = graph.run(compare=["numpy"], backend=backend, seed=4).operations
        assert report.status == "ok"
        expected = "equal" if report.backend == "onednn" else "not compared"
        assert report.comparisons[0].status == expected


def test_operations_run_in_the_order_of_their_tensors(backend: str, tmp_path: Path) -> None:
    replay = onednn_py.load_graph(write(tmp_path, *chain())).run(backend=backend, compare=["numpy"])
    assert [report.operation.id for report in replay.operations] == [9, 8, 7]
    assert replay.ok
    attributes = {"strides": 2, "pads_begin": 1, "pads_end": 1}
    src, weights = replay.inputs[0], replay.inputs[1]
    dst = onednn_py.convolution(src, weights, **attributes, backend=backend)
    diff_weights = onednn_py.convolution_backward_weights(
        src, dst, weights.shape, **attributes, backend=backend
    )
    np.testing.assert_array_equal(replay.results[2], dst)
    np.testing.assert_array_equal(replay.results[3], diff_weights)
    assert set(replay.inputs) == {0, 1}


def test_a_given_tensor_replaces_a_result(tmp_path: Path) -> None:
    dst = np.zeros((2, 5, 5, 4), np.float32)
    replay = onednn_py.load_graph(write(tmp_path, *chain())).run({2: dst}, backend="numpy")
    assert replay.ok
    assert replay.results[2].any()
    assert not replay.results[3].any()


def test_unsupported_operations_do_not_stop_the_others(tmp_path: Path) -> None:
    inputs = [tensor(5, (10, 8), "s8"), tensor(6, (8, 100), "s8")]
    product = operation(3, "MatMul", inputs, tensor(0, (2, 4, 5, 5)), {"transpose_a": False})
    fused = operation(4, "Convolution_Fusion", [tensor(2, (2, 3, 7, 7))], tensor(8, (1,)))
    replay = onednn_py.load_graph(write(tmp_path, gradient(), product, fused)).run()
    by_id = {report.operation.id: report for report in replay.operations}
    assert by_id[3].status == by_id[4].status == "unsupported"
    assert by_id[3].notes == ("the kind MatMul is none that onednn_py runs",)
    assert by_id[0].status == "ok"
    assert by_id[0].notes == (
        "tensor 0 is random: operation 3 (op_3), which computes it, did not run",
    )
    assert replay.ok
    diff_dst = np.ones((2, 4, 5, 5), np.float32)
    replay = onednn_py.load_graph(tmp_path / "graph.json").run({0: diff_dst})
    assert {report.operation.id: report.notes for report in replay.operations}[0] == ()


def test_a_replay_without_supported_operations_is_not_ok(tmp_path: Path) -> None:
    entry = operation(3, "MatMul", [tensor(5, (10, 8)), tensor(6, (8, 3))], tensor(7, (10, 3)))
    assert not onednn_py.load_graph(write(tmp_path, entry)).run().ok
    assert not onednn_py.load_graph(write(tmp_path)).run().ok


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def native_graph(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    try:
        native_programs.native_program("graph")
    except native_programs.NativeProgramError:
        raise
    except native_programs.ComparisonUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("native_graph")
def test_dumps_of_native_equal_the_files_of_these_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library built to dump writes a file for each operation that native runs here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONEDNN_GRAPH_DUMP", "graph")
    for function in OPERATIONS:
        for dumped in tmp_path.glob("graph-*.json"):
            dumped.unlink()
        entry, _, _ = writing.of_case(
            CURATED["2d_blocked_channels"], function, "f32", "NCX", True, "native"
        )
        written = write(tmp_path, entry)
        [report] = onednn_py.load_graph(written).run(compare=["native"]).operations
        assert [c.status for c in report.comparisons] == ["equal"]
        for dumped in tmp_path.glob("graph-*.json"):
            [ours], [theirs] = parse_graph(written), parse_graph(dumped)
            assert theirs.kind == ours.kind
            for name, value in ours.attributes.items():
                # Native leaves output_padding out where its operation does not know it.
                known = name in theirs.attributes or name != "output_padding"
                assert not known or theirs.attributes[name] == value
            assert [(t.dtype, t.shape) for t in theirs.inputs] == [
                (t.dtype, t.shape) for t in ours.inputs
            ]
            assert onednn_py.load_graph(dumped).run(compare=["native", "numpy"]).ok


@pytest.mark.usefixtures("native_graph")
def test_native_gives_equal_results(tmp_path: Path) -> None:
    entry, _, _ = writing.of_case(CURATED["2d"], "conv_transpose", "f32", "NXC", False, "native")
    path = write(tmp_path, entry)
    [report] = onednn_py.load_graph(path).run(compare=["native", "numpy"]).operations
    assert {c.other: c.status for c in report.comparisons} == {"numpy": "equal", "native": "equal"}


@pytest.mark.usefixtures("native_graph")
def test_operations_refused_by_native_are_not_compared(tmp_path: Path) -> None:
    entry, _, _ = writing.of_case(
        CURATED["2d_groups"], "convolution_backward_data", "f32", "NCX", True, "native"
    )
    replay = onednn_py.load_graph(write(tmp_path, entry)).run(compare=["native"])
    [comparison] = replay.operations[0].comparisons
    assert (comparison.status, comparison.detail.split()[0]) == ("not compared", "invalid_shape")
    assert replay.ok


@pytest.mark.usefixtures("native_graph")
def test_known_defects_of_native_are_not_run(tmp_path: Path) -> None:
    """Strided 1x1 backward weights with few channels may write out of bounds."""
    attributes = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    inputs = [tensor(0, (1, 9, 4)), tensor(1, (1, 5, 8))]
    entry = operation(0, "ConvolutionBackwardWeights", inputs, tensor(3, (1, 4, 8)), attributes)
    replay = onednn_py.load_graph(write(tmp_path, entry)).run(compare=["native"])
    [comparison] = replay.operations[0].comparisons
    assert comparison.detail.startswith("known defect, uxlfoundation/oneDNN#")


@pytest.mark.usefixtures("native_graph")
def test_a_failing_native_program_is_no_failure_of_the_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(replay_module, "native_program", lambda name: program)
    replay = onednn_py.load_graph(write(tmp_path, gradient())).run(compare="native")
    [comparison] = replay.operations[0].comparisons
    assert comparison.status == "not compared"
    assert "exited with 3" in comparison.detail
    assert replay.ok


def test_auto_works_without_native_and_native_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(name: str) -> Path:
        raise native_programs.ComparisonUnavailableError("no compiler")

    monkeypatch.setattr(replay_module, "native_program", unavailable)
    graph = onednn_py.load_graph(write(tmp_path, gradient()))
    assert [c.other for c in graph.run(compare="auto").operations[0].comparisons] == ["numpy"]
    with pytest.raises(native_programs.ComparisonUnavailableError, match="no compiler"):
        graph.run(compare=["numpy", "native"])


def test_a_missing_library_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: Any) -> None:
        raise onednn_py.LibraryNotFoundError("nothing found")

    monkeypatch.setattr(OneDNNBackend, "prepare", missing)
    graph = onednn_py.load_graph(write(tmp_path, gradient()))
    with pytest.raises(onednn_py.LibraryNotFoundError, match="nothing found"):
        graph.run(backend="onednn")


def test_a_wrong_backend_is_an_error_of_the_call(tmp_path: Path) -> None:
    graph = onednn_py.load_graph(write(tmp_path, *chain()))
    with pytest.raises(onednn_py.AttributeValueError, match="cuda"):
        graph.run(backend="cuda")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"inputs": [1, 2]}, "inputs: expected a mapping, got list"),
        ({"compare": None}, "compare: expected names, got None"),
        ({"compare": 5}, "compare: expected names, got 5"),
        ({"compare": [5]}, "compare: expected names"),
        ({"on_start": 5}, "on_start: expected a callable, got int"),
    ],
)
def test_arguments_of_other_types_are_errors(
    tmp_path: Path, keywords: dict[str, Any], message: str
) -> None:
    graph = onednn_py.load_graph(write(tmp_path, *chain()))
    with pytest.raises(onednn_py.AttributeValueError, match=message):
        graph.run(**keywords)
