"""Strategies of hypothesis: any valid call of PyTorch's convolution operations."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.torch_cases import FORMS, TorchCase

__all__ = ["torch_cases"]


@st.composite
def torch_cases(
    draw: st.DrawFn, dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16", "float64")
) -> TorchCase:
    """Any valid call of small size; sizes avoid powers of two, where tails hide."""
    axes = draw(st.integers(1, 3))
    transposed = draw(st.booleans())

    def each(strategy: st.SearchStrategy[int]) -> tuple[int, ...]:
        return tuple(draw(strategy) for _ in range(axes))

    kernel = each(st.integers(1, 5 if axes < 3 else 3))
    dilation, stride, padding = (
        each(st.integers(1, 3)),
        each(st.integers(1, 3)),
        each(st.integers(0, 3)),
    )
    output_padding = (0,) * axes
    if transposed:
        output_padding = tuple(
            draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)
        )
    size = []
    for k, s, p, d, o in zip(kernel, stride, padding, dilation, output_padding, strict=True):
        extent = (k - 1) * d + 1
        # The smallest size of src for which dst has an element.
        least = 1 + max(0, -(-(2 * p - extent - o + 1) // s)) if transposed else extent - 2 * p
        size.append(max(1, least) + draw(st.integers(0, 7 if axes < 3 else 4)))
    groups = draw(st.sampled_from([1, 1, 1, 2, 3, 16]))
    most = [1, 2, 3, 5, 16, 17, 32] if groups < 4 else [1, 2]
    channels = tuple(groups * draw(st.sampled_from(most)) for _ in range(2))
    return TorchCase(
        tuple(size), kernel, stride, padding, dilation, transposed, output_padding, groups,
        minibatch=draw(st.integers(1, 3)),
        channels=(channels[0], channels[1]),
        bias=draw(st.booleans()),
        dtype=draw(st.sampled_from(dtypes)),
        forms=(draw(st.sampled_from(FORMS)), draw(st.sampled_from(FORMS)),
               draw(st.sampled_from(FORMS))),
        mask=(draw(st.booleans()), draw(st.booleans()), draw(st.booleans())),
        seed=draw(st.integers(0, 20)),
    )  # fmt: skip
