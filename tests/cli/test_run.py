"""The command ``run``: its inputs, its output and its exit status."""

from __future__ import annotations

import doctest
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import cli
from onednn_py.tools.graph_files.calls import Call
from tests.support.graph_writing import gradient, operation, tensor, write
from tests.support.native_programs import DTYPES
from tests.support.paths import ROOT
from tests.support.requirements import HAS_ONEDNN

GUIDE = ROOT / "docs" / "graph-files.md"


def main(*arguments: str) -> int:
    return cli.main(arguments)


class TestGivenInputs:
    @pytest.fixture
    def path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        return write(tmp_path, gradient())

    def save(self, name: str, array: np.ndarray) -> str:
        np.save(name, array)
        return f"{name}.npy"

    @pytest.mark.parametrize("name", ["0", "gradient.diff_dst", "diff_dst"])
    def test_by_every_name(self, name: str, path: Path) -> None:
        file = self.save("ones", np.ones((2, 4, 5, 5), np.float32))
        assert main("run", str(path), "--input", f"{name}={file}", "--output", "out.npz") == 0
        weights = onednn_py.load_graph(path).run().inputs[1]
        with np.load("out.npz") as results:
            assert list(results) == ["2"]
            assert results["2"][0, :, 3, 3] == pytest.approx(weights.sum(axis=(0, 2, 3)))

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("missing.npy", "cannot be read"),
            ("text.npy", "cannot be read"),
            ("archive.npz", "no .npy file with one array"),
            ("broken.npz", "cannot be read"),
            ("huge.npy", "cannot be read"),
            ("header.npy", "cannot be read"),
            ("shape.npy", "expected shape (2, 4, 5, 5), got (2, 4, 5, 6)"),
            ("words.npy", "expected float32, got <U3"),
            ("fine.npy", "its float64 values are not exact in float32"),
        ],
    )
    def test_wrong_arrays(
        self, given: str, message: str, path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("text.npy").write_text("no array")
        np.savez("archive.npz", np.ones(3))
        Path("broken.npz").write_bytes(Path("archive.npz").read_bytes()[:40])
        header = b"{'descr': (\n"
        Path("header.npy").write_bytes(b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header)
        with Path("huge.npy").open("wb") as file:
            fields = {"descr": "<f4", "fortran_order": False, "shape": (2**55,)}
            np.lib.format.write_array_header_1_0(file, fields)
        self.save("shape", np.ones((2, 4, 5, 6), np.float32))
        self.save("words", np.full((2, 4, 5, 5), "one"))
        self.save("fine", np.full((2, 4, 5, 5), 1 + 2**-30))
        assert main("run", str(path), "--input", f"0={given}") == 1
        error = capsys.readouterr().err
        assert message in error
        assert "0" in error

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--input", "5=ones.npy"], "input 5: no such tensor; there are 0, diff_dst"),
            (["--input", "0"], "expected NAME=FILE.npy, got '0'"),
            (["--input", "=ones.npy"], "expected NAME=FILE.npy"),
            (["--input", "0=ones.npy", "--input", "0=ones.npy"], "0 is given twice"),
            (["--input", "0=ones.npy", "--input", "diff_dst=ones.npy"], "tensor 0 is given twice"),
            (["--seed", "-1"], "seed: expected a non-negative integer, got -1"),
            (["--output", "no/such/folder.npz"], "cannot be written"),
        ],
        ids=str,
    )
    def test_wrong_arguments(
        self, arguments: list[str], message: str, path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.save("ones", np.ones((2, 4, 5, 5), np.float32))
        assert main("run", str(path), *arguments) == 1
        assert message in capsys.readouterr().err

    def test_unknown_names_to_compare(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main("run", str(path), "--compare", "torch")
        expected = "expected some of numpy, native, auto, or none by itself; got 'torch'"
        assert expected in capsys.readouterr().err

    def test_bfloat16(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        entry = gradient()
        for logical_tensor in (*entry["inputs"], *entry["outputs"]):
            logical_tensor["dtype"] = "bf16"
        path = write(tmp_path, entry)
        array = np.random.default_rng(0).integers(-4, 5, (2, 4, 5, 5)).astype(np.float32)
        as_float = self.save("float", array)
        as_bytes = self.save("bytes", array.astype(DTYPES["bf16"]))
        assert np.load(as_bytes).dtype == np.dtype("V2")
        results = []
        for file in (as_float, as_bytes):
            assert main("run", str(path), "--input", f"0={file}", "--output", "out.npz") == 0
            with np.load("out.npz") as saved:
                results.append(saved["2"])
        np.testing.assert_array_equal(*results)
        assert results[0].dtype == np.float32


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    product = operation(3, "MatMul", [tensor(5, (10, 8)), tensor(6, (8, 3))], tensor(7, (10, 3)))
    path = write(tmp_path, gradient(), product)
    assert main("run", str(path), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is True
    assert document["file"] == str(path)
    by_id = {entry["id"]: entry for entry in document["operations"]}
    assert by_id[3]["status"] == "unsupported"
    assert by_id[0]["shapes"]["diff_src"] == [2, 3, 7, 7]
    assert by_id[0]["backend"] == ("onednn" if HAS_ONEDNN else "numpy")
    assert by_id[0]["milliseconds"] > 0


def test_a_file_without_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("run", str(write(tmp_path))) == 1
    assert "the file has no operations" in capsys.readouterr().err


def test_a_difference_is_reported_and_fails(
    onednn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = Call.execute

    def wrong(self: Call, arrays: Any, out: Any, backend: str | None) -> Any:
        result = right(self, arrays, out, backend)
        if backend == "numpy":
            result[0, 1, 2, 3] += 1
        return result

    monkeypatch.setattr(Call, "execute", wrong)
    assert main("run", str(write(tmp_path, gradient())), "--backend", onednn) == 1
    output = capsys.readouterr().out
    assert "differs" in output
    assert "numpy: 1 of 294 elements, first at (0, 1, 2, 3)" in output
    assert "expected equality" in output


@pytest.mark.usefixtures("onednn")
def test_the_examples_of_the_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = GUIDE.read_text(encoding="utf-8")
    [document] = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    Path("gradient.json").write_text(document)
    examples = re.findall(r"```console\n\$ (.*?)\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 2
    for command, expected in examples:
        program, arguments = shlex.split(command)[:3], shlex.split(command)[3:]
        assert program == ["python", "-m", "onednn_py"]
        assert main(*arguments) == 0
        printed = capsys.readouterr().out
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert doctest.OutputChecker().check_output(expected, printed, flags), printed
