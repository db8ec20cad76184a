"""Problems in a line of text, for tests of rules: which rules apply to them, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import onednn_py
from onednn_py.backends.onednn.selection.rules import Rule, Shape, rules_of
from onednn_py.problem.problem import Problem
from onednn_py.testing import assert_matches, cases, compare
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.descriptor import parse_descriptor

__all__ = [
    "AMX",
    "AVX2",
    "CPUS",
    "WITHOUT_AMX",
    "applying",
    "assert_exact",
    "assert_own",
    "problem_in",
    "problem_of",
    "shape_of",
]

AMX, WITHOUT_AMX, AVX2 = "avx512_core_amx", "avx512_core_bf16", "avx2"

# CPUs that ask rules of their own: instruction set, and whether AVX-512 takes two halves.
CPUS = {
    "amx": (AMX, False),
    "full width": (WITHOUT_AMX, False),
    "half width": (WITHOUT_AMX, True),
    "avx2": (AVX2, False),
}

TRANSPOSED = "deconv:"

FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "FWD": (onednn_py.convolution, onednn_py.conv_transpose),
    "BWD_D": (onednn_py.convolution_backward_data, onednn_py.conv_transpose_backward_data),
    "BWD_W": (onednn_py.convolution_backward_weights, onednn_py.conv_transpose_backward_weights),
}


def problem_of(
    text: str, direction: str, dtype: str, data_format: str, *, transposed: bool = False
) -> Problem:
    """Return the problem of benchdnn's descriptor."""
    descriptor = parse_descriptor(text, transposed=transposed)
    return Case(descriptor, direction, dtype, data_format).problem()


def problem_in(text: str) -> Problem:
    """Return the problem of a line, as for `applying`."""
    descriptor, direction, dtype, data_format = text.split()
    transposed = descriptor.startswith(TRANSPOSED)
    text = descriptor.removeprefix(TRANSPOSED)
    return problem_of(text, direction, dtype, data_format, transposed=transposed)


def shape_of(text: str, cpu_isa: str, *, halves_avx512: bool) -> Shape:
    """Return the shape of a problem on two threads; the parameters are those of `applying`."""
    problem = problem_in(text)
    return Shape(problem, problem.dtype, available=2, cpu_isa=cpu_isa, halves_avx512=halves_avx512)


def applying(
    rules: Iterable[Rule], text: str, cpu_isa: str = WITHOUT_AMX, *, halves_avx512: bool = True
) -> list[Rule]:
    """Return which of some rules apply to a problem on two threads, in the order of asking.

    Parameters
    ----------
    rules : iterable of Rule
    text : str
        benchdnn's descriptor, with ``deconv:`` in front of a transposed one; direction; data type;
        data format.
    cpu_isa : str, optional
    halves_avx512 : bool, optional
        As the CPU does on which most rules without AMX were fitted.
    """
    shape = shape_of(text, cpu_isa, halves_avx512=halves_avx512)
    wanted = set(map(id, rules))
    return [rule for rule in rules_of(shape) if id(rule) in wanted]


def assert_own(cpu: str, rules: Iterable[Rule], text: str, said: tuple[str, str]) -> None:
    """Fail unless a CPU alone asks some rules about a problem, and the first says what is expected.

    Parameters
    ----------
    cpu : str
        Key of `CPUS`.
    rules : iterable of Rule
    text : str
        As for `applying`.
    said : (str, str)
        Activations, and the name of an implementation that the rule prefers.
    """
    rules = tuple(rules)
    asked = {
        name: applying(rules, text, isa, halves_avx512=halves)
        for name, (isa, halves) in CPUS.items()
    }
    rule, *_ = asked.pop(cpu)
    activations, implementation = said
    assert rule.activations == activations
    assert rule.family.search(implementation)
    assert not any(asked.values())


def assert_exact(text: str) -> None:
    """Compare oneDNN's result of a problem, on small integers, with that of float64."""
    descriptor, direction, dtype, data_format = text.split()
    kind = direction[:3] if direction.startswith("FWD") else direction[:5]
    function = FUNCTIONS[kind][descriptor.startswith(TRANSPOSED)]
    for case in cases(descriptor, directions=[direction], dtypes=dtype, formats=data_format):
        assert_matches(function, case, against="float64")
        # What cannot be judged matches, too.
        assert compare(function, [case], against="float64").passed == 1
