"""Runs of elements that oneDNN's generated reorder leaves unwritten are reordered in two parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onednn_py.backends import FALLBACK
from onednn_py.backends.onednn.autotune import integer_tensors
from onednn_py.backends.onednn.binding.reorders import parts_of_run
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.equivalents import equivalent
from onednn_py.backends.onednn.selection.select import candidates
from onednn_py.problem.call_spec import SubProblem
from onednn_py.problem.problem import Problem, TensorLayout
from tests.support.requirements import needs_onednn
from tests.support.rules import problem_of

pytestmark = needs_onednn

# Longer than the first cache of any CPU, no whole number of blocks of 16 elements, and no prime.
LENGTH = 99_999


def lengths(
    shape: tuple[int, ...], read: tuple[int, ...], written: tuple[int, ...], dtype: str = "f32"
) -> list[tuple[int, int, int]]:
    """Return the bytes that each part of a reorder reads, and where its ends begin."""
    engine = current_engine()
    source = engine.strided_desc(shape, "f32", read)
    target = engine.strided_desc(shape, dtype, written)
    parts = parts_of_run(engine, source, target)
    return [(engine.nbytes(part.source), part.source_offset, part.target_offset) for part in parts]


def assert_all_candidates_give(tensors: dict[str, np.ndarray], problem: Problem) -> set[str]:
    """Fail unless all candidates give the result in the tensors; return their formulations."""
    result = tensors[problem.result_role]
    expected = result.astype(np.float32)
    assert np.count_nonzero(expected) > 10_000
    formulations = set()
    for candidate in candidates(current_engine(), problem):
        result.fill(7)
        OneDNNPlan(current_engine(), candidate).execute(tensors)
        np.testing.assert_array_equal(result.astype(np.float32), expected)
        formulations.add(candidate.choice.formulation)
    assert formulations
    return formulations


@pytest.mark.parametrize("step", [4, 8, 12, 64])
def test_a_run_has_whole_blocks_and_a_rest(step: int) -> None:
    shape, read = (1, 3, 4132), (3 * 4132, 4132, 1)
    written = (3 * 4132 * step, 4132 * step, step)
    found = lengths(shape, read, written)
    assert found == [(4 * 12384, 0, 0), (4 * 12, 4 * 12384, 4 * step * 12384)]


def test_offsets_are_bytes_of_each_type() -> None:
    found = lengths((1, 1, LENGTH), (LENGTH, LENGTH, 1), (4 * LENGTH, 4 * LENGTH, 4), "bf16")
    assert found == [(4 * 99_984, 0, 0), (4 * 15, 4 * 99_984, 2 * 4 * 99_984)]


@pytest.mark.parametrize(
    ("shape", "read", "written"),
    [
        ((1, 1, 4112), (4112, 4112, 1), (16448, 16448, 4)),  # whole blocks
        ((1, 1, 1001), (1001, 1001, 1), (4004, 4004, 4)),  # short
        ((1, 1, LENGTH), (LENGTH, LENGTH, 1), (3 * LENGTH, 3 * LENGTH, 3)),  # another step
        ((1, 1, LENGTH), (LENGTH, LENGTH, 1), (LENGTH, LENGTH, 1)),  # dense
        ((1, 3, 4132), (12396, 4132, 1), (60000, 20000, 4)),  # gaps between channels
        ((1, 3, 4132), (12396, 1, 3), (49584, 16528, 4)),  # channels last to channels first
        ((1, 1, 1), (1, 1, 1), (4, 4, 4)),
    ],
)
def test_other_reorders_stay_whole(
    shape: tuple[int, ...], read: tuple[int, ...], written: tuple[int, ...]
) -> None:
    assert lengths(shape, read, written) == []


@pytest.mark.parametrize("step", [3, 4, 8])
def test_every_way_to_compute_a_result_of_every_nth_element(step: int) -> None:
    dense = equivalent(problem_of(f"mb1ic4iw{LENGTH}oc3kw3pw1", "FWD_D", "f32", "NCX"), "")
    channel = LENGTH * step
    layout = TensorLayout(dense.dst.shape, (3 * channel, channel, step))
    problem = replace(dense, dst=layout)
    tensors = integer_tensors(problem)
    FALLBACK.plan((SubProblem(problem),)).execute(tensors)
    assert_all_candidates_give(tensors, problem)


@pytest.mark.parametrize(("kernel", "dtype"), [(2, "f32"), (4, "f32"), (6, "f32"), (4, "f16")])
def test_every_way_to_compute_a_data_gradient_with_a_stride_of_four(
    kernel: int, dtype: str
) -> None:
    """Flipped, its phases are written into every fourth column."""
    text = f"mb1ic2iw{4 * 25_003}oc8ow25003kw{kernel}sw4pw{kernel // 5}"
    problem = equivalent(problem_of(text, "BWD_D", dtype, "NCX"), "")
    tensors = integer_tensors(problem)
    FALLBACK.plan((SubProblem(problem),)).execute(tensors)
    assert "flipped" in assert_all_candidates_give(tensors, problem)
