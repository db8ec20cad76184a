"""Validity: whether a choice that comes from elsewhere, such as a file, fits a problem."""

from __future__ import annotations

from onednn_py.problem.problem import Problem

from .choice import LAYOUTS, Choice
from .chunks import SPLIT_AXES
from .formulations import FORMULATIONS
from .limits import compute_dtypes
from .thresholds import MOST_MINIBATCH_CHUNKS

__all__ = ["invalid"]

# The most chunks along another axis than the minibatch.
MOST_CHUNKS = 1024


def invalid(problem: Problem, choice: Choice) -> str | None:
    """Return the reason why a choice is not valid for a problem, None if it is.

    Another compute type than these would round the caller's numbers. Whether oneDNN has what a
    valid choice names is not asked.
    """
    dtypes = compute_dtypes(problem)
    if choice.compute_dtype not in dtypes:
        return f"compute_dtype {choice.compute_dtype}: expected {' or '.join(dtypes)}"
    if choice.formulation not in FORMULATIONS:
        return f"there is no formulation {choice.formulation}"
    if (choice.activations, choice.weights) not in LAYOUTS:
        return f"there are no layouts {choice.activations}, {choice.weights}"
    if choice.split_axis not in SPLIT_AXES:
        return f"split_axis {choice.split_axis}: expected {' or '.join(SPLIT_AXES)}"
    is_minibatch = choice.split_axis == "minibatch"
    most = MOST_MINIBATCH_CHUNKS if is_minibatch else MOST_CHUNKS
    if choice.chunks not in range(1, most + 1):
        return f"{choice.chunks} chunks: expected 1 to {most}"
    images = problem.src.shape[0]
    if is_minibatch and images % choice.chunks:
        return f"a minibatch of {images} has no {choice.chunks} equal chunks"
    if choice.bias_apart and not problem.has_bias_gradient:
        return "bias_apart: there is no bias gradient"
    return None
