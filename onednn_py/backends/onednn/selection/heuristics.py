"""Heuristics: what to try first without measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod

from onednn_py.problem.problem import Direction, Problem

from .bias_sums import products_write_gradient
from .choice import Choice
from .limits import compute_dtypes
from .preference import OverLimit, Preference
from .rules import AMX_FAMILIES, DEPTHWISE, GEMM, JIT, JIT_1X1, Rule, Shape, rules_of
from .thresholds import (
    GEMM_EXECUTION_FLOPS,
    Work,
    fit_one_thread,
    minibatch_chunks,
)

__all__ = [
    "fallbacks",
    "gains_from_bias_apart",
    "preferences",
    "surely_gains_from_bias_apart",
]

# From so many elements of dst on, by data type, a bias gradient is better summed apart from gemm.
# Apart / in gemm, over 500 1x1 problems that were drawn twice, in geometric mean of the first draw
# and of the second: bf16 from 2048 elements 0.90 and 0.87, from 4096 0.53 and 0.53, from 2**16 0.15
# and 0.13; f32 from 2**15 1.08 and 1.09, from 2**16 0.80 and 0.80, from 2**17 0.64 and 0.62. Below,
# what NumPy has to do takes longer.
LEAST_SUMMED_APART = {"bf16": 2**12, "f32": 2**16}

# Likewise for float32 kernels that read channels last, which load diff_dst once more for its sum.
# Apart / in the kernel, over 123 problems in geometric mean 0.89, at worst 1.09 (160 -> 10, 63 x
# 63, 1x1); 1x1 alone 0.43 to 1.09. Where it does not hold: volumes with larger kernels than 1x1x1,
# 0.95, up to 1.17; smaller problems, 0.95 to 1.6; channels first, 1.0 to 1.2; depthwise, 1.1 to
# 1.6; bfloat16, 1.0 to 1.2.
LEAST_SUMMED_APART_LAST = 2**17

# The figures above are of sums that NumPy adds up. A call takes 0.23 to 0.99 of the time where
# products write the gradient, so that fewer elements are enough. Apart / in gemm, from 2**13
# elements to 2**17: 0.88, at worst 1.56, of 390; from 2**12 1.01 of 72. It was measured on a CPU
# with AVX2 alone; gemm's own sum is the same loop on all CPUs.
LEAST_WRITTEN_APART = 2**13

# Likewise for kernels of AVX2, by the layout of the activations that they read. Channels last, from
# 2**14 elements: 0.76, at worst 1.67, of 581, among them 49 volumes with 0.62; from 2**13 0.96 of
# 84. Other layouts, from 2**15: 0.92, at worst 1.24, of 442; from 2**14 0.98 of 67, of
# transposed convolutions 0.98 of 233. Depthwise kernels: of transposed convolutions with channels
# last 0.51, at worst 0.83, of 14; others 1.16 of 81.
LEAST_WRITTEN_APART_AVX2 = {"last": 2**14, "others": 2**15}

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
        for rule in rules(shape):
            if rule.family in AMX_FAMILIES and cpu_isa and not shape.has_amx:
                continue
            compute = rule.compute_dtype or dtype
            number = chunks if compute == dtype else minibatch_chunks(problem, compute)
            for formulation in _sooner_planned(problem, shape, rule):
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
        for formulation in ANY_PROBLEM:
            threads, gemm_threads = _threads(problem, shape, dtype, formulation, "any")
            yield Preference(
                Choice(dtype, formulation, threads=threads),
                minibatch_chunks=chunks,
                over_limit=over_limit,
                gemm_threads=gemm_threads,
            )


def _sooner_planned(problem: Problem, shape: Shape, rule: Rule) -> tuple[str, ...]:
    """Return a rule's formulation, behind another one that runs as fast and is planned sooner."""
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
    threads, gemm_threads = int(fit_one_thread([work])), None
    if shape.has_avx2_alone and formulation != "matmul":
        gemm_threads = int(fit_one_thread([work._replace(execution_flops=GEMM_EXECUTION_FLOPS)]))
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


def gains_from_bias_apart(problem: Problem, choice: Choice) -> bool:
    """Whether an implementation is faster where it does not sum the bias gradient itself.

    gemm sums with plain loops, and kernels that read channels last load what they sum again; others
    sum what they have loaded anyway, which those of AVX2 do in more time than products take. NumPy
    converts float16 too slowly.
    """
    if not problem.has_bias_gradient or problem.dtype == "f16":
        return False
    if problem.dst.size < min(*LEAST_SUMMED_APART.values(), LEAST_WRITTEN_APART):
        return False  # at once, since small problems are decided often
    least = _least_summed_apart(problem, choice)
    return least is not None and problem.dst.size >= least


def surely_gains_from_bias_apart(problem: Problem, choice: Choice) -> bool:
    """Whether measuring need not try the sum inside of an implementation."""
    is_large = choice.compute_dtype != "f32" or problem.dst.size >= LEAST_SUMMED_APART_LAST
    return is_large and gains_from_bias_apart(problem, choice)


def _least_summed_apart(problem: Problem, choice: Choice) -> int | None:
    """Return how many elements of dst are worth a bias gradient apart, None if it never gains."""
    implementation = choice.implementation
    # Of channels with zeros beside them, NumPy sums the gradient.
    is_padded = choice.formulation == "padded_channels"
    is_written = products_write_gradient(problem) and not is_padded
    if GEMM.search(implementation):
        return LEAST_WRITTEN_APART if is_written else LEAST_SUMMED_APART.get(choice.compute_dtype)
    is_jit = any(family.search(implementation) for family in (JIT, JIT_1X1))
    is_last = _reads_channels_last(problem, choice)
    if is_written and "avx2" in implementation:
        if is_last and (is_jit or (problem.transposed and DEPTHWISE.search(implementation))):
            return LEAST_WRITTEN_APART_AVX2["last"]
        return LEAST_WRITTEN_APART_AVX2["others"] if is_jit and not problem.transposed else None
    is_flat = len(problem.kernel) < 3 or prod(problem.kernel) == 1
    if is_jit and is_last and is_flat and choice.compute_dtype == "f32":
        return LEAST_SUMMED_APART_LAST
    return None


def _reads_channels_last(problem: Problem, choice: Choice) -> bool:
    is_given = choice.activations == "given" and problem.dst.strides[1] == 1
    return is_given or choice.activations == "nxc"


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
