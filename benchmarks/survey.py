#!/usr/bin/env python
"""A survey of problems that no suite has: how good are the rules that choose without measuring?

Problems are drawn at random from families of networks and uses, with --broad from all operations,
with --deep from the large layers of deep networks, with --powers-of-two from layers with such
sides, or with --depthwise from depthwise layers of up to 2048 channels, each determined by its
seed. Rules are fitted on some seeds and judged on others.

  record   times every way to compute each problem, to fit rules by
  judge    compares the heuristic plan with the measured one, alternately
  pairs    compares the choice of each rule with the choice without the rule, alternately, on
           problems that are drawn until so many have two choices; or this CPU's choices with
           those by rules that the width of AVX-512 units does not limit
  search   looks for conditions under which what was recorded is faster than the rules' choice, and
           writes rules for pairs --rules
  report   writes tables of what was recorded or judged, by family, and a plot, or of pairs by rule

Each problem adds a line to the file; problems that it has already are not measured again, so that
a long survey can be made in slices (--seconds), and interrupted.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

from checkout import existing_file
from survey_broad import KINDS, draw_broadly
from survey_deep import DEEP_FAMILIES, draw_deep, draw_deep_of_many_images
from survey_depthwise import DEPTHWISE_FAMILIES, draw_depthwise
from survey_draw import DTYPES, FAMILIES, Drawn, draw
from survey_measure import judged, recorded
from survey_pairs import Pairs, is_pair, named_rules, pair_lines, read_rules
from survey_powers import POWER_FAMILIES, draw_powers_of_two
from survey_report import report_lines, save_figure
from survey_search import rule_lines, search
from survey_timed import timed_problems

from onednn_py.errors import OneDNNPyError
from onednn_py.tools.benchdnn.case import DATA_FORMATS
from onednn_py.tools.benchmark.machine import busy_cores, busy_cores_warning
from onednn_py.tools.text import counted

MEASURES = {"record": recorded, "judge": judged}
BUDGETS = {"record": 2.0, "judge": 4.0}

EPILOG = """examples:
  python benchmarks/survey.py record --seeds 0:300 --out recorded.jsonl
  python benchmarks/survey.py judge --seeds 1000:1500 --out judged.jsonl --seconds 110
  python benchmarks/survey.py judge --broad --seeds 0:500 --out broad.jsonl
  python benchmarks/survey.py pairs --seeds 0:90000 --table PATCHES --out pairs.jsonl
  python benchmarks/survey.py pairs --seeds 0:90000 --rules my_rules.py --out mine.jsonl
  python benchmarks/survey.py search recorded.jsonl --out my_rules.py
  python benchmarks/survey.py report judged.jsonl --plot judged.svg
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0 if no problem failed."""
    parsed = _parser().parse_args(arguments)
    if parsed.command == "report":
        every = [row for path in parsed.files for row in read_rows(path)]
        rows = [row for row in every if "failure" not in row]
        if len(rows) < len(every):
            failed = counted(len(every) - len(rows), "problem")
            print(f"{failed} failed and are not in the report", file=sys.stderr)
        if not rows:
            print("there are no times to report", file=sys.stderr)
            return 1
        pairs = [row for row in rows if is_pair(row)]
        if pairs and (len(pairs) < len(rows) or parsed.plot is not None):
            print("pairs have a report of their own, without a plot", file=sys.stderr)
            return 2
        if pairs:
            print(*pair_lines(pairs), sep="\n")
            return 0
        print(*report_lines(rows), sep="\n")
        if parsed.plot is not None:
            save_figure(parsed.plot, rows)
        return 0
    if parsed.command == "search":
        return _search(parsed)
    return _pairs(parsed) if parsed.command == "pairs" else _survey(parsed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in (*MEASURES, "pairs"):
        command = commands.add_parser(name, help=f"see above: {name}")
        command.add_argument(
            "--seeds",
            type=parse_seeds,
            required=True,
            metavar="FIRST:END",
            help="END is not among them",
        )
        command.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl")
        drawing = command.add_mutually_exclusive_group()
        drawing.add_argument(
            "--broad",
            action="store_true",
            help="draw from all operations, into its own file",
        )
        drawing.add_argument(
            "--deep",
            action="store_true",
            help="draw large layers between many channels, into its own file",
        )
        drawing.add_argument(
            "--deep-many-images",
            action="store_true",
            help="likewise, with four times the images where these are small",
        )
        drawing.add_argument(
            "--powers-of-two",
            action="store_true",
            help="draw layers whose sides are powers of two, into its own file",
        )
        drawing.add_argument(
            "--depthwise",
            action="store_true",
            help="draw depthwise images of 64 to 2048 channels, into its own file",
        )
        command.add_argument("--dtype", choices=DTYPES, help="draw, but measure only these")
        command.add_argument("--format", choices=DATA_FORMATS, help="likewise")
        command.add_argument(
            "--family",
            choices=(*FAMILIES, *KINDS, *DEEP_FAMILIES, *POWER_FAMILIES, *DEPTHWISE_FAMILIES),
            action="append",
            help="likewise",
        )
        command.add_argument("--direction", metavar="DIR,...", help="likewise: FWD_D, BWD_WB, ...")
        command.add_argument(
            "--seconds", type=float, metavar="S", help="begin no further problem after so long"
        )
        if name == "pairs":
            _add_rules(command)
            continue
        command.add_argument(
            "--budget",
            type=float,
            default=BUDGETS[name],
            metavar="S",
            help="seconds to try ways to compute a problem (default: %(default)s)",
        )
    finder = commands.add_parser("search", help="see above: search")
    finder.add_argument("files", type=existing_file, nargs="+", metavar="FILE.jsonl")
    finder.add_argument("--out", type=Path, required=True, metavar="FILE.py")
    report = commands.add_parser("report", help="see above: report")
    report.add_argument("files", type=existing_file, nargs="+", metavar="FILE.jsonl")
    report.add_argument("--plot", type=Path, metavar="FILE", help="a .png or .svg file")
    return parser


def _add_rules(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="NAME",
        help="a table of the package's rules, or one of its rules: PATCHES, PATCHES[2]"
        " (default: all tables)",
    )
    command.add_argument(
        "--by-width",
        action="store_true",
        help="compare with the choice if the width of AVX-512 units set no limits, by its rule",
    )
    command.add_argument(
        "--rules",
        type=Path,
        metavar="FILE.py",
        help="in place of the package's: a file whose RULES are asked before those",
    )
    command.add_argument(
        "--problems",
        type=int,
        default=12,
        metavar="N",
        help="for each rule (default: %(default)s)",
    )


def parse_seeds(text: str) -> range:
    """Return the range of an option such as 0:300."""
    first, _, end = text.partition(":")
    try:
        seeds = range(int(first), int(end))
    except ValueError:
        seeds = range(0)
    if not seeds:
        raise argparse.ArgumentTypeError(f"expected FIRST:END, such as 0:300; got {text!r}")
    return seeds


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file; the last line of an interrupted survey may be cut off."""
    if not path.is_file():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def drop_unfinished_line(path: Path) -> None:
    """Cut off what an interrupted run has left behind the last whole line."""
    if path.is_file():
        content = path.read_bytes()
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


