"""The command ``run``: replays a oneDNN Graph file and compares the results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from onednn_py.config import BACKENDS
from onednn_py.errors import GraphFileError
from onednn_py.problem.dtypes import DTYPES
from onednn_py.tools.graph_files import (
    COMPARABLE,
    GraphOperation,
    OperationReport,
    Replay,
    load_graph,
)
from onednn_py.tools.text import aligned

from .outputs import check_writable, reason, write_json
from .problems import some_of

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run the operations of a oneDNN Graph file and compare the results",
        description="Run the operations of a graph file, as ONEDNN_GRAPH_DUMP=graph writes it"
        " and oneDNN's own tests read it. Tensors that are not given hold small random"
        " integers, for which all backends must give the same bits.",
    )
    parser.add_argument("file", help="JSON file")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="a tensor by its id, as operation.input or as input; repeatable",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the random tensors (default: 0)"
    )
    parser.add_argument("--backend", choices=BACKENDS, help="what runs the operations")
    parser.add_argument(
        "--compare",
        type=some_of(COMPARABLE),
        default="numpy",
        metavar="BACKENDS",
        help="numpy, native (the Graph API from C++), both with a comma, auto (numpy, and native"
        " where it can be built) or none (default: numpy)",
    )
    parser.add_argument(
        "--output", metavar="FILE.npz", help="write the results by tensor id, bfloat16 as float32"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    check_writable((arguments.output,), takes_stdout=False)
    graph = load_graph(arguments.file)
    replay = graph.run(
        _inputs(arguments.input),
        seed=arguments.seed,
        backend=arguments.backend,
        compare=arguments.compare,
        on_start=_announce if sys.stderr.isatty() else None,
    )
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if not replay.operations:
        print(f"{graph.path}: the file has no operations", file=sys.stderr)
    if arguments.output:
        _write(arguments.output, replay)
    if arguments.json:
        operations = [_as_json(report) for report in replay.operations]
        write_json("-", {"file": graph.path, "ok": replay.ok, "operations": operations})
    else:
        for line in _table(replay.operations):
            print(line)
        for report in replay.operations:
            for note in report.notes:
                print(f"{graph.path}: {report.operation}: {note}")
    return 0 if replay.ok else 1


def _as_json(report: OperationReport) -> dict[str, Any]:
    fields = asdict(report)
    operation = fields.pop("operation")
    for name in ("dtype", "backend", "implementation"):
        fields[name] = fields[name] or None
    comparisons = {comparison.pop("other"): comparison for comparison in fields["comparisons"]}
    for comparison in comparisons.values():
        # JSON has no infinity.
        if comparison["difference"] == np.inf:
            comparison["difference"] = None
    names = {name: operation[name] for name in ("id", "name", "kind")}
    return {**names, **fields, "comparisons": comparisons}


def _inputs(given: Sequence[str]) -> dict[str | int, Any]:
    inputs: dict[str | int, Any] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise GraphFileError(f"--input: expected NAME=FILE.npy, got {text!r}")
        if name in inputs:
            raise GraphFileError(f"--input: {name} is given twice")
        try:
            # NumPy itself leaves files open that it cannot read.
            with open(path, "rb") as file:
                array = np.load(file)
        except Exception as error:  # NumPy's reader of headers raises nearly anything
            raise GraphFileError(
                f"--input {name}: {path} cannot be read: {reason(error)}"
            ) from None
        if not isinstance(array, np.ndarray):
            raise GraphFileError(f"--input {name}: {path} is no .npy file with one array")
        inputs[name] = array
    return inputs


def _write(path: str, replay: Replay) -> None:
    results = {
        str(id_): array.astype(np.float32) if array.dtype == DTYPES["bf16"] else array
        for id_, array in replay.results.items()
    }
    try:
        # numpy.savez adds .npz to a path, but not to a file.
        with open(path, "wb") as file:
            np.savez(file, **results)  # type: ignore[arg-type]
    except OSError as error:
        raise GraphFileError(f"--output: {path} cannot be written: {reason(error)}") from None


def _announce(operation: GraphOperation) -> None:
    print(f"\r\033[K{operation} ...", end="", file=sys.stderr, flush=True)


def _table(reports: Sequence[OperationReport]) -> list[str]:
    """Return a heading and one line for each operation, in aligned columns."""
    others = list(dict.fromkeys(c.other for report in reports for c in report.comparisons))
    heading = ["id", "name", "kind", "shapes", "dtype", "implementation", "ms"]
    heading += [f"vs {other}" for other in others] + ["status"]
    return aligned([heading, *(_row(report, others) for report in reports)])


def _row(report: OperationReport, others: Sequence[str]) -> list[str]:
    operation = report.operation
    *inputs, result = ["x".join(map(str, shape)) for shape in report.shapes.values()] or [""]
    differences = {
        c.other: f"{c.difference:.2g}" for c in report.comparisons if c.difference is not None
    }
    return [
        str(operation.id),
        operation.name or "-",
        operation.kind,
        f"{', '.join(inputs)} -> {result}" if inputs else "-",
        report.dtype or "-",
        " ".join(dict.fromkeys(filter(None, (report.backend, report.implementation)))) or "-",
        "-" if report.milliseconds is None else f"{report.milliseconds:.3g}",
        *(differences.get(other, "-") for other in others),
        report.status,
    ]
