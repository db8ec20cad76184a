"""A call without its memory: from a function's arguments to the problems that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, islice
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from onednn_py.errors import AttributeValueError, ShapeError, brief

from .arrays import share_memory, spec_of
from .foreign import is_foreign_array
from .formats import TensorView
from .operations import OPERATIONS, JointOperation, Operation
from .problem import Direction, Problem
from .recipe import Recipe, common_rank_and_dtype, recipe

__all__ = ["CallSpec", "Gradients", "SubProblem", "call_spec"]

Array = npt.NDArray[Any]

# The names that ``wrt`` accepts, in the order of the results.
WRT = ("src", "weights", "bias")

# Entries of a wrong `wrt` that are looked at.
MOST_NAMES = 64


class Gradients(NamedTuple):
    """Gradients of one call, None where not asked for."""

    diff_src: Array | None
    diff_weights: Array | None
    diff_bias: Array | None

    def __repr__(self) -> str:
        entries = [f"    {name}: {_described(array)}" for name, array in self._asdict().items()]
        return "\n".join(["Gradients(", *entries, ")"])


def _described(array: Any) -> str:
    """Return type and shape of an array, of any library, and other values shortly."""
    try:
        return f"{array.dtype}, shape {tuple(array.shape)}"
    except Exception:  # what users' own maps over gradients gave, such as norms
        return brief(array)


# Pickles and messages name it as users do.
Gradients.__module__ = "onednn_py"


@dataclass(frozen=True)
class SubProblem:
    """A problem of a call, and the call's names of its tensors.

    Attributes
    ----------
    problem : Problem
    names : tuple of (str, str)
        Role in the problem, and the tensor's name in the call, where the two differ.
    only_bias : bool
        Of a weights gradient, whether its bias alone is computed.
    """

    problem: Problem
    names: tuple[tuple[str, str], ...] = ()
    only_bias: bool = False

    def tensors(self, named: Mapping[str, Array]) -> dict[str, Array]:
        """Return the call's tensors by their roles in the problem."""
        names = dict(self.names)
        return {
            role: named[names.get(role, role)]
            for role in self.problem.layouts
            if names.get(role, role) in named
        }


class _NamedRecipe(NamedTuple):
    """An operation of a call, and the call's names of its tensors, see `SubProblem`."""

    recipe: Recipe
    names: dict[str, str]
    only_bias: bool = False


