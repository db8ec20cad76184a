"""Ratios by kind of problem, so that readers find problems like their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from onednn_py.tools.benchdnn import Descriptor
from onednn_py.tools.benchmark.results import Result, from_json

__all__ = ["kind_of", "kind_rows", "kind_summary"]

# With as many channels of src or fewer, most kernels of oneDNN waste a part of their registers.
FEW_CHANNELS = 4

PARTS = ("f32-ncx-heuristic", "f32-nxc-heuristic")
DIRECTIONS = {"BWD_D": "data gradient", "BWD_W": "weights gradient"}

# A case below this ratio is called slower, and one of fewer seconds short.
SLOWER = 0.9
SHORT = 5e-4


def kind_of(problem: Descriptor) -> str:
    """Return the kind of a problem; the first that fits, in the order of the tables."""
    is_strided = set(problem.strides) != {1}
    if problem.transposed:
        return "transposed"
    if 1 < problem.groups == problem.inputs:
        return "depthwise"
    if problem.inputs <= FEW_CHANNELS:
        return f"up to {FEW_CHANNELS} input channels"
    if set(problem.kernel) == {1}:
        return "1x1 with a stride" if is_strided else "1x1"
    if len(problem.src) != 2:
        return "1-D" if len(problem.src) == 1 else "3-D"
    return "larger kernel with a stride" if is_strided else "larger kernel"


def kind_rows(measured: Mapping[str, Mapping[str, Any]], other: str) -> list[list[str]]:
    """Return a row for each kind: geometric mean, least and greatest ratio to a competitor."""
    results = {part: from_json(measured[part][""]) for part in PARTS if part in measured}
    formats = {part: some[0].case.data_format for part, some in results.items()}
    heading = ["problem", "how many"]
    heading += [
        f"{meaning}, {formats[part]}" for part in results for meaning in DIRECTIONS.values()
    ]
    kinds = dict.fromkeys(kind_of(r.case.descriptor) for some in results.values() for r in some)
    rows = []
    for kind in kinds:
        cells = []
        count = 0
        for some in results.values():
            members = [result for result in some if kind_of(result.case.descriptor) == kind]
            count = max(count, len({result.case.descriptor for result in members}))
            cells += [_cell(members, direction, other) for direction in DIRECTIONS]
        rows.append([kind, str(count), *cells])
    return [heading, *rows]


def kind_summary(measured: Mapping[str, Mapping[str, Any]], other: str) -> str:
    """Return a sentence about all cases: how many are at least as fast, and how many slower."""
    results = [r for part in PARTS if part in measured for r in from_json(measured[part][""])]
    compared = [(ratio, r) for r in results if (ratio := r.ratio(other)) is not None]
    slower = [result for ratio, result in compared if ratio < SLOWER]
    short = sum(result.own.median < SHORT for result in slower)
    fast = sum(ratio >= 1 for ratio, _ in compared)
    return (
        f"Of {len(compared)} cases, {fast} are at least as fast;"
        f" {len(slower)} have a ratio below {SLOWER:g}, {short} of them cases of less than"
        f" {1e3 * SHORT:g} ms."
    )


def _cell(results: Sequence[Result], direction: str, other: str) -> str:
    ratios = [
        ratio
        for result in results
        if result.case.direction == direction and (ratio := result.ratio(other)) is not None
    ]
    if not ratios:
        return "-"
    return f"**{geometric_mean(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"
