"""Fill the tensors of a case with benchdnn's sparse integers, or with normal numbers.

The integers have the ranges and densities of benchdnn's (oneDNN, tests/benchdnn: ``get_cfg_map``
and ``get_density`` of conv/cfg.cpp and deconv/cfg.cpp, ``get_safe_n_acc`` of utils/cfg.hpp):
magnitudes are so small and zeros so frequent that the data type holds every partial sum exactly,
and every order of summation gives the same bits. The random generator is NumPy's, so the
numbers differ from benchdnn's.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.dtypes import DATA_TYPES, DTYPES

if TYPE_CHECKING:
    from .case import Case

__all__ = ["density", "fill_integers", "fill_normal", "integers", "largest", "safe_share"]

Array = npt.NDArray[Any]

# Largest magnitude by role and data type; diff_dst has that of dst.
LARGEST = {
    "src": {"f32": 32, "bf16": 4, "f16": 4},
    "weights": {"f32": 32, "bf16": 4, "f16": 2},
    "bias": {"f32": 8, "bf16": 8, "f16": 8},
    "dst": {"f32": 8, "bf16": 4, "f16": 4},
}
TRANSPOSED_LARGEST = {**LARGEST, "weights": {"f32": 32, "bf16": 8, "f16": 2}}


def largest(case: Case, role: str) -> int:
    """Return the largest magnitude of a tensor's integers."""
    table = TRANSPOSED_LARGEST if case.descriptor.transposed else LARGEST
    return table[role][case.dtype]


def density(case: Case, role: str) -> float:
    """Return the share of a tensor's elements that may be nonzero.

    It is below 1 for src in a forward pass, and for diff_dst in a gradient, where a sum would
    otherwise have more terms of the largest magnitude than the data type holds exactly.
    """
    if role != ("src" if case.is_forward else "dst"):
        return 1.0
    return safe_share(case.dtype, case.terms, largest(case, "src") * largest(case, "weights"))


def safe_share(dtype: str, terms: int, largest_product: int) -> float:
    """Return the share of nonzero products with which the data type holds a sum exactly."""
    safe_terms: int = 2 ** DATA_TYPES[dtype].digits // largest_product
    return min(1.0, safe_terms / max(terms, 1))


def fill_integers(case: Case, seed: int = 0) -> tuple[Array, ...]:
    """Return the inputs of a case, in the order of its ``input_roles``.

    The arrays depend on case and seed alone.
    """
    rng = _generator(case, seed)
    return tuple(
        integers(rng, case.shape(role), case.dtype, largest(case, role), density(case, role))
        for role in case.input_roles
    )


def fill_normal(case: Case, seed: int = 0) -> tuple[Array, ...]:
    """Return the inputs of a case as standard normal numbers rounded to its data type."""
    rng = _generator(case, seed)
    return tuple(
        rng.standard_normal(case.shape(role), np.float32).astype(case.numpy_dtype, copy=False)
        for role in case.input_roles
    )


def _generator(case: Case, seed: int) -> np.random.Generator:
    unnamed = replace(case, descriptor=replace(case.descriptor, name=""))
    return np.random.default_rng([seed, zlib.crc32(unnamed.options.encode())])


def integers(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, limit: int, share: float
) -> Array:
    """Return integers from -limit to limit, of which only a share may be nonzero."""
    # A table lookup is faster than converting all elements to the data type.
    values = np.arange(-limit, limit + 1).astype(DTYPES[dtype])
    indices = rng.integers(0, 2 * limit + 1, prod(shape), dtype=np.uint8)
    if share < 1:
        indices[rng.random(indices.size, np.float32) >= share] = limit
    if indices.size:
        # As in benchdnn, the first element is nonzero at any density.
        indices[0] = limit + 1 + indices[0] % limit
    return values[indices].reshape(shape)
