"""The scripts of benchmarks/: what they measure, and the tables and figures they write."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onednn_py.cli import bench, main
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchmark.results import Result, to_json
from tests.support.bench_cases import case, timed
from tests.support.paths import ROOT

BENCHMARKS = ROOT / "benchmarks"

pytestmark = pytest.mark.skipif(
    not BENCHMARKS.is_dir(), reason="an installed package has no benchmarks/"
)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import benchmarks/run.py as it runs: with its folder on the path."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import run

    yield run
    for name in ("run", "checkout", "parts", "document", "kinds"):
        sys.modules.pop(name, None)


def content(*results: Result, tiny: Result | None = None) -> dict[str, Any]:
    """Return what the command bench writes."""
    written = {
        "library": "/somewhere/libdnnl.so.3",
        **{"cpu_isa": "avx512_core", "threads": 2, "peak": {"f32": 1e9, "bf16": None}},
        "competitors": {"ours": "onednn_py 1", "native": "oneDNN 3", "torch": "PyTorch 2"},
        **to_json(results),
    }
    if tiny is not None:
        written["tiny"] = to_json([tiny])["cases"][0]
    return written


def write(scripts: Any, path: Path, measured: dict[str, Any], **others: dict[str, Any]) -> None:
    """Write the document from what its own machine has measured, and others."""
    scripts.write_document(path, scripts.PARTS, {scripts.DOCUMENTED: measured, **others})


def result(name: str, native: float, direction: str = "BWD_D") -> Result:
    timings = {"ours": timed(0.01), "native": timed(0.01 * native), "torch": timed(0.02)}
    return Result(case(f"mb1ic4ih6oc8kh3n{name}", direction), timings, 1e9)


def test_every_part_is_a_command_and_has_its_markers(
    scripts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[Any] = []
    monkeypatch.setattr(bench, "run", lambda arguments: parsed.append(arguments) or 0)
    for part in scripts.PARTS.values():
        for options in part.runs.values():
            assert main(["bench", *options]) == 0
    # By default the command compares with every competitor, which takes too long here.
    assert all(arguments.compare for arguments in parsed)
    document = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"<!-- measured: ([\w-]+) -->", document)) == sorted(scripts.PARTS)


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "run.py", "--list"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "f32-ncx-measure" in done.stdout


class TestDocument:
    @pytest.fixture
    def path(self, tmp_path: Path, scripts: Any) -> Path:
        path = tmp_path / "performance.md"
        sections = (f"<!-- measured: {name} -->\nold\n<!-- end -->\n" for name in scripts.PARTS)
        machines = "<!-- machines -->\n<!-- end -->\n"
        kinds = "<!-- kinds: torch -->\n<!-- end -->\n"
        path.write_text("# Title\n" + kinds + "".join(sections) + machines)
        return path

    def test_suites(self, path: Path, scripts: Any) -> None:
        results = [result("a:1", 2.0), result("a:2", 8.0), result("b:1", 0.5)]
        results += [result("b:1", 1.0, "BWD_W")]
        write(scripts, path, {"f32-ncx-measure": {"": content(*results)}})
        text = path.read_text()
        assert "oneDNN 3, PyTorch 2, avx512_core, 2 threads, peak 1 GF/s f32." in text
        assert (
            "| suite | problems | BWD_D against native | BWD_D against torch"
            " | BWD_W against native | BWD_W against torch |" in text
        )
        assert "| a | 2 | 4.00 (2.00) | 2.00 (2.00) | - | - |" in text
        assert "| all | 3 | 2.00 (0.50) | 2.00 (2.00) | 1.00 (1.00) | 2.00 (2.00) |" in text
        assert "same implementation as native, 4 cases" in text
        assert (path.parent / "performance" / "f32-ncx-measure.svg").is_file()
        assert "![f32, NCX, effort measure](performance/f32-ncx-measure.svg)" in text
        # Parts that were not measured stay.
        assert text.count("old") == len(scripts.PARTS) - 1

    def test_the_bound(self, path: Path, scripts: Any) -> None:
        made = case("mb1ic4ih6oc8kh3na:1")
        timings = {"ours": timed(0.01), "native": timed(0.01)}
        measured = Result(made, timings, made.descriptor.flops / 0.004, 1e9)
        run = content(measured) | {"peak": {"f32": measured.peak}}
        run["bandwidth"] = {"1048576": 1.5e11, "33554432": None, "67108864": 2.4e10}
        write(scripts, path, {"f32-ncx-measure": {"": run}})
        text = path.read_text()
        assert "peak 0 GF/s f32, bandwidth 24 to 150 GB/s." in text
        assert (
            "Share of the bound: 0.40 in geometric mean. Most time is lost in `a:1`, BWD_D:"
            " 6.0 ms of 10.0." in text
        )

    def test_machines(self, path: Path, scripts: Any) -> None:
        """Only parts that several machines have measured are compared."""
        here = {"": content(result("a:1", 2.0), result("a:2", 8.0))}
        there = {"": content(result("a:1", 0.5), result("a:1", 8.0, "BWD_W")) | {"cpu": "Fast 1"}}
        write(
            scripts,
            path,
            {"f32-ncx-measure": here, "bf16-ncx-measure": here, "batch": {"1": here[""]}},
            slow={"f32-ncx-measure": there, "f16-ncx-measure": there, "batch": here},
        )
        table = path.read_text().partition("<!-- machines -->\n")[2]
        rows = [line for line in table.splitlines() if line.startswith("|")][2:]
        assert rows == [
            "| f32, NCX, effort measure | zen4 | 1 GF/s f32 | 4.00 (2.00) | 2.00 (2.00) |",
            "| f32, NCX, effort measure | slow | 1 GF/s f32 | 2.00 (0.50) | 2.00 (2.00) |",
        ]
        # A part that only another machine has measured is shown from there.
        section = path.read_text().partition("<!-- measured: f16-ncx-measure -->\n")[2]
        assert section.lstrip().startswith("oneDNN 3, PyTorch 2, Fast 1, avx512_core")
        write(scripts, path, {"f32-ncx-measure": there})
        assert "PyTorch 2, Fast 1, avx512_core, 2 threads" in path.read_text()

    def test_kinds(self, path: Path, scripts: Any) -> None:
        run = {"": content(result("a:1", 2.0), result("a:2", 2.0, "BWD_W"))}
        run[""]["cases"][0]["timings"]["torch"]["median"] = 0.005
        write(scripts, path, {"f32-ncx-heuristic": run})
        text = path.read_text()
        assert "| problem | how many | data gradient, NCX | weights gradient, NCX |" in text
        assert (
            "| up to 4 input channels | 2 | **0.50** (0.50 to 0.50) | **2.00** (2.00 to 2.00) |"
            in text
        )
        assert "Of 2 cases, 1 are at least as fast; 1 have a ratio below 0.9, 0 of them" in text

    @pytest.mark.parametrize(
        ("text", "transposed", "kind"),
        [
            ("ic3ih8oc4kh3", False, "up to 4 input channels"),
            ("g8ic8ih8oc8kh3", False, "depthwise"),
            ("g2ic8ih8oc8kh3sh2", False, "larger kernel with a stride"),
            ("ic8ih8oc8kh1", False, "1x1"),
            ("ic8ih8oc8kh1sh2", False, "1x1 with a stride"),
            ("ic8iw8oc8kw3", False, "1-D"),
            ("ic8id8oc8kd3", False, "3-D"),
            ("ic3ih8oc8kh3", True, "transposed"),
        ],
    )
    def test_the_kind_of_a_problem(
        self, scripts: Any, text: str, transposed: bool, kind: str
    ) -> None:
        from kinds import kind_of

        assert kind_of(parse_descriptor(text, transposed=transposed)) == kind

    def test_the_document_says_what_was_measured(
        self, tmp_path: Path, scripts: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The text alone: the figures take their time."""
        source = ROOT / "docs" / "performance.md"
        path = tmp_path / source.name
        path.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
        document = sys.modules["document"]
        for name in ("save_ratio_figure", "save_sweep_figure"):
            monkeypatch.setattr(document, name, lambda *_: None)
        machines = {at.name: scripts._all_measured(at.name) for at in scripts.RESULTS.glob("*/")}
        assert scripts.DOCUMENTED in machines
        scripts.write_document(path, scripts.PARTS, machines)
        assert path.read_text(encoding="utf-8") == source.read_text(encoding="utf-8")

    def test_numpy_beside_native(self, path: Path, scripts: Any) -> None:
        timings = {"ours": timed(0.01), "native": timed(0.02), "numpy": timed(0.08)}
        run = content(Result(case("mb1ic4ih6oc8kh3na:1", "BWD_W"), timings, 1e9))
        write(scripts, path, {"numpy": {"": run}})
        assert "NumPy backend has 0.25 of native's speed, at worst 0.25 (`a:1`, BWD_W)." in (
            path.read_text()
        )

    def test_a_sweep(self, path: Path, scripts: Any) -> None:
        runs = {"1": content(result("x", 2.0)), "8": content(result("x", 4.0))}
        write(scripts, path, {"batch": runs})
        text = path.read_text()
        assert "| minibatch | x BWD_D, GF/s | BWD_D against native | BWD_D against torch |" in text
        assert "| 8 | 0 | 4.00 | 2.00 |" in text
        assert (path.parent / "performance" / "batch.svg").is_file()

    def test_tiny(self, path: Path, scripts: Any) -> None:
        timings = {"ours": timed(2e-5), "plan": timed(1e-5), "torch": timed(3e-5)}
        run = content(tiny=Result(bench.TINY, timings))
        write(scripts, path, {"tiny": {"": run}})
        assert "| plain call | 20.0 |  | 1.50 |" in path.read_text()

    def test_writing_twice_changes_nothing(self, path: Path, scripts: Any) -> None:
        measured = {"numpy": {"": content(result("a:1", 2.0))}}
        write(scripts, path, measured)
        picture = path.parent / "performance" / "numpy.svg"
        first = path.read_text(), picture.read_bytes()
        write(scripts, path, measured)
        assert (path.read_text(), picture.read_bytes()) == first

    def test_markers_that_are_not_the_parts(self, path: Path, scripts: Any) -> None:
        path.write_text(path.read_text().replace("measured: tiny", "measured: huge"))
        with pytest.raises(ValueError, match="expected markers of each part once: huge, tiny"):
            write(scripts, path, {})
        path.write_text(path.read_text().replace("huge", "tiny").replace("machines", "others"))
        with pytest.raises(ValueError, match="expected markers of the machines' table once"):
            write(scripts, path, {})


