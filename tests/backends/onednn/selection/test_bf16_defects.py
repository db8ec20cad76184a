"""Defects of bfloat16 kernels: they never run where they are wrong, and what runs is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.chunks import Addend
from onednn_py.backends.onednn.selection.decide import decide
from onednn_py.backends.onednn.selection.defects import forbidden
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import CandidateRun
from tests.support.cases import Case, case
from tests.support.requirements import needs_onednn

FOLDED = case((12, 40), 4, 4, inputs=16, outputs=16, minibatch=2)
ODD = case((30,), 1, inputs=3, outputs=5, minibatch=2)
BEHIND = case((9, 8, 30), 2, 2, inputs=8, outputs=16, minibatch=2)
ROWS = case((6, 32), 3, dilations=2, pads=2, groups=4, inputs=32, outputs=32, minibatch=2)
DENSE_ROWS = case((6, 32), 3, dilations=(2, 1), pads=(2, 1), inputs=20, outputs=32, minibatch=2)
SINGLE_PLANES = case((20, 19, 18), 2, pads=1, inputs=48, outputs=16)
CANCELLED = replace(
    case((2, 15), (2, 5), (1, 5), inputs=16, outputs=16, minibatch=1), pads_begin=(0, 2)
)
CANCELLED_LINE = case((9,), 4, 5, pads=(3, 0), inputs=40, outputs=24)
PLANES = case((5, 6, 32), 3, dilations=(1, 2, 1), pads=2, inputs=20, outputs=32, minibatch=1)


def problem_of(geometry: Case, operation: str) -> Problem:
    return CandidateRun(geometry.integers("bf16"), operation, "NXC").problem


def test_strides_that_are_folded_into_channels_are_in_the_table() -> None:
    name = "brgconv:avx512_core_amx"
    for operation in ("convolution", "conv_transpose_backward_data"):
        assert "folded" in forbidden(name, problem_of(FOLDED, operation), (3, 2, 0)).harm
    assert (
        forbidden("brgconv:avx512_core_bf16", problem_of(FOLDED, "convolution"), (3, 2, 0)) is None
    )
    for inputs, stride in ((48, 2), (8, 8), (24, 4)):
        wrong = replace(FOLDED, inputs=inputs, strides=(stride, stride))
        assert forbidden(name, problem_of(wrong, "convolution"), (3, 2, 0)) is not None
    for inputs, stride in ((16, 2), (32, 4), (12, 4), (24, 2), (16, 1)):
        right = replace(FOLDED, inputs=inputs, strides=(stride, stride))
        assert forbidden(name, problem_of(right, "convolution"), (3, 2, 0)) is None
    padded = replace(FOLDED, pads_begin=(1, 1))
    assert forbidden(name, problem_of(padded, "convolution"), (3, 2, 0)) is None


def test_1x1_kernels_over_odd_channels_are_in_the_table() -> None:
    name = "jit_bf16_1x1:avx512_core_bf16"
    for operation in ("convolution", "convolution_backward_data", "conv_transpose"):
        assert "odd" in forbidden(name, problem_of(ODD, operation), (3, 2, 0)).harm
        even = replace(ODD, inputs=4, outputs=6)
        assert forbidden(name, problem_of(even, operation), (3, 2, 0)) is None
    weights = problem_of(ODD, "convolution_backward_weights")
    assert forbidden(name, weights, (3, 2, 0)) is None


def test_planes_that_no_window_meets_are_in_the_table() -> None:
    data = problem_of(BEHIND, "convolution_backward_data")
    for name in ("jit:avx512_core_amx", "jit_deconvolution:avx512_core_amx"):
        assert "unwritten" in forbidden(name, data, (3, 2, 0)).harm
        assert "unwritten" in forbidden(name, problem_of(BEHIND, "conv_transpose"), (3, 2, 0)).harm
        whole = replace(BEHIND, size=(8, 8, 30))
        assert forbidden(name, problem_of(whole, "conv_transpose"), (3, 2, 0)) is None
    assert forbidden("brgconv_strided:avx512_core_amx", data, (3, 2, 0)) is None


def test_windows_with_one_plane_of_their_kernel_are_in_the_table() -> None:
    def is_forbidden(geometry: Case) -> bool:
        problem = problem_of(geometry, "convolution")
        return forbidden("jit:avx512_core_amx", problem, (3, 2, 0)) is not None

    assert is_forbidden(SINGLE_PLANES)
    assert is_forbidden(replace(SINGLE_PLANES, dilations=(3, 3, 3)))
    assert not is_forbidden(replace(SINGLE_PLANES, inputs=32))
    assert not is_forbidden(replace(SINGLE_PLANES, kernel=(3, 3, 3)))
    assert not is_forbidden(replace(SINGLE_PLANES, kernel=(1, 2, 2)))


@pytest.mark.parametrize("name", ["brgconv:avx512_core_bf16", "brg_conv_fwd:avx512_core_fp16"])
def test_pads_that_cancel_each_other_are_in_the_table(name: str) -> None:
    for geometry in (CANCELLED, CANCELLED_LINE):
        for operation in ("convolution", "conv_transpose_backward_data"):
            problem = problem_of(geometry, operation)
            assert "cancel" in forbidden(name, problem, (3, 2, 0)).harm
            assert "cancel" in forbidden(f"conv:any+{name}", problem, (3, 2, 0)).harm
            assert forbidden("brgconv_strided:avx512_core_bf16", problem, (3, 2, 0)) is None
            assert forbidden("brgconv:avx512_core_amx", problem, (3, 13, 0)) is None
            f32 = replace(problem, dtype="f32")
            assert forbidden("brgconv:avx512_core", f32, (3, 2, 0)) is None
            added = Addend.of(f32.as_convolution(), adds=True)
            assert forbidden("brgconv:avx512_core", added, (3, 2, 0)) is not None
    data = problem_of(CANCELLED, "convolution_backward_data")
    assert forbidden(name, data, (3, 2, 0)) is None
    for right in (
        replace(CANCELLED, size=(2, 16)),
        replace(CANCELLED, size=(2, 17), pads_begin=(0, 3)),
        replace(CANCELLED, pads_begin=(0, 0)),
        replace(CANCELLED, size=(15, 2), kernel=(5, 2), strides=(5, 1), pads_begin=(2, 0)),
    ):
        assert forbidden(name, problem_of(right, "convolution"), (3, 2, 0)) is None


def test_weights_with_dilated_rows_are_in_the_table() -> None:
    name, operation = "jit_bf16:avx512_core_bf16", "convolution_backward_weights"
    for geometry in (ROWS, DENSE_ROWS, PLANES):
        assert "dilated" in forbidden(name, problem_of(geometry, operation), (3, 2, 0)).harm
        assert forbidden("x64:gemm:jit", problem_of(geometry, operation), (3, 2, 0)) is None
        data = problem_of(geometry, "convolution_backward_data")
        assert forbidden(name, data, (3, 2, 0)) is None
    for right in (
        replace(DENSE_ROWS, dilations=(1, 2)),
        replace(DENSE_ROWS, inputs=32),
        replace(DENSE_ROWS, size=(6, 27)),
    ):
        assert forbidden(name, problem_of(right, operation), (3, 2, 0)) is None


@needs_onednn
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize(
    ("geometry", "operation"),
    [
        (FOLDED, "convolution"),
        (FOLDED, "conv_transpose_backward_data"),
        (replace(FOLDED, inputs=48, strides=(2, 2), kernel=(2, 2)), "convolution"),
        (CANCELLED, "convolution"),
        (CANCELLED, "conv_transpose_backward_data"),
        (CANCELLED_LINE, "convolution"),
        (CANCELLED_LINE, "conv_transpose_backward_data"),
        (SINGLE_PLANES, "convolution"),
        (SINGLE_PLANES, "conv_transpose_backward_data"),
        (ODD, "convolution"),
        (ODD, "convolution_backward_data"),
        (ODD, "conv_transpose"),
        (BEHIND, "convolution_backward_data"),
        (BEHIND, "conv_transpose"),
        (ROWS, "convolution_backward_weights"),
        (ROWS, "conv_transpose_backward_weights"),
        (DENSE_ROWS, "convolution_backward_weights"),
        (PLANES, "convolution_backward_weights"),
    ],
)
def test_bfloat16_candidates_are_right(geometry: Case, operation: str, data_format: str) -> None:
    run = CandidateRun(geometry.integers("bf16"), operation, data_format)
    for candidate in run.candidates():
        run.check(OneDNNPlan(current_engine(), candidate))
    run.check(OneDNNPlan(current_engine(), decide(current_engine(), run.problem)))
