"""Strategies of hypothesis: any valid geometry."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.cases import Case


@st.composite
def geometries(draw: st.DrawFn, most_axes: int = 3) -> Case:
    """Any valid geometry of small size; sizes avoid powers of two, where tails hide."""
    axes = draw(st.integers(1, most_axes))

    def each(strategy: st.SearchStrategy[int]) -> tuple[int, ...]:
        return tuple(draw(strategy) for _ in range(axes))

    kernel = each(st.integers(1, 5 if axes < 3 else 3))
    dilations = each(st.integers(1, 4))
    strides = each(st.integers(1, 4))
    pads_begin, pads_end = each(st.integers(0, 6)), each(st.integers(0, 6))
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    size = tuple(
        max(1, extent - begin - end + draw(st.integers(0, 9)))
        for extent, begin, end in zip(extents, pads_begin, pads_end, strict=True)
    )
    groups = draw(st.sampled_from([1, 1, 2, 3, 8, 16]))
    inputs = groups * draw(st.sampled_from([1, 2, 3, 5, 16, 17] if groups < 4 else [1, 2, 3]))
    outputs = groups * draw(st.sampled_from([1, 2, 3, 7, 16, 18] if groups < 4 else [1, 2, 3]))
    minibatch = draw(st.integers(1, 3))
    return Case(
        size, kernel, strides, dilations, pads_begin, pads_end, minibatch, groups, inputs, outputs
    )
