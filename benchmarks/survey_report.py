"""The tables and the plot of a survey: the heuristic choice's time over the measured one's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from survey_measure import in_words

from onednn_py.tools.pictures import QUIET_COLOUR, TEXT_COLOUR, new_figure, save, tidy
from onednn_py.tools.text import aligned

__all__ = ["report_lines", "save_figure"]

Row = dict[str, Any]

# A ratio from which a choice counts as missed.
MISSED = 1.2
WORST_SHOWN = 20

HEADING = ("problems", "mean", f"over {MISSED}", "share", "worst")
COLUMNS = 4
COLOURS = {"f32": "#4477aa", "bf16": "#cc6633"}


def ratio(row: Row) -> float:
    return float(row["heuristic_microseconds"] / row["microseconds"])


def report_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield tables by family and by type, format and direction, and the worst problems."""
    yield from _table("family", rows, lambda row: (row["family"],))
    yield ""
    yield from _table(
        "type, format", rows, lambda row: (row["dtype"], row["format"]), with_all=False
    )
    yield ""
    yield from _table(
        "type, format, direction",
        rows,
        lambda row: (row["dtype"], row["format"], row["direction"]),
        with_all=False,
    )
    yield ""
    yield f"the worst, heuristic / measured in microseconds (of {len(rows)}):"
    for row in sorted(rows, key=ratio, reverse=True)[:WORST_SHOWN]:
        heuristic, measured = row["heuristic_microseconds"], row["microseconds"]
        yield (
            f"{ratio(row):6.2f}  {heuristic:.0f} / {measured:.0f}  seed {row['seed']}"
            f" {row['family']}: {row['operation']} {row['descriptor']} {row['direction']}"
            f" {row['dtype']} {row['format']}"
        )
        yield f"        heuristic: {in_words(row['heuristic'])}"
        yield f"        measured:  {in_words(row['measured'])}"
    yield from _wrong_lines(rows)


def _wrong_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the recorded ways whose results differ from those of the rules' choice, if any."""
    wrong = [(row, way) for row in rows for way in row.get("ways", ()) if "wrong" in way]
    if not wrong:
        return
    yield ""
    yield f"results that differ from those of the rules' choice: {len(wrong)}"
    for row, way in wrong:
        yield f"        {in_words([way['choice']])}, rules: {in_words(row['heuristic'])}"
        yield (
            f"        seed {row['seed']} {row['family']}: {row['operation']} {row['descriptor']}"
            f" {row['direction']} {row['dtype']} {row['format']}"
        )


def _table(
    title: str,
    rows: Sequence[Row],
    key: Callable[[Row], tuple[str, ...]],
    *,
    with_all: bool = True,
) -> list[str]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    table: list[tuple[str, ...]] = [(title, *HEADING)]
    table += [(" ".join(name), *_cells(groups[name])) for name in sorted(groups)]
    if with_all:
        table.append(("all", *_cells(rows)))
    return aligned(table, "<>>>>>")


def _cells(rows: Sequence[Row]) -> tuple[str, ...]:
    ratios = [ratio(row) for row in rows]
    missed = sum(one > MISSED for one in ratios)
    return (
        str(len(ratios)),
        f"{geometric_mean(ratios):.3f}",
        str(missed),
        f"{missed / len(ratios):.0%}",
        f"{max(ratios):.2f}",
    )


def save_figure(path: Path, rows: Sequence[Row]) -> None:
    """Draw each problem's ratio over its time, a panel for each family."""
    families = sorted({row["family"] for row in rows})
    columns = min(len(families), COLUMNS)
    lines = ceil(len(families) / columns)
    figure = new_figure("bench", figsize=(0.6 + 2.8 * columns, 0.9 + 2.3 * lines))
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes, family in zip(grid.flat, families, strict=False):
        members = [row for row in rows if row["family"] == family]
        for dtype, colour in COLOURS.items():
            own = [row for row in members if row["dtype"] == dtype]
            times, ratios = [row["microseconds"] for row in own], [ratio(row) for row in own]
            axes.plot(times, ratios, "o", color=colour, markersize=3, alpha=0.7, label=dtype)
        axes.axhline(1, color=TEXT_COLOUR, linewidth=0.8)
        axes.axhline(MISSED, color=QUIET_COLOUR, linewidth=0.8, linestyle="--")
        axes.set_xscale("log")
        axes.set_yscale("log", base=2)
        mean = geometric_mean([ratio(row) for row in members])
        axes.set_title(f"{family}, {len(members)}: {mean:.2f}", fontsize=10, color=TEXT_COLOUR)
        axes.yaxis.set_major_formatter("{x:g}")
        tidy(axes, labelsize=8)
    for axes in list(grid.flat)[len(families) :]:
        axes.remove()
    figure.supxlabel("measured, µs", fontsize=9, color=TEXT_COLOUR)
    figure.supylabel("heuristic / measured", fontsize=9, color=TEXT_COLOUR)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper right", ncols=len(labels), frameon=False, fontsize=9
    )
    mean = geometric_mean([ratio(row) for row in rows])
    figure.suptitle(f"{len(rows)} problems: {mean:.3f}", color=TEXT_COLOUR, fontsize=11)
    save(figure, path)
