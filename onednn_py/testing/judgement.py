"""Judge results against expected ones: equal to the last bit, or close by benchdnn's norm.

The inputs are benchdnn's integers, for which every order of summation gives the same bits. Results
must therefore equal the reference, rounded once to the data type.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.tools.benchdnn.case import Case

__all__ = ["difference", "differences", "distance", "fit_to_limits", "threshold", "too_many_zeros"]

Array = npt.NDArray[Any]

# Largest number of elements in all tensors of a case, each 8 bytes in the float64 reference.
MOST_ELEMENTS = 2**28

# benchdnn does not count the zeros of smaller results.
FEWEST_TO_MISTRUST = 10

# benchdnn's largest L2 norm of the error of Winograd's algorithm, relative to the norm of the
# result (oneDNN, tests/benchdnn: ``setup_cmp`` of conv/conv.cpp). benchdnn has no bfloat16 there;
# the number of f16 is more than its one rounding, of 2^-8 at most.
NORM_THRESHOLDS = {"f32": 2e-5, "f16": 7e-3, "bf16": 7e-3}

# Largest error of one element, relative to the largest element, in units of that threshold. The
# norm alone misses a wrong element among many; rounding stays far below: its largest error is about
# as many times its norm's share as the largest element is that of the result.
ELEMENT_FACTOR = 4.0


def fit_to_limits(case: Case, max_flops: float) -> tuple[Case, str]:
    """Reduce a case to minibatch 1 if it exceeds ``max_flops`` or the limit of elements.

    The text is empty, or says why the case cannot run even with minibatch 1.
    """
    if not case.descriptor.minibatch:
        return case, "no elements to compute"
    smallest = case.with_minibatch(1)
    for candidate in (case, smallest):
        if candidate.descriptor.flops <= max_flops and candidate.elements <= MOST_ELEMENTS:
            return candidate, ""
    if smallest.descriptor.flops > max_flops:
        return case, f"one image takes more than {max_flops:g} floating-point operations"
    return case, f"one image takes more than {MOST_ELEMENTS} elements"


def differences(
    case: Case, results: Sequence[Array], expected: Sequence[Array], *, exact: bool = True
) -> str:
    """Return how the results of a case differ from the expected ones; empty if they do not.

    Parameters
    ----------
    exact : bool
        Whether results must be equal; otherwise `distance` with `threshold` decides.
    """
    texts = []
    for role, result, right in zip(case.result_roles, results, expected, strict=True):
        text = difference(result, right) if exact else distance(result, right, threshold(case))
        if text:
            texts.append(f"{case.label(role)}: {text}")
    return "; ".join(texts)


def difference(result: Array, expected: Array) -> str:
    """Return how an array differs from the expected one; empty if they are equal.

    Zeros of either sign are equal; NaN equals nothing.
    """
    if unlike := _unlike(result, expected):
        return unlike
    # Comparing float32 is faster than comparing bfloat16, and as exact.
    with np.errstate(all="ignore"):  # of signalling NaN
        different = ~(result.astype(np.float32) == expected.astype(np.float32))
    if not different.any():
        return ""
    first = tuple(map(int, np.unravel_index(int(different.argmax()), different.shape)))
    return (
        f"{np.count_nonzero(different)} of {different.size} elements differ, the first at"
        f" {first}: {result[first]}, expected {expected[first]}"
    )


def distance(result: Array, expected: Array, largest: float) -> str:
    """Return how far an array is from the expected one; empty if that is not too far.

    Parameters
    ----------
    largest : float
        Of the L2 norm of the difference, relative to that of ``expected`` (absolute where that is
        0); four times as much of an element's difference, relative to the largest element. NaN and
        infinities are always too far.
    """
    if unlike := _unlike(result, expected):
        return unlike
    right = expected.astype(np.float64)
    with np.errstate(all="ignore"):  # of signalling NaN, infinities and squares beyond float64
        error = np.abs(result.astype(np.float64) - right)
        relative = float(np.linalg.norm(error.ravel()) / (np.linalg.norm(right.ravel()) or 1.0))
    worst = tuple(map(int, np.unravel_index(int(error.argmax()), error.shape)))
    element = float(error[worst] / (np.abs(right).max() or 1.0))
    if relative > largest or np.isnan(relative):
        text = f"the L2 norm of the difference is {relative:.2g} of the result's, more than"
        text = f"{text} {largest:.2g}; the largest"
    elif element > ELEMENT_FACTOR * largest:
        text = f"an element's difference is {element:.2g} of the largest element, more than"
        text = f"{text} {ELEMENT_FACTOR * largest:.2g}; it is"
    else:
        return ""
    return f"{text} at {worst}: {result[worst]}, expected {expected[worst]}"


def threshold(case: Case) -> float:
    """Return benchdnn's threshold for algorithms that round, such as Winograd's.

    That of weights gradients grows with the length of their sums.
    """
    largest = NORM_THRESHOLDS[case.dtype]
    if "weights" in case.result_roles:
        largest *= max(1.0, (0.125 * case.terms) ** 0.4)
    return largest


def _unlike(result: Array, expected: Array) -> str:
    """Return how type and shape differ; empty if they do not."""
    if result.dtype == expected.dtype and result.shape == expected.shape:
        return ""
    return f"{result.dtype} {result.shape}, expected {expected.dtype} {expected.shape}"


def too_many_zeros(case: Case, expected: Sequence[Array]) -> str:
    """Return why benchdnn would not trust the comparison; empty if it would."""
    for role, array in zip(case.result_roles, expected, strict=True):
        nonzero, least = np.count_nonzero(array) / array.size, _least_nonzero(case, role)
        if array.size >= FEWEST_TO_MISTRUST and nonzero < least:
            return (
                f"{nonzero:.1%} of {case.label(role)} is not zero, less than the {least:.1%}"
                " that make the comparison meaningful"
            )
    return ""


def _least_nonzero(case: Case, role: str) -> float:
    """Return benchdnn's least share of nonzero elements (``get_non_zero_trust_percent``)."""
    d = case.descriptor
    if role == "bias":
        return 0.8
    if role == "src":
        return 0.3 / prod(d.strides)
    if role == "weights":
        positions = prod(d.kernel)
        return 0.3 * min(positions, prod(d.src), prod(d.dst)) / positions
    grows = any(dst > src for src, dst in zip(d.src, d.dst, strict=True))
    return 0.3 / 2 if grows else 0.3
