"""Problems in groups for which oneDNN names gemm, or a strided brgemm kernel, first."""

from __future__ import annotations

import re

import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import build_plan
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.rules import NOT_GEMM, Rule, Shape, rules_of
from onednn_py.backends.onednn.selection.rules.grouped_rest import GROUPED_REST
from onednn_py.backends.onednn.selection.select import candidate_of
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import FORMATS, CandidateRun
from tests.support.cases import OPERATIONS, Case, case
from tests.support.requirements import needs_onednn
from tests.support.rules import problem_of

AMX, WITHOUT_AMX = "avx512_core_amx", "avx512_core_bf16"

# Of so many channels in a group that blocks of 16 are not full, 3-D among them.
THIN = case((9, 8), 3, 2, pads=1, minibatch=3, inputs=32, outputs=16, groups=8)
DILATED = case((11, 10), 3, 2, pads=2, dilations=2, minibatch=3, inputs=24, outputs=24, groups=8)
VOLUME = case((6, 5, 7), 3, pads=1, minibatch=2, inputs=16, outputs=16, groups=16)
GEOMETRIES = {"thin": THIN, "dilated": DILATED, "volume": VOLUME}


def applied(
    problem: Problem, cpu_isa: str = WITHOUT_AMX, *, halves_avx512: bool = True
) -> list[Rule]:
    own = set(map(id, GROUPED_REST))
    shape = Shape(problem, problem.dtype, available=2, cpu_isa=cpu_isa, halves_avx512=halves_avx512)
    return [rule for rule in rules_of(shape) if id(rule) in own]


KERNELS = {"jit": "jit:avx512_core", "gemm": "x64:gemm:jit", "strided": "brgconv_strided:any"}


def preferred(rules: list[Rule]) -> list[str]:
    """Return which of the kernels rules prefer, in their order, with formulation and layout."""
    return [
        f"{rule.formulation} {rule.activations} {kernel}"
        for rule in rules
        for kernel, name in KERNELS.items()
        if rule.family.search(name)
    ]


NOT_GEMM_FIRST = ["direct any jit", "direct any strided", "direct nxc jit", "direct nxc strided"]
NOT_GEMM_LAST = ["direct given jit", "direct given strided", "direct any gemm"]
AS_CONVOLUTION = ["direct given jit", "direct given gemm", "as_convolution given jit"]


@pytest.mark.parametrize(
    ("text", "direction", "data_format", "transposed", "expected"),
    [
        ("g8mb6ic256ih10oc16kh3ph1", "FWD_B", "NCX", False, NOT_GEMM_FIRST),
        # gemm is faster of many more outputs and, channels last, of few groups or many pixels.
        ("g16mb16ic32iw245oc512kw4pw4dw1", "FWD_D", "NCX", False, []),
        ("g16mb16ic16ih12oc16kh7ph3", "FWD_D", "NXC", False, NOT_GEMM_LAST),
        ("g2mb32ic16ih53oc8kh3ph1", "FWD_D", "NXC", False, []),
        ("g8mb16ic64ih7oc32kh3ph1", "BWD_W", "NXC", False, NOT_GEMM_LAST),
        ("g8mb1ic32ih146oc256kh3ph1", "BWD_W", "NXC", False, []),
        (
            *("g32mb6ic1024ih8oc1024kh3sh2ph1", "BWD_D", "NCX", False),
            ["direct any jit", "direct any gemm"],
        ),
        ("g4mb2ic128ih52oc4oh104kh2sh2", "FWD_D", "NXC", True, AS_CONVOLUTION),
    ],
)
def test_what_rules_prefer(
    text: str, direction: str, data_format: str, transposed: bool, expected: list[str]
) -> None:
    problem = problem_of(text, direction, "f32", data_format, transposed=transposed)
    assert preferred(applied(problem)) == expected
    assert preferred(applied(problem, AMX)) == expected


COPIES = ["direct given jit", "direct any gemm"]


@pytest.mark.parametrize(
    ("text", "on_avx2", "on_half_width"),
    [
        ("g4mb16ic16ih50oc64oh8kh4sh6ph0", COPIES, COPIES),
        ("g2mb16ic32ih42oc8oh21kh2sh2ph0", COPIES, COPIES),
        ("g2mb16ic16ih8oc8oh2kh3sh4ph0", COPIES, []),
        ("g2mb16ic64ih42oc8oh21kh2sh2ph0", [], []),
        ("g2mb2ic32ih8oc32oh2kh3sh4ph0", [], []),
    ],
)
def test_strided_data_gradients_by_copies(
    text: str, on_avx2: list[str], on_half_width: list[str]
) -> None:
    """gemm on a copy takes longer of many inputs, or of some inputs and few pixels.

    Half width has the rules in float32, of 8 pixels and more.
    """
    general = ["direct given jit", "direct given gemm"]
    problem = problem_of(text, "BWD_D", "f32", "NXC")
    assert preferred(applied(problem, "avx2")) == on_avx2 + general
    assert preferred(applied(problem)) == on_half_width + general
    assert preferred(applied(problem, halves_avx512=False)) == general
    in_bf16 = applied(problem_of(text, "BWD_D", "bf16", "NXC"))
    assert preferred(in_bf16) == general


def test_bfloat16_of_cpus_with_amx() -> None:
    """Their strided kernels were not measured."""
    for transposed in (False, True):
        text = "g8mb2ic32ih9oc32" + ("oh18kh2sh2" if transposed else "kh3sh2ph1")
        direction = "FWD_D" if transposed else "BWD_D"
        problem = problem_of(text, direction, "bf16", "NCX", transposed=transposed)
        assert applied(problem)
        assert not applied(problem, AMX)


def test_problems_without_groups() -> None:
    for direction in ("FWD_D", "BWD_D", "BWD_W"):
        for data_format in FORMATS:
            assert not applied(problem_of("mb2ic16ih9oc16kh3sh2ph1", direction, "f32", data_format))


@needs_onednn
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_forward_passes_by_gemm_only_where_nothing_else_exists(name: str, dtype: str) -> None:
    run = CandidateRun(GEOMETRIES[name].integers(dtype), "convolution", "NCX")
    chosen = build_plan(current_engine(), run.problem).choice
    others = (
        Preference(Choice(chosen.compute_dtype, chosen.formulation, activations), NOT_GEMM)
        for activations in ("any", "nxc")
    )
    exists = any(candidate_of(current_engine(), run.problem, other) for other in others)
    assert exists == (re.search("gemm", chosen.implementation) is None)


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_results_of_what_is_chosen(name: str, operation: str, dtype: str, data_format: str) -> None:
    geometry: Case = GEOMETRIES[name]
    run = CandidateRun(geometry.integers(dtype), operation, data_format)
    run.check(build_plan(current_engine(), run.problem))
