"""Selection: which of oneDNN's ways to compute a problem a plan takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from ..arrays import DTYPES
from ..errors import OneDNNError
from ..problem import Choice, Problem
from .amounts import good_pieces, may_run_on_one_thread
from .descriptors import QUERIES, implementations, user_desc
from .formulations import FORMULATIONS, formulate
from .guards import is_reference
from .handles import Api, Handle
from .heuristics import Wish, preferences
from .parts import Part
from .plan import NativePlan

__all__ = ["build_plan", "candidates", "is_possible", "part_of", "select"]

# An implementation that wants more scratchpad than these is passed over: padding and
# dilation alone can make it gigabytes.
LARGEST_SCRATCHPAD = 2**28
SCRATCHPAD_PER_ELEMENT = 64

# Copies and scratchpad together may take so many times what the tensors take themselves,
# where there is another way; small problems may take what they like. In bfloat16 oneDNN sums
# weights in float32, for each thread apart; float16 is converted to float32 before anything
# is reordered.
LARGEST_WORKSPACE = {"f32": 1.2, "bf16": 4.0, "f16": 4.4}
SMALL_TENSORS = 2**23

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
        for part in _parts(api, problem, choice):
            name = part.choice.implementation
            if choice.implementation:
                found = name == choice.implementation
            else:
                found = choice.reference or not is_reference(name)
            if found and wish.family.search(name):
                cut = _cut(api, problem, part, wish.pieces) if wish.pieces > 1 else None
                if cut is not None:
                    return cut
                if not (wish.frugal and _is_greedy(api, part)):
                    return part
    return None


def _cut(api: Api, problem: Problem, part: Part, pieces: int) -> Part | None:
    """Return the same in pieces, None where nothing is copied or there are no such pieces."""
    inner = part.formulation.problem
    if inner.dtype != problem.dtype:
        return part_of(api, problem, Wish(replace(part.choice, pieces=pieces)))
    for role in ("src", "dst"):
        wanted = api.desc_of(part.descriptor, QUERIES[inner.direction][role])
        if not api.equal(user_desc(api, inner, role), wanted):
            return part_of(api, problem, Wish(replace(part.choice, pieces=pieces)))
    return None


def _parts(api: Api, problem: Problem, choice: Choice) -> Iterator[Part]:
    """Yield a part at each implementation of a choice's formulation and layouts.

    Its descriptor moves on with the iteration.
    """
    formulation = formulate(problem, choice.compute_dtype, choice.formulation, choice.pieces)
    if formulation is None:
        return
    try:
        layouts = choice.activations, choice.weights
        sums = formulation.dtype("weights")
        found = implementations(api, formulation.piece, *layouts, sums)
        for descriptor, name in found:
            if not _is_out_of_proportion(api, descriptor, problem):
                decided = replace(choice, implementation=name, reference=is_reference(name))
                yield Part(formulation, decided, descriptor)
    except OneDNNError as error:
        if error.status != "unimplemented":
            raise


def is_possible(problem: Problem, choice: Choice) -> bool:
    """Whether a choice that comes from elsewhere, a file perhaps, speaks of what there is here.

    Another type than these two would round the caller's numbers.
    """
    return (
        choice.compute_dtype in (problem.dtype, "f32")
        and choice.formulation in FORMULATIONS
        and (choice.activations, choice.weights) in LAYOUTS
        and choice.pieces in range(1, problem.src.shape[0] + 1)
        and problem.src.shape[0] % choice.pieces == 0
    )


def select(api: Api, problem: Problem, wishes: Iterable[Wish]) -> Part:
    """Return the first of the wishes, then of the general ways, that oneDNN implements.

    Raises
    ------
    OneDNNError
        With status ``unimplemented`` if there is none; with any other status at once.
    """
    for wish in chain(wishes, (Wish(choice, frugal=False) for choice in fallbacks(problem))):
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
                    if part is None:
                        continue
                    if not _is_greedy(api, part):
                        yield part
                    cuts = (_cut(api, problem, part, number) for number in pieces)
                    yield from (cut for cut in cuts if cut is not None)


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
    return [api.clone_desc(api.desc_of(part.descriptor, query)) for query in queries]


def _is_greedy(api: Api, part: Part) -> bool:
    """Whether an execution would take far more memory than the problem's tensors."""
    formulation = part.formulation
    asked, inner, piece = formulation.asked, formulation.problem, formulation.piece
    tensors = workspace = 0
    for role, query in QUERIES[inner.direction].items():
        given, wanted = user_desc(api, piece, role), api.desc_of(part.descriptor, query)
        tensors += getattr(asked, formulation.roles[role]).size * DTYPES[asked.dtype].itemsize
        if inner.dtype != asked.dtype:
            workspace += api.nbytes(given)
        if not api.equal(given, wanted):
            workspace += api.nbytes(wanted)
    workspace += api.nbytes(api.desc_of(part.descriptor, "scratchpad"))
    return tensors > SMALL_TENSORS and workspace > LARGEST_WORKSPACE[asked.dtype] * tensors


def _is_out_of_proportion(api: Api, descriptor: Handle, problem: Problem) -> bool:
    """Whether an implementation wants far more scratchpad than the tensors take."""
    tensors = problem.src.size + problem.weights.size + problem.dst.size
    wanted = api.nbytes(api.desc_of(descriptor, "scratchpad"))
    return wanted > LARGEST_SCRATCHPAD + SCRATCHPAD_PER_ELEMENT * tensors
