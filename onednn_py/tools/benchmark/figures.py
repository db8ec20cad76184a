"""Draws the ratios of times as bars, and the speed over a varied parameter as lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, nan
from pathlib import Path
from typing import Any

from onednn_py.tools.benchdnn import Descriptor
from onednn_py.tools.extras import require
from onednn_py.tools.pictures import QUIET_COLOUR, TEXT_COLOUR, new_figure, save, tidy

from .bars import draw_bars, label_bars, limit
from .results import Category, Group, Result, grouped

__all__ = ["save_ratio_figure", "save_sweep_figure"]

COLOURS = {"ours": "#222222", "native": "#4477aa", "torch": "#cc6633", "numpy": "#228833"}
LABELS = {
    "ours": "onednn_py",
    "native": "native oneDNN",
    "torch": "PyTorch",
    "numpy": "our NumPy backend",
}

DIRECTIONS = {
    "FWD_D": "forward",
    "FWD_B": "forward with bias",
    "BWD_D": "data gradient",
    "BWD_W": "weights gradient",
    "BWD_WB": "weights and bias gradient",
}
SHAPE_KEY = "Shapes: channels of src → dst, spatial size of src, kernel, /stride, dilation."

MOST_COLUMNS = 4

# The row of the geometric means, above the first row of the problems, which is row 0.
MEANS_ROW = -1.5

# Inches of a row besides its bars, and of each bar.
ROW_MARGIN, BAR_HEIGHT = 0.07, 0.1


def save_ratio_figure(path: Path, results: Sequence[Result], title: str) -> None:
    """Write a figure with a bar for each ratio, of which there is at least one."""
    groups = [group for group in grouped(results) if not group.note]
    panels: dict[Category, list[Group]] = {}
    for group in groups:
        panels.setdefault(group.category, []).append(group)
    others = list(dict.fromkeys(group.other for group in groups))
    figure = new_figure("bench")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    _draw_problems(figure, results, panels, others)
    limit(figure.axes, [ratio for group in groups for ratio in group.ratios])
    figure.supxlabel(SHAPE_KEY, color=TEXT_COLOUR, fontsize=8)
    _finish(figure, others, title)
    save(figure, path)


def save_sweep_figure(
    path: Path, runs: Mapping[str, Sequence[Result]], varies: str, title: str
) -> None:
    """Write a figure with a line for each competitor's speed.

    Parameters
    ----------
    runs : mapping of str to sequence of Result
        By the value of the varied parameter; the same problems in each, by name.
    varies : str
        What is varied, such as ``"threads"``.
    """
    every = [result for results in runs.values() for result in results]
    panels = list(dict.fromkeys((result.name, result.case.direction) for result in every))
    competitors = list(dict.fromkeys(name for result in every for name in result.timings))
    figure = new_figure("bench")
    grid = _panel_axes(figure, len(panels), size=(3.0, 2.6), margins=(0.8, 1.2))
    for axes, panel in zip(grid, panels, strict=True):
        for name in competitors:
            rates = [_rate(results, panel, name) for results in runs.values()]
            axes.plot(range(len(runs)), rates, color=COLOURS[name], marker="o", markersize=4)
        axes.set_xticks(range(len(runs)), list(runs))
        axes.set_ylim(bottom=0)
        axes.set_title(" ".join(panel), fontsize=10, color=TEXT_COLOUR)
        axes.set_xlabel(varies, color=TEXT_COLOUR, fontsize=8)
        axes.set_ylabel("GF/s", color=TEXT_COLOUR, fontsize=8)
        tidy(axes, labelsize=8)
    _finish(figure, competitors, title)
    save(figure, path)


def _panel_axes(
    figure: Any, count: int, size: tuple[float, float], margins: tuple[float, float], **options: Any
) -> list[Any]:
    """Resize the figure to hold a number of panels; return their axes.

    ``size`` is a panel's width and height, ``margins`` those of the rest, in inches.
    """
    columns = min(count, MOST_COLUMNS)
    lines = ceil(count / columns)
    figure.set_size_inches(margins[0] + columns * size[0], margins[1] + lines * size[1])
    grid = list(figure.subplots(lines, columns, squeeze=False, **options).flat)
    for axes in grid[count:]:
        axes.remove()
    return grid[:count]


def _rate(results: Sequence[Result], panel: tuple[str, str], name: str) -> float:
    """Return GF/s, nan where there is no time, which interrupts the line."""
    for result in results:
        timing = result.timings.get(name)
        if (result.name, result.case.direction) == panel and timing and timing.seconds:
            return result.case.descriptor.flops / timing.median / 1e9
    return nan


def _finish(figure: Any, names: Sequence[str], title: str) -> None:
    figure.suptitle(title, x=0.01, horizontalalignment="left", color=TEXT_COLOUR, fontsize=11)
    patches = require("matplotlib.patches", "matplotlib", "bench")
    handles = [patches.Patch(color=COLOURS[name], label=LABELS[name]) for name in names]
    figure.legend(
        handles=handles, loc="outside upper right", ncols=len(names), frameon=False, fontsize=9
    )


def _draw_problems(
    figure: Any,
    results: Sequence[Result],
    panels: Mapping[Category, Sequence[Group]],
    others: Sequence[str],
) -> None:
    """Draw a panel for each type, format and direction: a row of means, and one a problem."""
    labels, rows = _rows(results)
    row_height = ROW_MARGIN + BAR_HEIGHT * len(others)
    height = 0.7 + (len(labels) + 1.5) * row_height
    grid = _panel_axes(figure, len(panels), size=(3.3, height), margins=(3.6, 1.0), sharey=True)
    thickness = BAR_HEIGHT / row_height
    for axes, (panel, groups) in zip(grid, panels.items(), strict=True):
        for number, other in enumerate(others):
            offset = (number - (len(others) - 1) / 2) * thickness
            ratios = {
                rows[result.case.descriptor] + offset: ratio
                for result in results
                if result.category == panel and (ratio := result.ratio(other)) is not None
            }
            for group in groups:
                if group.other == other:
                    ratios[MEANS_ROW + offset] = group.geometric_mean
            draw_bars(axes, ratios, thickness, COLOURS[other])
            label_bars(axes, ratios)
        axes.axhline(-0.75, color=QUIET_COLOUR, linewidth=0.6)
        axes.set_yticks([MEANS_ROW, *range(len(labels))], ["geometric mean", *labels])
        for row, label in enumerate(axes.get_yticklabels(), -1):
            is_problem = row in rows.values()
            label.set(
                fontsize=7 if is_problem else 8, fontweight="normal" if is_problem else "bold"
            )
        axes.set_ylim(len(labels) - 0.4, MEANS_ROW - 0.6)
        axes.set_title(_panel_title(panel), fontsize=10, color=TEXT_COLOUR)
        # A reader of the first rows of a long figure sees no axis below.
        axes.tick_params(labeltop=True)


def _panel_title(panel: Category) -> str:
    kind = f"{panel.dtype} {panel.data_format} {panel.direction}"
    meaning = DIRECTIONS.get(panel.direction)
    return f"{meaning}\n{kind}" if meaning else kind


def _rows(results: Sequence[Result]) -> tuple[list[str], dict[Descriptor, int]]:
    """Return the labels of the rows and each problem's row; a suite begins with its own name."""
    labels: list[str] = []
    rows: dict[Descriptor, int] = {}
    suite = ""
    for result in sorted(results, key=_suite_order(results)):
        problem = result.case.descriptor
        if problem in rows:
            continue
        if result.suite and result.suite != suite:
            suite = result.suite
            labels.append(f"{suite}, minibatch {problem.minibatch}")
        rows[problem] = len(labels)
        name = problem.name.partition(":")[2] if result.suite else problem.name
        minibatch = "" if result.suite else f"minibatch {problem.minibatch}, "
        labels.append(f"{name}{': ' if name else ''}{minibatch}{problem.shapes}")
    return labels, rows


def _suite_order(results: Sequence[Result]) -> Callable[[Result], int]:
    """Return a key that keeps the problems of a suite together."""
    suites = list(dict.fromkeys(result.suite for result in results))
    return lambda result: suites.index(result.suite)
