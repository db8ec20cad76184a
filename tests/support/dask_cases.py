"""Dask arrays of a `Case`, chunked anyhow, and the comparison with the NumPy functions."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np

import onednn_py
from tests.support.cases import Tensors

DASK_FUNCTIONS = (
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weights",
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
)


def drawn_chunks(
    shape: tuple[int, ...], rng: random.Random, most: int | None = None
) -> tuple[tuple[int, ...], ...]:
    """Chunks of any sizes, thin ones, and one or several along every axis, ``most`` at the most."""
    chunks = []
    for extent in shape:
        pieces = min(rng.choice([1, 1, 2, 3, extent]), most or extent)
        edges = sorted(rng.randrange(1, extent) for _ in range(min(pieces, extent) - 1))
        edges = sorted({0, *edges, extent})
        chunks.append(tuple(b - a for a, b in pairwise(edges)) or (0,))
    return tuple(chunks)


def assert_equal_values(actual: Any, expected: Any) -> None:
    """Both have equal shapes, types and values, with zeros of any sign; tuples entry by entry."""
    if isinstance(expected, tuple):
        assert isinstance(actual, tuple)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_equal_values(one, other)
        return
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, expected {expected.dtype}"
    # A zero may be negative where a partial sum was.
    different = actual.astype(np.float64) != expected.astype(np.float64)
    if different.any():
        index = tuple(int(i) for i in np.argwhere(different)[0])
        raise AssertionError(
            f"{different.sum()} of {different.size} elements differ; at {index}:"
            f" {actual[index]}, expected {expected[index]}"
        )


def dask_arguments(
    tensors: Tensors,
    function: str,
    seed: int,
    data_format: str,
    weights_first: bool,
    form: str,
    most: int | None = None,
) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Arguments of a function: NumPy's, then with dask arrays of drawn chunks, and the keywords."""
    import dask.array as da

    rng = random.Random(seed)
    positional, keywords = tensors.arguments(function, data_format, weights_first, form)
    chunked = []
    for number, value in enumerate(positional):
        if isinstance(value, np.ndarray) and (number == 0 or rng.random() < 0.8):
            value = da.from_array(value, chunks=drawn_chunks(value.shape, rng, most))
        chunked.append(value)
    return positional, chunked, keywords


def check_blocks(
    tensors: Tensors,
    function: str,
    seed: int = 0,
    *,
    data_format: str = "NXC",
    weights_first: bool = False,
    form: str = "native",
    scheduler: Any = "synchronous",
) -> None:
    """The function on dask arrays gives what it gives on NumPy's, to the last bit."""
    import dask

    from onednn_py import dask as chunked_functions

    positional, chunked, keywords = dask_arguments(
        tensors, function, seed, data_format, weights_first, form
    )
    expected = getattr(onednn_py, function)(*positional, **keywords)
    lazy = getattr(chunked_functions, function)(*chunked, **keywords, split_every=2 + seed % 3)
    actual = dask.compute(lazy, scheduler=scheduler)[0]
    assert_equal_values(actual, expected)
    for array, result in zip(
        lazy if isinstance(lazy, tuple) else [lazy],
        actual if isinstance(actual, tuple) else [actual],
        strict=True,
    ):
        assert array.shape == result.shape
        assert array.dtype == result.dtype == array._meta.dtype
