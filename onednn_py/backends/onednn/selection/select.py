"""Selection: which of oneDNN's ways to compute a problem a plan takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from onednn_py.backends.onednn.binding.engine import Engine, Handle
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Problem

from .bias_apart import gains_from_bias_apart, surely_gains_from_bias_apart
from .candidate import Candidate
from .choice import LAYOUTS, Choice
from .defects import is_reference
from .descriptors import queries
from .formulations import FORMULATIONS, formulate
from .heuristics import fallbacks
from .limits import compute_dtypes
from .padded_channels import is_worth_padding
from .plain_loops import in_place_of_loops
from .preference import OverLimit, Preference
from .rules import ANY_NAME, DEPTHWISE, GEMM, JIT, NOT_GEMM
from .thresholds import (
    EXECUTION_FLOPS,
    GEMM_EXECUTION_FLOPS,
    Work,
    is_small,
    may_run_on_one_thread,
    minibatch_chunks,
    one_thread_is_enough,
)
from .workspace import (
    agree_on_shared,
    copies_activations,
    descriptors_of,
    feasible,
    over_limit,
    split_candidate,
    split_for_least_memory,
    split_within_limit,
)

__all__ = ["candidate_of", "candidates", "chosen", "select", "with_equal_threads"]

# The implementations that are worth trying where a formulation is made for them.
FAMILIES = {
    "dst_as_weights": DEPTHWISE,
    "padded_channels": JIT,
    "merged_groups": NOT_GEMM,
    "planes": DEPTHWISE,
    "unpadded_depth": NOT_GEMM,
}

# Formulations for what oneDNN's kernels of AVX2 refuse; on other CPUs they were not measured.
WITHOUT_AVX512 = ("merged_groups", "unpadded_depth")


def select(engine: Engine, problem: Problem, preferences: Iterable[Preference]) -> Candidate:
    """Return the candidate of the first preference, or else fallback, that oneDNN implements.

    Raises
    ------
    OneDNNError
        With status ``unimplemented`` if there is none; with any other status at once.
    """
    for preference in preferences:
        if not _may_gain(engine, problem, preference.choice.formulation):
            continue
        candidate = candidate_of(engine, problem, preference)
        if candidate is not None:
            candidate = _without_loops(engine, candidate, preference)
            return _on_threads_of_gemm(engine, candidate, preference)
    for fallback in fallbacks(problem, engine.library.cpu_isa):
        candidate = candidate_of(engine, problem, fallback)
        if candidate is not None:
            return candidate
    raise OneDNNError(
        "dnnl_primitive_desc_create",
        "unimplemented",
        "no implementation, or only some with a known defect for this problem",
    )


def chosen(engine: Engine, problem: Problem, choice: Choice) -> Candidate | None:
    """Return the candidate of a choice, None if this library and this CPU do not have it.

    Raises
    ------
    OneDNNError
        With any status but ``unimplemented``.
    """
    if not _may_gain(engine, problem, choice.formulation):
        return None
    return candidate_of(engine, problem, Preference(choice))


def _without_loops(engine: Engine, candidate: Candidate, preference: Preference) -> Candidate:
    """Return what is faster than a candidate that adds a bias with plain loops, or itself."""
    if not preference.choice.implementation:
        for other in in_place_of_loops(candidate, preference, engine.library.cpu_isa):
            found = candidate_of(engine, candidate.formulation.asked, other)
            if found is not None:
                return found
    return candidate


def _on_threads_of_gemm(engine: Engine, candidate: Candidate, preference: Preference) -> Candidate:
    """Return a candidate of gemm on the threads that gemm is worth, any other one itself."""
    threads = preference.gemm_threads
    if threads is None or not _is_gemm_convolution(candidate):
        return candidate
    return _with_threads(engine, candidate, threads) or candidate


def _is_gemm_convolution(candidate: Candidate) -> bool:
    choice = candidate.choice
    return choice.formulation != "matmul" and GEMM.search(choice.implementation) is not None


def with_equal_threads(engine: Engine, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates of small problems on threads that fit all, so that they can share a plan.

    Numbers of threads differ where `one_thread_is_enough` decides them. Others are left alone.
    """
    numbers = {candidate.choice.threads for candidate in candidates}
    if len(numbers) == 1 or not all(map(_is_small_in_one_chunk, candidates)):
        return list(candidates)
    works = [_work(candidate, engine.library.cpu_isa) for candidate in candidates]
    threads = int(one_thread_is_enough(works))
    return [_with_threads(engine, candidate, threads) or candidate for candidate in candidates]


