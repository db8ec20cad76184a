"""Writes the table and the picture of training steps from the files of ``bench --training``.

    python -m onednn_py bench --training --memory --json f32.json
    python -m onednn_py bench --training --memory --dtype bf16 --json bf16.json
    python benchmarks/training.py f32.json bf16.json --document docs/pytorch.md

The table, in Markdown, goes to the standard output: a row for each network, a column of ratios for
each kind of run, and below them the geometric means. Files of the same kind, such as those of
different networks, share a column, which has each network once. Columns name the data type and what
is not the default. With ``--document``, versions and machine, table and picture replace what stands
between the markers of that page; the picture lies in the folder of its name.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkout import existing_file

from onednn_py.tools.benchmark.training.figure import save_training_figure
from onednn_py.tools.benchmark.training.report import settings_title
from onednn_py.tools.benchmark.training.results import StepResult, from_json, mean_ratio
from onednn_py.tools.benchmark.training.settings import Settings
from onednn_py.tools.text import counted

MARKERS = re.compile(r"(<!-- training -->\n).*?(<!-- end -->)", re.DOTALL)

DEFAULTS = settings_title(Settings("")).split(", ")[1:]

TITLE = "A training step in PyTorch: PyTorch's own convolutions over onednn_py.torch"


def table(runs: Mapping[str, Sequence[StepResult]]) -> Iterator[str]:
    """Yield the lines of a Markdown table; a network that failed has no number."""
    names = list(dict.fromkeys(result.title for results in runs.values() for result in results))
    yield f"| network | {' | '.join(runs)} |"
    yield f"|---|{'---|' * len(runs)}"
    for name in names:
        ratios = [{r.title: r.ratio for r in results}.get(name) for results in runs.values()]
        yield f"| {name} | {' | '.join(map(_cell, ratios))} |"
    means = [mean_ratio(results) for results in runs.values()]
    yield f"| geometric mean | {' | '.join(map(_cell, means))} |"


def column_title(settings: Settings) -> str:
    """Return the data type, and what differs from the defaults."""
    words = settings_title(settings).split(", ")
    return ", ".join(word for word in words if word not in DEFAULTS)


def _cell(ratio: float | None) -> str:
    return f"{ratio:.2f}" if ratio else ""


def write_document(
    path: Path, runs: Mapping[str, Sequence[StepResult]], contents: Sequence[Mapping[str, Any]]
) -> None:
    """Put the facts, the table and the picture between a page's markers.

    Raises
    ------
    ValueError
        If the page has not exactly one pair of markers.
    """
    text = path.read_text(encoding="utf-8")
    if len(MARKERS.findall(text)) != 1:
        raise ValueError(f"{path}: expected the markers <!-- training --> and <!-- end --> once")
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    picture = folder / "training.svg"
    draw(picture, runs)
    facts = dict.fromkeys(map(facts_of, contents))
    defaults = f"Unless a column says otherwise: {', '.join(DEFAULTS)}."
    drawing = f"![{TITLE}]({folder.name}/{picture.name})"
    lines = [*facts, defaults, "", *table(runs), "", drawing, ""]
    filled = "\n".join(lines)
    path.write_text(MARKERS.sub(lambda m: f"{m[1]}\n{filled}\n{m[2]}", text), encoding="utf-8")


def facts_of(content: Mapping[str, Any]) -> str:
    """Return a line about versions and machine."""
    machine = [content["cpu"]] if content.get("cpu") else []
    machine += [content["cpu_isa"], counted(content["threads"], "thread")]
    return f"{content['torch']}, oneDNN {content['version']}, {', '.join(machine)}."


def draw(path: Path, runs: Mapping[str, Sequence[StepResult]]) -> None:
    drawn = {name: results for name, results in runs.items() if mean_ratio(results)}
    save_training_figure(path, drawn, TITLE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=existing_file, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--document", type=Path, metavar="PAGE", help="such as docs/pytorch.md")
    arguments = parser.parse_args()
    contents = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.files]
    runs: dict[str, list[StepResult]] = {}
    for path, results in zip(arguments.files, map(from_json, contents), strict=True):
        if not results:
            parser.error(f"{path} has no network: its run was interrupted")
        column = runs.setdefault(column_title(results[0].settings), [])
        twice = {result.title for result in column} & {result.title for result in results}
        if twice:
            parser.error(f"two files have {', '.join(sorted(twice))} of the same kind of run")
        column.extend(results)
    print(*table(runs), sep="\n")
    if arguments.plot:
        draw(arguments.plot, runs)
    if arguments.document:
        write_document(arguments.document, runs, contents)


if __name__ == "__main__":
    main()
