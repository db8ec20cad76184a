"""Both gradients of a convolution in one call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from onednn_py.dispatch.bound_call import Task
from onednn_py.dispatch.call_cache import Array, Ints, run_task
from onednn_py.dispatch.planner import Job
from onednn_py.errors import AttributeValueError, ShapeError
from onednn_py.problem.arrays import share_memory, spec_of
from onednn_py.problem.recipe import Recipe, recipe

__all__ = ["Gradients", "conv_transpose_backward", "convolution_backward", "joint_task"]

WRT = ("src", "weights", "bias")


class Gradients(NamedTuple):
    """Gradients of one call, None where not asked for."""

    diff_src: Array | None
    diff_weights: Array | None
    diff_bias: Array | None


def convolution_backward(
    src: Array,
    weights: Array,
    diff_dst: Array,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    wrt: Collection[str] = ("src", "weights"),
    out: Sequence[Array | None] | None = None,
    backend: str | None = None,
    fpmath_mode: str | None = None,
) -> Gradients:
    """Return the gradients of `convolution` with respect to src, weights and bias.

    Parameters
    ----------
    src : ndarray, shape (N, *S, I)
    weights : ndarray, shape (*kernel, I/groups, O)
    diff_dst : ndarray, shape (N, *X, O)
    wrt : sequence of {"src", "weights", "bias"}
        Which gradients to compute.
    out : (diff_src, diff_weights, diff_bias), optional
        Arrays to write, None for new ones; a `Gradients` of an earlier call will do.

    The other attributes are those of `convolution`.

    Returns
    -------
    Gradients

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.

    Examples
    --------
    >>> import numpy as np, onednn_py
    >>> src = np.ones((1, 3, 3, 1), np.float32)
    >>> weights = np.ones((2, 2, 1, 1), np.float32)
    >>> diff_dst = np.ones((1, 2, 2, 1), np.float32)
    >>> gradients = onednn_py.convolution_backward(src, weights, diff_dst, wrt=("weights",))
    >>> gradients.diff_weights.ravel().tolist(), gradients.diff_src
    ([4.0, 4.0, 4.0, 4.0], None)
    """
    return _backward(
        "convolution_backward",
        {"src": src, "weights": weights, "diff_dst": diff_dst},
        {
            "strides": strides,
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "dilations": dilations,
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
            "weights_format": weights_format,
            "wrt": wrt,
        },
        out,
        backend,
        fpmath_mode,
    )


def conv_transpose_backward(
    src: Array,
    weights: Array,
    diff_dst: Array,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    output_padding: Ints = 0,
    wrt: Collection[str] = ("src", "weights"),
    out: Sequence[Array | None] | None = None,
    backend: str | None = None,
    fpmath_mode: str | None = None,
) -> Gradients:
    """Return the gradients of `conv_transpose` with respect to src, weights and bias.

    Parameters
    ----------
    src : ndarray, shape (N, *X, I)
    weights : ndarray, shape (*kernel, O/groups, I)
    diff_dst : ndarray, shape (N, *S, O)
    wrt : sequence of {"src", "weights", "bias"}
        Which gradients to compute.
    out : (diff_src, diff_weights, diff_bias), optional
        Arrays to write, None for new ones; a `Gradients` of an earlier call will do.

    The other attributes are those of `conv_transpose`.

    Returns
    -------
    Gradients

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.
    """
    return _backward(
        "conv_transpose_backward",
        {"src": src, "weights": weights, "diff_dst": diff_dst},
        {
            "strides": strides,
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "dilations": dilations,
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
            "weights_format": weights_format,
            "output_padding": output_padding,
            "wrt": wrt,
        },
        out,
        backend,
        fpmath_mode,
    )


def _backward(
    name: str,
    tensors: Mapping[str, Any],
    arguments: Mapping[str, Any],
    out: Any,
    backend: str | None,
    fpmath_mode: str | None,
) -> Gradients:
    def task() -> tuple[Task, Mapping[str, Any]]:
        return joint_task(name, tensors, arguments), tensors

    made: Gradients = run_task(name, task, tensors, (False, arguments), out, backend, fpmath_mode)
    return made


def joint_task(name: str, tensors: Mapping[str, Any], arguments: Mapping[str, Any]) -> Task:
    """Return the task of the gradients that ``arguments["wrt"]`` names.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.
    """
    attributes = dict(arguments)
    asked = _asked(name, attributes.pop("wrt"))
    family = "conv_transpose" if name.startswith("conv_transpose") else "convolution"
    src, weights, diff_dst = (tensors[tensor] for tensor in ("src", "weights", "diff_dst"))
    src_shape = spec_of(f"{name}: src", src).shape
    # Both are made whatever is asked: together they check all three tensors.
    size = {} if family == "conv_transpose" else {"dst_shape": src_shape}
    data = recipe(
        f"{family}_backward_data",
        {"diff_dst": diff_dst, "weights": weights},
        {**attributes, **size},
    )
    if data.result_shape != src_shape:
        raise ShapeError(
            f"{name}: diff_dst belongs to a src of {data.result_shape}, got {src_shape}"
        )
    shape = {"weights_shape": spec_of(f"{name}: weights", weights).shape}
    gradient = recipe(
        f"{family}_backward_weights",
        {"src": src, "diff_dst": diff_dst},
        {**attributes, **shape},
        bias="bias" in asked,
    )
    views = {
        "diff_src": data.views["src"],
        "diff_weights": gradient.views["weights"],
        "diff_bias": gradient.views.get("bias"),
    }

    def jobs(strides: Mapping[str, tuple[int, ...]], mode: str) -> tuple[Job, ...]:
        made = []
        if "src" in asked:
            names = {"src": "diff_src", "dst": "diff_dst"}
            made.append(_job(data, names, strides, mode))
        if "weights" in asked or "bias" in asked:
            names = {"weights": "diff_weights", "dst": "diff_dst", "bias": "diff_bias"}
            made.append(_job(gradient, names, strides, mode, only_bias="weights" not in asked))
        return tuple(made)

    return Task(
        name,
        data.dtype,
        {
            "src": gradient.views["src"],
            "weights": data.views["weights"],
            "diff_dst": data.views["dst"],
        },
        {f"diff_{key}": view for key in WRT if key in asked and (view := views[f"diff_{key}"])},
        jobs,
        partial(_outs, name, asked),
        partial(_gradients, asked),
    )


def _job(
    made: Recipe,
    names: Mapping[str, str],
    strides: Mapping[str, tuple[int, ...]],
    mode: str,
    *,
    only_bias: bool = False,
) -> Job:
    dense = made.dense_strides()
    own = {role: strides.get(names.get(role, role), dense[role]) for role in made.views}
    return Job(made.problem(own, mode), tuple(names.items()), only_bias)


def _asked(name: str, wrt: Any) -> frozenset[str]:
    asked: Any = [wrt] if isinstance(wrt, str) else wrt
    if not isinstance(asked, Collection) or not asked or any(key not in WRT for key in asked):
        raise AttributeValueError(f"{name}: wrt: expected some of {', '.join(WRT)}; got {wrt!r}")
    return frozenset(asked)


def _gradients(asked: frozenset[str], results: Sequence[Array]) -> Gradients:
    found = iter(results)
    return Gradients(*(next(found) if key in asked else None for key in WRT))


def _outs(name: str, asked: frozenset[str], out: Any) -> list[Any]:
    given = _outputs(name, out)
    return [array for key, array in zip(WRT, given, strict=True) if key in asked]


def _outputs(name: str, out: Any) -> tuple[Array | None, ...]:
    if out is None:
        return (None,) * len(WRT)
    if not isinstance(out, (tuple, list)) or len(out) != len(WRT):
        raise AttributeValueError(
            f"{name}: out: expected (diff_src, diff_weights, diff_bias), None for a new array;"
            f" got {type(out).__qualname__}"
        )
    given = [array for array in out if isinstance(array, np.ndarray)]
    for first, second in combinations(given, 2):
        if share_memory(first, second):
            raise AttributeValueError(f"{name}: out: two of the arrays share memory")
    return tuple(out)