def _work(candidate: Candidate, cpu_isa: str) -> Work:
    is_gemm = "avx2" in cpu_isa and _is_gemm_convolution(candidate)
    return Work(
        candidate.formulation.asked,
        candidate.choice.activations,
        GEMM_EXECUTION_FLOPS if is_gemm else EXECUTION_FLOPS,
    )


def _is_small_in_one_chunk(candidate: Candidate) -> bool:
    formulation = candidate.formulation
    return is_small(formulation.asked) and len(formulation.chunks) == 1 and not formulation.is_cast


def _with_threads(engine: Engine, candidate: Candidate, threads: int) -> Candidate | None:
    """Return a candidate's implementation on so many threads, None if there is none."""
    if candidate.choice.threads == threads:
        return candidate
    wanted = Preference(replace(candidate.choice, threads=threads), over_limit=OverLimit.TAKEN)
    found = candidate_of(engine, candidate.formulation.asked, wanted)
    return None if found is None else found.named(candidate.names)


def candidate_of(engine: Engine, problem: Problem, preference: Preference) -> Candidate | None:
    """Return the candidate that a preference means, None if oneDNN has no such implementation.

    Raises
    ------
    OneDNNError
        With any status but ``unimplemented``.
    """
    choice = preference.choice
    with engine.on_threads(choice.threads):
        whole = choice if choice.chunks == 1 else replace(choice, chunks=1)
        for candidate in _implementations(engine, problem, whole):
            if not preference.means(candidate.choice.implementation):
                continue
            is_decided = choice.implementation or candidate.choice.bias_apart
            if not is_decided and gains_from_bias_apart(problem, candidate.choice):
                apart = replace(choice, bias_apart=True)
                found = candidate_of(engine, problem, replace(preference, choice=apart))
                if found is not None:
                    return found
            if choice.chunks != 1:
                return _in_chunks(engine, candidate, preference)
            found = _fitted(engine, candidate, preference)
            if found is not None:
                return found
    return None


def _in_chunks(engine: Engine, candidate: Candidate, preference: Preference) -> Candidate | None:
    """Return a candidate in the chunks that a choice names, None if it has no such chunks."""
    choice = preference.choice
    found = split_candidate(engine, candidate, choice.split_axis, choice.chunks)
    may_exceed = preference.over_limit in (OverLimit.TAKEN, OverLimit.SPLIT_OR_LEAST)
    if found is not None and not may_exceed and over_limit(engine, found):
        return None
    return found


def _fitted(engine: Engine, candidate: Candidate, preference: Preference) -> Candidate | None:
    """Return a candidate, or its chunks as a preference wants them, None if it is passed over."""
    number = preference.minibatch_chunks
    if number > 1 and copies_activations(engine, candidate):
        candidate = split_candidate(engine, candidate, "minibatch", number) or candidate
    policy = preference.over_limit
    if policy is OverLimit.TAKEN or not over_limit(engine, candidate):
        return candidate
    if policy is OverLimit.PASSED_OVER:
        return None
    if policy is OverLimit.SPLIT:
        return split_within_limit(engine, candidate)
    return split_for_least_memory(engine, candidate)


def _implementations(engine: Engine, problem: Problem, choice: Choice) -> Iterator[Candidate]:
    """Yield a candidate at each implementation of a choice's formulation and layouts.

    Their descriptor is one object, which moves on with the iteration.
    """
    formulation = formulate(
        problem, choice.compute_dtype, choice.formulation, bias_apart=choice.bias_apart
    )
    if formulation is None:
        return
    first, *others = formulation.problems
    if formulation.bias_apart != choice.bias_apart:
        choice = replace(choice, bias_apart=formulation.bias_apart)
    for descriptor, name in feasible(engine, formulation, first, choice):
        decided = replace(choice, implementation=name, reference=is_reference(name))
        descriptors = descriptors_of(engine, formulation, others, decided)
        if descriptors is None:
            continue
        descriptors = {first: descriptor, **descriptors}
        if agree_on_shared(engine, formulation, descriptors):
            yield Candidate(formulation, decided, descriptors)


