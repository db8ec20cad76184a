"""Reorders of channels that do not fill their last block are run in parts."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onednn_py.backends.onednn.binding import channel_tails
from onednn_py.backends.onednn.binding.channel_tails import parts_around_tail
from onednn_py.backends.onednn.binding.engine import Engine, Handle
from onednn_py.backends.onednn.binding.layouts import blocks_of, strides_of
from onednn_py.backends.onednn.binding.reorders import ReorderPart
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution import lowering
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.execution.program import Buffer, Program, Step
from onednn_py.errors import OneDNNError
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.formats import dense_strides
from tests.support.candidate_runs import CandidateRun
from tests.support.cases import OPERATIONS, Case, case
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn

Array = np.ndarray[Any, Any]


@cache
def tag_of_blocks(rank: int, block: int) -> int:
    """Return oneDNN's number of the tag of blocks of channels, which differs between versions."""
    engine = current_engine()
    shape = (2, 64, 5, 3, 7)[:rank]
    blocked = (dense_strides(shape)[0], *(step * block for step in dense_strides(shape)[1:]))
    for tag in range(1, 400):
        try:
            desc = desc_by_tag(shape, "f32", tag)
        except OneDNNError:
            continue
        library = engine.library
        if blocks_of(library, desc) == ((block, 1),) and strides_of(library, desc) == blocked:
            return tag
    raise LookupError(f"no tag of rank {rank} has blocks of {block} channels")


def desc_by_tag(shape: tuple[int, ...], dtype: str, tag: int) -> Handle:
    engine = current_engine()
    function, dims = "dnnl_memory_desc_create_with_tag", engine._dims(shape)
    return engine._create("memory_desc", function, len(shape), dims, engine._dtype(dtype), tag)


def in_blocks(shape: tuple[int, ...], dtype: str, block: int) -> Handle:
    """Return the memory descriptor of blocks of channels."""
    return desc_by_tag(shape, dtype, tag_of_blocks(len(shape), block))


def channels_first(shape: tuple[int, ...], dtype: str, gap: int = 0) -> Handle:
    """Return the memory descriptor of channels first, with a gap between images."""
    from_image, *steps = dense_strides(shape)
    return current_engine().strided_desc(shape, dtype, (from_image + gap, *steps))


def program(parts: tuple[ReorderPart, ...]) -> Program:
    """Return what runs the parts of a reorder from one operand to another."""
    engine = current_engine()
    buffers, steps = [], []
    for part in parts:
        read = Buffer(part.source, 0, part.source_offset)
        if part.constant is not None:
            read = Buffer(part.source, constant=part.constant)
        buffers += [read, Buffer(part.target, 1, part.target_offset)]
        primitive = engine.primitive(engine.reorder_desc(part.source, part.target))
        numbers = engine.argument("SRC"), engine.argument("DST")
        indices = len(buffers) - 2, len(buffers) - 1
        steps.append(Step(part.name, primitive, tuple(zip(numbers, indices, strict=True))))
    return Program(engine, ("source", "target"), buffers, steps, 0)


def run(engine: Engine, parts: tuple[ReorderPart, ...], source: Array, target: Array) -> None:
    program(parts).run([engine.pointer(source), engine.pointer(target)])


