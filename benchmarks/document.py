"""Writes the tables of docs/performance.md, between its markers, and the figures beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from types import MappingProxyType
from typing import Any

from parts import Part

from onednn_py.tools.benchmark.figures import save_ratio_figure, save_sweep_figure
from onednn_py.tools.benchmark.report import tiny_rows
from onednn_py.tools.benchmark.results import Group, Result, from_json, grouped

__all__ = ["THIS_MACHINE", "write_document"]

MARKERS = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MACHINES = re.compile(r"(<!-- machines -->\n).*?(<!-- end -->)", re.DOTALL)

# The document's own machine, in the table that compares machines.
THIS_MACHINE = "above"

# The results of one run of the command bench, and those of a part by what it varies.
Content = Mapping[str, Any]
Measured = Mapping[str, Content]


def write_document(
    path: Path,
    parts: Mapping[str, Part],
    found: Mapping[str, Measured],
    elsewhere: Mapping[str, Mapping[str, Measured]] = MappingProxyType({}),
) -> None:
    """Replace what stands between the markers of the parts that were measured.

    Parameters
    ----------
    path : Path
        Figures go to a folder of its name, without the suffix.
    parts : mapping of str to Part
    found : mapping of str to mapping
        By part, and by the value that it varies, what the command bench wrote.
    elsewhere : mapping of str to mapping, optional
        The same of other machines, by their names. One table compares them; a part that the
        document's own machine has not measured is taken from the first of them that has.

    Raises
    ------
    ValueError
        If the document lacks a part's markers or those of the table that compares machines, or
        has some of an unknown part.
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

    def filled(match: re.Match[str]) -> str:
        before, name, after = match.groups()
        measured = next((some[name] for some in (found, *elsewhere.values()) if name in some), None)
        if measured is None:
            return match[0]
        lines = _section(parts[name], measured, folder)
        return before + "\n" + "\n".join(lines) + "\n\n" + after

    text = MARKERS.sub(filled, text)
    rows = _machine_rows(parts, found, elsewhere)
    if len(rows) > 1:
        table = "\n".join(_table(rows))
        text = MACHINES.sub(lambda match: f"{match[1]}\n{table}\n\n{match[2]}", text)
    path.write_text(text, encoding="utf-8")


def _section(part: Part, measured: Measured, folder: Path) -> list[str]:
    """Return the lines of a part, having drawn its figure."""
    content = next(iter(measured.values()))
    if part.is_tiny:
        (result,) = from_json({**content, "cases": [content["tiny"]]})
        rows = [["", "µs", "against native", "against PyTorch"], *tiny_rows(result)]
        return [*_machine(content), "", *_table(rows)]
    figure = folder / f"{part.name}.svg"
    link = f"![{part.title}]({folder.name}/{figure.name})"
    if part.varies:
        runs = {key: from_json(run) for key, run in measured.items()}
        save_sweep_figure(figure, runs, part.varies, part.title)
        return [
            *_machine(content, part.varies),
            "",
            *_table(_sweep_rows(part.varies, runs)),
            "",
            link,
        ]
    results = from_json(content)
    save_ratio_figure(figure, results, part.title)
    rows = _suite_rows(results)
    return [*_machine(content), "", *_table(rows), *_remarks(results), "", link]


def _machine(content: Content, varies: str = "") -> list[str]:
    """Return a line about versions and machine, without what the part itself varies."""
    competitors = content["competitors"]
    facts = [competitors[name] for name in ("native", "torch", "numpy") if name in competitors]
    facts += [content["cpu"]] if content.get("cpu") else []
    facts.append(content["cpu_isa"])
    if varies != "threads":
        threads = content["threads"]
        facts.append(f"{threads} thread{'s' if threads > 1 else ''}")
        facts += [f"peak {peak}" for peak in _peaks(content)]
    return [f"{', '.join(facts)}."]


def _peaks(content: Content) -> list[str]:
    peaks = content.get("peak", {}).items()
    return [f"{peak / 1e9:.0f} GF/s {dtype}" for dtype, peak in peaks if peak is not None]


