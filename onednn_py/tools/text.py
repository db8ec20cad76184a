"""Text that commands print: aligned columns, and numbers of things."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["aligned", "counted"]


def aligned(rows: Sequence[Sequence[str]], sides: str = "") -> list[str]:
    """Return rows as lines, with columns as wide as their longest cell.

    Parameters
    ----------
    rows : sequence of sequence of str
    sides : str
        ``<`` or ``>`` for each column, from the left; further columns are aligned to the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    formats = [
        f"{side}{width}" for side, width in zip(sides.ljust(len(widths), "<"), widths, strict=True)
    ]
    return [
        "  ".join(format(cell, spec) for cell, spec in zip(row, formats, strict=True)).rstrip()
        for row in rows
    ]


def counted(number: int, name: str) -> str:
    """Return a number and a name, in the plural where the number is not 1."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
