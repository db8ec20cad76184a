"""Plan: one problem, or two that share tensors, ready to be executed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.base import AddressRunner, PackedOperand, Plan
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.layouts import layout_name
from onednn_py.backends.onednn.selection.candidate import Candidate, share_tensors
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.decide import decide
from onednn_py.backends.onednn.selection.workspace import workspace_exceeds_limit
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Problem, TensorLayout
from onednn_py.system.memory_pool import pool

from .bias import SummingProgram
from .casts import Casts, CastTensor
from .lowering import Lowering
from .notes import notes
from .packing import PackedInput
from .program import Program, Step
from .unmixed import are_unmixed, may_mix

__all__ = ["OneDNNPlan", "build_plan"]

Array = npt.NDArray[Any]

# A primitive keeps generated code and descriptors, besides its workspace.
BYTES_PER_PRIMITIVE = 64 * 2**10

# Formulations whose weights NumPy gathers or spreads, for the call at hand.
COPYING_WEIGHTS = ("im2col", "merged_groups")

# A step's arguments and memory objects: a plan of 3,074 steps took 9.1 MB.
BYTES_PER_STEP = 3000


class OneDNNPlan(Plan):
    """Primitives for one problem or two, with the reorders and the workspace that they need.

    Attributes
    ----------
    problem : Problem
        That of the first candidate.
    candidates : tuple of Candidate
    implementation : str
        oneDNN's name of the implementation, as its verbose mode prints it.
    reorders : tuple of str
        Names of the operands whose layout the implementation does not take as it is.
    workspace_bytes : int
        Memory that one execution borrows: reordered and converted tensors, scratchpad. Converting
        float16 takes some megabytes a thread besides.
    casts : tuple of CastTensor
        Tensors that are computed in another data type.
    timings : tuple of (str, float)
        Of the candidates that were measured, in microseconds.
    """

    backend = "onednn"

    def __init__(
        self, engine: Engine, *candidates: Candidate, timings: Sequence[tuple[str, float]] = ()
    ) -> None:
        self.candidates = candidates
        self.problem = candidates[0].formulation.asked
        self.implementation = " and ".join(
            dict.fromkeys(candidate.choice.implementation for candidate in candidates)
        )
        self.timings = tuple(timings)
        threads = None
        own = min(candidate.choice.threads for candidate in candidates)
        if own and engine.openmp is not None:
            threads = (own, engine.openmp.number())
        with engine.on_threads(own):
            lowering = Lowering(engine, candidates)
            self.program = lowering.program(threads)
        self.operands = self.program.operands
        self.reorders = tuple(dict.fromkeys(lowering.reordered))
        self._layouts = lowering.layouts
        self.scratchpad_bytes = lowering.scratchpad_bytes
        self.engine = engine
        self._whole: OneDNNPlan | None = None
        self._without_copies: tuple[OneDNNPlan | None] | None = None
        self._unmerged: list[OneDNNPlan] | None = None
        self._without: dict[str, Program] = {}
        self.casts = tuple(lowering.casts)
        self._sums = tuple(lowering.sums)
        self._summed = lowering.summed
        self._prefilled = [
            candidate
            for candidate in candidates
            if candidate.formulation.needs_prefill(candidate.name("bias") in self._summed)
        ]
        self._added = [
            candidate
            for candidate in candidates
            if candidate.formulation.adds_bias
            and not candidate.formulation.is_cast
            and candidate.name("bias") not in lowering.added
        ]
        if not (self.casts or self._prefilled or self._added):
            self.address_runner = self._on_addresses()

    def _on_addresses(self) -> AddressRunner | None:
        """Return the short way of a plan without copies by NumPy, if there is one."""
        # A program's methods: the plan's own would keep the plan alive in a cycle.
        runs: Program | SummingProgram = self.program
        if self._sums:
            summed = [one for one in self.candidates if one.name("bias") in self._summed]
            if not all(one.formulation.asked.has_dense_bias for one in summed):
                return None
            runs = SummingProgram(self.engine, self.program, self._sums, self.problem.dtype)
        engine = self.engine
        return AddressRunner(
            self.operands, engine.pointers, runs.run, runs.run_again, engine.address
        )

    @property
    def layouts(self) -> dict[str, str]:
        """The primitives' memory layouts by operand, in words."""
        return {
            name: layout_name(self.engine.library, desc) for name, desc in self._layouts.items()
        }

    @property
    def choice(self) -> Choice:
        return self.candidates[0].choice

    @property
    def whole(self) -> OneDNNPlan:
        """The same in one chunk; made once."""
        if self._whole is None:
            candidates = (candidate.whole or candidate for candidate in self.candidates)
            self._whole = OneDNNPlan(self.engine, *candidates)
        return self._whole

    @property
    def without_copies(self) -> OneDNNPlan | None:
        """The same without patches and merged groups, None where there is no such plan.

        Weights gradients read no packed operand, and stay as they are. The plan is made once.
        """
        # Until Python 3.12, a cached_property has a lock, which a forked child may find held.
        if self._without_copies is None:
            self._without_copies = (self._make_without_copies(),)
        return self._without_copies[0]

    @property
    def unmerged(self) -> list[OneDNNPlan]:
        """Plans without merged groups, made once: for results whose groups may have mixed."""
        if self._unmerged is None:
            self._unmerged = [
                OneDNNPlan(self.engine, _decided_again(self.engine, candidate))
                for candidate in self.candidates
                if may_mix(candidate)
            ]
        return self._unmerged

    def _make_without_copies(self) -> OneDNNPlan | None:
        try:
            candidates = [
                _decided_again(self.engine, candidate)
                if _copies_weights(candidate) and candidate.reads("weights")
                else candidate
                for candidate in self.candidates
            ]
        except OneDNNError as error:
            if error.status != "unimplemented":
                raise
            return None
        if len(candidates) == 1:
            return OneDNNPlan(self.engine, *candidates)
        if not share_tensors(candidates):
            return None
        plan = OneDNNPlan(self.engine, *candidates)
        return None if workspace_exceeds_limit(candidates, plan.workspace_bytes) else plan

    def splits(self, operand: str) -> bool:
        """Whether chunks, or merged groups, read or write parts of an operand of their own."""
        return any(
            candidate.operand(role) == operand
            and (tensor.is_split or (role == "weights" and candidate.formulation.merged_groups > 1))
            for candidate in self.candidates
            for role, tensor in candidate.formulation.chunks[0].tensors.items()
        )

    @property
    def workspace_bytes(self) -> int:
        return self.program.workspace_bytes

    @property
    def nbytes(self) -> int:
        """Bytes that the plan itself keeps alive, roughly; large workspaces are the pool's.

        The plans and programs that read packed operands count once they are made.
        """
        programs = (self.program, *self._without.values())
        primitives = {id(step.primitive) for program in programs for step in program.steps}
        of_steps = BYTES_PER_STEP * sum(len(program.steps) for program in programs)
        # Conversions, and sums that NumPy adds up, borrow the workspace.
        keeps = not (self.casts or self._sums) and self.program.keeps_workspace
        kept = self.workspace_bytes * len(programs) if keeps else 0
        others = (self._whole, *(self._without_copies or ()), *(self._unmerged or ()))
        of_others: int = sum(other.nbytes for other in others if other is not None)
        return BYTES_PER_PRIMITIVE * len(primitives) + of_steps + kept + of_others

    def __repr__(self) -> str:
        lines = []
        for candidate in self.candidates:
            operation = candidate.formulation.asked.operation
            lines.append(f"{operation}: oneDNN {candidate.choice.implementation}")
            lines.extend(f"  {note}" for note in notes(candidate))
        layouts = ", ".join(f"{name} {layout}" for name, layout in self.layouts.items())
        lines.append(f"  layouts: {layouts}")
        lines.append(f"  reorders: {', '.join(self.reorders) or 'none'}")
        lines.append(
            f"  scratchpad {self.scratchpad_bytes} bytes, workspace {self.workspace_bytes} bytes"
        )
        if self.timings:
            lines.append("  measured:")
            lines.extend(f"    {time:10.1f} us  {name}" for name, time in self.timings)
        return "\n".join(lines)

    def execute(self, tensors: Mapping[str, Array], packed: PackedOperand | None = None) -> None:
        """Compute the results from canonical views by name, see `Plan.execute`."""
        if isinstance(packed, PackedInput):
            plan = self.reading_packed(packed.name)
            step = plan.program.input_reorder(packed.name)
            program = plan.program if step is None else plan.program_without(step)
            plan._execute(tensors, program, {packed.name: packed.pointer})
            return
        self._execute(tensors, self.program, {})
        if not are_unmixed(self.candidates, tensors):
            for plan in self.unmerged:
                plan._execute(tensors, plan.program, {})

    def _execute(
        self, tensors: Mapping[str, Array], program: Program, packed: Mapping[str, Any]
    ) -> None:
        for candidate in self._prefilled:
            formulation = candidate.formulation
            named = {role: candidate.name(role) for role in formulation.asked.layouts}
            if named.get("bias") in self._summed:
                del named["bias"]
            formulation.prefill(
                {role: tensors[name] for role, name in named.items() if name in tensors}
            )
        pointers = {
            name: packed[name] if name in packed else self.engine.pointer(tensors[name])
            for name in self.operands
        }
        casts = [cast for cast in self.casts if cast.name not in packed]
        if not casts and not self._sums:
            program.run(list(pointers.values()))
        else:
            self._run_with_casts(tensors, program, pointers, casts)
        for candidate in self._added:
            dst, bias = (tensors[candidate.name(role)] for role in ("dst", "bias"))
            candidate.formulation.add_bias(dst, bias)

    def _run_with_casts(
        self,
        tensors: Mapping[str, Array],
        program: Program,
        pointers: dict[str, Any],
        casts: Sequence[CastTensor],
    ) -> None:
        """Run a program whose casts and sums need the workspace around its steps."""
        block = pool.borrow(self.workspace_bytes)
        try:
            base = self.engine.pointer(block)
            for cast in casts:
                pointers[cast.name] = base + cast.offset
            hooks = Casts(casts, tensors, block) if casts else None
            program.run(list(pointers.values()), block, hooks)
            for one in self._sums:
                one.write(tensors[one.name], block)
        finally:
            pool.give_back(block)

    def reading_packed(self, operand: str) -> OneDNNPlan:
        """Return the plan that reads an input that was packed.

        It reads the input in one chunk, since a packed tensor has no parts. Products with patches
        read weights as the caller has them, so that packing gains nothing there, and merged groups
        may have to be computed again from the caller's weights: a plan without both is taken. A
        convolution in place of patches takes 0.44 to 0.76 of the products' time (geometric means by
        type and format); 48 of 480 drawn forward passes take longer (two cores without AMX).
        """
        copied = [c.operand("weights") for c in self.candidates if _copies_weights(c)]
        plan = (self.without_copies if operand in copied else None) or self
        has_whole = any(candidate.whole is not None for candidate in plan.candidates)
        return plan.whole if has_whole and plan.splits(operand) else plan

    def program_without(self, step: Step) -> Program:
        """Return the program without an input's reorder; made once."""
        program = self._without.get(step.name)
        if program is None:
            program = self._without.setdefault(step.name, self.program.without(step))
        return program

    def pack(self, name: str, array: Array) -> PackedInput | None:
        """Return an input, given by its canonical view, in the layout of the primitives.

        Raises
        ------
        OneDNNError
            If the reorder fails.
        """
        if name not in self.operands:
            return None
        plan = self.reading_packed(name)
        if plan.splits(name):
            return None
        layout, source = plan._as_read(name, array)
        return PackedInput(plan.engine, plan.program, name, layout, source, plan._order(name))

    def accepts(self, packed: PackedOperand) -> bool:
        """Whether an operand was packed in the layout that this plan reads."""
        if not isinstance(packed, PackedInput):
            return False
        plan = self.reading_packed(packed.name)
        if plan.splits(packed.name):
            return False
        return packed.is_read_by(plan.engine, plan.program, plan._order(packed.name))

    def _order(self, name: str) -> Hashable:
        """Return what of an input's order of elements its memory descriptor does not say."""
        candidate, role = self._reader(name)
        return candidate.formulation.order(role)

    def _as_read(self, name: str, array: Array) -> tuple[TensorLayout, Array]:
        """Return an input, given by its canonical view, as the program reads it, and its layout."""
        for cast in self.casts:
            if cast.name == name:
                target = cast.view(np.empty(cast.nbytes, np.uint8), 0)
                cast.copy_in(target, array)
                return cast.layout(), target
        candidate, role = self._reader(name)
        formulation = candidate.formulation
        return getattr(formulation.problem, role), formulation.seen(role, array)

    def _reader(self, name: str) -> tuple[Candidate, str]:
        """Return the first candidate that reads an input, and the role that the input has there."""
        return next(
            (candidate, role)
            for candidate in self.candidates
            for role in candidate.formulation.roles
            if candidate.operand(role) == name
        )


def _copies_weights(candidate: Candidate) -> bool:
    """Whether a candidate is of a formulation that packed weights do not serve."""
    return candidate.choice.formulation in COPYING_WEIGHTS


def _decided_again(engine: Engine, candidate: Candidate) -> Candidate:
    """Return what the rules choose for a candidate's problem without copies of its weights."""
    asked = candidate.formulation.asked
    return decide(engine, asked, without=COPYING_WEIGHTS).named(candidate.names)


def build_plan(engine: Engine, problem: Problem, choice: Choice | None = None) -> OneDNNPlan:
    """Return a plan of a problem, decided as by `decide`."""
    return OneDNNPlan(engine, decide(engine, problem, choice))
