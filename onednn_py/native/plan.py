"""Plan: a Problem and a Choice to primitives, reorders and a workspace, owned together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy.typing as npt

from ..arrays import DTYPES
from ..errors import OneDNNError
from ..problem import Choice, Problem
from .descriptors import EXECUTION_ARGUMENTS, QUERIES, implementations, user_desc
from .execute import Buffer, Converted, Program, Step
from .formulations import Formulation, formulate
from .guards import is_reference
from .handles import Api, Handle
from .workspace import Layout, WorkspacePool

__all__ = ["NativePlan", "build_plan"]

Array = npt.NDArray[Any]

# What a primitive keeps besides its workspace: generated code and descriptors.
BYTES_PER_PRIMITIVE = 64 * 2**10

# An implementation that wants more scratchpad than these is passed over: padding and
# dilation alone can make it gigabytes.
LARGEST_SCRATCHPAD = 2**28
SCRATCHPAD_PER_ELEMENT = 64


def choices(problem: Problem) -> Iterator[Choice]:
    """Yield the ways to compute a problem, the first that exists to be taken.

    The tensors' own type before float32, oneDNN's deconvolution before convolution with
    exchanged roles, reference implementations only at the end.
    """
    formulations = (False, True) if _exchangeable(problem) else (False,)
    for dtype in dict.fromkeys((problem.dtype, "f32")):
        for as_convolution in formulations:
            yield Choice(dtype, as_convolution)
    yield Choice(problem.dtype, reference=True)
    if problem.dtype != "f32":
        yield Choice("f32", reference=True)


def _exchangeable(problem: Problem) -> bool:
    """Whether convolution primitives can compute a transposed problem, bias and all."""
    forward_with_bias = problem.result_name == "dst" and problem.bias is not None
    return problem.transposed and not forward_with_bias


def build_plan(api: Api, problem: Problem, pool: WorkspacePool) -> NativePlan:
    """Return a plan for ``problem`` by the first choice that oneDNN implements.

    Raises
    ------
    OneDNNError
        With status ``unimplemented`` if there is none; with any other status at once.
    """
    unimplemented: OneDNNError | None = None
    for choice in choices(problem):
        formulation = formulate(problem, choice.compute_dtype, as_convolution=choice.as_convolution)
        try:
            for descriptor, name in implementations(api, formulation.problem):
                if _is_out_of_proportion(api, descriptor, problem):
                    continue
                if choice.reference or not is_reference(name):
                    return NativePlan(api, formulation, choice, descriptor, name, pool)
        except OneDNNError as error:
            if error.status != "unimplemented":
                raise
            unimplemented = error
    raise unimplemented or OneDNNError(
        "dnnl_primitive_desc_next_impl",
        "unimplemented",
        "every implementation has a known defect for this problem",
    )


def _is_out_of_proportion(api: Api, descriptor: Handle, problem: Problem) -> bool:
    """Whether an implementation wants far more scratchpad than the tensors take."""
    tensors = problem.src.size + problem.weights.size + problem.dst.size
    wanted = api.nbytes(api.desc_of(descriptor, "scratchpad"))
    return wanted > LARGEST_SCRATCHPAD + SCRATCHPAD_PER_ELEMENT * tensors


class NativePlan:
    """Primitives for one problem, with the reorders and the workspace that they need.

    Attributes
    ----------
    implementation : str
        oneDNN's name of the implementation, as its verbose mode prints it.
    reorders : tuple of str
        Roles of the tensors whose layout the implementation does not take as it is.
    workspace_bytes : int
        Memory that one execution borrows: reordered and converted tensors, scratchpad.
    """

    backend = "onednn"

    def __init__(
        self,
        api: Api,
        formulation: Formulation,
        choice: Choice,
        descriptor: Handle,
        implementation: str,
        pool: WorkspacePool,
    ) -> None:
        self.problem = formulation.asked
        self.choice = choice
        self.implementation = implementation
        self._formulation = formulation
        builder = _Builder(api, formulation)
        builder.add_problem(descriptor, implementation)
        self.reorders = tuple(formulation.roles[role] for role in builder.reordered)
        self.scratchpad_bytes = builder.scratchpad_bytes
        self._program = Program(
            api,
            builder.buffers,
            builder.steps,
            builder.converted,
            builder.results,
            builder.layout.nbytes,
            pool,
        )

    @property
    def workspace_bytes(self) -> int:
        return self._program.workspace_bytes

    @property
    def nbytes(self) -> int:
        """Bytes that the plan itself keeps alive, roughly; workspaces belong to the pool."""
        return BYTES_PER_PRIMITIVE * len(self._program.steps)

    def __repr__(self) -> str:
        choice = self.choice
        notes = [f"reorders: {', '.join(self.reorders) or 'none'}"]
        if choice.compute_dtype != self.problem.dtype:
            notes.append(f"{self.problem.dtype} through {choice.compute_dtype}")
        if choice.as_convolution:
            notes.append("by convolution primitives, roles exchanged")
        notes.append(f"scratchpad {self.scratchpad_bytes} bytes")
        notes.append(f"workspace {self.workspace_bytes} bytes")
        return f"{self.problem.operation}: oneDNN {self.implementation}; {'; '.join(notes)}"

    def execute(self, tensors: Mapping[str, Array]) -> None:
        """Compute the result from canonical views by role, in place of the result's elements."""
        self._formulation.prepare(tensors)
        self._program.run(self._formulation.operands(tensors))


