"""Native programs are compiled once, and their crashes are outcomes of the cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onednn_py.backends.onednn.binding.library import Library
from onednn_py.errors import LibraryNotFoundError
from onednn_py.tools import native_programs
from onednn_py.tools.native_programs import (
    ComparisonUnavailableError,
    NativeProgramError,
    Request,
    find_compiler,
    native_program,
    run_program,
)

REQUESTS = [Request({"number": i}, "f32", (np.full(3, i, np.float32),)) for i in range(3)]


def script(folder: Path, text: str) -> Path:
    """Return a shell script that is called as native programs: CASES INPUTS OUTPUTS REPORT."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_results_are_read_in_the_order_of_the_cases(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        'cp "$2" "$3"\n'
        'while read -r line; do printf "success\\tname\\t3\\t%s\\n" "${line##*=}"; done'
        ' <"$1" >"$4"',
    )
    outcomes = run_program(program, REQUESTS)
    assert [outcome.status for outcome in outcomes] == ["success"] * 3
    for request, outcome in zip(REQUESTS, outcomes, strict=True):
        assert outcome.detail == "name"
        np.testing.assert_array_equal(outcome.arrays[0], request.inputs[0])


def test_a_crash_keeps_the_outcomes_before_it(tmp_path: Path) -> None:
    program = script(tmp_path, 'printf "unimplemented\\twhy\\n" >"$4"; kill -9 $$')
    first, second, third = run_program(program, REQUESTS)
    assert (first.status, first.detail) == ("unimplemented", "why")
    assert (second.status, second.detail) == ("crashed", "by signal 9")
    assert third.status == "not run"


def test_a_program_that_hangs_is_stopped(tmp_path: Path) -> None:
    program = script(tmp_path, "exec sleep 60")
    outcomes = run_program(program, REQUESTS[:1], timeout=0.3)
    assert [(o.status, o.detail) for o in outcomes] == [("timed out", "after 0.3 s")]


def test_a_program_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NativeProgramError, match="exited with 3: no such case"):
        run_program(script(tmp_path, "echo no such case >&2; exit 3"), REQUESTS)
    with pytest.raises(NativeProgramError, match="cannot be run"):
        run_program(tmp_path / "missing", REQUESTS)


def test_an_unknown_program() -> None:
    with pytest.raises(ValueError, match="expected one of graph, primitives, timing; got"):
        native_program("reorder")


def test_every_program_has_its_source() -> None:
    for name in native_programs.PROGRAMS:
        assert (native_programs.sources_folder() / f"{name}.cpp").is_file()


class TestBuilding:
    @pytest.fixture(autouse=True)
    def available(self, onednn: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Skip without a compiler."""
        monkeypatch.delenv("CPLUS_INCLUDE_PATH", raising=False)
        try:
            find_compiler()
        except ComparisonUnavailableError as error:
            pytest.skip(str(error))

    def headers(self, folder: Path, minor: int) -> list[str]:
        """Return a folder of headers that claim a version of oneDNN."""
        file = folder / "oneapi" / "dnnl" / "dnnl_version.h"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#define DNNL_VERSION_MAJOR 3\n#define DNNL_VERSION_MINOR {minor}\n")
        return [str(folder)]

    def test_a_program_is_compiled_once(self, tmp_path: Path) -> None:
        try:
            first = native_program("primitives", folder=tmp_path)
        except NativeProgramError:
            raise
        except ComparisonUnavailableError as error:
            pytest.skip(str(error))
        compiled = first.stat().st_mtime_ns
        assert native_program("primitives", folder=tmp_path) == first
        assert first.stat().st_mtime_ns == compiled
        assert list(tmp_path.iterdir()) == [first]

    def test_changed_sources_are_compiled_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sources = tmp_path / "sources"
        sources.mkdir()
        monkeypatch.setattr(native_programs, "sources_folder", lambda: sources)
        include = self.headers(tmp_path, native_programs.library().version[1])
        programs = set()
        for number in (0, 1):
            (sources / "cases.hpp").write_text("")
            (sources / "primitives.cpp").write_text(f"int main() {{ return {number}; }}")
            programs.add(native_program("primitives", include=include, folder=tmp_path))
        assert len(programs) == 2
        (sources / "primitives.cpp").write_text("int main() { return nothing; }")
        with pytest.raises(NativeProgramError, match="nothing"):
            native_program("primitives", include=include, folder=tmp_path)
        (sources / "primitives.cpp").unlink()
        with pytest.raises(ComparisonUnavailableError, match="C\\+\\+ sources are missing"):
            native_program("primitives", include=include, folder=tmp_path)

    def test_headers_of_another_version(self, tmp_path: Path) -> None:
        include = self.headers(tmp_path, 99)
        with pytest.raises(ComparisonUnavailableError, match=r"no headers of oneDNN .*; 3.99 in"):
            native_program("primitives", include=include, folder=tmp_path)

    @pytest.mark.parametrize(
        ("command", "expected"),
        [("pip install x", "`pip install x`"), (None, "install the package of that version")],
    )
    def test_missing_headers_are_named_with_their_package(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str | None, expected: str
    ) -> None:
        monkeypatch.setattr(native_programs, "headers_command", lambda version: command)
        with pytest.raises(ComparisonUnavailableError, match=f": {expected}") as error:
            native_program("primitives", include=[str(tmp_path / "none")], folder=tmp_path)
        assert len(str(error.value)) <= 600

    def test_no_compiler(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CXX", raising=False)
        with pytest.raises(ComparisonUnavailableError, match=r"no C\+\+ compiler: set CXX"):
            native_program("primitives", folder=tmp_path)

    def test_a_chosen_compiler_that_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", "ccache g++")
        with pytest.raises(ComparisonUnavailableError, match="CXX is 'ccache g\\+\\+'"):
            native_programs.find_compiler()

    def test_no_graph_api(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Library, "exports", lambda self, function: False)
        with pytest.raises(ComparisonUnavailableError, match="without the Graph API"):
            native_program("graph", folder=tmp_path)

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        include = self.headers(tmp_path, native_programs.library().version[1])
        (tmp_path / "file").write_text("")
        with pytest.raises(ComparisonUnavailableError, match="cannot write the program"):
            native_program("primitives", include=include, folder=tmp_path / "file")


def test_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Library:
        raise LibraryNotFoundError("nothing found")

    monkeypatch.setattr(native_programs, "library", missing)
    with pytest.raises(ComparisonUnavailableError, match="nothing found"):
        native_program("graph", folder=tmp_path)
