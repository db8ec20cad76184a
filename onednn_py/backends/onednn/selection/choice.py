"""How oneDNN computes a problem: a Choice, a frozen value that wisdom can store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["LAYOUTS", "Choice"]

# Memory layouts worth trying, of activations and of weights.
LAYOUTS = (
    ("any", "any"),
    ("given", "any"),
    ("given", "given"),
    ("nxc", "any"),
    ("ncx", "any"),
)

# Wisdom of version 0.1 has these names of fields and values.
_OLDER_FIELDS = {"pieces": "chunks", "cut": "split_axis"}
_OLDER_VALUES = {
    "formulation": {"exchanged": "as_convolution", "sliced": "strided_1x1"},
    "split_axis": {"images": "minibatch", "rows": "spatial"},
}


@dataclass(frozen=True, slots=True)
class Choice:
    """How oneDNN computes a problem; an empty field leaves the decision to oneDNN's own order.

    Attributes
    ----------
    compute_dtype : str
        Data type of the primitive. Tensors of another type are converted.
    formulation : str
        Which equivalent problem the primitive computes, see `formulations`.
    activations, weights : {"any", "given", "nxc", "ncx"}
        Memory layouts of the primitive: the implementation's own preference, the caller's
        strides, or dense with channels last or first.
    implementation : str
        oneDNN's name of it, or empty for the first that is no reference implementation.
    reference : bool
        Accept oneDNN's reference implementations, plain loop nests.
    threads : int
        1 for a problem that one thread computes as fast as several; 0 for the threads that the
        call has.
    chunks : int
        Into how many chunks the problem is split, which are computed one after the other, so
        that a reordered chunk is still in the caches when the primitive reads it, or takes less
        memory. Along axes other than the minibatch there may be fewer.
    split_axis : str
        Along which axis, a key of `chunks.SPLIT_AXES`.
    bias_apart : bool
        Whether a bias gradient is summed outside the primitive, see `bias_sums`.
    """

    compute_dtype: str
    formulation: str = "direct"
    activations: str = "any"
    weights: str = "any"
    implementation: str = ""
    reference: bool = False
    threads: int = 0
    chunks: int = 1
    split_axis: str = "minibatch"
    bias_apart: bool = False

    def as_dict(self) -> dict[str, str | bool | int]:
        """Return the fields by name, as JSON can hold them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Choice | None:
        """Return the choice that `as_dict` gave, None if the fields are not a choice's."""
        given, fields = fields, {_OLDER_FIELDS.get(name, name): fields[name] for name in fields}
        if len(fields) < len(given):
            return None
        for name, values in _OLDER_VALUES.items():
            if isinstance(fields.get(name), str):
                fields[name] = values.get(fields[name], fields[name])
        defaults = asdict(cls(""))
        known = fields.keys() <= defaults.keys() and "compute_dtype" in fields
        if not known or any(type(fields[name]) is not type(defaults[name]) for name in fields):
            return None
        return cls(**fields) if fields.get("threads", 0) in (0, 1) else None

    def __str__(self) -> str:
        notes = [self.implementation or "first"]
        if self.formulation != "direct":
            notes.append(self.formulation)
        notes.append(f"activations {self.activations}, weights {self.weights}")
        notes.append(self.compute_dtype)
        if self.chunks > 1:
            notes.append(f"{self.chunks} chunks along {self.split_axis}")
        if self.bias_apart:
            notes.append("bias apart")
        return ", ".join([*notes, "one thread"] if self.threads else notes)
