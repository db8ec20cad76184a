"""Overlay: parts of a workspace that are in use at different steps lie on the same memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from .program import Buffer, Layout, Step

__all__ = ["overlaid"]


def overlaid(
    workspace: Layout, buffers: Sequence[Buffer], steps: Sequence[Step]
) -> tuple[list[Buffer], int]:
    """Return the buffers with their new offsets, and the bytes of the smaller workspace.

    A part is in use from the first step that has a buffer in it to the last one. Nobody but the
    steps may know of its offset. Larger parts are placed first, each as far in front as there is
    room while it is in use.

    Parameters
    ----------
    workspace : Layout
        The parts, each at an offset of its own.
    buffers : sequence of Buffer
    steps : sequence of Step

    Returns
    -------
    buffers : list of Buffer
        In the same order; those of operands and constants as they were.
    nbytes : int
    """
    parts = [part for part in workspace.parts if part[1]]
    begins = [begin for begin, _ in parts]
    part_of = {
        index: bisect_right(begins, buffer.offset) - 1
        for index, buffer in enumerate(buffers)
        if buffer.operand is None and buffer.constant is None and parts
    }
    uses: dict[int, tuple[int, int]] = {}
    for number, step in enumerate(steps):
        for _, index in step.arguments:
            part = part_of.get(index)
            if part is not None:
                uses[part] = uses.get(part, (number, 0))[0], number
    # The first and last steps, the beginning and the end.
    placed: list[tuple[int, int, int, int]] = []
    offsets: dict[int, int] = {}
    for part in sorted(uses, key=lambda part: -parts[part][1]):
        first, last = uses[part]
        meanwhile = [(begin, end) for of, to, begin, end in placed if of <= last and first <= to]
        offset = 0
        for begin, end in sorted(meanwhile):
            if offset + parts[part][1] <= begin:
                break
            offset = max(offset, end)
        offsets[part] = offset
        placed.append((first, last, offset, offset + parts[part][1]))
    moved = list(buffers)
    for index, part in part_of.items():
        offset = buffers[index].offset - begins[part] + offsets.get(part, 0)
        moved[index] = replace(buffers[index], offset=offset)
    return moved, max((end for *_, end in placed), default=0)
