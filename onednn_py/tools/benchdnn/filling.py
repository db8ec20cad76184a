"""What the tensors of a case are filled with: benchdnn's sparse integers, or normal numbers.

The integers follow benchdnn's tests (oneDNN, tests/benchdnn: ``get_cfg_map`` and
``get_density`` of conv/cfg.cpp and deconv/cfg.cpp, ``get_safe_n_acc`` of utils/cfg.hpp):
values small enough and zeros frequent enough that sums stay integers which the type holds
exactly, so that every order of summation gives the same bits. The generator is another one,
and so are the numbers.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.arrays import DTYPES
from onednn_py.problem.problem import Direction

from .case import Case

__all__ = ["density", "fill_integers", "fill_normal", "largest"]

Array = npt.NDArray[Any]

# Largest magnitude by type; a gradient of dst has that of dst.
LARGEST = {
    "src": {"f32": 32, "bf16": 4, "f16": 4},
    "weights": {"f32": 32, "bf16": 4, "f16": 2},
    "bias": {"f32": 8, "bf16": 8, "f16": 8},
    "dst": {"f32": 8, "bf16": 4, "f16": 4},
}
TRANSPOSED_LARGEST = {**LARGEST, "weights": {"f32": 32, "bf16": 8, "f16": 2}}

# Digits of the significand, the hidden one too.
DIGITS = {"f32": 24, "bf16": 8, "f16": 11}


def largest(case: Case, role: str) -> int:
    """Return the largest magnitude of a tensor's integers."""
    table = TRANSPOSED_LARGEST if case.descriptor.transposed else LARGEST
    return table[role][case.dtype]


def density(case: Case, role: str) -> float:
    """Return which part of a tensor's elements may be other than zero.

    Only src is thinned out for a forward pass, and only diff_dst for a gradient: to as many
    elements in a sum as the type holds exactly if each product had the largest magnitude.
    """
    forward = case.operation.direction is Direction.FORWARD
    if role != ("src" if forward else "dst"):
        return 1.0
    safe_terms: int = 2 ** DIGITS[case.dtype] // (largest(case, "src") * largest(case, "weights"))
    return min(1.0, safe_terms / max(case.terms, 1))


def fill_integers(case: Case, seed: int = 0) -> tuple[Array, ...]:
    """Return the inputs of a case, in the order of its ``input_roles``.

    The same case and seed give the same arrays, whatever was filled before.
    """
    rng = _generator(case, seed)
    return tuple(_integers(rng, case, role) for role in case.input_roles)


def fill_normal(case: Case, seed: int = 0) -> tuple[Array, ...]:
    """Return the inputs of a case as standard normal numbers rounded to its type."""
    rng = _generator(case, seed)
    return tuple(
        rng.standard_normal(case.shape(role), np.float32).astype(DTYPES[case.dtype], copy=False)
        for role in case.input_roles
    )


def _generator(case: Case, seed: int) -> np.random.Generator:
    nameless = replace(case, descriptor=replace(case.descriptor, name=""))
    return np.random.default_rng([seed, zlib.crc32(nameless.options.encode())])


def _integers(rng: np.random.Generator, case: Case, role: str) -> Array:
    shape, limit, part = case.shape(role), largest(case, role), density(case, role)
    # Looking values up converts them to any type, and is faster than converting.
    values = np.arange(-limit, limit + 1).astype(DTYPES[case.dtype])
    indices = rng.integers(0, 2 * limit + 1, prod(shape), dtype=np.uint8)
    if part < 1:
        indices[rng.random(indices.size, np.float32) >= part] = limit
    if indices.size:
        # As benchdnn does: not everything is zero, however thin.
        indices[0] = limit + 1 + indices[0] % limit
    return values[indices].reshape(shape)
