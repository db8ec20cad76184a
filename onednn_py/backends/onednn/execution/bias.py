"""Bias gradients that a plan sums beside its primitives: the sums of short sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.onednn.selection.bias_sums import MOST_ONES
from onednn_py.problem.dtypes import DTYPES
from onednn_py.system.casting import round_into

__all__ = ["BiasSums", "ones"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class BiasSums:
    """Where the partial sums of a bias gradient lie in the workspace.

    Attributes
    ----------
    name : str
        The operand's name.
    offset : int
        In bytes.
    number : int
    channels, parts : int
        How many channels there are, and how many consecutive sums each of them has.
    """

    name: str
    offset: int
    number: int
    channels: int
    parts: int

    def write(self, tensors: Mapping[str, Array], block: npt.NDArray[Any]) -> None:
        """Add the partial sums up in float64, and round them into the bias gradient."""
        shape = self.number // (self.channels * self.parts), self.channels * self.parts
        sums: Array = np.ndarray(shape, np.float32, block, self.offset)
        with np.errstate(all="ignore"):
            totals = np.add.reduce(sums, axis=0, dtype=np.float64)
            totals = totals.reshape(self.channels, self.parts).sum(axis=1)
            round_into(tensors[self.name], totals)


@cache
def ones(dtype: str, number: int = MOST_ONES) -> Array:
    """Return the ones that products read."""
    return np.ones(number, DTYPES[dtype])
