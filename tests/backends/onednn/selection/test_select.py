"""What measuring may choose from: every way computes the same as the oracle, none is a defect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onednn_py.backends.onednn.binding.runtime import runtime
from onednn_py.backends.onednn.execution.plan import NativePlan
from onednn_py.backends.onednn.selection import descriptors
from onednn_py.backends.onednn.selection import select as selection
from onednn_py.backends.onednn.selection.defects import DEFECTS, forbidden, is_reference
from onednn_py.backends.onednn.selection.formulations import FORMULATIONS
from onednn_py.backends.onednn.selection.heuristics import Wish
from onednn_py.backends.onednn.selection.select import LAYOUTS, candidates, is_possible, part_of
from onednn_py.backends.onednn.selection.thresholds import may_run_on_one_thread
from onednn_py.problem.problem import Choice, Problem
from onednn_py.tools.benchdnn.case import Case as Benchdnn
from onednn_py.tools.benchdnn.descriptor import parse_descriptor
from tests.support.candidate_runs import FORMATS, NETWORKS, LaidOut, Way
from tests.support.cases import CURATED, OPERATIONS, Case, case
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn

GEOMETRIES = {**CURATED, **NETWORKS}


def check_all(geometry: Case, operation: str, dtype: str) -> set[str]:
    """Every candidate in both formats; the formulations that there were."""
    seen = set()
    for data_format in FORMATS:
        way = Way(geometry.integers(dtype), operation, data_format)
        found = list(way.parts())
        assert found
        for part in found:
            way.check(NativePlan(runtime(), part))
            seen.add(part.choice.formulation)
        choices = [part.choice for part in found]
        assert len(choices) == len(set(choices))
        for choice in choices:
            assert choice.implementation
            assert not choice.reference
            assert is_possible(way.problem, choice)
            assert Choice.from_dict(choice.as_dict()) == choice
    return seen


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_candidate_is_right(name: str, operation: str) -> None:
    check_all(GEOMETRIES[name], operation, "f32")


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "name",
    [
        *("1d_strided", "2d_strided_dilated", "2d_groups_16", "2d_depthwise", "2d_channel_tail"),
        *("3d_strided_dilated", "1x1_stride_tail"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in GEOMETRIES),
    ],
)
def test_every_candidate_is_right_in_half_precision(name: str, operation: str, dtype: str) -> None:
    check_all(GEOMETRIES[name], operation, dtype)


def test_every_formulation_is_a_candidate_of_something() -> None:
    """Otherwise the tests above would say nothing of it."""
    seen = set()
    for operation in ("convolution_backward_weights", "conv_transpose_backward_data"):
        seen |= check_all(NETWORKS["1x1_stride"], operation, "f32")
    assert seen == set(FORMULATIONS)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_what_there_is_to_choose(dtype: str) -> None:
    """Layouts, implementations, types and numbers of threads, for a problem that is small."""
    way = Way(CURATED["2d_blocked_channels"].integers(dtype), "convolution", "NCX")
    assert may_run_on_one_thread(way.problem)
    choices = [part.choice for part in way.parts()]
    assert {(choice.activations, choice.weights) for choice in choices} <= set(LAYOUTS)
    assert len({choice.activations for choice in choices}) > 1
    assert len({choice.implementation for choice in choices}) > 2
    assert {choice.threads for choice in choices} == {0, 1}
    assert {choice.compute_dtype for choice in choices} <= {dtype, "f32"}
    assert "f32" in {choice.compute_dtype for choice in choices}


def strided_1x1(dtype: str, data_format: str, operation: str, inputs: int) -> Way:
    geometry = case((32, 32), 1, 2, minibatch=32, inputs=inputs, outputs=8)
    return Way(geometry.integers(dtype), operation, data_format)


@pytest.mark.parametrize("inputs", [1, 4, 8, 15, 24])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", ["convolution", "conv_transpose"])
def test_a_known_defect_is_no_candidate(family: str, data_format: str, inputs: int) -> None:
    """6035's shapes: what would hang or crash must not even be measured."""
    way = strided_1x1("f32", data_format, f"{family}_backward_weights", inputs)
    for part in way.parts():
        name = part.choice.implementation
        inner = part.formulation.problem.as_convolution()
        # What the primitive takes of every second element is a copy without gaps, if need be.
        dense = replace(inner, src=inner.src.dense(), dst=inner.dst.dense())
        assert forbidden(name, dense, runtime().library.version) is None
        assert not is_reference(name)
        # Without the strides the primitive is another one, which has no such defect.
        if part.choice.formulation != "sliced":
            assert "1x1" not in name
        way.check(NativePlan(runtime(), part))


def test_nothing_forbidden_is_a_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Way(CURATED["2d"].integers("f32"), "convolution_backward_data", "NXC")
    before = {part.choice.implementation for part in way.parts()}
    banned = sorted(before)[0]

    def also(name: str, *more: Any) -> Any:
        return DEFECTS[0] if name == banned else forbidden(name, *more)

    monkeypatch.setattr(descriptors, "forbidden", also)
    assert {part.choice.implementation for part in way.parts()} == before - {banned}


