"""An oracle in float64 that shares no code and no method with the package.

A convolution is a multilinear form: along each spatial axis, the indicator tensor
``T[x, k, s]`` is 1 where window x meets element s with kernel position k. Forward pass
and gradients are contractions of the same form, so that they are adjoint by construction.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

DTYPES = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f64": np.float64,
}


def indicator(
    size: int, count: int, kernel: int, stride: int, dilation: int, pad_begin: int
) -> np.ndarray:
    """T[x, k, s] = 1 where x * stride + k * dilation - pad_begin == s."""
    x, k, s = np.ogrid[:count, :kernel, :size]
    return (x * stride + k * dilation - pad_begin == s).astype(np.float64)


def _per_axis(value, axes):
    return (value,) * axes if isinstance(value, int) else tuple(value)


def contract(result: str, shape, operands, *, strides=1, pads_begin=0, dilations=1, groups=1):
    """Contract the form of a convolution, everything in NCX and OIX.

    Parameters
    ----------
    result : {"src", "weights", "dst"}
        Which of the three is computed from the two others.
    shape : tuple
        Its full shape: (N, I, *S), (O, I/G, *K) or (N, O, *X).
    operands : dict
        The other two, by name.
    """
    axes = len(shape) - 2
    shapes = {name: array.shape for name, array in operands.items()} | {result: tuple(shape)}
    sizes, counts, kernel = (shapes[name][2:] for name in ("src", "dst", "weights"))
    indicators = [
        indicator(*numbers)
        for numbers in zip(
            sizes,
            counts,
            kernel,
            _per_axis(strides, axes),
            _per_axis(dilations, axes),
            _per_axis(pads_begin, axes),
            strict=True,
        )
    ]
    arrays = {name: np.asarray(array).astype(np.float64) for name, array in operands.items()}
    parts = []
    for group in range(groups):
        part = {
            name: _group(array, 0 if name == "weights" else 1, group, groups)
            for name, array in arrays.items()
        }
        parts.append(_contract_group(result, part, indicators))
    return np.concatenate(parts, axis=0 if result == "weights" else 1).reshape(shape)


def _group(array: np.ndarray, axis: int, group: int, groups: int) -> np.ndarray:
    return np.split(array, groups, axis=axis)[group]


def _contract_group(result: str, arrays: dict, indicators: list[np.ndarray]) -> np.ndarray:
    """One group; letters: n minibatch, c and o channels, s t u sizes, x y z windows, k l m kernel.

    The patches, src as every window sees it, stand between: two tensors at a time.
    """
    axes = len(indicators)
    s, x, k = "stu"[:axes], "xyz"[:axes], "klm"[:axes]
    patches = "nc" + x + k
    if result == "src":
        gathered = _two(f"oc{k},no{x}->{patches}", arrays["weights"], arrays["dst"])
        have = patches
        for axis, form in enumerate(indicators):
            want = have.replace(x[axis], s[axis]).replace(k[axis], "")
            gathered = _two(f"{have},{x[axis]}{k[axis]}{s[axis]}->{want}", gathered, form)
            have = want
        return gathered
    gathered, have = arrays["src"], "nc" + s
    for axis, form in enumerate(indicators):
        want = have.replace(s[axis], x[axis]) + k[axis]
        gathered = _two(f"{have},{x[axis]}{k[axis]}{s[axis]}->{want}", gathered, form)
        have = want
    if result == "dst":
        return _two(f"oc{k},{patches}->no{x}", arrays["weights"], gathered)
    return _two(f"no{x},{patches}->oc{k}", arrays["dst"], gathered)


def _two(equation: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.einsum(equation, first, second, optimize=True)


def to_format(array: np.ndarray, format_: str) -> np.ndarray:
    """NCX or OIX array to the named format; IOX and XOI for arrays in (I, O, *K) order."""
    if format_ in ("NCX", "OIX", "IOX"):
        return array
    if format_ == "NXC":
        return np.moveaxis(array, 1, -1)
    return np.moveaxis(array, (1, 0), (-2, -1))


def from_format(array: np.ndarray, format_: str) -> np.ndarray:
    """The inverse of `to_format`."""
    if format_ in ("NCX", "OIX", "IOX"):
        return array
    if format_ == "NXC":
        return np.moveaxis(array, -1, 1)
    return np.moveaxis(array, (-2, -1), (1, 0))


def transposed_weights(weights: np.ndarray, groups: int, form: str = "native") -> np.ndarray:
    """Weights of a convolution (O', I'/G, *K) as those of the transposed one, IOX.

    The transposed convolution's I is the convolution's O' and its O the other's I'.
    ``"native"``: (I, O/G, *K), the same array; ``"documented"``: (I/G, O, *K).
    """
    if form == "native":
        return weights
    outer, inner, *kernel = weights.shape
    split = weights.reshape(groups, outer // groups, inner, *kernel)
    return np.moveaxis(split, 0, 1).reshape(outer // groups, groups * inner, *kernel)


def sparse_integers(rng, shape, dtype: str, *, terms: int, weights: bool = False) -> np.ndarray:
    """Small sparse integers whose sums of ``terms`` products stay exact in the type.

    benchdnn's rule: ranges by type (f32 32, bf16 and f16 4, f16 weights 2), thinned out
    so that no sum leaves the integers that the type represents exactly.
    """
    largest = {"f32": 32, "f64": 32, "bf16": 4, "f16": 2 if weights else 4}[dtype]
    exact = {"f32": 2**24, "f64": 2**53, "bf16": 2**8, "f16": 2**11}[dtype]
    density = min(1.0, exact / (largest * largest * max(terms, 1)))
    density = max(density, min(1.0, 2.0 / max(terms, 1)))
    values = rng.integers(-largest, largest + 1, shape)
    return (values * (rng.random(shape) < density)).astype(DTYPES[dtype])


def assert_exact(actual: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    """The actual values are those of the float64 reference rounded once to the type."""
    assert actual.dtype == DTYPES[dtype], f"dtype {actual.dtype}, expected {dtype}"
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    rounded = expected.astype(DTYPES[dtype]).astype(np.float64)
    different = actual.astype(np.float64) != rounded
    if different.any():
        index = tuple(int(i) for i in np.argwhere(different)[0])
        raise AssertionError(
            f"{different.sum()} of {different.size} elements differ; at {index}:"
            f" {actual[index]}, expected {rounded[index]}"
        )


# PyTorch's dense tolerances (rtol, atol); atol grows with the root of the terms of a sum,
# as the rounding errors of a random walk do.
TOLERANCES = {
    "f32": (1.3e-6, 1e-5),
    "f16": (1e-3, 1e-5),
    "bf16": (1.6e-2, 1e-5),
    "f64": (1e-7, 1e-7),
}


def assert_close(actual: np.ndarray, expected: np.ndarray, dtype: str, *, terms: int) -> None:
    """The actual values are within the type's tolerance of the float64 reference.

    ``terms`` is the number of products in one sum, of values of magnitude about one.
    """
    assert actual.dtype == DTYPES[dtype], f"dtype {actual.dtype}, expected {dtype}"
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    rtol, atol = TOLERANCES[dtype]
    np.testing.assert_allclose(
        actual.astype(np.float64), expected, rtol=rtol, atol=atol * max(1.0, terms) ** 0.5
    )
