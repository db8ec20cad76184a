"""Heuristics: what to try first without measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from onednn_py.problem.problem import Direction, Problem

from .choice import Choice
from .limits import compute_dtypes
from .preference import OverLimit, Preference
from .rules import AMX_FAMILIES, ANY_NAME, Rule, Shape, always, rules_of
from .thresholds import (
    GEMM_EXECUTION_FLOPS,
    Work,
    minibatch_chunks,
    one_thread_is_enough,
)

__all__ = ["fallbacks", "preferences"]

# CPUs that have kernels of bfloat16, but no instructions for its products. There, float32 is faster
# where a problem has so many flops for each element of src and dst, which NumPy converts. Of the
# survey's problems, with oneDNN kept to AVX512_CORE, 551 take 0.62 of the time in geometric mean
# (5.8 at worst), and 441 drawn after the rule 0.60 (4.1: 6 -> 32, 5 x 5, 3x3, 40 microseconds).
EMULATES_BF16 = ("avx512_core", "avx512_core_vnni")
LEAST_FLOPS_AN_ELEMENT = 64

# Columns of dst from which transposed convolutions with channels last are data gradients of
# convolutions, with AVX2 alone. oneDNN finds the same implementation either way, but sooner: 16,000
# columns of 64 to 128 channels, stride 2, in 0.07 s and not in 2.3 s. Over 448 drawn problems,
# planning takes 0.46 of the time in geometric mean, and executions 0.995, at worst 1.24.
LONG_ROW = 2**10

# Formulations that no rule need ask for, the family's own primitive first.
ANY_PROBLEM = ("direct", "as_convolution", "flipped")
OWN_LAYOUTS = tuple(
    Rule(always, "any", ANY_NAME, "where no other rule holds", formulation)
    for formulation in ANY_PROBLEM
)


def preferences(
    problem: Problem,
    available: int = 0,
    cpu_isa: str = "",
    *,
    halves_avx512: bool = False,
    rules: Callable[[Shape], Iterable[Rule]] = rules_of,
) -> Iterator[Preference]:
    """Yield what to try first, best first.

    Parameters
    ----------
    problem : Problem
    available : int, optional
        The number of threads that the call has; 0 for several.
    cpu_isa : str, optional
        oneDNN's name of the CPU's instruction sets.
    halves_avx512 : bool, optional
        Whether the CPU computes with half an AVX-512 register at a time.
    rules : callable, optional
        The rules for a shape, best first.
    """
    for dtype in _preferred_dtypes(problem, cpu_isa):
        chunks = minibatch_chunks(problem, dtype)
        # In float32 there mostly is an implementation that takes less memory, and time: those
        # over the limit take, in chunks, 1.8 times as long for 3-D backward data with channels
        # last, 1.2 times for a forward 1x1. In the smaller types all take much.
        over_limit = OverLimit.PASSED_OVER if problem.dtype == "f32" else OverLimit.SPLIT
        shape = Shape(
            problem, dtype, available=available, cpu_isa=cpu_isa, halves_avx512=halves_avx512
        )
        for rule in chain(rules(shape), OWN_LAYOUTS):
            if rule.family in AMX_FAMILIES and cpu_isa and not shape.has_amx:
                continue
            compute = rule.compute_dtype or dtype
            number = chunks if compute == dtype else minibatch_chunks(problem, compute)
            for formulation in _formulations(rule, problem, shape):
                way = compute, formulation, rule.activations
                threads, gemm_threads = rule.threads, None
                if threads is None:
                    threads, gemm_threads = _threads(problem, shape, *way)
                yield Preference(
                    Choice(*way, rule.weights, threads=threads),
                    rule.family,
                    minibatch_chunks=number,
                    over_limit=OverLimit.SPLIT if rule.splits else over_limit,
                    gemm_threads=gemm_threads,
                )


def _formulations(rule: Rule, problem: Problem, shape: Shape) -> tuple[str, ...]:
    """Return a rule's formulation, behind an equal formulation that oneDNN plans sooner."""
    if (
        rule.formulation == "direct"
        and rule.activations in ("given", "nxc")
        and shape.has_avx2_alone
        and problem.transposed
        and problem.direction is Direction.FORWARD
        and problem.bias is None
        and problem.dst.shape[-1] >= LONG_ROW
        and shape.channels_last
    ):
        return ("as_convolution", "direct")
    return (rule.formulation,)


def _threads(
    problem: Problem, shape: Shape, compute_dtype: str, formulation: str, activations: str
) -> tuple[int, int | None]:
    """Return the numbers of threads that a choice, and gemm in its place, are worth."""
    if not shape.small:
        return 0, None
    decides_work = shape.has_two_threads and (shape.has_half_width or shape.has_avx2_alone)
    if not decides_work or compute_dtype != problem.dtype:
        return 1, None
    if not _is_executed_once(shape, formulation):
        return 1, None
    work = Work(problem, activations)
    threads, gemm_threads = int(one_thread_is_enough([work])), None
    if shape.has_avx2_alone and formulation != "matmul":
        gemm_threads = int(
            one_thread_is_enough([work._replace(execution_flops=GEMM_EXECUTION_FLOPS)])
        )
    return threads, gemm_threads


def _is_executed_once(shape: Shape, formulation: str) -> bool:
    """Whether a formulation takes one execution of its primitive."""
    if formulation == "flipped":  # one for each phase of the strides
        return not shape.strided
    if formulation == "matmul":  # of weights, one for each image with channels first
        return shape.channels_last or not shape.weights
    return formulation in ("direct", "as_convolution")


def _preferred_dtypes(problem: Problem, cpu_isa: str) -> tuple[str, ...]:
    """Return the data types in which to compute a problem, best first."""
    dtypes = compute_dtypes(problem, cpu_isa)
    elements = problem.src.size + problem.dst.size
    if (
        problem.dtype == "bf16"
        and cpu_isa in EMULATES_BF16
        and problem.flops >= LEAST_FLOPS_AN_ELEMENT * elements
    ):
        return dtypes[::-1]
    return dtypes


def fallbacks(problem: Problem, cpu_isa: str = "") -> Iterator[Preference]:
    """Yield the ways to compute any problem, the first that exists to be taken.

    oneDNN's own layouts come before copies with channels last, then any candidate within the
    workspace limit before those over it, then the tensors' own type before float32, then the
    family's own primitive before another formulation. Reference implementations come at the end:
    with AVX2, oneDNN's own layouts have nothing else for 1 -> 3 channels, 216 x 281, 11x11,
    forward, which takes 178 ms, and gemm on a copy takes 4.9.
    """
    dtypes = compute_dtypes(problem, cpu_isa)
    for activations in ("any", "nxc"):
        choices = [
            Choice(dtype, formulation, activations)
            for dtype in dtypes
            for formulation in ANY_PROBLEM
        ]
        for choice in choices:
            yield Preference(choice, over_limit=OverLimit.SPLIT)
        for choice in choices:
            yield Preference(choice, over_limit=OverLimit.SPLIT_OR_LEAST)
    for dtype in dtypes:
        yield Preference(Choice(dtype, reference=True), over_limit=OverLimit.SPLIT_OR_LEAST)
