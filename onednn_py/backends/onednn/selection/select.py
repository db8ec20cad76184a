"""Selection: which of oneDNN's ways to compute a problem a plan takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from onednn_py.backends.onednn.binding.engine import Api, Handle
from onednn_py.backends.onednn.execution.plan import NativePlan
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Choice, Problem

from .candidate import Part
from .chunks import CUTS
from .defects import is_reference
from .descriptors import QUERIES
from .formulations import FORMULATIONS, formulate
from .heuristics import Wish, preferences
from .thresholds import good_pieces, may_run_on_one_thread
from .workspace import copies_activations, feasible, in_pieces, is_greedy, less_greedy

__all__ = ["build_plan", "candidates", "is_possible", "part_of", "select"]

# The most that a choice from elsewhere may name.
MOST_PIECES = 1024

# Memory layouts worth trying, of activations and of weights.
LAYOUTS = (
    ("any", "any"),
    ("given", "any"),
    ("given", "given"),
    ("nxc", "any"),
    ("ncx", "any"),
)


def fallbacks(problem: Problem) -> Iterator[Choice]:
    """Yield the ways to compute any problem, the first that exists to be taken.

    The tensors' own type before float32, the family's own primitive before another
    formulation, reference implementations only at the end.
    """
    for dtype in dict.fromkeys((problem.dtype, "f32")):
        for formulation in ("direct", "exchanged"):
            yield Choice(dtype, formulation)
    yield Choice(problem.dtype, reference=True)
    if problem.dtype != "f32":
        yield Choice("f32", reference=True)


def part_of(api: Api, problem: Problem, wish: Wish) -> Part | None:
    """Return a problem decided by a wish, None if oneDNN has no such implementation.

    Raises
    ------
    OneDNNError
        With any status but ``unimplemented``.
    """
    choice = wish.choice
    with api.on_threads(choice.threads):
        for part in _parts(api, problem, replace(choice, pieces=1)):
            name = part.choice.implementation
            if choice.implementation:
                found = name == choice.implementation
            else:
                found = choice.reference or not is_reference(name)
            if not found or not wish.family.search(name):
                continue
            if choice.pieces != 1:
                cut = in_pieces(api, part, choice.cut, choice.pieces)
                is_too_much = wish.frugal and cut is not None and is_greedy(api, cut)
                return None if is_too_much else cut
            if wish.pieces > 1 and copies_activations(api, part):
                part = in_pieces(api, part, "images", wish.pieces) or part
            if not ((wish.frugal or wish.cuts) and is_greedy(api, part)):
                return part
            smaller = less_greedy(api, part, strict=wish.frugal) if wish.cuts else None
            if smaller is not None:
                return smaller
    return None


def _parts(api: Api, problem: Problem, choice: Choice) -> Iterator[Part]:
    """Yield a part at each implementation of a choice's formulation and layouts.

    Its descriptor moves on with the iteration.
    """
    formulation = formulate(problem, choice.compute_dtype, choice.formulation)
    if formulation is None:
        return
    for descriptor, name in feasible(api, formulation, formulation.problem, choice):
        decided = replace(choice, implementation=name, reference=is_reference(name))
        yield Part(formulation, decided, (descriptor,))


def is_possible(problem: Problem, choice: Choice) -> bool:
    """Whether a choice that comes from elsewhere, a file perhaps, speaks of what there is here.

    Another type than these two would round the caller's numbers.
    """
    return (
        choice.compute_dtype in (problem.dtype, "f32")
        and choice.formulation in FORMULATIONS
        and (choice.activations, choice.weights) in LAYOUTS
        and choice.cut in CUTS
        and choice.pieces in range(1, MOST_PIECES + 1)
        and (choice.cut != "images" or problem.src.shape[0] % choice.pieces == 0)
    )


def select(api: Api, problem: Problem, wishes: Iterable[Wish]) -> Part:
    """Return the first of the wishes, then of the general ways, that oneDNN implements.

    Raises
    ------
    OneDNNError
        With status ``unimplemented`` if there is none; with any other status at once.
    """
    frugal = (Wish(one, cuts=True) for one in fallbacks(problem) if not one.reference)
    any_size = (Wish(one, frugal=False, cuts=True) for one in fallbacks(problem))
    for wish in chain(wishes, frugal, any_size):
        part = part_of(api, problem, wish)
        if part is not None:
            return part
    raise OneDNNError(
        "dnnl_primitive_desc_create",
        "unimplemented",
        "no implementation, or only some with a known defect for this problem",
    )


def build_plan(api: Api, problem: Problem, choice: Choice | None = None) -> NativePlan:
    """Return a plan for ``problem``: by ``choice`` if it is given and exists, or by rules.

    Raises
    ------
    OneDNNError
        As `select` does.
    """
    wishes = preferences(problem)
    if choice is not None:
        wishes = chain((Wish(choice),), wishes)
    return NativePlan(api, select(api, problem, wishes))


def candidates(api: Api, problem: Problem) -> Iterator[Part]:
    """Yield every way to compute a problem that may be the fastest, each once.

    Layouts x implementations x formulations x data types, for a small problem also on one
    thread, for a large one also in pieces; no reference implementation and none with a known
    defect.
    """
    for threads in (1, 0) if may_run_on_one_thread(problem) else (0,):
        for dtype in dict.fromkeys((problem.dtype, "f32")):
            good = good_pieces(problem, dtype)
            pieces = [number for number in (good // 2, good, 2 * good) if good > 1 and number > 1]
            for formulation in FORMULATIONS:
                with api.on_threads(threads):
                    choices = list(_choices(api, problem, dtype, formulation, threads))
                for choice in choices:
                    part = part_of(api, problem, Wish(choice, frugal=False))
                    if part is not None:
                        yield from _frugal(api, part, pieces)


def _frugal(api: Api, part: Part, pieces: Sequence[int]) -> list[Part]:
    """Return a part in one piece and in several, as far as they do not take too much memory."""
    found: list[Part | None] = [part]
    if copies_activations(api, part):
        found += [in_pieces(api, part, "images", number) for number in pieces]
    frugal = [one for one in found if one is not None and not is_greedy(api, one)]
    if not frugal and (smaller := less_greedy(api, part, strict=True)) is not None:
        return [smaller]
    return frugal


def _choices(
    api: Api, problem: Problem, dtype: str, formulation: str, threads: int
) -> Iterator[Choice]:
    seen: list[tuple[str, list[Handle]]] = []
    for activations, weights in LAYOUTS:
        choice = Choice(dtype, formulation, activations, weights, threads=threads)
        for part in _parts(api, problem, choice):
            name = part.choice.implementation
            layouts = layouts_of(api, part)
            known = any(
                name == other and all(map(api.equal, layouts, others)) for other, others in seen
            )
            if not known and not is_reference(name):
                seen.append((name, layouts))
                yield part.choice


def layouts_of(api: Api, part: Part) -> list[Handle]:
    """Return copies of the memory descriptors that a part's primitive takes."""
    queries = QUERIES[part.formulation.problem.direction].values()
    return [api.clone_desc(api.desc_of(part.descriptors[0], query)) for query in queries]
