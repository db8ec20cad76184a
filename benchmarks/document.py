"""Writes the tables of docs/performance.md, between its markers, and its figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from kinds import kind_rows, kind_summary
from parts import Part

from onednn_py.tools.benchmark.bounds import most_lost
from onednn_py.tools.benchmark.figures import save_ratio_figure, save_sweep_figure
from onednn_py.tools.benchmark.report import tiny_rows
from onednn_py.tools.benchmark.results import Result, from_json, grouped
from onednn_py.tools.text import counted

__all__ = ["DOCUMENTED", "write_document"]

MARKERS = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MACHINES = re.compile(r"(<!-- machines -->\n).*?(<!-- end -->)", re.DOTALL)
KINDS = re.compile(r"(<!-- kinds: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

# The machine whose times the document shows; others stand in the table that compares machines.
DOCUMENTED = "zen4"

# What one run of the command bench wrote, and the runs of a part by the value that it varies.
Run = Mapping[str, Any]
Runs = Mapping[str, Run]


def write_document(
    path: Path,
    parts: Mapping[str, Part],
    machines: Mapping[str, Mapping[str, Runs]],
) -> None:
    """Replace the text between the markers of each measured part, and draw its figure.

    Parameters
    ----------
    path : Path
        Figures go to a folder of its name, without the suffix.
    parts : mapping of str to Part
    machines : mapping of str to mapping
        What was measured, by machine and part. A part that `DOCUMENTED` has not measured is taken
        from the first machine by name that has.

    Raises
    ------
    ValueError
        If the document lacks the markers of a part or of the table that compares machines, or
        has markers of an unknown part.
    """
    text = path.read_text(encoding="utf-8")
    marked = [match[2] for match in MARKERS.finditer(text)]
    if sorted(marked) != sorted(parts):
        different = ", ".join(sorted(set(marked) ^ set(parts))) or "one of them twice"
        raise ValueError(f"{path}: expected markers of each part once: {different}")
    if len(MACHINES.findall(text)) != 1:
        raise ValueError(f"{path}: expected markers of the machines' table once")
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    documented = machines.get(DOCUMENTED, {})
    others = {name: machines[name] for name in sorted(machines) if name != DOCUMENTED}

    def filled(match: re.Match[str]) -> str:
        before, name, after = match.groups()
        measured = (documented, *others.values())
        runs = next((machine[name] for machine in measured if name in machine), None)
        if runs is None:
            return match[0]
        lines = _section(parts[name], runs, folder)
        return before + "\n" + "\n".join(lines) + "\n\n" + after

    text = MARKERS.sub(filled, text)
    rows = _machine_rows(parts, {DOCUMENTED: documented, **others})
    if len(rows) > 1:
        table = "\n".join(_table(rows))
        text = MACHINES.sub(lambda match: f"{match[1]}\n{table}\n\n{match[2]}", text)

    def with_kinds(match: re.Match[str]) -> str:
        before, other, after = match.groups()
        rows = kind_rows(documented, other)
        if len(rows) < 2:
            return match[0]
        lines = [*_table(rows), "", kind_summary(documented, other)]
        return before + "\n" + "\n".join(lines) + "\n\n" + after

    text = KINDS.sub(with_kinds, text)
    path.write_text(text, encoding="utf-8")


def _section(part: Part, runs: Runs, folder: Path) -> list[str]:
    """Return the lines of a part, having drawn its figure."""
    first = next(iter(runs.values()))
    facts = _facts(first, part.varies)
    if part.is_tiny:
        (result,) = from_json({**first, "cases": [first["tiny"]]})
        rows = [["", "µs", "against native", "against PyTorch"], *tiny_rows(result)]
        return [facts, "", *_table(rows)]
    figure = folder / f"{part.name}.svg"
    link = f"![{part.title}]({folder.name}/{figure.name})"
    if part.varies:
        results_by_value = {value: from_json(run) for value, run in runs.items()}
        save_sweep_figure(figure, results_by_value, part.varies, part.title)
        return [facts, "", *_table(_sweep_rows(part.varies, results_by_value)), "", link]
    results = from_json(first)
    save_ratio_figure(figure, results, part.title)
    table = [facts, "", *_table(_suite_rows(results)), *_remarks(results)]
    return [*table, "", "<details><summary>Each problem</summary>", "", link, "", "</details>"]


def _facts(run: Run, varies: str) -> str:
    """Return a line about versions and machine, without what the part itself varies."""
    versions = run["competitors"]
    facts = [versions[name] for name in ("native", "torch", "numpy") if name in versions]
    facts += [run["cpu"]] if run.get("cpu") else []
    facts.append(run["cpu_isa"])
    if varies != "threads":
        facts += [counted(run["threads"], "thread"), *(f"peak {peak}" for peak in _peaks(run))]
        facts += _bandwidths(run)
    return f"{', '.join(facts)}."


def _peaks(run: Run) -> list[str]:
    peaks = run.get("peak", {}).items()
    return [f"{peak / 1e9:.0f} GF/s {dtype}" for dtype, peak in peaks if peak is not None]


def _bandwidths(run: Run) -> list[str]:
    """Return the least and the highest bandwidth of all sizes, none if unknown."""
    found = [rate for rate in run.get("bandwidth", {}).values() if rate is not None]
    if not found:
        return []
    return [f"bandwidth {min(found) / 1e9:.0f} to {max(found) / 1e9:.0f} GB/s"]


def _machine_rows(
    parts: Mapping[str, Part], machines: Mapping[str, Mapping[str, Runs]]
) -> list[list[str]]:
    """Return a row for each machine of each part that several machines have measured."""
    others = ("native", "torch")
    rows = [["part", "machine", "peak", *(f"against {other}" for other in others)]]
    for name, part in parts.items():
        runs = {
            machine: measured[name][""]
            for machine, measured in machines.items()
            if part.is_of_suites and name in measured
        }
        if len(runs) < 2:
            continue
        for machine, run in runs.items():
            results = from_json(run)
            ratios = ([result.ratio(other) for result in results] for other in others)
            means = [_mean_and_worst([ratio for ratio in some if ratio]) for some in ratios]
            rows.append([part.title, machine, ", ".join(_peaks(run)), *means])
    return rows


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    heading, *body = (f"| {' | '.join(row)} |" for row in rows)
    return [heading, "|---" * len(rows[0]) + "|", *body]


def _suite_rows(results: Sequence[Result]) -> list[list[str]]:
    """Return a row a suite and one for all: geometric means, and the worst cases in brackets."""
    columns = list(_ratios(results))
    suites: dict[str, list[Result]] = {}
    for result in results:
        suites.setdefault(result.name.partition(":")[0], []).append(result)
    rows = [
        ["suite", "problems", *(f"{direction} against {other}" for direction, other in columns)]
    ]
    for name, members in (*suites.items(), ("all", results)):
        ratios = _ratios(members)
        problems = len({result.case.descriptor for result in members})
        rows.append([name, str(problems), *(_mean_and_worst(ratios.get(key)) for key in columns)])
    return rows


def _ratios(results: Sequence[Result]) -> dict[tuple[str, str], Sequence[float]]:
    """Return ratios by direction and competitor."""
    return {
        (group.category.direction, group.other): group.ratios
        for group in grouped(results)
        if not group.note
    }


def _mean_and_worst(ratios: Sequence[float] | None) -> str:
    return f"{geometric_mean(ratios):.2f} ({min(ratios):.2f})" if ratios else "-"


def _remarks(results: Sequence[Result]) -> Iterable[str]:
    """Yield what no column of the table says, a paragraph each."""
    for group in grouped(results):
        if group.note:
            yield ""
            yield (
                f"With the same implementation as native, {len(group.ratios)} cases of 1 ms or"
                f" more: {group.geometric_mean:.2f}, at worst {min(group.ratios):.2f}"
                f" (`{group.worst.name}`)."
            )
    # Native's time over that of our NumPy backend.
    speeds = [(speed, result) for result in results if (speed := result.ratio("native", "numpy"))]
    if speeds:
        least, slowest = min(speeds, key=itemgetter(0))
        mean = geometric_mean([speed for speed, _ in speeds])
        yield ""
        yield (
            f"The NumPy backend has {mean:.2f} of native's speed, at worst {least:.2f}"
            f" (`{slowest.name}`, {slowest.case.direction})."
        )
    shares = [(share, result) for result in results if (share := result.peak_share) is not None]
    if shares:
        share, result = max(shares, key=itemgetter(0))
        yield ""
        yield f"Nearest to the peak: {share:.0%} (`{result.name}`, {result.case.direction})."
    bounded = [share for result in results if (share := result.bound_share) is not None]
    if bounded:
        (worst,) = most_lost(results, 1)
        yield ""
        yield (
            f"Share of the bound: {geometric_mean(bounded):.2f} in geometric mean. Most time is"
            f" lost in `{worst.name}`, {worst.case.direction}: {1e3 * worst.lost:.1f} ms of"
            f" {1e3 * worst.own.median:.1f}."
        )


def _sweep_rows(varies: str, runs: Mapping[str, Sequence[Result]]) -> list[list[str]]:
    """Return a row for each value: rates, and ratios as geometric means over the problems."""
    every = [result for results in runs.values() for result in results]
    directions = list(dict.fromkeys(result.case.direction for result in every))
    names = list(dict.fromkeys(result.name for result in every))
    others = list(dict.fromkeys(other for result in every for other in result.others))
    heading = [varies]
    for direction in directions:
        heading += [f"{name} {direction}, GF/s" for name in names]
        heading += [f"{direction} against {other}" for other in others]
    rows = [heading]
    for value, results in runs.items():
        rates = {(result.name, result.case.direction): result.rate for result in results}
        ratios = _ratios(results)
        row = [value]
        for direction in directions:
            for name in names:
                rate = rates.get((name, direction))
                row.append(f"{rate / 1e9:.0f}" if rate else "-")
            for other in others:
                found = ratios.get((direction, other))
                row.append(f"{geometric_mean(found):.2f}" if found else "-")
        rows.append(row)
    return rows
