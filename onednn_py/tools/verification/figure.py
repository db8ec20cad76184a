"""Draw numerical errors by data type and family of implementations."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log2, log10
from pathlib import Path
from typing import Any

import numpy as np

from onednn_py.problem.dtypes import DATA_TYPES
from onednn_py.tools.extras import require
from onednn_py.tools.pictures import QUIET_COLOUR, TEXT_COLOUR, new_figure, save, tidy

from .numerical_errors import Measurement, by_family

__all__ = ["save_error_figure"]

COLOURS = {"f32": "#4477aa", "f16": "#228833", "bf16": "#cc6633"}
BAND_COLOUR = "#f5f5f5"

# Points of a row lie up to this far above or below it, in units of the rows' distance.
SPREAD = 0.3

# Smaller errors, including 0, are drawn as this error.
LEAST_ERROR = 1e-9


def save_error_figure(path: Path, measurements: Sequence[Measurement], title: str) -> None:
    """Write a figure with a row of points for each data type and family."""
    groups = by_family(measurements)
    figure = new_figure("demo", figsize=(10, 1.7 + 0.42 * len(groups)))
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.1)
    axes = figure.subplots()
    rng = np.random.default_rng(0)
    for row, ((dtype, _), group) in enumerate(groups.items()):
        _draw_row(axes, row, COLOURS[dtype], group, rng)
    _draw_types(axes, [dtype for dtype, _ in groups])
    labels = [f"{family}  ({len(group)})" for (_, family), group in groups.items()]
    axes.set_yticks(range(len(groups)), labels)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xscale("log")
    # The axis ends at powers of ten, where its labels are.
    least, most = axes.get_xlim()
    axes.set_xlim(10.0 ** floor(log10(least)), 10.0 ** ceil(log10(most)))
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("error / largest magnitude of the result", color=TEXT_COLOUR)
    tidy(axes, "x", left=False)
    _draw_legend(axes)
    figure.suptitle(f"Errors against float64 on normal data, {title}", color=TEXT_COLOUR)
    save(figure, path)


def _draw_row(
    axes: Any, row: int, colour: str, group: Sequence[Measurement], rng: np.random.Generator
) -> None:
    heights = row + rng.uniform(-SPREAD, SPREAD, len(group))
    largest = np.maximum([m.largest for m in group], LEAST_ERROR)
    mean = np.maximum([m.mean for m in group], LEAST_ERROR)
    axes.scatter(
        mean, heights, s=16, facecolors="none", edgecolors=colour, alpha=0.6, linewidths=0.8
    )
    axes.scatter(largest, heights, s=18, color=colour, alpha=0.6, linewidths=0)
    for values in (mean, largest):
        median = float(np.median(values))
        axes.plot([median, median], [row - 0.42, row + 0.42], color=TEXT_COLOUR, linewidth=1.5)


def _draw_types(axes: Any, dtypes: Sequence[str]) -> None:
    """Draw a background, a label and a line at the unit roundoff for each data type's rows."""
    for number, dtype in enumerate(dict.fromkeys(dtypes)):
        rows = [row for row, other in enumerate(dtypes) if other == dtype]
        top, bottom = rows[0] - 0.5, rows[-1] + 0.5
        if number % 2 == 0:
            axes.axhspan(top, bottom, color=BAND_COLOUR, zorder=0)
        unit = DATA_TYPES[dtype].unit_roundoff
        colour = COLOURS[dtype]
        axes.plot([unit, unit], [top, bottom], color=colour, linestyle="--", linewidth=1.2)
        axes.annotate(
            f"{dtype}\n$2^{{{log2(unit):.0f}}}$ = {unit:.1g}",
            (1.01, (top + bottom) / 2),
            xycoords=("axes fraction", "data"),
            verticalalignment="center",
            color=colour,
            fontsize=11,
        )


def _draw_legend(axes: Any) -> None:
    lines = require("matplotlib.lines", "matplotlib", "demo")

    def mark(label: str, **style: Any) -> Any:
        return lines.Line2D([], [], color=QUIET_COLOUR, label=label, **style)

    axes.legend(
        handles=[
            mark("mean error of a case", marker="o", linestyle="none", markerfacecolor="none"),
            mark("largest error of a case", marker="o", linestyle="none"),
            mark("median of the cases", marker="|", linestyle="none", markersize=11),
            mark("one rounding to the type", linestyle="--"),
        ],
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=4,
        frameon=False,
        labelcolor=TEXT_COLOUR,
    )