@pytest.mark.parametrize(
    "fields",
    [
        {"compute_dtype": "bf16"},
        {"compute_dtype": "f16"},
        {"compute_dtype": "u8"},
        {"compute_dtype": ""},
        {"formulation": "winograd"},
        {"formulation": ""},
        {"activations": "nchw"},
        {"weights": "nxc"},
        {"activations": "ncx", "weights": "given"},
        {"pieces": 0},
        {"pieces": -1},
        {"pieces": 3},
        {"pieces": 2**40},
        {"pieces": 2**40, "cut": "rows"},
        {"cut": "columns"},
    ],
    ids=str,
)
def test_choices_that_are_not_possible(fields: dict[str, Any]) -> None:
    problem = Way(CURATED["2d"].integers("f32"), "convolution", "NXC").problem
    assert is_possible(problem, Choice("f32"))
    assert not is_possible(problem, Choice(**{"compute_dtype": "f32", **fields}))


def gap_behind_rows(array: np.ndarray) -> np.ndarray:
    """Channels last, with another row behind each image."""
    count, channels, rows, *more = array.shape
    memory = np.full((count, rows + 1, *more, channels), 77, array.dtype)
    view = np.moveaxis(memory, -1, 1)[:, :, :rows]
    view[...] = array
    return view


def gap_behind_channels(array: np.ndarray) -> np.ndarray:
    """Channels first, with two more behind each image."""
    count, channels, *more = array.shape
    memory = np.full((count, channels + 2, *more), 77, array.dtype)
    memory[:, :channels] = array
    return memory[:, :channels]


@pytest.mark.parametrize("form", [gap_behind_rows, gap_behind_channels])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_tensors_with_gaps(operation: str, form: Any) -> None:
    for name in ("first_layer", "3x3_stride", "1x1", "depthwise", "upsampling", "upconv", "3d"):
        way = LaidOut(NETWORKS[name].integers("f32"), operation, "NCX", form)
        for part in way.parts():
            if runtime().library.version >= (3, 3, 0):
                assert part.choice.activations != "given"
            way.check(NativePlan(runtime(), part))


def test_implementations_that_overlook_gaps() -> None:
    tensors = CURATED["2d"].integers("f32")
    gaps = LaidOut(tensors, "convolution", "NCX", gap_behind_rows).problem
    dense = Way(tensors, "convolution", "NXC").problem
    name = "x64:gemm:jit"
    assert forbidden(name, gaps, (3, 7, 2)) is not None
    assert forbidden(name, gaps, (3, 2, 0)) is None
    assert forbidden(name, dense, (3, 7, 2)) is None


@pytest.mark.parametrize("operation", OPERATIONS)
def test_layouts_of_one_channel_are_not_mixed_up(operation: str) -> None:
    """Channels first and last are the same memory then, but not the same weights' layout."""
    geometry = CURATED["one_image"]
    plans = []
    for data_format in FORMATS:
        way = Way(geometry.integers("f32"), operation, data_format)
        # All are decided before the first primitive is made.
        plans += [(way, part) for part in list(way.parts())]
    for way, plan in [(way, NativePlan(runtime(), part)) for way, part in plans]:
        way.check(plan)


def test_a_choice_is_taken_as_it_is() -> None:
    """Each candidate's own choice names it, and no other."""
    way = Way(CURATED["2d_1x1_strided"].integers("f32"), "conv_transpose_backward_data", "NCX")
    for part in way.parts():
        again = part_of(runtime(), way.problem, Wish(part.choice))
        assert again is not None
        assert again.choice == part.choice


@pytest.mark.parametrize(("transposed", "kernel", "size"), [(False, 3, 14), (True, 4, 8)])
def test_weights_in_bfloat16_are_computed_in_bfloat16(
    transposed: bool, kernel: int, size: int
) -> None:
    """What oneDNN wants besides, sums in float32 for each thread, is no reason to leave it."""
    text = f"mb16ic256ih{size}oc256kh{kernel}ph1" + ("sh2" if transposed else "")
    descriptor = parse_descriptor(text, transposed=transposed)
    plan = Benchdnn(descriptor, "BWD_W", "bf16", "NCX").plan("onednn")
    (job,) = plan._bound.jobs
    native = [f for f in FORMULATIONS if list(_implementations(job.problem, Choice("bf16", f)))]
    assert ("through f32" in repr(plan)) == (not native)
    if native:
        assert any(
            part.choice.compute_dtype == "bf16" for part in candidates(runtime(), job.problem)
        )


def _implementations(problem: Problem, choice: Choice) -> Iterator[str]:
    """Names of all that oneDNN has for a choice of formulation and type."""
    for part in selection._parts(runtime(), problem, choice):
        if not is_reference(part.choice.implementation):
            yield part.choice.implementation
