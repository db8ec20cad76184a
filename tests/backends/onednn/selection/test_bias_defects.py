"""Defects in the bias of transposed convolutions: they never run where it is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.defects import forbidden
from tests.support.candidate_runs import CandidateRun, sub_problems
from tests.support.cases import Case, case
from tests.support.requirements import needs_onednn

# Layers of generators, in the roles of the convolution that they turn round, whose outputs are
# the transposed convolution's inputs.
DEEP = (
    case((8, 8), 4, 2, pads=1, minibatch=1, inputs=24, outputs=512),
    case((6, 7), 3, 2, pads=1, minibatch=1, inputs=16, outputs=768),
    case(9, 5, 2, pads=2, minibatch=2, inputs=17, outputs=1024),
)


def test_a_reference_transposed_convolution_adds_no_bias_to_a_dst_with_gaps() -> None:
    """`conv:any+ref` writes behind its scratchpad there; chunks along channels have such gaps."""
    src, weights = np.ones((2, 4, 4, 3), np.float32), np.ones((2, 2, 5, 3), np.float32)
    (one,) = sub_problems(onednn_py.conv_transpose, src, weights, np.ones(5, np.float32))
    dense = one.problem
    gaps = replace(dense, dst=replace(dense.dst, strides=tuple(2 * s for s in dense.dst.strides)))
    assert forbidden("conv:any+ref:any", dense, (3, 2, 0)) is None
    assert forbidden("conv:any+ref:any", gaps, (3, 2, 0)) is not None
    assert forbidden("conv:any+jit:avx2", gaps, (3, 2, 0)) is None
    assert forbidden("conv:any+ref:any", replace(gaps, bias=None), (3, 2, 0)) is None


def test_biased_transposed_convolutions_with_strides_are_in_the_table() -> None:
    name = "brg_conv:any+brgconv_strided:avx512_core"
    src, weights = np.ones((1, 4, 4, 512), np.float32), np.ones((4, 4, 64, 512), np.float32)
    given = src, weights, np.ones(64, np.float32)
    (one,) = sub_problems(onednn_py.conv_transpose, *given, strides=2)
    assert "bias" in forbidden(name, one.problem, (3, 2, 0)).harm
    assert forbidden("conv:any+jit:avx512_core", one.problem, (3, 2, 0)) is None
    assert forbidden(name, replace(one.problem, bias=None), (3, 2, 0)) is None
    thin = src[..., :64], given[1][..., :64], given[2]
    (few,) = sub_problems(onednn_py.conv_transpose, *thin, strides=2)
    assert forbidden(name, few.problem, (3, 2, 0)) is None
    (plain,) = sub_problems(onednn_py.convolution_backward_data, *given[:2], (10, 10), strides=2)
    assert forbidden(name, plain.problem, (3, 2, 0)) is None


@needs_onednn
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("geometry", DEEP)
def test_deep_transposed_convolutions_with_a_bias(
    geometry: Case, dtype: str, data_format: str
) -> None:
    tensors = geometry.integers(dtype)
    tensors.check("conv_transpose", "onednn")
    run = CandidateRun(tensors, "conv_transpose", data_format)
    assert run.problem.bias is not None
    for candidate in run.candidates():
        run.check(OneDNNPlan(current_engine(), candidate))
