"""Which part of the input a part of the result needs: against the indicator of the oracle."""

from __future__ import annotations

import threading
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import onednn_py
from onednn_py import AttributeValueError, ShapeError
from onednn_py.overlap import SpatialAxis, needed_part, reached_part
from tests.support.cases import Case
from tests.support.paths import ROOT
from tests.support.reference import indicator
from tests.support.reproduction import reproduction
from tests.support.strategies import geometries

Interval = tuple[int, int]

FUNCTIONS = (
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weights",
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
)


def shapes_of(function: str, case: Case) -> tuple[list[tuple[int, ...]], dict[str, Any]]:
    """Shapes in place of the function's tensors, NCX and OIX or IOX, and its attributes."""
    positional, keywords = case.integers("f32").arguments(function, "NCX", True)
    shapes = [getattr(value, "shape", value) for value in positional]
    keywords.pop("bias", None)
    # A bias has no spatial axis, and no shape here.
    return [shape for shape in shapes if len(shape) > 1], keywords


def hull(numbers: np.ndarray) -> tuple[int, int]:
    return (int(numbers.min()), int(numbers.max()) + 1) if numbers.size else (0, 0)


def check_hulls(case: Case, function: str, cut: int) -> None:
    """Both directions give the hull of what the indicator tensor says, neither more nor less."""
    shapes, keywords = shapes_of(function, case)
    gathers = function in (
        "convolution",
        "convolution_backward_weights",
        "conv_transpose_backward_data",
        "conv_transpose_backward_weights",
    )
    for axis in range(case.axes):
        meets = indicator(
            case.size[axis], case.counts[axis], case.kernel[axis], case.strides[axis],
            case.dilations[axis], case.pads_begin[axis],
        ).any(axis=1)  # fmt: skip
        # Rows are the result's part, columns the input.
        meets = meets if gathers else meets.T
        rows, columns = meets.shape
        part = slice(min(cut, rows), min(cut + 1 + cut % 3, rows))
        parts = [slice(None)] * case.axes
        parts[axis] = part
        needed = needed_part(function, parts, *shapes, **keywords)
        found = needed.input[axis]
        assert (found.start, found.stop) == hull(np.flatnonzero(meets[part].any(axis=0)))
        assert needed.pads_begin[axis] >= 0
        assert needed.pads_end[axis] >= 0
        given = slice(min(cut, columns), min(cut + 1 + cut % 3, columns))
        parts[axis] = given
        reached = reached_part(function, parts, *shapes, **keywords)[axis]
        assert (reached.start, reached.stop) == hull(np.flatnonzero(meets[:, given].any(axis=1)))


@pytest.mark.parametrize("function", FUNCTIONS)
@hypothesis.given(case=geometries(most_axes=2), cut=st.integers(0, 12))
def test_the_parts_are_those_of_the_indicator(function: str, case: Case, cut: int) -> None:
    hypothesis.note(reproduction(__name__, f"check_hulls({case!r}, {function!r}, {cut})"))
    check_hulls(case, function, cut)


def check_call(case: Case, function: str, cut: int) -> None:
    """The function on the part that is needed, with its pads, gives the part of the result."""
    positional, _ = case.integers("f32").arguments(function, "NCX", True)
    positional = [value for value in positional if getattr(value, "ndim", 0) > 1]
    shapes, attributes = shapes_of(function, case)
    dst_shape = shapes[2:]
    expected = getattr(onednn_py, function)(*positional, *dst_shape, **attributes)
    parts = [slice(min(cut, extent), min(cut + 3, extent)) for extent in expected.shape[2:]]
    needed = needed_part(function, parts, *shapes, **attributes)
    own = np.zeros_like(expected)
    if all(one.start < one.stop for one in needed.input):
        attributes |= {"pads_begin": needed.pads_begin, "pads_end": needed.pads_end}
        attributes.pop("output_padding", None)
        part = positional[0][(..., *needed.input)]
        result = getattr(onednn_py, function)(part, positional[1], **attributes)
        own[(..., *needed.result)] = result
    asked = (slice(None), slice(None), *parts)
    assert (own[asked] == expected[asked]).all()


@pytest.mark.parametrize("function", [name for name in FUNCTIONS if "weights" not in name])
@hypothesis.given(case=geometries(), cut=st.integers(0, 12))
@hypothesis.settings(max_examples=40)
def test_calls_on_parts_give_parts_of_the_result(function: str, case: Case, cut: int) -> None:
    hypothesis.note(reproduction(__name__, f"check_call({case!r}, {function!r}, {cut})"))
    check_call(case, function, cut)


def test_an_axis_far_from_any_element() -> None:
    axis = SpatialAxis(size=5, count=9, kernel=2, stride=3, dilation=1, pad_begin=10)
    assert axis.elements_of((0, 3)) == (0, 0)
    assert axis.windows_of((0, 5)) == (3, 5)
    assert axis.windows_of((2, 2)) == (0, 0)


