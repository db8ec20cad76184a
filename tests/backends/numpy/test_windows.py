"""Windows: the values that the definition reads, for any axes, tile, layout and data type."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onednn_py.backends.numpy import windows as module
from onednn_py.backends.numpy.correlation import AxisCorrelation
from onednn_py.backends.numpy.windows import is_channels_last, padded_source, split, windows
from onednn_py.backends.numpy.workspace import Workspace, borrowed_workspace

F32 = np.dtype(np.float32)


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    with borrowed_workspace(F32, 1) as borrowed:
        yield borrowed


@st.composite
def axes_and_spans(draw: st.DrawFn) -> tuple[AxisCorrelation, slice]:
    axis = AxisCorrelation(
        kernel=range(draw(st.integers(1, 3))),
        target=range(draw(st.integers(1, 5))),
        offset=draw(st.integers(-6, 6)),
        dilation=draw(st.integers(1, 3)),
        step=draw(st.integers(1, 3)),
        source_size=draw(st.integers(1, 7)),
    )
    start = draw(st.integers(0, len(axis.target) - 1))
    return axis, slice(start, draw(st.integers(start + 1, len(axis.target))))


def expected_windows(
    source: np.ndarray, axes: list[AxisCorrelation], spatial: list[slice]
) -> np.ndarray:
    kernel = [range(len(axis.kernel)) for axis in axes]
    targets = [range(span.start, span.stop) for span in spatial]
    shape = [len(positions) for positions in (*kernel, *targets)]
    expected = np.zeros((*source.shape[:3], *shape), np.float32)
    for index in product(*(range(size) for size in shape)):
        read = [
            (axis.offset + targets[i][index[len(axes) + i]] * axis.step + index[i] * axis.dilation)
            for i, axis in enumerate(axes)
        ]
        if all(0 <= r < axis.source_size for r, axis in zip(read, axes, strict=True)):
            expected[(..., *index)] = source[(..., *read)]
    return expected


@given(
    geometry=st.lists(axes_and_spans(), min_size=1, max_size=2),
    channels=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    is_last=st.booleans(),
    channels_last=st.sampled_from([None, False, True]),
    dtype=st.sampled_from([np.float32, np.float16]),
    sparse=st.sampled_from([0, module.SPARSE]),
    conflict=st.sampled_from([1, module.CONFLICT]),
)
def test_windows_read_what_the_definition_says(
    geometry: list[tuple[AxisCorrelation, slice]],
    channels: tuple[int, int],
    is_last: bool,
    channels_last: bool | None,
    dtype: type,
    sparse: int,
    conflict: int,
) -> None:
    axes, spatial = [axis for axis, _ in geometry], [span for _, span in geometry]
    sizes = [axis.source_size for axis in axes]
    rng = np.random.default_rng(0)
    source = rng.integers(1, 100, (2, *sizes, *channels) if is_last else (2, *channels, *sizes))
    if is_last:
        source = np.moveaxis(source, (-2, -1), (1, 2))
    # `astype` keeps the order of axes in memory.
    source = source.astype(dtype)
    with pytest.MonkeyPatch.context() as patch, borrowed_workspace(F32, 1) as workspace:
        patch.setattr(module, "SPARSE", sparse)
        patch.setattr(module, "CONFLICT", conflict)
        found = windows(source, axes, spatial, workspace, channels_last=channels_last)
        np.testing.assert_array_equal(found, expected_windows(source, axes, spatial))


INSIDE = AxisCorrelation(range(3), range(5), offset=1, dilation=1, step=1, source_size=9)
PADDED = AxisCorrelation(range(3), range(9), offset=-1, dilation=1, step=1, source_size=9)
FIRST = np.ones((2, 1, 4, 9), np.float32)
LAST = np.ones((2, 1, 9, 4), np.float32).swapaxes(2, 3)


@pytest.mark.parametrize(
    ("source", "axis", "channels_last", "is_view"),
    [
        (FIRST, INSIDE, None, True),
        (FIRST, INSIDE, False, True),
        (FIRST, INSIDE, True, False),
        (LAST, INSIDE, True, True),
        (LAST, INSIDE, False, False),
        (FIRST.astype(np.float16), INSIDE, None, True),
        (FIRST.astype(np.float16), INSIDE, False, False),
        (FIRST, PADDED, None, False),
    ],
)
def test_only_padding_order_and_type_make_a_copy(
    source: np.ndarray,
    axis: AxisCorrelation,
    channels_last: bool | None,
    is_view: bool,
    workspace: Workspace,
) -> None:
    spatial = [slice(0, len(axis.target))]
    found = padded_source(source, [axis], spatial, workspace, channels_last=channels_last)
    assert np.shares_memory(found, source) == is_view
    if not is_view and channels_last is not None:
        assert found.dtype == F32
        assert is_channels_last(found) == channels_last


def test_only_windows_of_far_apart_elements_are_copied_by_index(
    monkeypatch: pytest.MonkeyPatch, workspace: Workspace
) -> None:
    far = AxisCorrelation(
        range(3), range(2), offset=-(10**9), dilation=10**9, step=1, source_size=9
    )
    found = windows(FIRST, [far], [slice(0, 2)], workspace, channels_last=None)
    np.testing.assert_array_equal(found[0, 0, 0], [[0, 0], [1, 1], [0, 0]])
    assert np.shares_memory(
        windows(FIRST, [INSIDE], [slice(0, 5)], workspace, channels_last=None), FIRST
    )


@pytest.mark.parametrize("count", [1, 2, 7, 20])
@pytest.mark.parametrize("most", [1, 3, 7, 50])
def test_split_keeps_every_tile_in_order(count: int, most: int) -> None:
    tiles = [(slice(number, number + 1),) for number in range(count)]
    lists = split(tiles, most)
    assert [tile for part in lists for tile in part] == tiles
    assert len(lists) <= most
    assert all(lists)
