"""Candidates: problems that are decided, down to the implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from onednn_py.backends.onednn.binding.engine import Handle
from onednn_py.problem.problem import Problem, TensorLayout

from .choice import Choice
from .formulation import Formulation

__all__ = ["Candidate", "share_tensors"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to compute a problem on oneDNN, that may be executed.

    Attributes
    ----------
    formulation : Formulation
    choice : Choice
        With the implementation's name.
    descriptors : dict
        Primitive descriptors at that implementation, of each unique problem of the chunks.
    whole : Candidate or None
        Where the problem is split: the same candidate in one chunk.
    names : dict
        For each role of the problem that was asked, the operand's name in the plan.
    """

    formulation: Formulation
    choice: Choice
    descriptors: dict[Problem, Handle]
    whole: Candidate | None = None
    names: dict[str, str] = field(default_factory=dict)

    def named(self, names: dict[str, str]) -> Candidate:
        """Return the candidate with other names of its tensors."""
        whole = None if self.whole is None else self.whole.named(names)
        return replace(self, names=names, whole=whole)

    def name(self, role: str) -> str:
        """Return the operand's name of a role of the problem that was asked."""
        return self.names.get(role, role)

    def operand(self, role: str) -> str:
        """Return the operand's name of a role of the problem that the primitive computes."""
        return self.name(self.formulation.roles[role])

    def reads(self, role: str) -> bool:
        """Whether a tensor of the problem that was asked is an input."""
        return role in self.formulation.asked.layouts and self.name(role) not in self.results

    @property
    def results(self) -> set[str]:
        """Names of the operands that are written."""
        asked = self.formulation.asked
        roles = {asked.result_role}
        if asked.result_role == "weights":
            roles.add("bias")
        return {self.name(role) for role in roles if role in asked.layouts}


class _Form(NamedTuple):
    """How the first chunk of a candidate reads or writes a tensor."""

    dtype: str
    is_copied: bool
    layout: TensorLayout
    begin: tuple[int, ...]


def share_tensors(candidates: Sequence[Candidate]) -> bool:
    """Whether one plan can run all candidates, with each tensor converted in one way.

    Their numbers of threads must be equal, since a primitive runs on as many threads as its
    descriptor was made for, and so must their chunks: only chunks of the minibatch are the same
    for both gradients.
    """
    numbers = {
        (candidate.choice.threads, len(candidate.formulation.chunks)) for candidate in candidates
    }
    if len(numbers) > 1:
        return False
    if any(
        len(candidate.formulation.chunks) > 1
        and (candidate.choice.chunks == 1 or candidate.choice.split_axis != "minibatch")
        for candidate in candidates
    ):
        return False
    forms: dict[str, _Form] = {}
    for candidate in candidates:
        # The first chunk, since a flipped data gradient may leave a border of diff_dst out.
        chunk = candidate.formulation.chunks[0]
        for role, layout in chunk.problem.layouts.items():
            is_copied = role in candidate.formulation.copied
            form = _Form(chunk.problem.dtype, is_copied, layout, chunk.tensors[role].begin)
            other = forms.setdefault(candidate.operand(role), form)
            # Without a copy, the layouts are views of the caller's tensor.
            if other[:2] != form[:2] or (is_copied and other != form):
                return False
    return True
