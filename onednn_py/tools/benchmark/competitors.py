"""Who can be timed from Python: the package in two ways, its NumPy backend, and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py import api as ops
from onednn_py.api.info import package_version
from onednn_py.problem.arrays import DTYPES
from onednn_py.tools.benchdnn.case import Case

from . import torch_calls

__all__ = ["COMPETITORS", "Competitor", "random_inputs"]

Array = npt.NDArray[Any]
Call = Callable[[], object]

# Normal numbers repeat after so many elements, a prime, so that filling takes no longer than
# what is timed.
PERIOD = 1_000_003

# Attributes that a person writes as one integer where all axes are alike.
PER_AXIS = ("strides", "dilations", "pads_begin", "pads_end", "output_padding")


@dataclass(frozen=True)
class Competitor:
    """Something that can be timed.

    Attributes
    ----------
    version : callable
        Returns its name and version; raises ImportError where it is not installed.
    prepared : callable
        Takes a case and its inputs; returns a call that computes the results, and what names
        the implementation once the call has been made.
    """

    version: Callable[[], str]
    prepared: Callable[[Case, list[Array]], tuple[Call, Callable[[], str]]]


def random_inputs(case: Case) -> list[Array]:
    """Return normal numbers for the inputs, in the order and the dtype of the case."""
    block = np.random.default_rng(0).standard_normal(PERIOD, dtype=np.float32)
    return [
        np.resize(block, case.shape(role)).astype(DTYPES[case.dtype]) for role in case.input_roles
    ]


def _own_version() -> str:
    return f"onednn_py {package_version()}"


def _plain(case: Case, inputs: list[Array]) -> tuple[Call, Callable[[], str]]:
    """Return a call of the public function with fresh results, as a person writes it."""
    function = getattr(ops, case.operation.name)
    keywords = dict(case.keywords)
    for name in PER_AXIS:
        if len(values := set(keywords.get(name, ()))) == 1:
            keywords[name] = values.pop()

    def call() -> object:
        return function(*inputs, **keywords)

    return call, lambda: case.plan("auto").implementation


def _planned(case: Case, inputs: list[Array]) -> tuple[Call, Callable[[], str]]:
    """Return a call of a plan that writes its results into given arrays."""
    plan = case.plan("auto")
    results = plan(*inputs)

    def call() -> object:
        return plan(*inputs, out=results)

    return call, lambda: plan.implementation


def _on_numpy(case: Case, inputs: list[Array]) -> tuple[Call, Callable[[], str]]:
    return lambda: case.call(inputs, "numpy"), lambda: "numpy"


def _on_torch(case: Case, inputs: list[Array]) -> tuple[Call, Callable[[], str]]:
    return torch_calls.prepared(case, inputs), lambda: "torch"


COMPETITORS = {
    "ours": Competitor(_own_version, _plain),
    "plan": Competitor(_own_version, _planned),
    "numpy": Competitor(lambda: f"NumPy {np.__version__}", _on_numpy),
    "torch": Competitor(torch_calls.version, _on_torch),
}
