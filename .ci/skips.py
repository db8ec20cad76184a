"""Fail if a test was skipped in every one of several runs: it would prove nothing.

Tests that need instructions which this CPU lacks are counted apart.

usage: skips.py JUNIT_XML [JUNIT_XML ...]
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree

# The first words of a reason, see `skip_for_cpu` in tests/support/requirements.py.
FOR_CPU = "this CPU has no "


def outcomes(path: str) -> tuple[set[str], set[str], set[str]]:
    """Return the names of the tests that ran, that were skipped, and of these those for the CPU."""
    ran, skipped, for_cpu = set(), set(), set()
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        skip = case.find("skipped")
        (ran if skip is None else skipped).add(name)
        if skip is not None and (skip.get("message") or "").startswith(FOR_CPU):
            for_cpu.add(name)
    return ran, skipped, for_cpu


def main(paths: list[str]) -> int:
    ran: set[str] = set()
    skipped: set[str] = set()
    for_cpu: set[str] = set()
    for path in paths:
        for names, some in zip((ran, skipped, for_cpu), outcomes(path), strict=True):
            names |= some
    lacking = for_cpu - ran
    everywhere = sorted(skipped - ran - lacking)
    for name in everywhere:
        print(f"skipped in every run: {name}")
    print(f"{len(ran)} tests ran somewhere, {len(everywhere)} nowhere")
    if lacking:
        print(f"{len(lacking)} tests are for other CPUs than this")
    return 1 if everywhere or not ran else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
