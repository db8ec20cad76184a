"""Errors against float64 by type and implementation: how they are measured and reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onednn_py.cli import main
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.verification.numerical_errors import family, grouped, measure
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn

PROBLEMS = ("--conv", "ic16ih7oc24kh3ph1n3x3", "--deconv", "ic8iw5oc6kw3")


def test_errors_by_type_and_implementation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / "errors.png"
    arguments = ("--errors", "--dt=f32,bf16,f16", "--dir=BWD_D,BWD_WB", "--json=-")
    assert main(["verify", *arguments, f"--plot={plot}", *PROBLEMS]) == 0
    captured = capsys.readouterr()
    assert plot.read_bytes().startswith(b"\x89PNG")
    report = json.loads(captured.out)
    worst: dict[str, float] = {}
    for group in report["groups"]:
        worst[group["dtype"]] = max(worst.get(group["dtype"], 0), group["largest"])
        assert 0 < group["mean"] < group["largest"]
    # A correctly rounded result is half a distance off, and no type is better than that.
    assert worst["f32"] < 2e-6 < worst["f16"] <= 2**-10 < worst["bf16"] <= 2**-7
    assert "NumPy" in captured.err
    assert "cases:24 skipped:0 failed:0" in captured.err
    assert len(report["measurements"]) == 48


def test_ulps_are_halves_for_a_correct_rounding() -> None:
    # One term a sum: the product is rounded once, and nothing cancels.
    case = Case(parse_descriptor("mb64ic1iw1oc1kw1"), "FWD_D", "bf16", "NCX")
    for one in measure(case):
        assert 0.3 < one.largest_ulps <= 0.5
        assert one.tolerable
    groups = grouped(measure(case))
    assert [group.cases for group in groups] == [1, 1]
    assert groups[-1].family == "NumPy"


def test_families() -> None:
    names = {
        "brgconv_bwd_w:avx512_core_bf16": "oneDNN brgemm",
        "conv:any+brgconv_1x1:avx512_core": "oneDNN brgemm",
        "x64:gemm:jit": "oneDNN gemm",
        "jit_dw:avx512_core": "oneDNN jit depthwise",
        "jit_bf16_1x1:avx512_core_bf16": "oneDNN jit 1x1",
        "conv:any+jit:avx2": "oneDNN jit",
        "ref:any": "oneDNN reference",
        "acl": "oneDNN acl",
    }
    for name, expected in names.items():
        assert family("onednn", name) == expected
    assert family("native", "jit:avx2") == "native jit"
    assert family("onednn", "numpy") == "NumPy"
