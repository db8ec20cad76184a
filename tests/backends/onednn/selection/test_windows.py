"""What a primitive sees of the tensor that strides step over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.select import candidates
from onednn_py.backends.onednn.selection.windows import (
    layout_seen,
    leaves_elements_out,
    spatial_sizes,
    window_of,
)
from onednn_py.dispatch.general_call import run
from onednn_py.dispatch.settings import settings
from onednn_py.problem.call_spec import call_spec
from onednn_py.problem.problem import Problem, TensorLayout
from tests.support.candidate_runs import CandidateRun
from tests.support.cases import Case, arguments_by_name, case
from tests.support.requirements import needs_onednn


def problem(geometry: Case, operation: str = "convolution_backward_data") -> Problem:
    return CandidateRun(geometry.integers("f32"), operation, "NCX").problem


def test_a_1x1_kernel_sees_every_stride_th_element() -> None:
    strided = problem(case((9, 8), 1, 2))
    window = window_of(strided, "strided_1x1")
    assert window == (slice(0, 9, 2), slice(0, 7, 2))
    assert leaves_elements_out(strided, window)
    assert not leaves_elements_out(problem(case((9, 8), 1, 2), "convolution"), window)


def test_strided_1x1_is_for_strided_1x1_kernels() -> None:
    assert window_of(problem(case((9, 8), 1)), "strided_1x1") is None
    assert window_of(problem(case((9, 8), 3, 2)), "strided_1x1") is None
    assert window_of(problem(case((9, 8), 1, 2, pads=1)), "strided_1x1") is None
    assert window_of(problem(case((9, 8), 1)), "matmul") == (slice(0, 9, 1), slice(0, 8, 1))


@pytest.mark.parametrize(("size", "seen"), [(12, 12), (13, 13), (14, 12)])
def test_a_tail_of_a_whole_stride_is_left_out(size: int, seen: int) -> None:
    """oneDNN refuses it. A smaller tail stays, as what strides leave over."""
    geometry = case((size,), 3, 3)
    asked = problem(geometry)
    asked = asked if size < 14 else _with_tail(asked)
    window = window_of(asked, "direct")
    assert window == (slice(0, seen),)
    assert leaves_elements_out(asked, window) == (seen < size)


def _with_tail(asked: Problem) -> Problem:
    """Return the problem with an element more behind the windows."""
    (end,) = asked.pads_end
    assert end == -2
    images, channels, size = asked.src.shape
    src = TensorLayout((images, channels, size + 1), asked.src.strides)
    return replace(asked, src=src, pads_end=(end - 1,))


def test_a_layout_seen_is_that_of_a_view() -> None:
    array = np.zeros((2, 3, 9, 8), np.float32)
    layout = TensorLayout(array.shape, tuple(step // 4 for step in array.strides))
    window = (slice(0, 9, 2), slice(0, 7, 3))
    view = array[:, :, window[0], window[1]]
    seen = layout_seen(layout, window)
    assert seen.shape == view.shape
    assert seen.strides == tuple(step // 4 for step in view.strides)


def test_spatial_sizes_are_of_the_side_of_the_strides() -> None:
    geometry = case((9, 8), 3, 2)
    assert spatial_sizes(problem(geometry)) == (9, 8)
    transposed = problem(geometry, "conv_transpose")
    assert spatial_sizes(transposed) == transposed.dst.shape[2:]


@needs_onednn
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("operation", ["convolution_backward_data", "conv_transpose"])
@pytest.mark.parametrize("groups", [1, 2, 16])
@pytest.mark.parametrize("axes", [1, 3])
@pytest.mark.parametrize("kernel", [(2,), (1, 2), (2, 3), (1, 2, 2), (1, 1, 2), (2, 1, 3)])
def test_every_candidate_writes_elements_beyond_the_windows(
    kernel: tuple[int, ...], axes: int, groups: int, operation: str, stride: int
) -> None:
    """Dilations allow an output_padding of whole strides. No window meets what it adds.

    Depthwise kernels take no dilations, so that some problems have them along the depth alone.
    """
    rng = np.random.default_rng(0)
    extra = tuple((stride + 1) * (axis < axes) for axis in range(len(kernel)))
    tensors = {
        "dst" if operation == "convolution_backward_data" else "src": (2, 16, 3, 5, 4),
        "weights": (16, 16 // groups, *kernel),
    }
    arrays = [
        rng.integers(-3, 4, shape[: len(kernel) + 2]).astype(np.float32)
        for shape in tensors.values()
    ]
    keywords = {
        "strides": stride,
        "dilations": tuple(1 + more for more in extra),
        "groups": groups,
        "data_format": "NCX",
        "weights_format": "OIX" if operation == "convolution_backward_data" else "IOX",
    }
    plain = getattr(onednn_py, operation)(*arrays, **keywords, backend="numpy")
    expected = np.pad(plain, [(0, 0), (0, 0), *((0, more) for more in extra)])
    padded = arguments_by_name(operation, arrays, keywords | {"output_padding": extra})
    spec = call_spec(operation, padded)
    (sub_problem,) = spec.sub_problems({})
    found = list(candidates(current_engine(), sub_problem.problem))
    assert found
    for candidate in found:
        plan = OneDNNPlan(current_engine(), candidate)
        outs = [np.full(expected.shape, 77, np.float32)]
        inputs = dict(zip(spec.inputs, arrays, strict=True))
        (actual,) = run(spec, inputs, outs, settings(), plan.execute)
        assert np.array_equal(actual, expected), candidate.choice
