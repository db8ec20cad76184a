"""Weights gradients on a diff_dst with zeros beside its channels: exact, where it is worth it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.selection import select as select_module
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.padded_channels import (
    COPIED_ONE_BY_ONE,
    LOADED_CHANNELS,
    copy_beside_zeros,
    is_worth_padding,
    padded,
)
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.select import select
from tests.support.candidate_runs import FORMATS, CandidateRun, StridedCandidateRun
from tests.support.cases import Case, case
from tests.support.memory_layouts import channels_outermost, crop, images_innermost
from tests.support.requirements import needs_onednn

FAMILIES = ("convolution", "conv_transpose")


def with_channels(channels: int) -> dict[str, Case]:
    """Return geometries of so many outputs, in the roles of a convolution."""
    numbers: dict[str, Any] = {"inputs": 16, "outputs": channels}
    return {
        "3x3": case((9, 8), 3, pads=1, minibatch=3, **numbers),
        "stride": case((9, 8), 3, 2, pads=(1, 0), **numbers),
        "tail": case((11, 11), 2, 3, pads=(0, 1), **numbers),
        "line": case(40, 3, 2, 2, **numbers),
        "volume": case((6, 5, 4), (1, 2, 3), **numbers),
        "1x1": case((6, 5), 1, 2, **numbers),
    }


def run_of(geometry: Case, family: str, data_format: str = "NCX", dtype: str = "f32") -> Any:
    return CandidateRun(geometry.integers(dtype), f"{family}_backward_weights", data_format)


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("channels", [1, 2, 3, 5, COPIED_ONE_BY_ONE + 1, 18])
def test_every_bit(channels: int, family: str, data_format: str) -> None:
    for geometry in with_channels(channels).values():
        for dtype in ("f32", "bf16", "f16"):
            run = run_of(geometry, family, data_format, dtype)
            for activations in ("any", "given" if data_format == "NXC" else "nxc"):
                run.check_formulation("padded_channels", activations)


@needs_onednn
@pytest.mark.parametrize("form", [crop, channels_outermost, images_innermost])
def test_tensors_in_any_order(form: Any) -> None:
    for channels in (3, 13):
        tensors = with_channels(channels)["3x3"].integers("f32")
        run = StridedCandidateRun(tensors, "convolution_backward_weights", "NCX", form)
        run.check_formulation("padded_channels")


def test_problems_that_lack_no_channels() -> None:
    for channels in range(1, 10):
        problem = run_of(with_channels(channels)["3x3"], "convolution").problem
        found = padded(problem)
        if channels % LOADED_CHANNELS == 0:
            assert found is None
            continue
        assert found is not None
        assert found.dst.shape[1] == found.weights.shape[1] == -(-channels // 4) * 4
        assert found.dst.strides[1] == 1
        assert found.bias is not None
        assert found.bias.shape == (found.dst.shape[1],)
        assert (found.src, found.kernel) == (problem.src, problem.kernel)


def test_other_directions_and_groups_are_left() -> None:
    geometry = with_channels(3)["3x3"]
    for operation in ("convolution", "convolution_backward_data"):
        problem = CandidateRun(geometry.integers("f32"), operation, "NCX").problem
        assert formulate(problem, "f32", "padded_channels") is None
    in_groups = case((9, 8), 3, groups=2, inputs=16, outputs=6)
    assert formulate(run_of(in_groups, "convolution").problem, "f32", "padded_channels") is None


def test_there_are_no_chunks() -> None:
    problem = run_of(with_channels(3)["3x3"], "convolution").problem
    assert formulate(problem, "f32", "padded_channels", chunks=3) is None


def engine(cpu_isa: str, version: tuple[int, int, int]) -> Any:
    return SimpleNamespace(library=SimpleNamespace(cpu_isa=cpu_isa, version=version))


@pytest.mark.parametrize("family", FAMILIES)
def test_where_it_is_worth_it(family: str) -> None:
    """Kernels of AVX-512 take any channels, and so do those of AVX2 from oneDNN 3.3 on."""
    problem = run_of(with_channels(3)["stride"], family).problem
    assert is_worth_padding(engine("avx2", (3, 2, 0)), problem)
    assert not is_worth_padding(engine("avx512_core", (3, 2, 0)), problem)
    assert not is_worth_padding(engine("avx2", (3, 3, 0)), problem)
    whole = run_of(with_channels(4)["stride"], family).problem
    assert not is_worth_padding(engine("avx2", (3, 2, 0)), whole)


@needs_onednn
def test_candidates_have_it_only_where_it_is_worth_it() -> None:
    run = run_of(with_channels(3)["3x3"], "convolution", "NXC")
    found = {one.choice.formulation for one in run.candidates()}
    assert ("padded_channels" in found) == is_worth_padding(current_engine(), run.problem)


@pytest.mark.parametrize("channels", [3, COPIED_ONE_BY_ONE + 2])
def test_the_copy(channels: int) -> None:
    values = np.arange(2 * channels * 5, dtype=np.float32).reshape(2, channels, 5)
    target = np.full((2, channels + 1, 5), np.nan, np.float32)
    copy_beside_zeros(target, values)
    np.testing.assert_array_equal(target[:, :channels], values)
    np.testing.assert_array_equal(target[:, channels], 0)


def test_bias_apart_is_not_padded() -> None:
    problem = run_of(with_channels(3)["3x3"], "convolution").problem
    found = padded(replace(problem, bias=None))
    assert found is not None
    assert found.bias is None


@needs_onednn
def test_a_preference_is_passed_over_where_it_is_not_worth_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of wisdom from another CPU or another version of oneDNN, for one."""
    problem = run_of(with_channels(3)["3x3"], "convolution", "NXC").problem
    preference = Preference(Choice("f32", "padded_channels"))
    for is_worth_it in (True, False):
        monkeypatch.setattr(select_module, "is_worth_padding", lambda *_, found=is_worth_it: found)
        found = select(current_engine(), problem, [preference])
        assert (found.choice.formulation == "padded_channels") == is_worth_it
