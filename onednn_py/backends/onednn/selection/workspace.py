"""Workspace: how much memory a candidate takes, and splits that take less."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from onednn_py.backends.onednn.binding.engine import Engine, Handle
from onednn_py.errors import OneDNNError
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Problem, TensorLayout

from .bias_sums import sums_nbytes
from .candidate import Candidate
from .choice import Choice
from .chunks import SPLIT_AXES, Addend
from .descriptors import implementations, queries, user_desc
from .formulation import Formulation
from .formulations import formulate

__all__ = [
    "agree_on_shared",
    "copies_activations",
    "descriptors_of",
    "feasible",
    "over_limit",
    "split_candidate",
    "split_for_least_memory",
    "split_within_limit",
    "workspace_exceeds_limit",
]

# An implementation that wants more scratchpad than these is passed over: padding and
# dilation alone can make it gigabytes.
LARGEST_SCRATCHPAD = 2**28
SCRATCHPAD_PER_ELEMENT = 64

# The workspace limit: copies and scratchpad together may take so many times what the tensors
# take themselves. Small problems have none.
LARGEST_WORKSPACE = 1.2
SMALL_TENSORS = 2**23

# Into how many chunks a problem over the workspace limit is split.
CHUNK_NUMBERS = (2, 4, 8, 16)


def feasible(
    engine: Engine, formulation: Formulation, problem: Problem, choice: Choice
) -> Iterator[tuple[Handle, str]]:
    """Yield what `implementations` does for a chunk's problem, as far as there is memory."""
    layouts = choice.activations, choice.weights
    result_dtype = formulation.dtype(problem.result_role)
    try:
        for descriptor, name in implementations(engine, problem, *layouts, result_dtype):
            if not _is_out_of_proportion(engine, descriptor, formulation.asked):
                yield descriptor, name
    except OneDNNError as error:
        if error.status != "unimplemented":
            raise


def _is_out_of_proportion(engine: Engine, descriptor: Handle, problem: Problem) -> bool:
    """Whether an implementation wants far more scratchpad than the tensors take."""
    tensors = problem.src.size + problem.weights.size + problem.dst.size
    wanted = engine.nbytes(engine.desc_of(descriptor, "scratchpad"))
    return wanted > LARGEST_SCRATCHPAD + SCRATCHPAD_PER_ELEMENT * tensors


def split_candidate(
    engine: Engine, candidate: Candidate, axis: str, number: int
) -> Candidate | None:
    """Return a candidate split into chunks, with the same implementation; None if there is none.

    A tensor that is not split must have one memory layout for all chunks.
    """
    whole = candidate.whole or candidate
    choice = replace(whole.choice, chunks=number, split_axis=axis)
    asked = whole.formulation.asked
    formulation = formulate(
        asked, choice.compute_dtype, choice.formulation, number, axis, choice.bias_apart
    )
    if formulation is None:
        return None
    choice = replace(choice, bias_apart=formulation.bias_apart)
    with engine.on_threads(choice.threads):
        descriptors = descriptors_of(engine, formulation, formulation.problems, choice)
    if descriptors is None or not agree_on_shared(engine, formulation, descriptors):
        return None
    return Candidate(formulation, choice, descriptors, whole)


def descriptors_of(
    engine: Engine, formulation: Formulation, problems: Iterable[Problem], choice: Choice
) -> dict[Problem, Handle] | None:
    """Return primitive descriptors at a choice's implementation, None if a problem has none."""
    found = {}
    for problem in problems:
        descriptor = _descriptor_of(engine, formulation, problem, choice)
        if descriptor is None:
            return None
        found[problem] = descriptor
    return found


def agree_on_shared(
    engine: Engine, formulation: Formulation, descriptors: Mapping[Problem, Handle]
) -> bool:
    """Whether parts of what chunks share have the memory layout of the whole.

    Tensors that are not split have the same layout for all chunks, and images of a block have that
    of the block.
    """
    if len(descriptors) == 1:
        return True
    for role, query in queries(formulation.problem).items():
        # By identity, since a problem's hash is that of all its numbers.
        sharing, in_blocks = {}, {}
        for chunk in formulation.chunks:
            tensor, problem = chunk.tensors[role], chunk.problem
            if not tensor.is_split:
                sharing[id(problem)] = problem
            elif tensor.block is not None:
                in_blocks[id(problem), id(tensor.block.problem)] = problem, tensor.block.problem
        descs = [engine.desc_of(descriptors[one], query) for one in sharing.values()]
        if not all(engine.equal(descs[0], other) for other in descs[1:]):
            return False
        for part, whole in in_blocks.values():
            layout: TensorLayout = getattr(part, role)
            of_part, of_whole = (engine.desc_of(descriptors[one], query) for one in (part, whole))
            if not engine.equal(engine.first_part_desc(of_whole, layout.shape), of_part):
                return False
    return True


