"""For which implementations a bias gradient is summed faster apart from the weights gradient."""

from __future__ import annotations

from math import prod

from onednn_py.problem.problem import Problem

from .bias_sums import products_write_gradient
from .choice import Choice
from .rules import DEPTHWISE, GEMM, JIT, JIT_1X1

__all__ = ["gains_from_bias_apart", "surely_gains_from_bias_apart"]

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
