"""Decides whether two backends' results of one operation agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.dtypes import DATA_TYPES

from .tensors import EXACT_SUM

__all__ = ["Comparison", "Tolerance"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A result compared with another backend's from the same inputs.

    Attributes
    ----------
    other : {"numpy", "native"}
    status : {"equal", "close", "differs", "not compared"}
        ``"close"``: not equal, but within the tolerance.
    difference : float or None
        Largest absolute difference of two elements; infinite where only one is finite.
    detail : str
        How the results differ, or why they were not compared.
    """

    other: str
    status: str
    difference: float | None = None
    detail: str = ""


class Tolerance:
    """How far results of one operation on given inputs may lie apart.

    If all inputs are integers so small that float32 holds every sum of their products exactly,
    every order of summation gives the same bits, and results must be equal; the random inputs
    of this package are of this kind. Otherwise an element x may differ by

        2 u |x|  +  sqrt(terms) 2^-23 scale

    where u is the unit roundoff of the type, 2^-24 for f32, 2^-11 for f16, 2^-8 for bf16: each
    of the two results is rounded once to the type. The second summand bounds ``terms``
    roundings of float32 sums, taken as independent. ``scale`` is the magnitude of these sums:
    the largest result, or the length of a random walk, sqrt(terms) times the root mean square
    of the products.

    The inputs are given by role, and ``terms`` is the number of products in one sum.
    """

    def __init__(self, dtype: str, inputs: Mapping[str, Array], terms: int) -> None:
        first, second = (array for role, array in inputs.items() if role != "bias")
        largest_sum = terms * _largest(first) * _largest(second)
        if "bias" in inputs:
            largest_sum += _largest(inputs["bias"])
        self.exact = largest_sum <= EXACT_SUM and all(
            np.array_equal(array, np.rint(array)) for array in inputs.values()
        )
        self._type = DATA_TYPES[dtype]
        self._sqrt_terms = max(terms, 1) ** 0.5
        self._walk = self._sqrt_terms * _root_mean_square(first) * _root_mean_square(second)

    def compare(self, other: str, ours: Array, theirs: Array) -> Comparison:
        """Compare our result with that of the backend ``other``."""
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            detail = f"{theirs.dtype} of shape {theirs.shape}, ours {ours.dtype} of {ours.shape}"
            return Comparison(other, "differs", None, detail)
        ours, theirs = ours.astype(np.float32, copy=False), theirs.astype(np.float32, copy=False)
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        if same.all():
            return Comparison(other, "equal", 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            difference = np.abs(ours - theirs)
        difference[np.isnan(difference)] = np.inf
        difference[same] = 0
        largest = float(difference.max())
        allowed = self._allowed(theirs)
        wrong = ~(difference <= allowed)
        if not wrong.any():
            return Comparison(other, "close", largest)
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        expected = "equality" if self.exact else f"at most {allowed[index]:.2g}"
        return Comparison(
            other,
            "differs",
            largest,
            f"{np.count_nonzero(wrong)} of {wrong.size} elements, first at {index}:"
            f" {ours[index]:.9g}, {other} {theirs[index]:.9g}; expected {expected}",
        )

    def _allowed(self, reference: Array) -> Array:
        if self.exact:
            return np.zeros_like(reference)
        finite = np.abs(reference)
        finite[~np.isfinite(finite)] = 0
        scale = max(float(finite.max(initial=0.0)), self._walk)
        rounding = 2 * self._type.unit_roundoff * finite + self._type.smallest
        allowed: Array = rounding + self._sqrt_terms * 2 * DATA_TYPES["f32"].unit_roundoff * scale
        return allowed


def _largest(array: Array) -> float:
    return float(np.abs(array).max(initial=0))


def _root_mean_square(array: Array) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))) if array.size else 0.0
