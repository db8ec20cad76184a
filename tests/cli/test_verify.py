"""The command verify: what it runs, how it judges, and what it writes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

from onednn_py.backends.onednn.execution.plan import NativePlan
from onednn_py.cli import main
from onednn_py.dispatch import planner as dispatch
from onednn_py.dispatch.bound_call import Bound
from onednn_py.errors import OneDNNError
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.native_programs import ComparisonUnavailableError
from onednn_py.tools.verification import verifier
from onednn_py.tools.verification.native_runner import NativeRunner
from onednn_py.tools.verification.verifier import Verifier, difference
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn

SMALL = ("--conv", "ic16ih7oc24kh3ph1n3x3")
EVERYTHING = ("--dt=f32,bf16,f16", "--dir=FWD_D,FWD_B,BWD_D,BWD_W,BWD_WB")


def verify(*arguments: str) -> int:
    return main(["verify", *arguments])


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


@pytest.fixture
def wrong_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make oneDNN's plans compute one element of the result wrongly."""
    run = Bound.run

    def wrong(self, plan, pick, tensors) -> None:
        run(self, plan, pick, tensors)
        if isinstance(plan, NativePlan):
            result = tensors[len(self.task.inputs)]
            result[(-1,) * result.ndim] += 3

    monkeypatch.setattr(Bound, "run", wrong)


