"""Cases of suites, descriptors, batch files and ids; what they are as calls and parameters."""

from __future__ import annotations

import pickle
import shlex
from pathlib import Path

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError
from onednn_py.cli import main
from onednn_py.testing import Case, cases
from onednn_py.tools.benchdnn.case import DATA_FORMATS, DIRECTIONS
from onednn_py.tools.benchdnn.suites import SUITES, number_of_problems
from tests.support.requirements import needs_onednn

SMALL = "mb2ic16ih7oc24oh7kh3ph1"
ALL_TYPES = ("f32", "bf16", "f16")


@pytest.mark.parametrize("suite", SUITES)
def test_suites(suite: str) -> None:
    found = cases(suite)
    assert len(found) == 3 * number_of_problems(suite)
    assert {case.direction for case in found} == {"FWD_D", "BWD_D", "BWD_W"}
    assert {(case.dtype, case.data_format) for case in found} == {("f32", "NCX")}
    assert all(suite in case.id for case in found)
    assert found == cases(suite.upper())


def test_descriptors_and_all_that_is_chosen() -> None:
    found = cases(
        ["ic16ih7oc24kh3ph1", "deconv:ic8iw5oc6kw3"],
        directions=tuple(DIRECTIONS),
        dtypes=ALL_TYPES,
        formats=DATA_FORMATS,
    )
    assert len(found) == len(set(found)) == 2 * 5 * 3 * 2
    assert {case.descriptor.operation for case in found} == {"conv", "deconv"}
    one = cases(f"conv:{SMALL}", directions="bwd_d", dtypes="BF16", formats=["nxc"])
    assert [case.id for case in one] == [
        f"--conv --dir=BWD_D --dt=bf16 --stag=axb --dtag=axb {SMALL}"
    ]
    assert cases([SMALL, SMALL]) == cases((SMALL,)) == cases(iter([SMALL])) == cases(SMALL)
    # FWD_I is benchdnn's inference, which computes the same.
    assert cases(SMALL, directions=["FWD_I", "FWD_D"]) == cases(SMALL, directions="FWD_D")


def test_minibatches_and_limits() -> None:
    (case,) = cases(SMALL, directions="BWD_D", mb=5)
    assert case.descriptor.minibatch == 5
    assert cases(SMALL, mb=0) == cases(SMALL)
    assert cases(SMALL, directions="BWD_D", mb=np.int64(5), max_flops=np.float32(1e9)) == [case]
    assert type(case.descriptor.minibatch) is int
    flops = case.with_minibatch(1).descriptor.flops
    limited = cases(SMALL, directions="BWD_D", mb=5, max_flops=flops)
    assert [one.descriptor.minibatch for one in limited] == [1]
    assert cases(SMALL, max_flops=flops - 1) == []
    assert all(c.descriptor.flops <= 1e8 for c in cases("resnet50", max_flops=1e8))
    assert 0 < len(cases("resnet50", max_flops=1e8)) < len(cases("resnet50"))


def test_options_of_a_file_go_before_defaults_and_callers_before_both(tmp_path: Path) -> None:
    path = tmp_path / "shapes"
    path.write_text("# a file\nic4iw3oc8kw3\n--dir=FWD_D --dt=bf16,s8 --mb=4\nic4iw3oc8kw1\n")
    for source in (path, str(path), [str(path)]):
        assert [(c.direction, c.dtype, c.descriptor.minibatch) for c in cases(source)] == [
            *((direction, "f32", 2) for direction in ("FWD_D", "BWD_D", "BWD_W")),
            ("FWD_D", "bf16", 4),
        ]
    chosen = cases(path, directions=("BWD_D",), dtypes="f16", mb=1)
    assert [(c.direction, c.dtype, c.descriptor.minibatch) for c in chosen] == [
        ("BWD_D", "f16", 1)
    ] * 2
    # An equal tuple of the caller's own is no default.
    everywhere = cases(path, directions=("FWD_D", "BWD_D", "BWD_W"))
    assert len(everywhere) == 6


def test_the_operation_of_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "inputs"
    folder.mkdir()
    for name in ("shapes", "deconv_shapes"):
        (folder / name).write_text("ic4iw3oc8kw3\n")
    found = {
        source: cases(source)[0].descriptor.operation
        for source in (
            f"{folder}/shapes", f"deconv:{folder}/shapes", f"conv:{folder}/deconv_shapes",
            f"{folder}/deconv_shapes",
        )
    }  # fmt: skip
    assert list(found.values()) == ["conv", "deconv", "conv", "deconv"]


def all_kinds() -> list[Case]:
    return cases(
        ["g2ic4ih7iw5oc6kh3kw2sh2ph1dw1", 'ic4id5oc4kd3n"a*b"', "deconv:ic4ih4oc6kh3sh2ph1oh8"],
        directions=tuple(DIRECTIONS), dtypes=ALL_TYPES, formats=DATA_FORMATS,
    )  # fmt: skip