class TestRun:
    @pytest.fixture
    def statuses(
        self, scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> dict[str, int]:
        """Exit statuses of a fake command bench, by an option of its; "runs" counts its calls."""
        statuses = {"runs": 0}

        def fake_bench(arguments: list[str]) -> int:
            statuses["runs"] += 1
            path = arguments[-1].partition("=")[2]
            Path(path).write_text(json.dumps(content(result("x", 2.0))))
            return next((statuses[word] for word in arguments if word in statuses), 0)

        (tmp_path / "docs").mkdir()
        monkeypatch.setattr(scripts, "ROOT", tmp_path)
        monkeypatch.setattr(scripts, "RESULTS", tmp_path / "results")
        monkeypatch.setattr(scripts, "onednn_py", fake_bench)
        document = tmp_path / "docs" / "performance.md"
        document.write_text((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"))
        return statuses

    def test_a_measured_part_is_not_measured_again(
        self, scripts: Any, statuses: dict[str, int]
    ) -> None:
        sizes = len(scripts.PARTS["size"].runs)
        measure = ["--part=size", "--machine=slow"]
        assert scripts.main(measure) == 0
        assert scripts.main(measure) == 0
        assert statuses["runs"] == sizes
        assert scripts.main([*measure, "--again"]) == 0
        assert statuses["runs"] == 2 * sizes
        assert scripts.main(["--document"]) == 0
        assert statuses["runs"] == 2 * sizes

    def test_machines(
        self, scripts: Any, statuses: dict[str, int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in (scripts.DOCUMENTED, "slow"):
            assert scripts.main(["--part=f32-ncx-measure", f"--machine={name}"]) == 0
            assert (scripts.RESULTS / name / "f32-ncx-measure.json").is_file()
        assert statuses["runs"] == 2
        document = (scripts.ROOT / "docs" / "performance.md").read_text()
        assert "| f32, NCX, effort measure | slow |" in document
        with pytest.raises(SystemExit):
            scripts.main(["--machine=../elsewhere"])
        assert "expected small letters, digits, dashes" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            scripts.main(["--part=f32-ncx-measure"])
        assert "name the machine" in capsys.readouterr().err
        assert statuses["runs"] == 2

    def test_no_file_has_the_path_of_the_library(
        self, scripts: Any, statuses: dict[str, int]
    ) -> None:
        scripts.main(["--part=size", "--machine=slow"])
        text = (scripts.RESULTS / "slow" / "size.json").read_text()
        assert "somewhere" not in text

    def test_an_interrupted_part_goes_on_where_it_was(
        self, scripts: Any, statuses: dict[str, int]
    ) -> None:
        statuses["--mb=4"] = 130
        with pytest.raises(SystemExit) as caught:
            scripts.main(["--part=batch", "--machine=slow"])
        assert caught.value.code == 130
        assert list(scripts._measured(scripts.PARTS["batch"], "slow")) == ["1", "2"]
        del statuses["--mb=4"]
        assert scripts.main(["--part=batch", "--machine=slow"]) == 0
        assert list(scripts._measured(scripts.PARTS["batch"], "slow")) == list(
            scripts.PARTS["batch"].runs
        )

    def test_a_failure_is_reported_at_the_end(self, scripts: Any, statuses: dict[str, int]) -> None:
        statuses["--mb=1"] = 1
        assert scripts.main(["--part=batch", "--machine=slow"]) == 1
        assert statuses["runs"] == len(scripts.PARTS["batch"].runs)
