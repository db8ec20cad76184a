"""Selection: which of oneDNN's ways to compute a problem a plan takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..errors import OneDNNError
from ..problem import Choice, Problem
from .descriptors import QUERIES, implementations
from .formulations import FORMULATIONS, formulate
from .guards import is_reference
from .handles import Api, Handle
from .heuristics import preferences
from .parts import Part
from .plan import NativePlan

__all__ = ["build_plan", "candidates", "part_of", "select"]

# An implementation that wants more scratchpad than these is passed over: padding and
# dilation alone can make it gigabytes.
LARGEST_SCRATCHPAD = 2**28
SCRATCHPAD_PER_ELEMENT = 64

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


def part_of(api: Api, problem: Problem, choice: Choice) -> Part | None:
    """Return a problem decided by ``choice``, None if oneDNN has no such implementation.

    Raises
    ------
    OneDNNError
        With any status but ``unimplemented``.
    """
    for part in _parts(api, problem, choice):
        wanted = choice.implementation
        if wanted == part.choice.implementation or (
            not wanted and (choice.reference or not is_reference(part.choice.implementation))
        ):
            return part
    return None


def _parts(api: Api, problem: Problem, choice: Choice) -> Iterator[Part]:
    """Yield a part at each implementation of a choice's formulation and layouts.

    Its descriptor moves on with the iteration.
    """
    formulation = formulate(problem, choice.compute_dtype, choice.formulation)
    if formulation is None:
        return
    try:
        found = implementations(api, formulation.problem, choice.activations, choice.weights)
        for descriptor, name in found:
            if not _is_out_of_proportion(api, descriptor, problem):
                decided = replace(choice, implementation=name, reference=is_reference(name))
                yield Part(formulation, decided, descriptor)
    except OneDNNError as error:
        if error.status != "unimplemented":
            raise


def select(api: Api, problem: Problem, wishes: Iterator[Choice]) -> Part:
    """Return the first of the wishes, then of the general ways, that oneDNN implements.

    Raises
    ------
    OneDNNError
        With status ``unimplemented`` if there is none; with any other status at once.
    """
    for choices in (wishes, fallbacks(problem)):
        for choice in choices:
            part = part_of(api, problem, choice)
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
    wishes = preferences(problem) if choice is None else iter((choice,))
    return NativePlan(api, select(api, problem, wishes))


def candidates(api: Api, problem: Problem) -> Iterator[Part]:
    """Yield every way to compute a problem that may be the fastest, each once.

    Layouts x implementations x formulations x data types; no reference implementation and
    none with a known defect. The descriptor of a part is good until the next is taken.
    """
    for dtype in dict.fromkeys((problem.dtype, "f32")):
        for formulation in FORMULATIONS:
            seen: list[tuple[str, list[Handle]]] = []
            for activations, weights in LAYOUTS:
                choice = Choice(dtype, formulation, activations, weights)
                for part in _parts(api, problem, choice):
                    name = part.choice.implementation
                    if is_reference(name):
                        continue
                    layouts = layouts_of(api, part)
                    if any(
                        name == other and all(map(api.equal, layouts, others))
                        for other, others in seen
                    ):
                        continue
                    seen.append((name, layouts))
                    yield part


def layouts_of(api: Api, part: Part) -> list[Handle]:
    """Return copies of the memory descriptors that a part's primitive takes."""
    queries = QUERIES[part.formulation.problem.direction].values()
    return [api.clone_desc(api.desc_of(part.descriptor, query)) for query in queries]


def _is_out_of_proportion(api: Api, descriptor: Handle, problem: Problem) -> bool:
    """Whether an implementation wants far more scratchpad than the tensors take."""
    tensors = problem.src.size + problem.weights.size + problem.dst.size
    wanted = api.nbytes(api.desc_of(descriptor, "scratchpad"))
    return wanted > LARGEST_SCRATCHPAD + SCRATCHPAD_PER_ELEMENT * tensors
