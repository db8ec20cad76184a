"""The protocol that a backend fits, and the base class of the plans that it makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from onednn_py.problem.call_spec import SubProblem
from onednn_py.problem.problem import Problem
from onednn_py.system.sums import sum_into_bias

__all__ = [
    "AddressRunner",
    "Backend",
    "BiasPlan",
    "PackedOperand",
    "Plan",
    "PlanSequence",
    "sequence",
]

Array = npt.NDArray[Any]


class PackedOperand(Protocol):
    """A tensor in a plan's own memory layout."""

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class AddressRunner:
    """The short way of a plan that needs no more of the tensors than their addresses.

    Attributes
    ----------
    operands : tuple of str
        Names of the tensors whose addresses it takes, in their order.
    pointers : callable
        Takes arrays in the order of ``operands``, and returns their addresses as `run` takes them,
        which may keep the arrays alive.
    run : callable
        Takes the addresses, and computes the results in place of the results' elements. Results
        overlap no other operand.
    run_again : callable
        Does what `run` does if that was done with the same addresses before, else returns False.
    pointer : callable
        Takes the address of one tensor, which its caller keeps alive, and returns it as `run` takes
        it: for tensors that are no arrays.
    """

    operands: tuple[str, ...]
    pointers: Callable[[Sequence[Array]], list[Any]]
    run: Callable[[list[Any]], None]
    run_again: Callable[[list[Any]], bool]
    pointer: Callable[[int], Any]


class Plan(ABC):
    """The calls of one kind, ready to be run from any thread; the base of all backends' plans.

    Attributes
    ----------
    backend, implementation : str
        What computes, as messages name it.
    address_runner : AddressRunner or None
        None where the work needs arrays, such as copies by NumPy, and `execute` alone will do.
    nbytes : int
        What the plan itself keeps alive, roughly.
    """

    backend: str
    implementation: str
    address_runner: AddressRunner | None = None

    @property
    def nbytes(self) -> int:
        return 64

    @abstractmethod
    def execute(self, tensors: Mapping[str, Array], packed: PackedOperand | None = None) -> None:
        """Compute the results from canonical views by name, in place of the results' elements.

        Parameters
        ----------
        tensors : mapping
            By the call's names; the tensor that is packed may be missing.
        packed : PackedOperand, optional
            Made by `pack`.
        """

    def pack(self, name: str, array: Array) -> PackedOperand | None:
        """Return an input, given by its canonical view, in the plan's own memory layout.

        None if the plan has none.
        """
        return None

    def accepts(self, packed: PackedOperand) -> bool:
        """Whether an operand was packed in the layout that this plan reads."""
        return False


class Backend(Protocol):
    """A library that computes problems.

    Attributes
    ----------
    name : str
        By which calls choose it.
    """

    name: str

    def prepare(self) -> Hashable:
        """Put the settings of threads in force on the calling thread, and return the state.

        It is called before every call. The state is all that plans depend on besides their
        problems: a plan made in one state is used in no other.

        Raises
        ------
        LibraryNotFoundError
            If the backend cannot be used here.
        """
        ...

    def supports(self, problem: Problem) -> str | None:
        """Return None if the backend takes a problem, otherwise the reason why not."""
        ...

    def plan(self, sub_problems: tuple[SubProblem, ...], effort: str) -> Plan:
        """Return a plan of all problems of a call.

        Raises
        ------
        OneDNNError
            With status ``unimplemented`` if no implementation takes one of them.
        """
        ...


class BiasPlan(Plan):
    """The bias gradient alone, a sum that needs no primitive."""

    backend = "numpy"
    implementation = "numpy sum"

    def __repr__(self) -> str:
        return "bias: numpy, the sum of diff_dst"

    def execute(self, tensors: Mapping[str, Array], packed: PackedOperand | None = None) -> None:
        sum_into_bias(tensors["bias"], tensors["dst"])


class PlanSequence(Plan):
    """Plans of several problems that run one after the other, or of one under the call's names."""

    def __init__(self, sub_problems: tuple[SubProblem, ...], plans: Sequence[Plan]) -> None:
        self._sub_problems, self.plans = sub_problems, tuple(plans)
        self.backend = " and ".join(dict.fromkeys(plan.backend for plan in plans))
        self.implementation = " and ".join(dict.fromkeys(plan.implementation for plan in plans))
        runners = [plan.address_runner for plan in plans if plan.address_runner is not None]
        if len(runners) == len(plans):
            self.address_runner = _joined(sub_problems, runners)

    @property
    def nbytes(self) -> int:
        return sum(plan.nbytes for plan in self.plans)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.plans))

    def execute(self, tensors: Mapping[str, Array], packed: PackedOperand | None = None) -> None:
        for sub_problem, plan in zip(self._sub_problems, self.plans, strict=True):
            plan.execute(sub_problem.tensors(tensors))


def _joined(
    sub_problems: tuple[SubProblem, ...], runners: Sequence[AddressRunner]
) -> AddressRunner:
    """Return a runner of the call's tensors that has each plan's runner take its own."""
    names = [
        [dict(sub_problem.names).get(role, role) for role in runner.operands]
        for sub_problem, runner in zip(sub_problems, runners, strict=True)
    ]
    operands = tuple(dict.fromkeys(name for own in names for name in own))
    parts = [
        (runner.run, [operands.index(name) for name in own])
        for runner, own in zip(runners, names, strict=True)
    ]

    def run(pointers: list[Any]) -> None:
        for run_part, indices in parts:
            run_part([pointers[index] for index in indices])

    def run_again(pointers: list[Any]) -> bool:
        return False

    return AddressRunner(operands, runners[0].pointers, run, run_again, runners[0].pointer)


def sequence(sub_problems: tuple[SubProblem, ...], plans: Sequence[Plan]) -> Plan:
    """Return one plan that runs plans, of one sub-problem each, one after the other."""
    if len(plans) == 1 and not sub_problems[0].names and not sub_problems[0].only_bias:
        return plans[0]
    return PlanSequence(sub_problems, plans)
