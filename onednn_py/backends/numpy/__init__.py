"""The NumPy backend: every operation as matrix products, or elementwise products.

The six operations are two computations: a correlation (forward; backward data is one for
every remainder of the stride, or col2im where these are many) and the weights' gradient.
Python loops run over tiles, which bound the temporary memory, never over pixels or single
images; tiles run on several threads.
"""

from __future__ import annotations

from collections.abc import Hashable

from onednn_py.backends.base import BiasPlan, Plan, sequence
from onednn_py.problem.call_spec import SubProblem
from onednn_py.problem.problem import Problem

from .plan import NumPyPlan

__all__ = ["NumPyBackend"]


class NumPyBackend:
    """Plans of NumPy's operations; it computes every problem, on every machine."""

    name = "numpy"

    def __init__(self, reason: str = "") -> None:
        self._reason = reason

    def instead(self, reason: str) -> NumPyBackend:
        """Return the same backend, whose plans say why another backend does not compute."""
        return NumPyBackend(reason)

    def prepare(self) -> Hashable:
        """See `Backend.prepare`; every execution asks for the number of threads itself."""
        return self._reason

    def supports(self, problem: Problem) -> None:
        """See `Backend.supports`."""
        return None

    def plan(self, sub_problems: tuple[SubProblem, ...], effort: str = "heuristic") -> Plan:
        """See `Backend.plan`."""
        plans = [
            BiasPlan() if sub_problem.only_bias else NumPyPlan(sub_problem.problem, self._reason)
            for sub_problem in sub_problems
        ]
        return sequence(sub_problems, plans)