@pytest.fixture
def no_implementation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make oneDNN implement nothing."""

    def refuse(*_: object) -> NativePlan:
        raise OneDNNError("dnnl_primitive_desc_create", "unimplemented")

    monkeypatch.setattr(dispatch, "build_plan", refuse)
    dispatch.plan_cache.clear()
    yield
    dispatch.plan_cache.clear()


def test_its_own_problems_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--dir=BWD_D,BWD_WB", "--format=NXC") == 0
    printed = capsys.readouterr().out
    total = re.search(r"^tests:(\d+) passed:\1 skipped:0 .* failed:0$", printed, re.MULTILINE)
    assert total, printed
    # Fourteen descriptors in two directions.
    assert int(total[1]) == 14 * 2


@pytest.mark.parametrize(
    "problem",
    [
        ("--conv", "g2ic16ih9iw7oc8kh3kw2sh2sw1ph1dh1dw0"),
        ("--conv", "ic8ih9oc16kh1sh2"),
        ("--deconv", "g2ic8ih5iw7oc16oh10ow22kh3kw4sh2sw3ph1pw0"),
        ("--deconv", "ic17iw6oc5kw3dw1"),
    ],
    ids=lambda problem: problem[1],
)
def test_every_direction_type_and_format(
    problem: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(*EVERYTHING, *problem) == 0
    assert last_line(capsys).startswith("tests:30 passed:30 ")


@pytest.mark.usefixtures("wrong_backend")
def test_a_wrong_result_fails_and_can_be_run_again(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_wrong_numpy_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Case.call

    def wrong(self, inputs, backend):
        results = call(self, inputs, backend)
        if inputs[0].dtype != np.float64:
            results[0][...] = np.nan
        return results

    monkeypatch.setattr(Case, "call", wrong)
    assert verify("--dir=BWD_D", *SMALL) == 1
    assert "FAILED (NumPy: diff_src" in capsys.readouterr().out
    assert verify("--dir=BWD_D", "--compare=none", *SMALL) == 0


def test_an_error_of_the_package_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self, plan, pick, tensors) -> None:
        raise OneDNNError("dnnl_primitive_execute", "runtime_error")

    monkeypatch.setattr(Bound, "run", fail)
    assert verify("--dir=BWD_D", "--format=NCX", *SMALL) == 1
    assert "FAILED (OneDNNError: dnnl_primitive_execute failed" in capsys.readouterr().out


@pytest.mark.usefixtures("no_implementation")
def test_what_numpy_ran_is_unimplemented(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--dir=BWD_D", *SMALL) == 0
    assert last_line(capsys) == ("tests:2 passed:0 skipped:0 mistrusted:0 unimplemented:2 failed:0")


def test_mostly_zeros_are_mistrusted(capsys: pytest.CaptureFixture[str]) -> None:
    # Nearly all windows of the forward pass lie in the padding.
    assert verify("--dir=FWD_D", "--conv", "ic4iw2oc4kw1pw20") == 0
    printed = capsys.readouterr().out
    assert "MISTRUSTED (" in printed
    assert "of dst is not zero" in printed
    assert printed.splitlines()[-1].startswith("tests:2 passed:0 skipped:0 mistrusted:2 ")


def test_large_problems_are_reduced_or_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    flops = parse_descriptor("mb1ic16ih7oc24kh3ph1").flops
    one = ("--dir=BWD_D", "--format=NCX", "-v", "--conv", "mb8ic16ih7oc24kh3ph1")
    assert verify(f"--max-flops={flops + 1}", *one) == 0
    assert "--conv mb1ic16ih7" in capsys.readouterr().out
    assert verify(f"--max-flops={flops - 1}", *one) == 1
    printed = capsys.readouterr().out
    assert "1:SKIPPED (one image takes more than" in printed
    assert printed.splitlines()[-1].startswith("tests:1 passed:0 skipped:1 ")


def test_minibatch_and_empty_problems(capsys: pytest.CaptureFixture[str]) -> None:
    one = ("--dir=BWD_D", "--format=NCX", "-v")
    assert verify(*one, "--mb=3", *SMALL) == 0
    assert "--conv 'mb3ic16" in capsys.readouterr().out
    assert verify(*one, "--mb=0", *SMALL) == 0
    assert "--conv 'mb2ic16" in capsys.readouterr().out
    assert verify(*one, "--conv", "mb0ic16ih7oc24kh3ph1") == 1
    assert "SKIPPED (no elements to compute)" in capsys.readouterr().out


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
    # The command line goes before the file, and the same case is run once.
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


@pytest.mark.usefixtures("wrong_backend")
def test_json_and_junit_tell_failures(tmp_path: Path) -> None:
    junit, report = tmp_path / "report.xml", tmp_path / "report.json"
    name = 'n"<&\u00e9\U0001f600>"'
    arguments = ("--dir=BWD_D", "--format=NXC", "--conv", f"ic4iw3oc8kw3{name}", "mb0ic4iw3oc8kw3")
    assert verify(f"--json={report}", f"--junit={junit}", *arguments) == 1
    failed, skipped = json.loads(report.read_text())["tests"]
    assert (failed["status"], skipped["status"]) == ("failed", "skipped")
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "1")
    assert "elements differ" in suite[0].find("failure").get("message")
    assert suite[0].find("failure").text == failed["command"]
    assert suite[1].find("skipped").get("message") == "skipped: no elements to compute"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--conv", "ic8iw5"), "conv descriptor 'ic8iw5': oc is missing"),
        (("--deconv", "iw5"), "deconv descriptor 'iw5': ic is missing"),
        (("--compare=torch",), "compare: expected some of numpy, native; got 'torch'"),
        (("--plot=errors.png",), "--plot draws the errors of --errors"),
        (("--errors", "--junit=report.xml"), "--junit reports tests"),
        (("--json=/nowhere/report.json",), "/nowhere/report.json: cannot be written"),
    ],
)
def test_wrong_options_are_errors(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(*arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "argument",
    ["--dir=BWD", "--dt=f64", "--format=NHWC", "--mb=-1", "--max-flops=0", "--plot=a.pdf"],
)
def test_wrong_values_are_usage_errors(argument: str) -> None:
    with pytest.raises(SystemExit) as exited:
        verify(argument)
    assert exited.value.code == 2


def test_without_a_library_it_says_so() -> None:
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


def test_a_terminal_gets_a_bar_and_the_same_lines() -> None:
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


def test_difference_sees_one_element_and_nan() -> None:
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        right = np.arange(6).reshape(2, 3).astype(dtype)
        assert difference(right, right.copy()) == ""
        assert difference(np.negative(right * 0), right * 0) == ""
        for value in (7, np.nan):
            wrong = right.copy()
            wrong[1, 2] = value
            assert "1 of 6 elements differ, the first at (1, 2)" in difference(wrong, right)
        assert "expected" in difference(right[:1], right)
    assert "expected float32" in difference(right, right.astype(np.float32))


def test_native_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        NativeRunner()
    except ComparisonUnavailableError as error:
        pytest.skip(str(error))
    few = ("--conv", "g2ic32ih9oc16kh3ph1", "--deconv", "ic16ih5oc32kh4sh2ph1", "ic8iw5oc6kw3oc6")
    assert verify("--compare=numpy,native", "--dt=f32,bf16", *few) == 0
    printed = capsys.readouterr().out
    assert "native 36" in printed
    # Where native itself is known to be wrong, or to hang, it is not asked.
    defect = ("--dir=BWD_W", "--format=NCX", "--conv", "ic4ih32oc8kh1sh2")
    assert verify("--compare=numpy,native", *defect) == 0
    printed = capsys.readouterr().out
    assert "not compared: 1 with native: known defect, uxlfoundation/oneDNN#6035" in printed


def test_a_native_that_differs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        def run(self, case, inputs):
            return [np.zeros(case.shape(role), np.float32) for role in case.result_roles], "jit"

    monkeypatch.setattr(verifier, "NativeRunner", Wrong)
    case = Case(parse_descriptor("ic8iw5oc6kw3"), "BWD_D", "f32", "NCX")
    outcome = Verifier(["native"]).verify(case)
    assert outcome.status == "failed"
    assert outcome.reason.startswith("native (jit): diff_src: ")
    assert outcome.equal == ("onednn",)


@pytest.mark.usefixtures("wrong_backend")
def test_an_intolerable_error_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--errors", "--dir=BWD_D", "--format=NCX", *SMALL) == 1
    printed = capsys.readouterr().out
    assert "FAILED (" in printed
    assert "verify --errors --dir=BWD_D --dt=f32 --format=NCX --conv" in printed
