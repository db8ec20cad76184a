"""Parts: problems that are decided, and what a plan of several needs to know of their tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from onednn_py.backends.onednn.binding.engine import Handle
from onednn_py.problem.problem import Choice, TensorLayout

from .formulations import Formulation

__all__ = ["Part", "shares_tensors"]


@dataclass(frozen=True, slots=True)
class Part:
    """One problem of a plan, decided.

    Attributes
    ----------
    formulation : Formulation
    choice : Choice
        With the implementation's name.
    descriptors : tuple of Handle
        Primitive descriptors at that implementation, of each kind of piece.
    whole : Part or None
        The same not in pieces.
    names : dict
        For each role of the problem that was asked, the operand's name in the plan.
    """

    formulation: Formulation
    choice: Choice
    descriptors: tuple[Handle, ...]
    whole: Part | None = None
    names: dict[str, str] = field(default_factory=dict)

    def named(self, names: dict[str, str]) -> Part:
        """Return the part with other names of its tensors."""
        whole = None if self.whole is None else self.whole.named(names)
        return replace(self, names=names, whole=whole)

    def name(self, role: str) -> str:
        return self.names.get(role, role)

    @property
    def results(self) -> set[str]:
        """Names of the operands that are written."""
        asked = self.formulation.asked
        roles = {asked.result_name}
        if asked.result_name == "weights":
            roles.add("bias")
        return {self.name(role) for role in roles if getattr(asked, role) is not None}


def shares_tensors(parts: Sequence[Part]) -> bool:
    """Whether one plan can run all parts: each tensor converted in one way for all of them.

    And all on as many threads, since a primitive runs on those that its descriptor was made
    for, and in the same pieces, which only those of images are for both gradients.
    """
    if len({(part.choice.threads, part.choice.pieces) for part in parts}) > 1:
        return False
    if any(part.choice.pieces > 1 and part.choice.cut != "images" for part in parts):
        return False
    converted: dict[str, tuple[str, TensorLayout]] = {}
    for part in parts:
        formulation = part.formulation
        for role, asked_role in formulation.roles.items():
            layout = getattr(formulation.problem, role)
            if layout is None:
                continue
            form = (formulation.problem.dtype, layout)
            is_plain = formulation.problem.dtype == formulation.asked.dtype
            other = converted.setdefault(part.name(asked_role), form)
            if other != form and not (is_plain and other[0] == form[0]):
                return False
    return True