def bits(engine: Engine, desc: Handle, dtype: str) -> Array:
    """Return memory of a descriptor's size, all NaN."""
    numbers = np.full(engine.nbytes(desc) // DTYPES[dtype].itemsize, np.nan, DTYPES[dtype])
    return numbers.view(f"u{DTYPES[dtype].itemsize}")


def names(shape: tuple[int, ...], block: int = 16, threads: int = 2, **how: Any) -> list[str]:
    """Return the names of the parts of a reorder into blocks, or from blocks."""
    dtype, gap, is_read = how.get("dtype", "f32"), how.get("gap", 0), how.get("is_read", True)
    ends = channels_first(shape, dtype, gap), in_blocks(shape, dtype, block)
    source, target = ends if is_read else ends[::-1]
    return [part.name for part in parts_around_tail(current_engine(), source, target, threads)]


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    """Draw images, channels that leave a tail, and one to three sides."""
    images, sides = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    channels = draw(st.integers(1, 70).filter(lambda number: number % 8))
    longest = {1: 20_000, 2: 120, 3: 24}[sides]
    return images, channels, *(draw(st.integers(2, longest)) for _ in range(sides))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("block", [8, 16])
@given(shape=shapes(), gap=st.sampled_from([0, 0, 5]), threads=st.sampled_from([1, 2, 8]))
def test_parts_write_what_the_whole_writes(
    dtype: str, block: int, shape: tuple[int, ...], gap: int, threads: int
) -> None:
    engine = current_engine()
    plain, blocked = channels_first(shape, dtype, gap), in_blocks(shape, dtype, block)
    source = bits(engine, plain, dtype)
    # No subnormal numbers in bfloat16: parts may lose these where the whole keeps them.
    source[:] = (np.arange(source.size) % 251 - 125).astype(DTYPES[dtype]).view(source.dtype)
    expected, found = bits(engine, blocked, dtype), bits(engine, blocked, dtype)
    run(engine, (ReorderPart("whole", plain, blocked, 0, 0),), source, expected)
    read = parts_around_tail(engine, plain, blocked, threads)
    if read:
        run(engine, read, source, found)
        np.testing.assert_array_equal(found, expected)
    back, again = bits(engine, plain, dtype), bits(engine, plain, dtype)
    run(engine, (ReorderPart("whole", blocked, plain, 0, 0),), expected, back)
    written = parts_around_tail(engine, blocked, plain, threads)
    if written:
        run(engine, written, expected, again)
        np.testing.assert_array_equal(again, back)


def test_full_blocks_of_each_image_a_tail_and_zeros() -> None:
    assert names((2, 24, 56, 56)) == ["full blocks", "full blocks", "tail", "zeros"]
    assert names((2, 24, 56, 56), is_read=False) == ["full blocks", "full blocks", "tail"]


def test_a_part_of_a_block_is_a_tail_alone() -> None:
    assert names((2, 12, 56, 56)) == ["tail", "zeros"]
    assert names((64, 12, 8, 8), is_read=False) == ["tail"]


def test_bfloat16_has_the_full_blocks_of_all_images_at_once() -> None:
    engine, shape = current_engine(), (4, 24, 56, 56)
    ends = channels_first(shape, "bf16"), in_blocks(shape, "bf16", 16)
    # CPUs with AVX2 alone have no such kernel of bfloat16.
    is_general = engine.implementation(engine.reorder_desc(*ends)) == "jit:uni"
    assert names(shape, dtype="bf16") == ["full blocks", "tail", "zeros"] * is_general


def test_a_tail_that_is_a_run_has_parts_of_its_own() -> None:
    parts = names((1, 17, 99_996))
    assert parts == ["full blocks", "tail blocks", "tail rest", "zeros"]


@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ((2, 24, 56, 56), {"threads": 1}),  # one thread has one call
        ((2, 24, 56, 56), {"threads": 0}),  # unknown
        ((16, 24, 56, 56), {}),  # as many blocks as calls
        ((2, 24, 59, 59), {}),  # a call has 59 pixels, as no smaller number divides them
        ((2, 24, 13, 121), {}),  # a call has 11 pixels
        ((1, 24, 8, 8), {}),
        ((4, 24, 16, 16), {"is_read": False}),
        # A prime number of pixels, in 14 lines.
        ((1, 30, 5153), {"is_read": False}),
        ((2, 32, 56, 56), {}),  # full
        ((16, 24, 56, 56), {"dtype": "bf16", "is_read": False}),
    ],
)
def test_other_reorders_stay_whole(shape: tuple[int, ...], how: dict[str, Any]) -> None:
    assert names(shape, **how) == []


@pytest.mark.parametrize("name", ["simple:any", "jit:blk", "brgemm_matmul_copy_reorder"])
def test_only_the_general_kernel_is_replaced(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(channel_tails, "_implementation", lambda *_: name)
    assert names((2, 24, 56, 56)) == []


@pytest.mark.parametrize("threads", [2, 8])
def test_more_threads_need_more_elements(threads: int) -> None:
    shape = (2, 24, 28, 20)
    assert bool(names(shape, threads=threads)) == (threads == 2)


def test_a_tensor_without_images_stays_whole() -> None:
    engine, shape = current_engine(), (0, 24, 5, 5)
    plain, blocked = channels_first(shape, "f32"), in_blocks(shape, "f32", 16)
    assert parts_around_tail(engine, plain, blocked, 2) == ()
    assert parts_around_tail(engine, blocked, plain, 2) == ()


def test_a_tensor_with_gaps_between_channels_stays_whole() -> None:
    engine = current_engine()
    shape, step = (2, 24, 56, 56), 56 * 56 + 8
    plain = engine.strided_desc(shape, "f32", (24 * step, step, 56, 1))
    blocked = in_blocks(shape, "f32", 16)
    assert parts_around_tail(engine, plain, blocked, 2) == ()
    assert parts_around_tail(engine, blocked, plain, 2) == ()


# The second has chunks, and strides.
TAILS = (
    case((40, 40), 3, pads=1, inputs=20, outputs=36, minibatch=2),
    case((60, 48), 3, 2, pads=1, inputs=12, outputs=20, minibatch=1),
    case((40, 40), 3, pads=1, groups=36, inputs=36, outputs=36, minibatch=2),
)


@pytest.mark.parametrize("geometry", TAILS, ids=["dense", "strided", "depthwise"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_candidates_with_parts_are_exact(geometry: Case, operation: str) -> None:
    """Workspaces hold no number before: what parts leave unwritten reaches the results."""
    run = CandidateRun(geometry.integers("f32"), operation, "NCX")
    in_parts = 0
    for candidate in run.candidates():
        found: list[tuple[ReorderPart, ...]] = []

        def kept(*ends: Any, found: list[tuple[ReorderPart, ...]] = found) -> Any:
            found.append(parts_around_tail(*ends))
            return found[-1]

        with mock.patch.object(lowering, "parts_around_tail", kept):
            plan = OneDNNPlan(current_engine(), candidate)
        run.check(plan)
        in_parts += any(found)
    # On one thread, reorders into blocks have no parts.
    only_reads = operation.endswith("weights") and current_engine().number_of_threads() == 1
    assert in_parts or only_reads
