"""Fail if a test was skipped in every one of several runs: it would prove nothing.

usage: skips.py JUNIT_XML [JUNIT_XML ...]
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree


def outcomes(path: str) -> tuple[set[str], set[str]]:
    """Return the names of the tests that ran and of those that were skipped."""
    ran, skipped = set(), set()
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        (skipped if case.find("skipped") is not None else ran).add(name)
    return ran, skipped


def main(paths: list[str]) -> int:
    ran: set[str] = set()
    skipped: set[str] = set()
    for path in paths:
        some_ran, some_skipped = outcomes(path)
        ran |= some_ran
        skipped |= some_skipped
    everywhere = sorted(skipped - ran)
    for name in everywhere:
        print(f"skipped in every run: {name}")
    print(f"{len(ran)} tests ran somewhere, {len(everywhere)} nowhere")
    return 1 if everywhere or not ran else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
