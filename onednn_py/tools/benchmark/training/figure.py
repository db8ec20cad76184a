"""Draws the ratios of training steps as bars: a panel for each run, a row for each network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onednn_py.tools.benchmark.bars import draw_bars, label_bars, limit
from onednn_py.tools.pictures import QUIET_COLOUR, TEXT_COLOUR, new_figure, save

from .results import StepResult, mean_ratio

__all__ = ["save_training_figure"]

COLOUR = "#cc6633"
AXIS = "PyTorch's time / with onednn_py.torch (right: ours is faster)"

# The row of the geometric means, above the first network's.
MEANS_ROW = -1.3

MOST_PANELS_ABREAST = 3

# Inches of a panel's width, of a row, and of what stands around the rows.
PANEL_WIDTH, ROW_HEIGHT, MARGIN = 4.6, 0.27, 1.5
LABEL_WIDTH = 1.6
THICKNESS = 0.6


def save_training_figure(path: Path, runs: Mapping[str, Sequence[StepResult]], title: str) -> None:
    """Write a figure with a bar for each ratio.

    Parameters
    ----------
    runs : mapping of str to sequence of StepResult
        By the panels' titles; at least one ratio in each.
    """
    names = list(dict.fromkeys(r.title for results in runs.values() for r in results if r.ratio))
    abreast = min(len(runs), MOST_PANELS_ABREAST)
    lines = -(-len(runs) // abreast)
    height = MARGIN + ROW_HEIGHT * (len(names) + 1)
    figure = new_figure("bench", figsize=(LABEL_WIDTH + PANEL_WIDTH * abreast, height * lines))
    grid = figure.subplots(lines, abreast, squeeze=False, sharey=True).ravel()
    panels, left_over = grid[: len(runs)], grid[len(runs) :]
    for axes in left_over:
        axes.remove()
    ratios = []
    for axes, (name, results) in zip(panels, runs.items(), strict=True):
        ratios += _draw_run(axes, results, names)
        axes.set_title(name, fontsize=10, color=TEXT_COLOUR)
    limit(panels, ratios)
    for axes in panels:
        axes.set_xlabel(AXIS, color=TEXT_COLOUR, fontsize=8)
    figure.suptitle(title, x=0.01, horizontalalignment="left", color=TEXT_COLOUR, fontsize=11)
    save(figure, path)


def _draw_run(axes: Any, results: Sequence[StepResult], names: Sequence[str]) -> list[float]:
    """Draw the bars of a run; return its ratios."""
    rows = {float(names.index(r.title)): r.ratio for r in results if r.ratio}
    mean = mean_ratio(results)
    if mean is not None:
        rows[MEANS_ROW] = mean
    draw_bars(axes, rows, THICKNESS, COLOUR)
    label_bars(axes, rows)
    axes.axhline(-0.7, color=QUIET_COLOUR, linewidth=0.6)
    axes.set_yticks([MEANS_ROW, *range(len(names))], ["geometric mean", *names], fontsize=8)
    axes.set_ylim(len(names) - 0.4, MEANS_ROW - 0.6)
    return list(rows.values())
