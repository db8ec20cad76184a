"""The command verify: the cases it selects, its output, files and exit status."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import onednn_py
from onednn_py.cli import main
from onednn_py.cli import verify as verify_command
from onednn_py.testing.runners import NativeRunner
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.native_programs import ComparisonUnavailableError
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn

SMALL = ("--conv", "ic16ih7oc24kh3ph1n3x3")


def verify(*arguments: str) -> int:
    return main(["verify", *arguments])


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


@pytest.fixture
def wrong_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make plans of oneDNN return one wrong element in their first result."""
    call = onednn_py.Plan.__call__

    def wrong(self, *tensors, **keywords):
        results = call(self, *tensors, **keywords)
        if self.backend == "onednn":
            first = results[0] if isinstance(results, tuple) else results
            first[(-1,) * first.ndim] += 3
        return results

    monkeypatch.setattr(onednn_py.Plan, "__call__", wrong)


def test_default_problems_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--dir=BWD_D,BWD_WB", "--format=NXC") == 0
    printed = capsys.readouterr().out
    total = re.search(r"^tests:(\d+) passed:\1 skipped:0 .* failed:0$", printed, re.MULTILINE)
    assert total, printed
    # Fourteen descriptors in two directions.
    assert int(total[1]) == 14 * 2


@pytest.mark.usefixtures("wrong_element")
def test_failure_prints_a_command_that_fails_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--seed=3", "--dir=BWD_D,BWD_WB", "--dt=bf16", "--format=NXC", *SMALL) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "tests:2 passed:0 skipped:0 mistrusted:0 unimplemented:0 failed:2"
    failures = [line for line in lines if ":FAILED" in line]
    assert len(failures) == 2
    assert re.match(
        r"1:FAILED \(oneDNN \(\S+\): diff_src: 1 of 1568 elements differ,"
        r" the first at \(1, 6, 6, 15\): \S+, expected \S+\)"
        r" python -m onednn_py verify --seed=3 --dir=BWD_D --dt=bf16 --format=NXC --conv",
        failures[0],
    )
    assert "diff_weights: 1 of" in failures[1]
    for failure in failures:
        again = shlex.split(failure.partition("python -m onednn_py ")[2])
        assert main(again) == 1
        assert last_line(capsys).startswith("tests:1 passed:0 ")


def test_mistrusted_cases_are_printed_and_succeed(capsys: pytest.CaptureFixture[str]) -> None:
    # Nearly all windows of the forward pass lie in the padding.
    problem = ("--dir=FWD_D", "--conv", "ic4iw2oc4kw1pw20")
    assert verify("--compare=none", *problem) == 0
    printed = capsys.readouterr().out
    assert "MISTRUSTED (" in printed
    assert "of dst is not zero" in printed
    assert "equal to the reference: onednn 2\n" in printed
    assert printed.splitlines()[-1].startswith("tests:2 passed:0 skipped:0 mistrusted:2 ")


