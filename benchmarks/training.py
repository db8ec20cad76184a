"""Writes the table and the picture of training steps from the files of ``bench --training``.

    python -m onednn_py bench --training --memory --json f32.json
    python -m onednn_py bench --training --memory --dtype bf16 --json bf16.json
    python benchmarks/training.py f32.json bf16.json --plot docs/performance/training.svg

The table, in Markdown, goes to the standard output: a row for each network, a column of ratios for
each kind of run, and below them the geometric means. Files of the same kind, such as those of
different networks, share a column.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from onednn_py.tools.benchmark.training.figure import save_training_figure
from onednn_py.tools.benchmark.training.report import settings_title
from onednn_py.tools.benchmark.training.results import StepResult, from_json, mean_ratio

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


def _cell(ratio: float | None) -> str:
    return f"{ratio:.2f}" if ratio else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    runs: dict[str, list[StepResult]] = {}
    for path in arguments.files:
        results = from_json(json.loads(path.read_text(encoding="utf-8")))
        runs.setdefault(settings_title(results[0].settings), []).extend(results)
    print(*table(runs), sep="\n")
    if arguments.plot:
        drawn = {name: results for name, results in runs.items() if mean_ratio(results)}
        save_training_figure(arguments.plot, drawn, TITLE)


if __name__ == "__main__":
    main()