def test_an_id_gives_its_case_again() -> None:
    for case in all_kinds():
        assert str(case) == case.id
        assert cases(case.id) == [case]
        assert eval(repr(case), {"cases": cases}) == case
        assert pickle.loads(pickle.dumps(case)) == case
    (again,) = cases(all_kinds()[0].id, directions="BWD_WB")
    assert again.direction == "BWD_WB"
    assert len(cases(f"--deconv --mb=1,2 --format=NXC {SMALL} {SMALL}")) == 6


@needs_onednn
def test_an_id_selects_its_case_in_verify(capsys: pytest.CaptureFixture[str]) -> None:
    for case in all_kinds()[::13]:
        assert main(["verify", "-v", *shlex.split(case.id)]) == 0
        printed = capsys.readouterr().out
        assert f" {case.options}\n" in printed
        assert printed.splitlines()[-1].startswith("tests:1 passed:1 ")


def test_a_case_is_a_call_of_its_function(backend: str) -> None:
    for case in all_kinds():
        function = getattr(onednn_py, case.function)
        results = function(*case.tensors(), **case.attributes, backend=backend)
        results = results if isinstance(results, tuple) else (results,)
        shapes = [case.shape(role) for role in case.result_roles]
        assert [result.shape for result in results] == shapes
        assert {result.dtype for result in results} == {case.numpy_dtype}


def test_tensors_are_new_small_integers() -> None:
    for case in all_kinds():
        first, again, other = case.tensors(), case.tensors(), case.tensors(seed=1)
        for one, same, different in zip(first, again, other, strict=True):
            assert one.dtype == case.numpy_dtype
            assert one.tobytes() == same.tobytes() != different.tobytes()
            assert not np.shares_memory(one, same)
            values = one.astype(np.float64)
            np.testing.assert_array_equal(values % 1, 0)
            assert 0 < np.abs(values).max() <= 32
    case.attributes["strides"] = "changed"
    assert case.attributes["strides"] == (2, 2)


@pytest.mark.parametrize("case", cases(SMALL))
def test_pytest_shows_ids(case: Case, request: pytest.FixtureRequest) -> None:
    assert request.node.callspec.id == case.id


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("vgg", r"'vgg' is no suite \(resnet50, .*\), no file, and no descriptor: conv descr"),
        ("ic4iw3", "no descriptor: conv descriptor 'ic4iw3': oc is missing"),
        ("deconv:iw3", "no descriptor: deconv descriptor 'iw3': ic is missing"),
        ("", "'' is no suite"),
        ("x" * 5000, "is no suite"),
        ("a\0b", "is no suite"),
        (Path("/nowhere/shapes"), "/nowhere/shapes: cannot be read"),
        (3, "source: expected texts or paths, got 3"),
        ([SMALL, None], "source: expected texts or paths, got None among them"),
        (b"resnet50", "source: expected texts or paths"),
        ("--conv", "--conv: no descriptor"),
        (f"--dir=BWD_D {SMALL}", f"{SMALL}: expected --conv or --deconv before it"),
        (f"--conv --dir=BWD {SMALL}", "expected some of FWD_D"),
        (f"--conv --wtag=any {SMALL}", "--wtag=any: expected some of --conv, --deconv, --dir"),
        (f"--conv --stag=abx --dtag=axb {SMALL}", "--dtag=axb: src and dst have one format"),
        (f"--conv --stag=aBx16b {SMALL}", "expected some of abx, axb"),
        (f"--conv '{SMALL}", "No closing quotation"),
    ],
)
def test_wrong_sources(source: object, message: str) -> None:
    with pytest.raises(AttributeValueError, match=message) as raised:
        cases(source)
    assert len(str(raised.value)) <= 600


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"directions": ("BWD",)}, "directions: expected some of FWD_D, .* got 'BWD'"),
        ({"directions": ()}, "directions: expected some of FWD_D, .* got none"),
        ({"dtypes": "f64"}, "dtypes: expected some of f32, bf16, f16; got 'f64'"),
        ({"dtypes": np.float32}, "dtypes: expected some of f32"),
        ({"formats": ["NHWC"]}, "formats: expected some of NCX, NXC; got 'NHWC'"),
        ({"mb": -1}, "mb: expected an integer of at least 0, got -1"),
        ({"mb": True}, "mb: expected an integer"),
        ({"max_flops": 0}, "max_flops: expected a positive number, got 0"),
        ({"max_flops": "1e9"}, "max_flops: expected a positive number, got '1e9'"),
        ({"max_flops": float("nan")}, "max_flops: expected a positive number, got nan"),
    ],
)
def test_wrong_choices(keywords: dict, message: str) -> None:
    with pytest.raises(AttributeValueError, match=message):
        cases(SMALL, **keywords)