def _descriptor_of(
    engine: Engine, formulation: Formulation, problem: Problem, choice: Choice
) -> Handle | None:
    """Return the primitive descriptor of a chunk's problem at the choice's implementation."""
    for descriptor, name in feasible(engine, formulation, problem, choice):
        if name == choice.implementation:
            return descriptor
    return None


def copies_activations(engine: Engine, candidate: Candidate) -> bool:
    """Whether src or dst of a candidate in one chunk is reordered or converted."""
    if candidate.formulation.is_cast:
        return True
    problem = candidate.formulation.problems[0]
    return any(
        not engine.equal(
            user_desc(engine, problem, role),
            engine.desc_of(candidate.descriptors[problem], queries(problem)[role]),
        )
        for role in ("src", "dst")
    )


def over_limit(engine: Engine, candidate: Candidate) -> bool:
    """Whether an execution would take far more memory than the problem's tensors.

    Patches are many times as large as src, so that they have a limit in small problems, too.
    """
    tensors = _tensor_bytes((candidate,))
    if candidate.formulation.gathers:
        tensors = max(tensors, SMALL_TENSORS)
    return tensors >= SMALL_TENSORS and (
        _workspace_bytes(engine, candidate) > LARGEST_WORKSPACE * tensors
    )


def workspace_exceeds_limit(candidates: Sequence[Candidate], workspace_bytes: int) -> bool:
    """Whether a workspace is too large for the tensors of all candidates of a plan."""
    tensors = _tensor_bytes(candidates)
    return tensors >= SMALL_TENSORS and workspace_bytes > LARGEST_WORKSPACE * tensors


def _tensor_bytes(candidates: Sequence[Candidate]) -> int:
    nbytes = {}
    for candidate in candidates:
        asked = candidate.formulation.asked
        for role, layout in asked.layouts.items():
            nbytes[candidate.name(role)] = layout.size * DTYPES[asked.dtype].itemsize
    return sum(nbytes.values())


def _workspace_bytes(engine: Engine, candidate: Candidate) -> int:
    """Return about how many bytes an execution takes besides the tensors."""
    nbytes: int = max(
        engine.nbytes(engine.desc_of(one, "scratchpad")) for one in candidate.descriptors.values()
    )
    if candidate.formulation.bias_apart:
        nbytes += sums_nbytes(candidate.formulation)
    for role in queries(candidate.formulation.problem):
        nbytes += max(_copy_bytes(engine, candidate, one, role) for one in candidate.descriptors)
    return nbytes


def _copy_bytes(engine: Engine, candidate: Candidate, problem: Problem, role: str) -> int:
    """Return how many bytes the copies of a chunk's tensor take."""
    formulation = candidate.formulation
    query = queries(problem)[role]
    given = user_desc(engine, problem, role)
    wanted = engine.desc_of(candidate.descriptors[problem], query)
    nbytes = 0
    if role in formulation.copied:
        nbytes += engine.nbytes(given)
    if not engine.equal(given, wanted):
        nbytes += engine.nbytes(wanted)
    is_sum = formulation.chunks[0].tensors[role].is_partial_sum
    if is_sum and not any(isinstance(one, Addend) for one in candidate.descriptors):
        nbytes += engine.nbytes(wanted)
    return nbytes


def split_within_limit(engine: Engine, candidate: Candidate) -> Candidate | None:
    """Return a candidate in the fewest chunks that fit the workspace limit, None if none do."""
    return next((one for one in _splits(engine, candidate) if not over_limit(engine, one)), None)


def split_for_least_memory(engine: Engine, candidate: Candidate) -> Candidate:
    """Return what `split_within_limit` does, or the split that takes least memory."""
    least, least_bytes = candidate, _workspace_bytes(engine, candidate)
    for one in _splits(engine, candidate):
        if not over_limit(engine, one):
            return one
        if (nbytes := _workspace_bytes(engine, one)) < least_bytes:
            least, least_bytes = one, nbytes
    return least


def _splits(engine: Engine, candidate: Candidate) -> Iterator[Candidate]:
    images = candidate.formulation.problem.src.shape[0]
    for number in CHUNK_NUMBERS:
        for axis in SPLIT_AXES:
            chunks = _divisor(images, number, 2 * number) if axis == "minibatch" else number
            found = split_candidate(engine, candidate, axis, chunks)
            if found is not None:
                yield found


def _divisor(number: int, least: int, below: int) -> int:
    """Return a number's smallest divisor in a range, 0 if there is none."""
    return next((one for one in range(least, below) if number % one == 0), 0)
