"""Bars of ratios on a logarithmic axis, from 1 to the right where the package is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log2
from typing import Any

from onednn_py.tools.pictures import TEXT_COLOUR, tidy

__all__ = ["draw_bars", "label_bars", "limit"]

SLOWER_COLOUR = "#f7ecec"

# Ratios beyond these end at the edge, so that an outlier does not hide all others.
LEAST_RATIO, MOST_RATIO = 1 / 8, 32


def _shown(ratio: float) -> float:
    return min(max(ratio, LEAST_RATIO), MOST_RATIO)


def draw_bars(axes: Any, ratios: Mapping[float, float], thickness: float, colour: str) -> None:
    """Draw bars from 1, to the right where the competitor takes longer."""
    widths = [_shown(ratio) - 1 for ratio in ratios.values()]
    axes.barh(list(ratios), widths, height=thickness, left=1, color=colour, linewidth=0)


def label_bars(axes: Any, ratios: Mapping[float, float]) -> None:
    """Write each ratio behind its bar."""
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


def limit(panels: Sequence[Any], ratios: Sequence[float]) -> None:
    """Give all panels the same axis of ratios, shaded where the package is slower."""
    least = min(floor(log2(_shown(min(ratios)))), -1)
    # Leave room for the number behind the longest bar.
    most = max(ceil(log2(_shown(max(ratios))) + 0.4), 1)
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xlim(2.0**least, 2.0**most)
        axes.set_xticks([2.0**n for n in range(least, most + 1)])
        axes.xaxis.set_major_formatter(_as_factor)
        axes.xaxis.set_minor_formatter("")
        axes.axvspan(2.0**least, 1, color=SLOWER_COLOUR, zorder=0)
        axes.axvline(1, color=TEXT_COLOUR, linewidth=1)
        tidy(axes, "x", left=False, labelsize=8)
        axes.set_xlabel("their time / ours (right: ours is faster)", color=TEXT_COLOUR, fontsize=8)


def _as_factor(value: float, _: int) -> str:
    return f"{value:g}x" if value >= 1 else f"1/{1 / value:g}"