def _survey(parsed: argparse.Namespace) -> int:
    begin = time.monotonic()
    drop_unfinished_line(parsed.out)
    make = _drawing(parsed)
    known = {row["seed"] for row in read_rows(parsed.out)}
    todo = [
        drawn
        for seed in parsed.seeds
        if seed not in known and _is_wanted(drawn := make(seed), parsed)
    ]
    if warning := busy_cores_warning(busy_cores()):
        print(warning, file=sys.stderr)
    failed = done = 0
    with parsed.out.open("a", encoding="utf-8") as file:
        for drawn in todo:
            if parsed.seconds is not None and time.monotonic() - begin > parsed.seconds:
                break
            done += 1
            try:
                rows = MEASURES[parsed.command](drawn, parsed.budget)
            except (OneDNNPyError, MemoryError) as error:
                failed += 1
                rows = [_failure(drawn, error)]
            file.write("".join(f"{json.dumps(row)}\n" for row in rows))
            file.flush()
            for row in rows:
                print(f"{drawn.seed} {drawn.family} {drawn}: {_outcome(row)}", file=sys.stderr)
    left, seconds = len(todo) - done, time.monotonic() - begin
    print(f"{done} problems in {seconds:.0f} s, {failed} failed, {left} left", file=sys.stderr)
    return 1 if failed else 0