def candidates(engine: Engine, problem: Problem) -> Iterator[Candidate]:
    """Yield every way to compute a problem that may be the fastest, each once.

    Layouts x implementations x formulations x data types, for some also with the bias gradient
    apart, for a small problem also on one thread, for a large one also in chunks; no reference
    implementation and none with a known defect.
    """
    known: set[Choice] = set()
    apart = (False, True) if problem.has_bias_gradient else (False,)
    for threads in (1, 0) if may_run_on_one_thread(problem) else (0,):
        for dtype in compute_dtypes(problem, engine.library.cpu_isa):
            good = minibatch_chunks(problem, dtype)
            numbers = [n for n in (good // 2, good, 2 * good) if good > 1 and n > 1]
            formulations = [one for one in FORMULATIONS if _may_gain(engine, problem, one)]
            for formulation, bias_apart in product(formulations, apart):
                like = Choice(dtype, formulation, threads=threads, bias_apart=bias_apart)
                with engine.on_threads(threads):
                    choices = [one for one in _choices(engine, problem, like) if one not in known]
                known.update(choices)
                for choice in choices:
                    preference = Preference(choice, over_limit=OverLimit.TAKEN)
                    candidate = candidate_of(engine, problem, preference)
                    if candidate is not None:
                        yield from _variants(engine, candidate, numbers)


def _may_gain(engine: Engine, problem: Problem, formulation: str) -> bool:
    """Whether a formulation may be the fastest with this CPU and this version of oneDNN."""
    if formulation in WITHOUT_AVX512:
        return "avx512" not in engine.library.cpu_isa
    return formulation != "padded_channels" or is_worth_padding(engine, problem)


def _variants(engine: Engine, candidate: Candidate, numbers: Sequence[int]) -> list[Candidate]:
    """Return a candidate in one chunk and in several, as far as they fit the workspace limit."""
    variants: list[Candidate | None] = [candidate]
    if copies_activations(engine, candidate):
        variants += [split_candidate(engine, candidate, "minibatch", n) for n in numbers]
    fitting = [one for one in variants if one is not None and not over_limit(engine, one)]
    if not fitting and (smaller := split_within_limit(engine, candidate)) is not None:
        return [smaller]
    return fitting


def _choices(engine: Engine, problem: Problem, like: Choice) -> Iterator[Choice]:
    """Yield choices like another that differ in implementations or layouts.

    A bias gradient is tried apart from gemm, and from other implementations where that is mostly
    faster. Where it surely is, the gradient is not tried inside of the implementation.
    """
    seen: list[tuple[str, list[Handle]]] = []
    for activations, weights in LAYOUTS:
        choice = replace(like, activations=activations, weights=weights)
        for candidate in _implementations(engine, problem, choice):
            name = candidate.choice.implementation
            gains = gains_from_bias_apart(problem, candidate.choice)
            if like.bias_apart and not (gains or GEMM.search(name)):
                continue
            if surely_gains_from_bias_apart(problem, candidate.choice) and not (
                candidate.choice.bias_apart
            ):
                continue
            wanted = FAMILIES.get(like.formulation, ANY_NAME)
            if not wanted.search(name):
                continue
            layouts = _layouts(engine, candidate)
            is_known = any(
                name == other and all(map(engine.equal, layouts, others)) for other, others in seen
            )
            if not is_known and not is_reference(name):
                seen.append((name, layouts))
                yield candidate.choice


def _layouts(engine: Engine, candidate: Candidate) -> list[Handle]:
    """Return copies of the memory descriptors that a candidate's primitive takes."""
    problem = candidate.formulation.problems[0]
    descriptor = candidate.descriptors[problem]
    names = queries(problem).values()
    return [engine.clone_desc(engine.desc_of(descriptor, query)) for query in names]
