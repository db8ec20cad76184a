"""Windows: what the primitive of a formulation sees of the tensor that strides step over."""

from __future__ import annotations

from onednn_py.problem.problem import Problem, TensorLayout

__all__ = ["layout_seen", "leaves_elements_out", "spatial_sizes", "window_of"]


def leaves_elements_out(asked: Problem, window: tuple[slice, ...]) -> bool:
    """Whether the window of the result leaves elements out."""
    return asked.result_role == asked.stepped_role and any(
        span.indices(size) != (0, size, 1)
        for span, size in zip(window, spatial_sizes(asked), strict=True)
    )


def spatial_sizes(problem: Problem) -> tuple[int, ...]:
    """Extents of the tensor that strides step over."""
    layout: TensorLayout = getattr(problem, problem.stepped_role)
    return layout.shape[2:]


def window_of(asked: Problem, formulation: str) -> tuple[slice, ...] | None:
    """Return what the primitive sees of the stepped tensor, None if the formulation does not apply.

    A tail of a whole stride or more (output_padding >= stride, which dilation allows) is
    left out: oneDNN wants ``pads_end > -stride``.
    """
    numbers = list(zip(spatial_sizes(asked), asked.pads_end, asked.strides, strict=True))
    if formulation not in ("strided_1x1", "matmul"):
        return tuple(
            slice(0, size + end if end <= -stride else size) for size, end, stride in numbers
        )
    applies = (
        all(extent == 1 for extent in asked.kernel)
        and (formulation == "matmul" or any(stride > 1 for stride in asked.strides))
        and not any(asked.pads_begin)
        and all(end <= 0 for end in asked.pads_end)
    )
    return tuple(slice(0, size + end, stride) for size, end, stride in numbers) if applies else None


def layout_seen(layout: TensorLayout, window: tuple[slice, ...]) -> TensorLayout:
    """Return shape and strides of what a window shows of a tensor."""
    steps = [span.indices(size) for span, size in zip(window, layout.shape[2:], strict=True)]
    counts = [len(range(*step)) for step in steps]
    strides = [s * step for s, (_, _, step) in zip(layout.strides[2:], steps, strict=True)]
    return TensorLayout((*layout.shape[:2], *counts), (*layout.strides[:2], *strides))
