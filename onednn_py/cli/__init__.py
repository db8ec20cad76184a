"""The command line: ``python -m onednn_py`` and the script ``onednn-py``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import onednn_py
from onednn_py.config import check_environment

from . import bench, demo, info, run, training, tune, verify, wisdom

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, or print the help without one; return the exit status, 0 only on success."""
    parser = argparse.ArgumentParser(
        prog="onednn-py",
        description="Gradients of convolution and transposed convolution, run by oneDNN.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {onednn_py.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in (info, demo, run, verify, bench, training, tune, wisdom):
        command.add_parser(commands)
    parsed = parser.parse_args(_joined(sys.argv[1:] if arguments is None else arguments))
    if parsed.command is None:
        parser.print_help()
        return 0
    if sys.stdout is None:
        print("onednn-py: the standard output is closed", file=sys.stderr)
        return 1
    try:
        check_environment()
        status = int(parsed.run(parsed))
        sys.stdout.flush()
        return status
    except onednn_py.OneDNNPyError as error:
        print(f"onednn-py {parsed.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader, such as head, has enough: nothing is left for Python to flush at its end.
        with suppress(OSError):  # an output that is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"onednn-py {parsed.command}: {error}", file=sys.stderr)
        return 1


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``bench`` and its ``--training`` as one word, the command's."""
    command, *options = arguments or [""]
    name, _, option = training.NAME.partition(" ")
    if command != name or option not in options:
        return list(arguments)
    return [training.NAME, *(word for word in options if word != option)]
