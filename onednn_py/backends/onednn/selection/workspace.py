"""Footprint: how much memory a decided problem takes, and the same in pieces that take less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from onednn_py.backends.onednn.binding.engine import Api, Handle
from onednn_py.errors import OneDNNError
from onednn_py.problem.arrays import DTYPES
from onednn_py.problem.problem import Choice, Problem

from .candidate import Part
from .chunks import CUTS, ROLES
from .descriptors import QUERIES, implementations, user_desc
from .formulations import Formulation, formulate

__all__ = [
    "are_greedy",
    "copies_activations",
    "feasible",
    "in_pieces",
    "is_greedy",
    "less_greedy",
]

# An implementation that wants more scratchpad than these is passed over: padding and
# dilation alone can make it gigabytes.
LARGEST_SCRATCHPAD = 2**28
SCRATCHPAD_PER_ELEMENT = 64

# Copies and scratchpad together may take so many times what the tensors take themselves,
# where there is another way; small problems may take what they like.
LARGEST_WORKSPACE = 1.2
SMALL_TENSORS = 2**23

# In how many pieces a problem is computed that takes more than that.
PIECES = (2, 4, 8, 16)


def feasible(
    api: Api, formulation: Formulation, kind: Problem, choice: Choice
) -> Iterator[tuple[Handle, str]]:
    """Yield what `implementations` does, as far as there is memory for it."""
    layouts = choice.activations, choice.weights
    try:
        for descriptor, name in implementations(api, kind, *layouts, formulation.dtype("weights")):
            if not _is_out_of_proportion(api, descriptor, formulation.asked):
                yield descriptor, name
    except OneDNNError as error:
        if error.status != "unimplemented":
            raise


def _is_out_of_proportion(api: Api, descriptor: Handle, problem: Problem) -> bool:
    """Whether an implementation wants far more scratchpad than the tensors take."""
    tensors = problem.src.size + problem.weights.size + problem.dst.size
    wanted = api.nbytes(api.desc_of(descriptor, "scratchpad"))
    return wanted > LARGEST_SCRATCHPAD + SCRATCHPAD_PER_ELEMENT * tensors


def in_pieces(api: Api, part: Part, cut: str, pieces: int) -> Part | None:
    """Return the same in pieces, None if there are none, or not with the same implementation.

    What is not cut lies in one layout for all kinds of pieces.
    """
    whole = part.whole or part
    choice = replace(whole.choice, pieces=pieces, cut=cut)
    asked = whole.formulation.asked
    formulation = formulate(asked, choice.compute_dtype, choice.formulation, pieces, cut)
    if formulation is None:
        return None
    with api.on_threads(choice.threads):
        found = [_at(api, formulation, kind, choice) for kind in formulation.kinds]
    descriptors = tuple(one for one in found if one is not None)
    if len(descriptors) < len(found):
        return None
    for role, query in QUERIES[formulation.problem.direction].items():
        layouts = [api.desc_of(descriptor, query) for descriptor in descriptors]
        if role not in formulation.cut_roles and not all(
            api.equal(layouts[0], one) for one in layouts
        ):
            return None
    return Part(formulation, choice, descriptors, whole)


def _at(api: Api, formulation: Formulation, kind: Problem, choice: Choice) -> Handle | None:
    """Return the primitive descriptor of a piece at an implementation."""
    for descriptor, name in feasible(api, formulation, kind, choice):
        if name == choice.implementation:
            return descriptor
    return None


def copies_activations(api: Api, part: Part) -> bool:
    """Whether src or dst of a part that is not in pieces is reordered or converted."""
    inner = part.formulation.problem
    if inner.dtype != part.formulation.asked.dtype:
        return True
    return any(
        not api.equal(
            user_desc(api, inner, role),
            api.desc_of(part.descriptors[0], QUERIES[inner.direction][role]),
        )
        for role in ("src", "dst")
    )


def is_greedy(api: Api, part: Part) -> bool:
    """Whether an execution would take far more memory than the problem's tensors."""
    return are_greedy((part,), _workspace(api, part))


def are_greedy(parts: Sequence[Part], workspace: int) -> bool:
    """Whether a workspace of so many bytes is too large for all tensors of some parts."""
    nbytes: dict[str, int] = {}
    for part in parts:
        asked = part.formulation.asked
        for role in ROLES:
            layout = getattr(asked, role)
            if layout is not None:
                nbytes[part.name(role)] = layout.size * DTYPES[asked.dtype].itemsize
    tensors = sum(nbytes.values())
    return tensors >= SMALL_TENSORS and workspace > LARGEST_WORKSPACE * tensors


def _workspace(api: Api, part: Part) -> int:
    """Return about how many bytes an execution takes besides the tensors."""
    formulation = part.formulation
    pairs = list(zip(formulation.kinds, part.descriptors, strict=True))
    nbytes: int = max(api.nbytes(api.desc_of(one, "scratchpad")) for one in part.descriptors)
    for role, query in QUERIES[formulation.problem.direction].items():
        nbytes += max(_copies(api, part, kind, one, role, query) for kind, one in pairs)
    return nbytes


def _copies(api: Api, part: Part, kind: Problem, descriptor: Handle, role: str, query: str) -> int:
    """Return how many bytes of copies a piece's tensor takes."""
    formulation = part.formulation
    given, wanted = user_desc(api, kind, role), api.desc_of(descriptor, query)
    nbytes = 0
    if kind.dtype != formulation.asked.dtype:
        nbytes += api.nbytes(given)
    if not api.equal(given, wanted):
        nbytes += api.nbytes(wanted)
    if formulation.is_sum(role):
        nbytes += api.nbytes(wanted)
    return nbytes


def less_greedy(api: Api, part: Part, *, strict: bool) -> Part | None:
    """Return the same in the fewest pieces that take little memory.

    Where no pieces do, None if ``strict``, otherwise what takes least.
    """
    least = part
    images = part.formulation.problem.src.shape[0]
    for number in PIECES:
        for cut in CUTS:
            pieces = _divisor(images, number, 2 * number) if cut == "images" else number
            smaller = in_pieces(api, part, cut, pieces)
            if smaller is None:
                continue
            if not is_greedy(api, smaller):
                return smaller
            if not strict and _workspace(api, smaller) < _workspace(api, least):
                least = smaller
    return None if strict else least


def _divisor(number: int, least: int, below: int) -> int:
    """Return a number's smallest divisor in a range, 0 if there is none."""
    return next((one for one in range(least, below) if number % one == 0), 0)
