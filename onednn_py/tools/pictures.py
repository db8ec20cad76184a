"""Figures: one style for all, written to picture files with the same bytes at every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .extras import require

__all__ = ["FORMATS", "QUIET_COLOUR", "TEXT_COLOUR", "new_figure", "save", "tidy"]

FORMATS = ("png", "svg")
DPI = 150

QUIET_COLOUR = "#999999"
TEXT_COLOUR = "#333333"


def new_figure(extra: str, **options: Any) -> Any:
    """Return a matplotlib Figure; the extra is the one that the error names without matplotlib."""
    figures = require("matplotlib.figure", "matplotlib", extra)
    # Unlike pyplot, a Figure needs no display.
    return figures.Figure(layout="constrained", facecolor="white", **options)


def tidy(axes: Any, grid: str = "both", **ticks: Any) -> None:
    """Give axes a quiet grid ("both", "x" or "y"), and a frame only where there are ticks."""
    axes.grid(axis=grid, color=QUIET_COLOUR, alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines["left"].set_visible(ticks.get("left", True))
    axes.tick_params(colors=TEXT_COLOUR, **ticks)


def save(figure: Any, path: Path) -> None:
    """Write a matplotlib Figure to a PNG or SVG file, as the suffix says."""
    import matplotlib

    # By default an SVG holds the date, random identifiers and the outline of every letter.
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    with matplotlib.rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none"}):
        figure.savefig(path, dpi=DPI, metadata=metadata)
