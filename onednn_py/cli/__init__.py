"""The command line: ``python -m onednn_py`` and the script ``onednn-py``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from onednn_py import OneDNNPyError

from . import bench, demo, info, run, tune, verify, wisdom

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status, 0 only on success."""
    parser = argparse.ArgumentParser(
        prog="onednn-py",
        description="Gradients of convolution and transposed convolution, run by oneDNN.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (info, demo, run, verify, bench, tune, wisdom):
        command.add_parser(commands)
    parsed = parser.parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except OneDNNPyError as error:
        print(f"onednn-py {parsed.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