class _Builder:
    """Collects buffers and steps: reorders in, the primitive, reorders out."""

    def __init__(self, api: Api, formulation: Formulation) -> None:
        self.buffers: list[Buffer] = []
        self.steps: list[Step] = []
        self.converted: dict[str, Converted] = {}
        self.reordered: list[str] = []
        self.layout = Layout()
        self.scratchpad_bytes = 0
        self._api = api
        self._problem = formulation.problem
        self._asked = formulation.asked
        self.results = {self._problem.result_name}
        if self._problem.result_name == "weights" and self._problem.bias is not None:
            self.results.add("bias")

    def add_problem(self, descriptor: Handle, name: str) -> None:
        api, problem = self._api, self._problem
        arguments: list[tuple[int, int]] = []
        after: list[tuple[str, Handle, int, Handle, int]] = []
        for role, argument in EXECUTION_ARGUMENTS[problem.direction].items():
            layout = getattr(problem, role)
            if layout is None:
                continue
            if problem.dtype != self._asked.dtype:
                offset = self.layout.add(layout.size * DTYPES[problem.dtype].itemsize)
                self.converted[role] = Converted(layout, problem.dtype, offset)
            user = user_desc(api, problem, role)
            wanted = self._wanted(descriptor, role)
            index = self._buffer(Buffer(user, role=role))
            if not api.equal(user, wanted):
                self.reordered.append(role)
                inner = self._buffer(Buffer(wanted, offset=self.layout.add(api.nbytes(wanted))))
                if role in self.results:
                    after.append((role, wanted, inner, user, index))
                else:
                    self._reorder(role, user, index, wanted, inner)
                index = inner
            arguments.append((getattr(api.lib, f"DNNL_ARG_{argument}"), index))
        self._step(name, descriptor, arguments)
        for reorder in after:
            self._reorder(*reorder)

    def _wanted(self, descriptor: Handle, role: str) -> Handle:
        api, problem = self._api, self._problem
        if problem.bias is not None and role == "bias":
            return api.strided_desc(problem.bias.shape, problem.dtype, (1,))
        query = QUERIES[problem.direction][role]
        return api.clone_desc(api.desc_of(descriptor, query))

    def _buffer(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def _reorder(
        self, role: str, source: Handle, source_index: int, target: Handle, target_index: int
    ) -> None:
        api = self._api
        arguments = [
            (api.lib.DNNL_ARG_SRC, source_index),
            (api.lib.DNNL_ARG_DST, target_index),
        ]
        self._step(f"reorder of {role}", api.reorder_desc(source, target), arguments)

    def _step(self, name: str, descriptor: Handle, arguments: list[tuple[int, int]]) -> None:
        api = self._api
        scratchpad = api.desc_of(descriptor, "scratchpad")
        nbytes = api.nbytes(scratchpad)
        self.scratchpad_bytes = max(self.scratchpad_bytes, nbytes)
        if nbytes:
            index = self._buffer(Buffer(api.clone_desc(scratchpad), offset=self.layout.add(nbytes)))
            arguments = [*arguments, (api.lib.DNNL_ARG_SCRATCHPAD, index)]
        self.steps.append(Step(name, api.primitive(descriptor), tuple(arguments)))