def counted(axis: SpatialAxis, elements: Interval, windows: Interval) -> tuple[Interval, Interval]:
    """`SpatialAxis.meeting`, one kernel position after the other."""
    offsets = np.arange(axis.kernel) * axis.dilation - axis.pad_begin
    first = np.maximum(-((offsets - elements[0]) // axis.stride), windows[0])
    last = np.minimum((elements[1] - 1 - offsets) // axis.stride, windows[1] - 1)
    met = (first <= last) & (elements[0] < elements[1])
    if not met.any():
        return (0, 0), (0, 0)
    offsets, first, last = offsets[met], first[met], last[met]
    low, high = (first * axis.stride + offsets).min(), (last * axis.stride + offsets).max()
    return (int(low), int(high) + 1), (int(first.min()), int(last.max()) + 1)


@hypothesis.given(
    kernel=st.integers(1, 12),
    stride=st.integers(1, 12),
    dilation=st.integers(1, 12),
    pad_begin=st.integers(-12, 60),
    elements=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    windows=st.tuples(st.integers(0, 8), st.integers(0, 8)),
)
def test_meeting_is_that_of_counting(
    kernel: int, stride: int, dilation: int, pad_begin: int, elements: Interval, windows: Interval
) -> None:
    axis = SpatialAxis(30, 8, kernel, stride, dilation, pad_begin)
    expected = counted(axis, elements, windows)
    assert axis.meeting(elements, windows) == expected
    numpys = SpatialAxis(*map(np.int64, (30, 8, kernel, stride, dilation, pad_begin)))
    found = numpys.meeting(
        (np.int64(elements[0]), np.int64(elements[1])),
        (np.int64(windows[0]), np.int64(windows[1])),
    )
    assert found == expected
    assert all(type(number) is int for interval in found for number in interval)


def test_a_kernel_that_cannot_be_counted() -> None:
    part = needed_part("convolution", [slice(0, 1)], (1, 2**32, 1), (2**31, 1, 1))
    assert part.input == (slice(0, 2**31),)
    axis = SpatialAxis(
        size=2**70, count=2**70, kernel=2**70, stride=2**69, dilation=5, pad_begin=2**69 + 1
    )
    # 2**69 leaves 2 when divided by 5, so that the first window meets 2, 7, 12 and so on; the
    # second begins with -1 and 4.
    assert axis.meeting((0, 4), (0, 2)) == ((2, 3), (0, 1))
    assert axis.meeting((0, 7), (0, 2)) == ((2, 5), (0, 2))


@pytest.mark.parametrize(
    ("function", "part", "shapes", "error", "message"),
    [
        ("convolve", [slice(1)], [(1, 8, 3)], AttributeValueError, "expected one of convolution,"),
        (None, [slice(1)], [(1, 8, 3)], AttributeValueError, "expected one of convolution,"),
        ("convolution", [slice(1)], [(1, 8, 3)], ShapeError, "shapes of src, weights; got 1"),
        ("convolution", [slice(1)], [(1, 8, 3), (3, 2, 1)], ShapeError, "weights: expected"),
        (
            "convolution",
            [slice(1)],
            [8, (3, 2, 1)],
            AttributeValueError,
            "src_shape: expected a list",
        ),
        ("convolution", [slice(1)] * 2, [(1, 8, 3), (3, 3, 1)], AttributeValueError, "1 slices"),
        ("convolution", [1], [(1, 8, 3), (3, 3, 1)], AttributeValueError, "1 slices"),
        (
            "convolution",
            [slice(0, 4, 2)],
            [(1, 8, 3), (3, 3, 1)],
            AttributeValueError,
            "without a step",
        ),
        (
            "convolution",
            [slice("a")],
            [(1, 8, 3), (3, 3, 1)],
            AttributeValueError,
            "slice of integers",
        ),
    ],
)
def test_errors(function: Any, part: Any, shapes: Any, error: type, message: str) -> None:
    for call in (needed_part, reached_part):
        with pytest.raises(error, match=message) as raised:
            call(function, part, *shapes)
        assert len(str(raised.value)) <= 600


class _Communicator:
    """As many ranks as threads, with the two methods of mpi4py's that the example calls."""

    def __init__(self, size: int) -> None:
        self.size, self._rank = size, threading.local()
        self._boxes: dict[tuple[int, int], Any] = {}
        self._barrier = threading.Barrier(size, timeout=30)

    def enter(self, rank: int) -> None:
        self._rank.value = rank

    @property
    def rank(self) -> int:
        return self._rank.value

    def alltoall(self, parts: list[Any]) -> list[Any]:
        for other, part in enumerate(parts):
            self._boxes[self.rank, other] = part
        self._barrier.wait()
        return [self._boxes[other, self.rank] for other in range(self.size)]


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_the_example_for_mpi(ranks: int) -> None:
    """The lines of docs/dask.md, on threads in place of processes."""
    page = (ROOT / "docs" / "dask.md").read_text(encoding="utf-8")
    code = page.split("```{code-block} python\n", 1)[1].split("```", 1)[0]
    assert "from mpi4py import MPI" in code
    code = code.replace("from mpi4py import MPI", "").replace("MPI.COMM_WORLD", "communicator")
    rng = np.random.default_rng(0)
    whole = rng.integers(-4, 5, (1, 23, 6, 5, 2)).astype(np.float32)
    weights = rng.integers(-4, 5, (3, 3, 3, 2, 4)).astype(np.float32)
    attributes = {"strides": 2, "pads_begin": 1, "pads_end": 1}
    communicator = _Communicator(ranks)
    results: dict[int, np.ndarray] = {}

    def run(rank: int) -> None:
        communicator.enter(rank)
        own = slice(23 * rank // ranks, 23 * (rank + 1) // ranks)
        names = {
            "communicator": communicator, "src": whole[:, own], "shape": whole.shape,
            "weights": weights, "attributes": attributes,
        }  # fmt: skip
        exec(code, names)
        results[rank] = names["dst"]

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    expected = onednn_py.convolution(whole, weights, **attributes)
    actual = np.concatenate([results[rank] for rank in range(ranks)], axis=1)
    assert (actual == expected).all()
