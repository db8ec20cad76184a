"""The runners that a worker process times: the package in two ways, its NumPy backend, PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import onednn_py
from onednn_py.api.info import package_version
from onednn_py.tools.benchdnn.case import Case

from . import torch_runner

__all__ = ["RUNNERS", "Call", "Runner", "random_inputs"]

Array = npt.NDArray[Any]
Call = Callable[[], object]

# Normal numbers repeat after so many elements, a prime, so that filling takes no longer than
# what is timed.
PERIOD = 1_000_003

# Attributes that a user writes as one integer where all axes are alike.
PER_AXIS = ("strides", "dilations", "pads_begin", "pads_end", "output_padding")


@dataclass(frozen=True)
class Runner:
    """A way to compute cases.

    ``version`` returns the name and version of what runs, or raises ImportError where it is not
    installed. ``prepare`` returns a call that computes a case's results from its inputs, and the
    name of the implementation that it runs.
    """

    version: Callable[[], str]
    prepare: Callable[[Case, list[Array]], tuple[Call, str]]


def random_inputs(case: Case) -> list[Array]:
    """Return normal numbers for the inputs, in the order and the dtype of the case."""
    block = np.random.default_rng(0).standard_normal(PERIOD, dtype=np.float32)
    return [
        np.resize(block, case.shape(role)).astype(case.numpy_dtype) for role in case.input_roles
    ]


def _own_version() -> str:
    return f"onednn_py {package_version()}"


def _plain_call(case: Case, inputs: list[Array]) -> tuple[Call, str]:
    """Return a call of the public function with fresh results, as a user writes it."""
    function = getattr(onednn_py, case.operation.name)
    keywords = dict(case.keywords)
    for name in PER_AXIS:
        if len(values := set(keywords.get(name, ()))) == 1:
            keywords[name] = values.pop()
    return lambda: function(*inputs, **keywords), case.plan("auto").implementation


def _plan_call(case: Case, inputs: list[Array]) -> tuple[Call, str]:
    """Return a call of a plan that writes its results into given arrays."""
    plan = case.plan("auto")
    results = plan(*inputs)
    return lambda: plan(*inputs, out=results), plan.implementation


def _numpy_call(case: Case, inputs: list[Array]) -> tuple[Call, str]:
    return lambda: case.call(inputs, "numpy"), "numpy"


def _torch_call(case: Case, inputs: list[Array]) -> tuple[Call, str]:
    return torch_runner.prepare(case, inputs), "torch"


RUNNERS = {
    "ours": Runner(_own_version, _plain_call),
    "plan": Runner(_own_version, _plan_call),
    "numpy": Runner(lambda: f"NumPy {np.__version__}", _numpy_call),
    "torch": Runner(torch_runner.version, _torch_call),
}