def test_native_is_compared_except_for_known_defects(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        NativeRunner()
    except ComparisonUnavailableError as error:
        pytest.skip(str(error))
    options = ("--compare=numpy,native", "--dir=BWD_W", "--format=NCX")
    assert verify(*options, *SMALL, "ic4ih32oc8kh1sh2") == 0
    printed = capsys.readouterr().out
    assert "equal to the reference: onednn 2, numpy 2, native 1\n" in printed
    assert "not compared: 1 with native: known defect, uxlfoundation/oneDNN#6035" in printed


def test_max_flops(capsys: pytest.CaptureFixture[str]) -> None:
    flops = parse_descriptor("mb1ic16ih7oc24kh3ph1").flops
    problem = ("--dir=BWD_D", "--format=NCX", "-v", "--conv", "mb8ic16ih7oc24kh3ph1")
    assert verify(f"--max-flops={flops + 1}", *problem) == 0
    assert "--conv mb1ic16ih7" in capsys.readouterr().out
    assert verify(f"--max-flops={flops - 1}", *problem) == 1
    printed = capsys.readouterr().out
    assert "1:SKIPPED (one image takes more than" in printed
    assert printed.splitlines()[-1].startswith("tests:1 passed:0 skipped:1 ")


def test_minibatch_and_empty_problems(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--dir=BWD_D", "--format=NCX", "-v")
    assert verify(*options, "--mb=3", *SMALL) == 0
    assert "--conv 'mb3ic16" in capsys.readouterr().out
    assert verify(*options, "--mb=0", *SMALL) == 0
    assert "--conv 'mb2ic16" in capsys.readouterr().out
    assert verify(*options, "--conv", "mb0ic16ih7oc24kh3ph1") == 1
    assert "SKIPPED (no elements to compute)" in capsys.readouterr().out


def test_command_lines_of_benchdnn(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--dir=BWD_D", "--dt=bf16", "--stag=axb", "--dtag=axb", "--mb=1")
    assert verify("-v", "--deconv", *options, "ic4iw3oc8kw3", "ic4iw5oc8kw3") == 0
    lines = capsys.readouterr().out.splitlines()
    again = "python -m onednn_py verify --dir=BWD_D --dt=bf16 --format=NXC --deconv"
    passed = [line for line in lines if ":PASSED " in line]
    assert passed == [
        f"1:PASSED {again} mb1ic4iw3oc8ow5kw3pw0", f"2:PASSED {again} mb1ic4iw5oc8ow7kw3pw0",
    ]  # fmt: skip
    with pytest.raises(SystemExit):
        verify(*options, "ic4iw3oc8kw3")
    assert "ic4iw3oc8kw3: put --conv or --deconv before it" in capsys.readouterr().err


def test_batch_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small, options = "ic4iw3oc8kw3\n", ("--format=NCX", "-v")
    for name in ("deconv_shapes", "conv_shapes", "shapes"):
        (tmp_path / name).write_text(small + "--dir=FWD_D --dt=bf16,s8 ic4iw3oc8kw1\n" + small)

    def run(*arguments: str) -> str:
        status = verify(*options, *arguments)
        captured = capsys.readouterr()
        return captured.out if status == 0 else captured.err

    for arguments, operation in (
        (("--batch", str(tmp_path / "deconv_shapes")), "deconv"),
        (("--batch", str(tmp_path / "conv_shapes")), "conv"),
        (("--deconv", "--batch", str(tmp_path / "conv_shapes")), "deconv"),
        (("--deconv", "ic4iw3oc8kw3", "--batch", str(tmp_path / "shapes")), "deconv"),
    ):
        printed = run(*arguments)
        assert printed.count(f" --{operation} mb2ic4iw3") == 3 + 2, printed
        assert printed.count("--dir=FWD_D --dt=bf16") == 2
        assert f"{arguments[-1]}: left out what is of type s8" in printed
    printed = run("--dt=f16", "--dir=BWD_D", "--conv", "--batch", str(tmp_path / "shapes"))
    # Options of the command line override those of the file; equal cases run once.
    assert printed.count("--dir=BWD_D --dt=f16 --format=NCX --conv") == 2
    neutral = tmp_path.with_name("problems")
    neutral.mkdir()
    (neutral / "shapes").write_text(small)
    assert "put --conv or --deconv before it" in run("--batch", str(neutral / "shapes"))
    (neutral / "shapes").write_text("# nothing\n")
    assert "no problem to verify" in run("--conv", "--batch", str(neutral / "shapes"))


def test_json_and_junit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit = tmp_path / "report.xml"
    arguments = ("--dir=BWD_D,BWD_WB", "--format=NXC", *SMALL)
    assert verify("--json=-", f"--junit={junit}", *arguments) == 0
    captured = capsys.readouterr()
    assert "tests:2 passed:2" in captured.err
    report = json.loads(captured.out)
    assert report["summary"] == {
        "tests": 2, "passed": 2, "skipped": 0, "mistrusted": 0, "unimplemented": 0, "failed": 0,
    }  # fmt: skip
    assert report["version"]
    first, second = report["tests"]
    assert (first["direction"], second["direction"]) == ("BWD_D", "BWD_WB")
    assert first["equal"] == ["onednn", "numpy"]
    assert first["name"] == "3x3"
    assert parse_descriptor(first["descriptor"]).dst == (7, 7)
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert suite.get("tests") == "2"
    assert suite.get("failures") == suite.get("skipped") == "0"
    names = [test.get("classname") for test in suite]
    assert names == ["conv.BWD_D.f32.NXC", "conv.BWD_WB.f32.NXC"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--conv", "ic8iw5"), "conv descriptor 'ic8iw5': oc is missing"),
        (("--deconv", "iw5"), "deconv descriptor 'iw5': ic is missing"),
        (("--errors", "-v"), "--verbose lists tests"),
        (("--plot=errors.png",), "--plot draws the errors of --errors"),
        (("--errors", "--junit=report.xml"), "--junit reports tests"),
        (("--junit=-",), "-: name a file; only --json writes to stdout"),
        (("--batch=missing",), "--batch missing: there is no such file"),
        (("--batch=.",), "--batch .: is a folder, not a file of descriptors"),
        (("--json=/nowhere/report.json",), "/nowhere/report.json: cannot be written"),
        (("--stag=abx", "--dtag=axb"), "--stag and --dtag: src and dst have one format"),
    ],
)
def test_wrong_options_are_errors(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(*arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "argument",
    [
        "--dir=BWD",
        "--dt=f64",
        "--format=NHWC",
        "--stag=aBx16b",
        "--mb=-1",
        "--max-flops=0",
        "--compare=torch",
        "--compare=numpy,none",
        "--plot=a.pdf",
    ],
)
def test_wrong_values_are_usage_errors(argument: str) -> None:
    with pytest.raises(SystemExit) as exited:
        verify(argument)
    assert exited.value.code == 2


def test_what_verify_does_not_know_is_its_own_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["verify", "--skip-impl=ref"])
    assert caught.value.code == 2
    *usage, error = capsys.readouterr().err.splitlines()
    assert usage[0].startswith("usage: onednn-py verify ")
    assert error == "onednn-py verify: error: unrecognized arguments: --skip-impl=ref"


def test_long_seeds_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        verify(f"--seed={10**18}")
    assert "argument --seed: expected at most 18 digits, got 19" in capsys.readouterr().err


def test_missing_library_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "onednn_py", "verify", *SMALL],
        env={**os.environ, "ONEDNN_PY_LIBRARY": "/nowhere/libdnnl.so.3"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "/nowhere/libdnnl.so.3" in done.stderr
    assert "Traceback" not in done.stderr


def test_terminal_shows_a_progress_bar_and_the_same_lines() -> None:
    pytest.importorskip("rich")
    pty = pytest.importorskip("pty")
    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "onednn_py", "verify", "-v", "--dir=BWD_D", *SMALL],
        stdout=child,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as process:
        os.close(child)
        printed = b""
        while True:
            try:
                read = os.read(parent, 4096)
            except OSError:
                break
            if not read:
                break
            printed += read
    os.close(parent)
    assert process.returncode == 0
    text = printed.decode()
    assert "/2" in text
    assert "\x1b[" in text
    assert "tests:2 passed:2 skipped:0 mistrusted:0 unimplemented:0 failed:0" in text


def test_errors_by_type_and_implementation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / "errors.png"
    problems = (*SMALL, "--deconv", "ic8iw5oc6kw3")
    arguments = ("--errors", "--dt=f32,bf16,f16", "--dir=BWD_D,BWD_WB", "--json=-")
    assert verify(*arguments, f"--plot={plot}", *problems) == 0
    captured = capsys.readouterr()
    assert plot.read_bytes().startswith(b"\x89PNG")
    report = json.loads(captured.out)
    worst: dict[str, float] = {}
    for group in report["groups"]:
        worst[group["dtype"]] = max(worst.get(group["dtype"], 0), group["largest"])
        assert 0 < group["mean"] < group["largest"]
    # The largest errors are ordered as the unit roundoffs are.
    assert worst["f32"] < 2e-6 < worst["f16"] <= 2**-10 < worst["bf16"] <= 2**-7
    assert "NumPy" in captured.err
    assert "cases:24 skipped:0 failed:0" in captured.err
    assert len(report["measurements"]) == 48


def test_errors_so_far_are_reported_after_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure, measured = verify_command.measure, []

    def interrupted(case: Any, *arguments: Any, **options: Any) -> Any:
        if measured:
            raise KeyboardInterrupt
        measured.append(case)
        return measure(case, *arguments, **options)

    monkeypatch.setattr(verify_command, "measure", interrupted)
    assert verify("--errors", "--dir=BWD_D", "--json=-", *SMALL) == 130
    captured = capsys.readouterr()
    assert json.loads(captured.out)["measurements"]
    assert "cases:1 skipped:0 failed:0" in captured.err
    assert "interrupted, 1 cases were left" in captured.err


@pytest.mark.usefixtures("wrong_element")
def test_large_numerical_error_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--errors", "--dir=BWD_D", "--format=NCX", *SMALL) == 1
    printed = capsys.readouterr().out
    assert "FAILED (" in printed
    assert "verify --errors --dir=BWD_D --dt=f32 --format=NCX --conv" in printed
