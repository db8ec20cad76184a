"""Unmixed results: whether merged groups kept their numbers to themselves.

A merged group multiplies what the other groups read by zero. The product is zero, unless it is with
an infinity or with what is not a number: then the result is not a number either, where it would be
finite in groups of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.onednn.selection.candidate import Candidate

__all__ = ["are_unmixed", "may_mix"]

Array = npt.NDArray[Any]


def may_mix(candidate: Candidate) -> bool:
    """Whether a candidate merges groups and reads their weights.

    The gradient of weights is taken from the blocks on the diagonal, which no other group enters.
    """
    formulation = candidate.formulation
    return formulation.merged_groups > 1 and formulation.asked.result_role != "weights"


def are_unmixed(candidates: Sequence[Candidate], tensors: Mapping[str, Array]) -> bool:
    """Whether the results of merged groups are finite, and thus those of the groups themselves.

    Sums that overflow make it False as well.

    Parameters
    ----------
    candidates : sequence of Candidate
    tensors : mapping
        The operands by name, results included.
    """
    return all(
        _is_finite(tensors[candidate.name(candidate.formulation.asked.result_role)])
        for candidate in candidates
        if may_mix(candidate)
    )


def _is_finite(array: Array) -> bool:
    with np.errstate(all="ignore"):
        # The fastest of NumPy's sums: 12 MB take 0.5 ms. In float32, as halves would overflow.
        flat = array.ravel("K")
        total = np.einsum("i->", flat, dtype=np.float32, casting="unsafe")
        return bool(np.isfinite(total))
