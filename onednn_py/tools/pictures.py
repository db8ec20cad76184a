"""Writes figures to files, the same figure as the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["save"]

DPI = 150


def save(figure: Any, path: Path) -> None:
    """Write a figure to a PNG or SVG file.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : Path
        Its suffix chooses the format.
    """
    import matplotlib

    # An SVG would hold the date, and names drawn at random.
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    with matplotlib.rc_context({"svg.hashsalt": path.name}):
        figure.savefig(path, dpi=DPI, metadata=metadata)
