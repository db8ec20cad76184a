"""Draws how much longer others take, a bar a problem, and speed over what a sweep varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log2, nan
from pathlib import Path
from typing import Any

from onednn_py.tools.benchdnn import Descriptor
from onednn_py.tools.extras import require
from onednn_py.tools.pictures import save

from .results import Group, Result, grouped

__all__ = ["save_ratio_figure", "save_sweep_figure"]

COLOURS = {"ours": "#222222", "native": "#4477aa", "torch": "#cc6633", "numpy": "#228833"}
LABELS = {
    "ours": "onednn_py",
    "native": "native oneDNN",
    "torch": "PyTorch",
    "numpy": "our NumPy backend",
}
QUIET_COLOUR = "#999999"
TEXT_COLOUR = "#333333"
SLOWER_COLOUR = "#f7ecec"

# Type, format, direction.
Panel = tuple[str, str, str]

# Problems up to which each has a row with its name; more are sorted by their ratio.
MOST_ROWS = 40
MOST_COLUMNS = 4

# Where the geometric means stand, above the first problem's row 0.
MEANS_ROW = -1.5

# Ratios further away end at the edge: one of them must not hide all others.
LEAST_RATIO, MOST_RATIO = 1 / 8, 32


def save_ratio_figure(path: Path, results: Sequence[Result], title: str) -> None:
    """Write bars of the ratios to a PNG or SVG file.

    Parameters
    ----------
    path : Path
        Its suffix chooses the format.
    results : sequence of Result
        At least one with a ratio.
    title : str
    """
    figures = require("matplotlib.figure", "matplotlib", "bench")
    groups = [group for group in grouped(results) if not group.note]
    panels: dict[Panel, list[Group]] = {}
    for group in groups:
        panels.setdefault((group.dtype, group.data_format, group.direction), []).append(group)
    names = {result.case.descriptor: result.name for result in results}
    others = list(dict.fromkeys(group.other for group in groups))
    figure = figures.Figure(layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    if len(names) <= MOST_ROWS:
        _draw_named(figure, results, panels, names, others)
    else:
        _draw_sorted(figure, panels, others)
    _limit(figure.axes, [ratio for group in groups for ratio in group.ratios])
    _finish(figure, others, title)
    save(figure, path)


def save_sweep_figure(
    path: Path, runs: Mapping[str, Sequence[Result]], varies: str, title: str
) -> None:
    """Write lines of everybody's speed to a PNG or SVG file.

    Parameters
    ----------
    path : Path
        Its suffix chooses the format.
    runs : mapping of str to sequence of Result
        By the value that is varied; the same problems in each, by name.
    varies : str
        What the values are.
    title : str
    """
    figures = require("matplotlib.figure", "matplotlib", "bench")
    every = [result for results in runs.values() for result in results]
    panels = list(dict.fromkeys((result.name, result.case.direction) for result in every))
    competitors = list(dict.fromkeys(name for result in every for name in result.timings))
    columns = min(len(panels), MOST_COLUMNS)
    lines = ceil(len(panels) / columns)
    figure = figures.Figure(
        figsize=(0.8 + 3.0 * columns, 1.2 + 2.6 * lines), layout="constrained", facecolor="white"
    )
    grid = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes, panel in zip(grid, panels, strict=False):
        for name in competitors:
            rates = [_rate(results, panel, name) for results in runs.values()]
            axes.plot(range(len(runs)), rates, color=COLOURS[name], marker="o", markersize=4)
        axes.set_xticks(range(len(runs)), list(runs))
        axes.set_ylim(bottom=0)
        axes.set_title(" ".join(panel), fontsize=10, color=TEXT_COLOUR)
        axes.set_xlabel(varies, color=TEXT_COLOUR, fontsize=8)
        axes.set_ylabel("GF/s", color=TEXT_COLOUR, fontsize=8)
        axes.grid(color=QUIET_COLOUR, alpha=0.3, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=TEXT_COLOUR, labelsize=8)
    _finish(figure, competitors, title)
    save(figure, path)


def _rate(results: Sequence[Result], panel: tuple[str, str], name: str) -> float:
    """Return GF/s, nan where there is no time, which interrupts the line."""
    for result in results:
        timing = result.timings.get(name)
        if (result.name, result.case.direction) == panel and timing and timing.seconds:
            return result.case.descriptor.flops / timing.median / 1e9
    return nan


def _finish(figure: Any, names: Sequence[str], title: str) -> None:
    figure.suptitle(title, color=TEXT_COLOUR, fontsize=11)
    patches = require("matplotlib.patches", "matplotlib", "bench")
    handles = [patches.Patch(color=COLOURS[name], label=LABELS[name]) for name in names]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(names), frameon=False, fontsize=9
    )


def _draw_named(
    figure: Any,
    results: Sequence[Result],
    panels: Mapping[Panel, Sequence[Group]],
    names: Mapping[Descriptor, str],
    others: Sequence[str],
) -> None:
    """Draw a panel for each type, format and direction: the means, then one row a problem."""
    columns = min(len(panels), MOST_COLUMNS)
    lines = ceil(len(panels) / columns)
    height = 0.7 + (len(names) + 1.5) * (0.1 + 0.14 * len(others))
    figure.set_size_inches(2.6 + 3.3 * columns, 0.8 + lines * height)
    grid = list(figure.subplots(lines, columns, sharey=True, squeeze=False).flat)
    for axes in grid[len(panels) :]:
        axes.remove()
    rows = {descriptor: row for row, descriptor in enumerate(names)}
    thickness = 0.8 / len(others)
    for axes, (panel, groups) in zip(grid, panels.items(), strict=False):
        for number, other in enumerate(others):
            offset = (number - (len(others) - 1) / 2) * thickness
            found = {
                rows[result.case.descriptor] + offset: ratio
                for result in results
                if _panel(result) == panel and (ratio := result.ratio(other)) is not None
            }
            for group in groups:
                if group.other == other:
                    found[MEANS_ROW + offset] = group.geometric_mean
            _draw_bars(axes, found, thickness, COLOURS[other])
            _label_bars(axes, found)
        axes.axhline(-0.75, color=QUIET_COLOUR, linewidth=0.6)
        axes.set_yticks([MEANS_ROW, *range(len(names))], ["geometric mean", *names.values()])
        axes.set_ylim(len(names) - 0.4, MEANS_ROW - 0.6)
        axes.set_title(" ".join(panel), fontsize=10, color=TEXT_COLOUR)


def _draw_sorted(
    figure: Any, panels: Mapping[Panel, Sequence[Group]], others: Sequence[str]
) -> None:
    """Draw a panel for each type, format, direction and competitor, its bars by length."""
    columns = len(panels)
    figure.set_size_inches(1.2 + 3.6 * columns, 0.9 + 2.7 * len(others))
    grid = figure.subplots(len(others), columns, squeeze=False)
    for column, (panel, groups) in enumerate(panels.items()):
        for group in groups:
            axes = grid[others.index(group.other)][column]
            longest_first = sorted(group.ratios, reverse=True)
            ratios = {float(row): ratio for row, ratio in enumerate(longest_first)}
            _draw_bars(axes, ratios, 1, COLOURS[group.other])
            axes.axvline(group.geometric_mean, color=TEXT_COLOUR, linestyle="--", linewidth=1)
            axes.set_ylim(len(ratios) - 0.5, -0.5)
            axes.set_yticks([])
            axes.set_ylabel(f"{len(ratios)} problems", color=TEXT_COLOUR, fontsize=8)
            axes.annotate(
                f"mean {group.geometric_mean:.2f}, {group.faster} of {len(ratios)} at least 1\n"
                f"worst {min(group.ratios):.2f}, {group.worst.name}",
                (0.98, 0.04),
                xycoords="axes fraction",
                horizontalalignment="right",
                color=TEXT_COLOUR,
                fontsize=8,
            )
            axes.set_title(" ".join(panel), fontsize=10, color=TEXT_COLOUR)


def _panel(result: Result) -> Panel:
    return (result.case.dtype, result.case.data_format, result.case.direction)


def _shown(ratio: float) -> float:
    return min(max(ratio, LEAST_RATIO), MOST_RATIO)


def _draw_bars(axes: Any, ratios: Mapping[float, float], thickness: float, colour: str) -> None:
    """Draw bars that begin at 1, to the right where the other one takes longer."""
    widths = [_shown(ratio) - 1 for ratio in ratios.values()]
    axes.barh(list(ratios), widths, height=thickness, left=1, color=colour, linewidth=0)


def _label_bars(axes: Any, ratios: Mapping[float, float]) -> None:
    for row, ratio in ratios.items():
        axes.annotate(
            f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}",
            (max(_shown(ratio), 1), row),
            xytext=(3, 0),
            textcoords="offset points",
            verticalalignment="center_baseline",
            color=TEXT_COLOUR,
            fontsize=6,
        )


def _limit(panels: Sequence[Any], ratios: Sequence[float]) -> None:
    """Give all panels one axis of factors, with the side on which we are slower shaded."""
    least = min(floor(log2(_shown(min(ratios)))), -1)
    # Room for the number behind the longest bar.
    most = max(ceil(log2(_shown(max(ratios))) + 0.4), 1)
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xlim(2.0**least, 2.0**most)
        axes.set_xticks([2.0**n for n in range(least, most + 1)])
        axes.xaxis.set_major_formatter(_as_factor)
        axes.xaxis.set_minor_formatter("")
        axes.axvspan(2.0**least, 1, color=SLOWER_COLOUR, zorder=0)
        axes.axvline(1, color=TEXT_COLOUR, linewidth=1)
        axes.grid(axis="x", color=QUIET_COLOUR, alpha=0.3, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(colors=TEXT_COLOUR, left=False, labelsize=8)
        axes.set_xlabel("their time / ours (right: ours is faster)", color=TEXT_COLOUR, fontsize=8)


def _as_factor(value: float, _: int) -> str:
    return f"{value:g}x" if value >= 1 else f"1/{1 / value:g}"
