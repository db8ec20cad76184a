"""Writes figures to picture files, with the same bytes at every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["FORMATS", "save"]

FORMATS = ("png", "svg")
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

    # By default an SVG holds the date and random identifiers.
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    with matplotlib.rc_context({"svg.hashsalt": path.name}):
        figure.savefig(path, dpi=DPI, metadata=metadata)