@dataclass(frozen=True)
class CallSpec:
    """A call without its memory.

    Attributes
    ----------
    operation : str
        The function's name.
    dtype : str
    inputs, results : dict
        How each tensor, by the call's name of it, is seen in canonical order.
    recipes : tuple
        The operations that the call is made of.
    is_joint : bool
        Whether `Gradients` are returned.
    returned : callable
        What makes the function's value of the results: one, a tuple, or `Gradients`.
    """

    operation: str
    dtype: str
    inputs: dict[str, TensorView]
    results: dict[str, TensorView]
    recipes: tuple[_NamedRecipe, ...]
    is_joint: bool = False
    returned: Callable[[Sequence[Array]], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        returned: Callable[[Sequence[Array]], Any]
        returned = itemgetter(0) if len(self.results) == 1 else tuple
        if self.is_joint:
            # Not a bound method: a cycle of references would wait for the garbage collector.
            returned = partial(_gradients, [name in self.results for name in Gradients._fields])
        object.__setattr__(self, "returned", returned)

    def sub_problems(
        self, strides: Mapping[str, tuple[int, ...]], fpmath_mode: str = "strict"
    ) -> tuple[SubProblem, ...]:
        """Return the problems for tensors of these strides.

        Parameters
        ----------
        strides : mapping
            By the call's names, in elements; a tensor that it does not have is dense.
        fpmath_mode : str
        """
        sub_problems = []
        for single, names, only_bias in self.recipes:
            own = {
                role: strides[name]
                for role in single.views
                if (name := names.get(role, role)) in strides
            }
            problem = single.problem(own, fpmath_mode)
            sub_problems.append(SubProblem(problem, tuple(names.items()), only_bias))
        return tuple(sub_problems)

    def outs(self, out: Any) -> list[Any]:
        """Return the caller's ``out`` as one entry a result, None for a new array.

        Raises
        ------
        AttributeValueError
            If it has another number of entries, or two of them share memory.
        """
        if self.is_joint:
            entries = _joint_outs(self.operation, out)
            # An array of an earlier call's `Gradients` for which there is no result stays as it is.
            return [entries[name] for name in Gradients._fields if name in self.results]
        labels = [self.label(name) for name in self.results]
        if len(labels) > 1 and isinstance(out, (tuple, list)):
            if len(out) != len(labels):
                raise AttributeValueError(
                    f"{self.operation}: out: expected ({', '.join(labels)}), got {len(out)} entries"
                )
            return list(out)
        return [out] + [None] * (len(labels) - 1)

    def label(self, name: str) -> str:
        """Return the caller's name of a result."""
        operation = OPERATIONS[self.operation]
        if isinstance(operation, Operation) and name == operation.result_role:
            return operation.result
        return name if name.startswith("diff_") or name == "dst" else f"diff_{name}"


def call_spec(name: str, arguments: Mapping[str, Any]) -> CallSpec:
    """Check the arguments of a function and return the call that they describe.

    Parameters
    ----------
    name : str
        Of the function, a key of `OPERATIONS`.
    arguments : mapping
        By the function's names, without ``out``, ``backend`` and ``fpmath_mode``; attributes that
        are left out have their defaults.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.
    """
    operation = OPERATIONS[name]
    if isinstance(operation, Operation):
        return _single(operation, arguments)
    return _joint(operation, arguments)


def _single(operation: Operation, arguments: Mapping[str, Any]) -> CallSpec:
    """Return the call of one operation; its tensors are named by their roles."""
    single = recipe(operation, arguments)
    results = [operation.result_role]
    if operation.direction is Direction.BACKWARD_WEIGHTS and "bias" in single.views:
        results.append("bias")
    return CallSpec(
        operation.name,
        single.dtype,
        {
            role: single.views[role]
            for role in operation.tensors.values()
            if role in single.views and role not in results
        },
        {role: single.views[role] for role in results},
        (_NamedRecipe(single, {}),),
    )


def _joint(operation: JointOperation, arguments: Mapping[str, Any]) -> CallSpec:
    name, attributes = operation.name, dict(arguments)
    asked = _asked(name, attributes.pop("wrt", ("src", "weights")))
    specs = {
        tensor: spec_of(f"{name}: {tensor}", attributes.pop(tensor)) for tensor in operation.tensors
    }
    common_rank_and_dtype(name, specs, arguments.get("groups"))
    src_shape, weights_shape = specs["src"].shape, specs["weights"].shape
    # Both recipes are made even for a single gradient: together they check all three tensors. The
    # first speaks of src and diff_dst, which the caller gave.
    weights = recipe(
        operation.backward_weights,
        {
            **attributes,
            "src": specs["src"],
            "diff_dst": specs["diff_dst"],
            "weights": weights_shape,
            "bias": "bias" in asked,
        },
    )
    src = recipe(
        operation.backward_data,
        {
            **attributes,
            "diff_dst": specs["diff_dst"],
            "weights": specs["weights"],
            **({"src": src_shape} if operation.backward_data.shape_argument else {}),
        },
    )
    if src.result_shape != src_shape:
        raise ShapeError(
            f"{name}: diff_dst belongs to a src of {src.result_shape}, got {src_shape}"
        )
    recipes, results = [], {}
    if "src" in asked:
        recipes.append(_NamedRecipe(src, {"src": "diff_src", "dst": "diff_dst"}))
        results["diff_src"] = src.views["src"]
    if "weights" in asked or "bias" in asked:
        names = {"weights": "diff_weights", "dst": "diff_dst", "bias": "diff_bias"}
        recipes.append(_NamedRecipe(weights, names, only_bias="weights" not in asked))
        results |= {
            f"diff_{key}": weights.views[key] for key in ("weights", "bias") if key in asked
        }
    inputs = {
        "src": weights.views["src"],
        "weights": src.views["weights"],
        "diff_dst": src.views["dst"],
    }
    return CallSpec(name, src.dtype, inputs, results, tuple(recipes), is_joint=True)


def _gradients(asked: Sequence[bool], results: Sequence[Array]) -> Gradients:
    """Return the results that there are, in the order of the fields."""
    found = iter(results)
    return Gradients(*[next(found) if is_asked else None for is_asked in asked])


def _asked(name: str, wrt: Any) -> frozenset[str]:
    asked: Any = [wrt] if isinstance(wrt, str) else wrt
    is_array = isinstance(asked, np.ndarray) or is_foreign_array(asked)
    is_list = isinstance(asked, Collection) and not is_array
    # An array as an entry would be compared element by element.
    if not is_list or not asked or any(not isinstance(key, str) or key not in WRT for key in asked):
        hint = ""
        some = islice(asked, MOST_NAMES) if is_list else ()
        if any(isinstance(key, str) and key in Gradients._fields for key in some):
            hint = "; the names are those of the tensors, without diff_"
        raise AttributeValueError(
            f"{name}: wrt: expected some of {', '.join(WRT)}; got {brief(wrt)}{hint}"
        )
    return frozenset(asked)


def _joint_outs(name: str, out: Any) -> dict[str, Any]:
    """Return the arrays of a `Gradients` to write, by their names in it."""
    if out is None:
        return dict.fromkeys(Gradients._fields)
    if not isinstance(out, (tuple, list)) or len(out) != len(Gradients._fields):
        is_list = isinstance(out, (tuple, list))
        raise AttributeValueError(
            f"{name}: out: expected ({', '.join(Gradients._fields)}), None for a new array;"
            f" got {f'{len(out)} entries' if is_list else brief(out)}"
        )
    given = [array for array in out if isinstance(array, np.ndarray)]
    for first, second in combinations(given, 2):
        if share_memory(first, second):
            raise AttributeValueError(f"{name}: out: two of the arrays share memory")
    return dict(zip(Gradients._fields, out, strict=True))
