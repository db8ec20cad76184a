"""Known defects of oneDNN: affected implementations never run, and gradients are right."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import descriptors
from onednn_py.backends.onednn.selection.decide import decide
from onednn_py.backends.onednn.selection.defects import DEFECTS, forbidden, is_reference
from onednn_py.backends.onednn.selection.descriptors import implementations
from onednn_py.problem.operations import OPERATIONS
from onednn_py.problem.problem import Direction, Problem
from onednn_py.problem.recipe import recipe
from onednn_py.system.memory_pool import Block, pool
from tests.support.candidate_runs import CandidateRun, StridedCandidateRun
from tests.support.cases import Case, case
from tests.support.memory_layouts import gaps
from tests.support.requirements import needs_onednn


def problem(operation: str, shapes: dict, **attributes) -> Problem:
    """Return a problem on dense float32 tensors, in the roles of a convolution."""
    tensors = {name: onednn_py.TensorSpec(shape, np.float32) for name, shape in shapes.items()}
    return recipe(OPERATIONS[operation], tensors | attributes).problem({}).as_convolution()


def strided_1x1(inputs: int, strides: int = 2) -> Problem:
    return problem(
        "convolution_backward_weights",
        {"src": (32, 32, 32, inputs), "diff_dst": (32, 32 // strides, 32 // strides, 8)},
        strides=strides,
        weights_format="XIO",
        weights_shape=(1, 1, inputs, 8),
    )


def wide_row(columns: int, layout: str) -> Problem:
    shapes = {"src": (1, columns + 2, 4), "diff_dst": (1, columns, 4)}
    if layout == "NCX":
        shapes = {name: (1, 4, size) for name, (_, size, _) in shapes.items()}
    return problem(
        "convolution_backward_weights", shapes, data_format=layout, weights_shape=(3, 4, 4)
    )


def test_code_is_not_generated_for_each_column() -> None:
    wide = wide_row(2**14 + 1, "NXC")
    assert forbidden("jit:avx2", wide, (3, 2, 0)).harm.startswith("creating")
    assert forbidden("jit:avx2", wide_row(2**14, "NXC"), (3, 2, 0)) is None
    assert forbidden("jit:avx2", wide_row(2**14 + 1, "NCX"), (3, 2, 0)) is None
    assert forbidden("x64:gemm:jit", wide, (3, 2, 0)) is None


@needs_onednn
def test_wide_rows_are_planned_at_once() -> None:
    """In a second or two, where the code of each column took minutes and gigabytes."""
    src, diff_dst = (onednn_py.TensorSpec((1, n, 4), "f4") for n in (2**27 + 2, 2**27))
    plan = onednn_py.plan("convolution_backward_weights", src, diff_dst, (3, 4, 4))
    assert plan.backend == "onednn"


@pytest.mark.parametrize(
    "name",
    [
        "jit_1x1:avx512_core",
        "jit_1x1:avx2",
        "jit_avx2_1x1:avx2",
        "conv:any+jit_1x1:avx512_core",
        "jit_avx512_common_1x1:avx512",
    ],
)
def test_6035_is_in_the_table(name: str) -> None:
    for inputs in (1, 4, 8, 15, 24):
        assert forbidden(name, strided_1x1(inputs), (3, 2, 0)).reference.endswith("#6035")
    assert forbidden(name, strided_1x1(16), (3, 2, 0)) is None
    assert forbidden(name, strided_1x1(4, strides=1), (3, 2, 0)) is None
    assert forbidden("jit:avx2", strided_1x1(4), (3, 2, 0)) is None


def test_5568_is_in_the_table() -> None:
    affected = problem(
        "conv_transpose_backward_data",
        {"diff_dst": (1, 9, 9, 4), "weights": (2, 2, 4, 4)},
        strides=3,
        output_padding=1,
        weights_format="XOI",
    )
    affected = replace(affected, dtype="bf16")
    name = "conv:any+brgconv:avx512_core_amx"
    assert forbidden(name, affected, (3, 2, 0)).reference.endswith("#5568")
    assert forbidden(name, affected, (3, 13, 0)) is None
    assert forbidden("brgconv:avx512_core_bf16", affected, (3, 2, 0)) is None
    assert forbidden(name, replace(affected, strides=(2, 2)), (3, 2, 0)) is None
    assert forbidden(name, replace(affected, dtype="f32"), (3, 2, 0)) is None


@pytest.mark.parametrize("name", ["jit_1x1:avx512_core_amx", "conv:any+jit_1x1:avx512_core_amx"])
def test_1x1_kernels_of_amx_with_three_tiles_of_pixels_are_in_the_table(name: str) -> None:
    def forward(*size: int) -> Problem:
        shapes = {"src": (2, *size, 64), "weights": (*(1 for _ in size), 64, 32)}
        return replace(problem("convolution", shapes, weights_format="XIO"), dtype="bf16")

    for size in ((13, 3), (27,), (3, 3, 4), (48,)):
        assert "three" in forbidden(name, forward(*size), (3, 2, 0)).harm
        assert forbidden("brgconv_1x1:avx512_core_amx", forward(*size), (3, 2, 0)) is None
    for size in ((13, 4), (30,), (5, 11), (24,), (14, 14)):
        assert forbidden(name, forward(*size), (3, 2, 0)) is None
    other = replace(forward(13, 3), dtype="f32")
    assert forbidden(name, other, (3, 2, 0)) is None


def wide_pads(transposed: bool = False, groups: int = 1, stride: int = 2) -> Case:
    """mb2ic16iw80oc16ow40kw3sw2dw15pw16, on 40 columns of dst."""
    return case((80,), 3, stride, 16, pads=16, groups=groups, inputs=16, outputs=16, minibatch=2)


def test_strided_weights_with_wide_pads_are_in_the_table() -> None:
    run = CandidateRun(wide_pads().integers("f32"), "convolution_backward_weights", "NCX")
    for name in ("jit:avx512_core", "conv:any+jit:avx512_core"):
        assert "wrong" in forbidden(name, run.problem, (3, 2, 0)).harm
    assert forbidden("x64:gemm:jit", run.problem, (3, 2, 0)) is None
    forward = replace(run.problem, direction=Direction.FORWARD)
    assert forbidden("jit:avx512_core", forward, (3, 2, 0)) is None
    unstrided = CandidateRun(
        wide_pads(stride=1).integers("f32"), "convolution_backward_weights", "NCX"
    )
    assert forbidden("jit:avx512_core", unstrided.problem, (3, 2, 0)) is None


@needs_onednn
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("groups", [1, 2, 16])
@pytest.mark.parametrize("family", ["convolution", "conv_transpose"])
def test_strided_weights_with_wide_pads(family: str, groups: int, data_format: str) -> None:
    run = CandidateRun(
        wide_pads(groups=groups).integers("f32"), f"{family}_backward_weights", data_format
    )
    for candidate in run.candidates():
        run.check(OneDNNPlan(current_engine(), candidate))
    run.check(OneDNNPlan(current_engine(), decide(current_engine(), run.problem)))


@needs_onednn
@pytest.mark.parametrize("operation", ["convolution", "conv_transpose_backward_data"])
def test_no_candidate_writes_a_fourth_tile(operation: str) -> None:
    """Gaps between elements show what is written beyond them."""
    tensors = case((13, 3), 1, minibatch=2, inputs=64, outputs=64).integers("bf16")
    for run in (
        CandidateRun(tensors, operation, "NXC"),
        StridedCandidateRun(tensors, operation, "NXC", gaps),
    ):
        for candidate in run.candidates():
            assert "jit_1x1:avx512_core_amx" not in candidate.choice.implementation
            run.check(OneDNNPlan(current_engine(), candidate))


def test_every_defect_says_where_it_is_reported() -> None:
    for defect in DEFECTS:
        assert re.match(
            r"(uxlfoundation/oneDNN|pytorch/pytorch)(#\d+|@[0-9a-f]+)|not reported upstream; \S+",
            defect.reference,
        )
        assert defect.harm


@pytest.mark.parametrize("inputs", [1, 3, 4, 7, 12, 20])
@pytest.mark.parametrize("transposed", [False, True])
def test_strided_1x1_weights_gradients(transposed: bool, inputs: int, onednn: str) -> None:
    """mb32ic4ih32oc8oh16kh1sh2ph0 of #6035, in axb layouts, and with src and dst exchanged."""
    geometry = case((32, 32), 1, 2, minibatch=32, inputs=inputs, outputs=8)
    operation = "conv_transpose" if transposed else "convolution"
    operation += "_backward_weights"
    tensors = geometry.integers("f32")
    for data_format, weights_first in (("NXC", False), ("NCX", True)):
        tensors.check(operation, onednn, data_format=data_format, weights_first=weights_first)
        positional, keywords = tensors.arguments(operation, data_format, weights_first)
        plan = onednn_py.plan(
            getattr(onednn_py, operation), *positional, **keywords, backend=onednn
        )
        assert plan.backend == "onednn"
        assert "1x1" not in plan.implementation
        assert not is_reference(plan.implementation)