def _pairs(parsed: argparse.Namespace) -> int:
    begin = time.monotonic()
    if parsed.rules and (parsed.table or parsed.by_width):
        print("--rules goes with neither --table nor --by-width", file=sys.stderr)
        return 2
    drop_unfinished_line(parsed.out)
    try:
        rules = read_rules(parsed.rules) if parsed.rules else named_rules(parsed.table)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    own = tuple(rules.values()) if parsed.rules else ()
    pairs = Pairs(rules, parsed.problems, own, parsed.by_width)
    known = read_rows(parsed.out)
    pairs.counts.update(row["rule"] for row in known if is_pair(row))
    seeds_known = {row["seed"] for row in known}
    make = _drawing(parsed)
    if warning := busy_cores_warning(busy_cores()):
        print(warning, file=sys.stderr)
    number = failed = 0
    with parsed.out.open("a", encoding="utf-8") as file:
        for seed in parsed.seeds:
            is_late = parsed.seconds is not None and time.monotonic() - begin > parsed.seconds
            if is_late or pairs.is_complete:
                break
            number += 1
            if seed in seeds_known or not _is_wanted(drawn := make(seed), parsed):
                continue
            try:
                rows = pairs.rows(drawn)
            except (OneDNNPyError, MemoryError) as error:
                failed += 1
                rows = [_failure(drawn, error)]
            file.write("".join(f"{json.dumps(row)}\n" for row in rows))
            file.flush()
    timed = [row for row in read_rows(parsed.out) if is_pair(row)]
    seconds = time.monotonic() - begin
    found = f"{failed} failed, {len(timed)} problems with two choices"
    print(f"{number} seeds in {seconds:.0f} s, {found}", file=sys.stderr)
    if timed:
        print(*pair_lines(timed), sep="\n")
    return 1 if failed else 0


def _search(parsed: argparse.Namespace) -> int:
    rows = [row for path in parsed.files for row in read_rows(path)]
    problems = list(timed_problems(rows))
    if not problems:
        print("nothing was recorded on this machine", file=sys.stderr)
        return 1
    found = search(problems)
    parsed.out.write_text("".join(f"{line}\n" for line in rule_lines(found)), encoding="utf-8")
    loss = fmean(one.rules_take - one.least for one in problems)
    print(f"{len(problems)} problems, rules / fastest {exp(loss):.3f}; {len(found)} rules")
    return 0


def _drawing(parsed: argparse.Namespace) -> Callable[[int], Drawn]:
    if parsed.depthwise:
        return draw_depthwise
    if parsed.powers_of_two:
        return draw_powers_of_two
    if parsed.deep_many_images:
        return draw_deep_of_many_images
    if parsed.deep:
        return draw_deep
    return draw_broadly if parsed.broad else draw


def _failure(drawn: Drawn, error: Exception) -> dict[str, Any]:
    return {**drawn.to_json(), "failure": f"{type(error).__name__}: {error}"}


def _is_wanted(drawn: Drawn, parsed: argparse.Namespace) -> bool:
    case = drawn.cases[0]
    return (
        parsed.dtype in (None, case.dtype)
        and parsed.format in (None, case.data_format)
        and (parsed.family is None or drawn.family in parsed.family)
        and (parsed.direction is None or drawn.direction in parsed.direction.split(","))
    )


def _outcome(row: dict[str, Any]) -> str:
    if "failure" in row:
        return f"failed: {row['failure']}"
    heuristic, measured = row["heuristic_microseconds"], row["microseconds"]
    return f"{heuristic:.0f} / {measured:.0f} us = {heuristic / measured:.2f}"


if __name__ == "__main__":
    # A reader that has enough (`| head`) ends the program without a traceback.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