def _machine_rows(
    parts: Mapping[str, Part],
    found: Mapping[str, Measured],
    elsewhere: Mapping[str, Mapping[str, Measured]],
) -> list[list[str]]:
    """Return a row for each machine that a part was measured on, of those measured on several."""
    others = ("native", "torch")
    rows = [["part", "machine", "peak", *(f"against {other}" for other in others)]]
    for name, part in parts.items():
        contents = {THIS_MACHINE: found.get(name, {}).get("")}
        contents |= {machine: some.get(name, {}).get("") for machine, some in elsewhere.items()}
        measured = {machine: content for machine, content in contents.items() if content}
        if not part.is_of_suites or len(measured) < 2:
            continue
        for machine, content in measured.items():
            results = from_json(content)
            by_other = {
                other: [ratio for result in results if (ratio := result.ratio(other))]
                for other in others
            }
            row = [part.title, machine, ", ".join(_peaks(content))]
            for ratios in by_other.values():
                mean = f"{geometric_mean(ratios):.2f} ({min(ratios):.2f})" if ratios else "-"
                row.append(mean)
            rows.append(row)
    return rows


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    heading, *body = (f"| {' | '.join(row)} |" for row in rows)
    return [heading, "|---" * len(rows[0]) + "|", *body]


def _suite_rows(results: Sequence[Result]) -> list[list[str]]:
    """Return a row a suite and one for all: geometric means, and the worst cases in brackets."""
    kinds = list(dict.fromkeys((group.direction, group.other) for group in _groups(results)))
    suites: dict[str, list[Result]] = {}
    for result in results:
        suites.setdefault(result.name.partition(":")[0], []).append(result)
    rows = [["suite", "problems", *(f"{direction} against {other}" for direction, other in kinds)]]
    for name, some in (*suites.items(), ("all", results)):
        by_kind = {(group.direction, group.other): group for group in _groups(some)}
        problems = len({result.case.descriptor for result in some})
        rows.append([name, str(problems), *(_mean_and_worst(by_kind.get(kind)) for kind in kinds)])
    return rows


def _groups(results: Sequence[Result]) -> list[Group]:
    return [group for group in grouped(results) if not group.note]


def _mean_and_worst(group: Group | None) -> str:
    return f"{group.geometric_mean:.2f} ({min(group.ratios):.2f})" if group else "-"


def _remarks(results: Sequence[Result]) -> Iterable[str]:
    """Say what of the whole is no column: the worst cases' names, the same implementation."""
    for group in grouped(results):
        if group.note:
            yield ""
            yield (
                f"With the same implementation as native, {len(group.ratios)} cases of 1 ms or"
                f" more: {group.geometric_mean:.2f}, at worst {min(group.ratios):.2f}"
                f" (`{group.worst.name}`)."
            )
    speeds = [(speed, result) for result in results if (speed := _numpy_speed(result))]
    if speeds:
        least, slowest = min(speeds, key=lambda pair: pair[0])
        mean = geometric_mean([speed for speed, _ in speeds])
        yield ""
        yield (
            f"The NumPy backend has {mean:.2f} of native's speed, at worst {least:.2f}"
            f" (`{slowest.name}`, {slowest.case.direction})."
        )
    shares = [(share, result) for result in results if (share := result.peak_share) is not None]
    if shares:
        share, result = max(shares, key=lambda pair: pair[0])
        yield ""
        yield f"Nearest to the peak: {share:.0%} (`{result.name}`, {result.case.direction})."


def _numpy_speed(result: Result) -> float | None:
    """Return native's time over that of our NumPy backend, None if either was not timed."""
    numpy, native = result.ratio("numpy"), result.ratio("native")
    return native / numpy if numpy and native else None


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
    for key, results in runs.items():
        row = [key]
        for direction in directions:
            some = [result for result in results if result.case.direction == direction]
            rates = {result.name: result.rate for result in some}
            row += [f"{rate / 1e9:.0f}" if (rate := rates.get(name)) else "-" for name in names]
            by_other = {group.other: group for group in _groups(some)}
            row += [
                f"{by_other[other].geometric_mean:.2f}" if other in by_other else "-"
                for other in others
            ]
        rows.append(row)
    return rows