@pytest.mark.parametrize("transposed", [False, True])
def test_bf16_weights_where_no_window_lies_inside_src(
    transposed: bool, onednn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """jit_bf16 reads scratchpad that it never wrote; a poisoned workspace would show that."""
    operation = ("conv_transpose" if transposed else "convolution") + "_backward_weights"
    acquire = pool.acquire

    def poisoned(nbytes: int) -> Block:
        block = acquire(nbytes)
        block[:] = 0xA5
        return block

    monkeypatch.setattr(pool, "acquire", poisoned)
    for geometry in (
        case(1, 2, 2, pads=(0, 1), minibatch=1, inputs=16, outputs=16),
        case((5, 2), 3, 3, pads=1, minibatch=2, inputs=32, outputs=16),
        case((2, 4, 4), 3, pads=1, inputs=16, outputs=16),
        case((4, 5, 5), 5, pads=2, inputs=16, outputs=16),
    ):
        tensors = geometry.integers("bf16")
        positional, keywords = tensors.arguments(operation, "NCX", True)
        function = getattr(onednn_py, operation)
        plan = onednn_py.plan(function, *positional, **keywords, backend=onednn)
        assert not re.search("jit_bf16:|amx", plan.implementation)
        tensors.check(operation, onednn)


# (kernel, stride, pad in front, pad behind, depth of src): all problems with these kernels and
# strides that `jit:avx512_core` of v3.2.0 computes wrongly, found by the program in docs/native.md.
SMALL = (
    [(4, 2, *rest) for rest in ((3, 1, 2), (3, 1, 4), (3, 2, 3), (3, 3, 2), (3, 3, 4))]
    + [(5, 1, 4, 1, 2), (5, 2, 3, 1, 3), (5, 2, 3, 1, 5), (5, 2, 3, 3, 5), (5, 2, 4, 3, 2)]
    + [(5, 3, 4, 4, 3), (6, 1, 5, 1, 3), (6, 2, 3, 3, 4), (6, 3, 4, 5, 3)]
    + [(7, 1, 4, 1, 4), (7, 1, 6, 3, 2), (7, 2, 3, 3, 7), (7, 2, 5, 1, 7), (7, 2, 6, 5, 2)]
    + [(7, 3, 4, 5, 4), (7, 3, 5, 5, 3)]
)
SOUND = [(3, 1, 1, 1, 2), (3, 2, 1, 1, 1), (7, 2, 3, 3, 8), (5, 1, 0, 4, 3), (1, 1, 0, 0, 1)]


def small_volume(kernel: int, stride: int, begin: int, end: int, depth: int) -> Case:
    return case(
        (depth, 8, 8),
        (kernel, 3, 3),
        (stride, 1, 1),
        pads=((begin, 1, 1), (end, 1, 1)),
        inputs=16,
        outputs=16,
    )


@pytest.mark.parametrize("numbers", SMALL + SOUND)
def test_small_volumes_are_in_the_table(numbers: tuple[int, ...]) -> None:
    kernel, stride, begin, end, depth = numbers
    windows = (depth + begin + end - kernel) // stride + 1
    gradient = problem(
        "convolution_backward_weights",
        {"src": (1, depth, 8, 8, 16), "diff_dst": (1, windows, 8, 8, 16)},
        strides=(stride, 1, 1), pads_begin=(begin, 1, 1), pads_end=(end, 1, 1),
        weights_format="XIO", weights_shape=(kernel, 3, 3, 16, 16),
    )  # fmt: skip
    for name in ("jit:avx512_core", "conv:any+jit:avx512_core"):
        assert (forbidden(name, gradient, (3, 2, 0)) is not None) == (numbers in SMALL)
    for name in ("x64:gemm:jit", "jit:avx2", "jit_bf16:avx512_core_bf16"):
        assert forbidden(name, gradient, (3, 2, 0)) is None


@needs_onednn
@pytest.mark.parametrize("family", ["convolution", "conv_transpose"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_weights_of_small_volumes(family: str, dtype: str) -> None:
    for numbers in SMALL + SOUND:
        tensors = small_volume(*numbers).integers(dtype)
        tensors.check(f"{family}_backward_weights", "onednn")
    low = case((4, 5, 4), (1, 7, 1), (1, 2, 1), pads=((0, 3, 0), (0, 0, 0)), inputs=16, outputs=16)
    low.integers(dtype).check(f"{family}_backward_weights", "onednn")


@needs_onednn
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_the_first_layer_of_a_video_network(data_format: str) -> None:
    """7 x 7 x 7 with stride 2 on 7 frames, where oneDNN's own choice crashes or is wrong."""
    rng = np.random.default_rng(0)
    shapes = [(2, 7, 32, 32, 3), (2, 4, 16, 16, 64)]
    tensors = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
    if data_format == "NCX":
        tensors = [np.ascontiguousarray(np.moveaxis(tensor, -1, 1)) for tensor in tensors]
    gradients = [
        onednn_py.convolution_backward_weights(
            *tensors, (7, 7, 7, 3, 64), strides=2, pads_begin=3, pads_end=3,
            data_format=data_format, backend=backend,
        )
        for backend in ("onednn", "numpy")
    ]  # fmt: skip
    np.testing.assert_array_equal(*gradients)


@needs_onednn
def test_the_search_passes_over_forbidden_implementations(
    monkeypatch: pytest.MonkeyPatch, fresh_cache: None
) -> None:
    """With every implementation forbidden the problem still gets its gradient, from NumPy."""
    tensors = case((9, 9), 3, inputs=21).integers("f32")
    positional, keywords = tensors.arguments("convolution_backward_data", "NCX", True)

    def planned() -> onednn_py.Plan:
        function = onednn_py.convolution_backward_data
        return onednn_py.plan(function, *positional, **keywords, backend="onednn")

    refused = set()

    def first_two(name, problem, version):
        if len(refused) < 2:
            refused.add(name)
        return DEFECTS[0] if name in refused else None

    monkeypatch.setattr(descriptors, "forbidden", first_two)
    implementation = planned().implementation
    assert len(refused) == 2
    assert implementation not in refused
    tensors.check("convolution_backward_data", "onednn")

    onednn_py.cache_clear()
    monkeypatch.setattr(descriptors, "forbidden", lambda *_: DEFECTS[0])
    assert planned().backend == "numpy"
    tensors.check("convolution_backward_data", "onednn")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ref:any", True),
        ("ref_int8:any", True),
        ("conv:any+ref:any", True),
        ("jit:avx2", False),
        ("x64:gemm:jit", False),
        ("gemm:ref", False),
    ],
)
def test_reference_implementations_are_known_by_name(name: str, expected: bool) -> None:
    assert is_reference(name) is expected


def weights_of(outputs: int, data_format: str = "NXC", groups: int = 1) -> Problem:
    src, dst = (2, 9, 9, 8 * groups), (2, 9, 9, outputs * groups)
    if data_format == "NCX":
        src, dst = (src[0], src[3], *src[1:3]), (dst[0], dst[3], *dst[1:3])
    return problem(
        "convolution_backward_weights",
        {"src": src, "diff_dst": dst},
        pads_begin=1,
        pads_end=1,
        groups=groups,
        data_format=data_format,
        weights_format="XIO",
        weights_shape=(3, 3, 8, outputs * groups),
    )


def test_avx2_weights_with_an_incomplete_block_of_channels_are_in_the_table() -> None:
    for outputs in (1, 2, 3, 5, 6, 7, 9, 15):
        for affected in (weights_of(outputs), weights_of(outputs, groups=3)):
            defect = forbidden("jit:avx2", affected, (3, 2, 0))
            assert defect is not None
            assert "40603d8" in defect.reference
            assert forbidden("jit:avx2", affected, (3, 3, 0)) is None
            assert forbidden("jit:avx512_core", affected, (3, 2, 0)) is None
    for outputs in (4, 8, 12, 16):
        assert forbidden("jit:avx2", weights_of(outputs), (3, 2, 0)) is None
    assert forbidden("jit:avx2", weights_of(3, "NCX"), (3, 2, 0)) is None


@needs_onednn
@pytest.mark.parametrize(("activations", "data_format"), [("nxc", "NCX"), ("given", "NXC")])
def test_such_weights_are_guarded_in_the_layout_that_a_choice_names(
    activations: str, data_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With "nxc", the implementation is given channels last whatever the caller has."""
    seen = []

    def noted(name: str, given: Problem, version: tuple[int, int, int]) -> None:
        seen.append(forbidden("jit:avx2", given, (3, 2, 0)))

    monkeypatch.setattr(descriptors, "forbidden", noted)
    for outputs, is_affected in ((3, True), (8, False)):
        seen.clear()
        assert list(
            implementations(current_engine(), weights_of(outputs, data_format), activations)
        )
        assert {defect is not None for defect in seen} == {is_affected}


@needs_onednn
def test_an_extreme_kernel_is_planned_at_once() -> None:
    """Creating brgconv_strided would take a minute."""
    src, weights = (onednn_py.TensorSpec(shape, np.float32) for shape in ((1, 9, 1), (1024, 1, 1)))
    plan = onednn_py.plan(onednn_py.conv_transpose, src, weights, strides=256)
    assert "brgconv_strided" not in plan.implementation
