"""Notes: what a plan tells of its candidates."""

from __future__ import annotations

from onednn_py.backends.onednn.selection.candidate import Candidate

__all__ = ["notes"]


def notes(candidate: Candidate) -> list[str]:
    """Return what a plan tells of a candidate, besides its implementation."""
    choice, asked = candidate.choice, candidate.formulation.asked
    found = []
    if choice.compute_dtype != asked.dtype:
        found.append(f"{asked.dtype} through {choice.compute_dtype}")
    if asked.fpmath_mode != "strict":
        found.append(f"fpmath_mode {asked.fpmath_mode}: products may be rounded to it")
    if choice.threads:
        found.append("on one thread")
    if choice.formulation != "direct":
        found.append(f"formulation: {choice.formulation}{_in_chunks(candidate)}")
    if choice.chunks > 1:
        number = len(candidate.formulation.chunks)
        axis = "first spatial" if choice.split_axis == "spatial" else choice.split_axis
        found.append(f"{number} chunks along the {axis} axis, one after the other")
    if choice.bias_apart:
        found.append("bias gradient: summed apart from the primitive")
    return found


def _in_chunks(candidate: Candidate) -> str:
    formulation, number = candidate.formulation, len(candidate.formulation.chunks)
    if number == 1 or not (formulation.dst_is_weights or formulation.takes_planes):
        return ""
    return f", in {number} chunks"
