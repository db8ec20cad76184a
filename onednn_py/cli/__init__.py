"""The command line: ``python -m onednn_py`` and the script ``onednn-py``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper

import onednn_py
from onednn_py.config import check_environment

from . import bench, demo, info, run, training, tune, verify, wisdom

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, or print the help without one; return the exit status, 0 only on success."""
    if sys.stderr is None:  # closed by the shell: what would be written there is dropped
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in filter(None, (sys.stdout, sys.stderr)):
        # Names that the terminal cannot show are escaped, unless somebody chose otherwise.
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    called = ["onednn-py"]
    try:
        return _run(arguments, called)
    except onednn_py.OneDNNPyError as error:
        print(f"{' '.join(called)}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as head, has enough
        _drop_output()
        return 1
    except OSError as error:
        print(f"{' '.join(called)}: {error}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        return 1


def _drop_output() -> None:
    """Leave Python nothing to write at its end."""
    with suppress(OSError):  # an output that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str] | None, called: list[str]) -> int:
    """Run a command, whose name is added to ``called``, and write all of its output."""
    parser = argparse.ArgumentParser(
        prog="onednn-py",
        description="Gradients of convolution and transposed convolution, run by oneDNN.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {onednn_py.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in (info, demo, run, verify, bench, training, tune, wisdom):
        command.add_parser(commands)
    try:
        given = _joined(sys.argv[1:] if arguments is None else arguments)
        parsed, unknown = parser.parse_known_args(given)
        if unknown:
            # By the command's own parser, whose usage it prints.
            of_command = commands.choices.get(parsed.command, parser)
            of_command.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit:
        if sys.stdout is not None:
            sys.stdout.flush()  # of --help, --version and lists
        raise
    if sys.stdout is None:
        print("onednn-py: the standard output is closed", file=sys.stderr)
        return 1
    status = 0
    if parsed.command is None:
        parser.print_help()
    else:
        called.append(parsed.command)
        check_environment()
        status = int(parsed.run(parsed))
    sys.stdout.flush()
    return status


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``bench`` and its ``--training`` as one word, the command's."""
    command, *options = arguments or [""]
    name, _, option = training.NAME.partition(" ")
    if command != name or option not in options:
        return list(arguments)
    return [training.NAME, *(word for word in options if word != option)]
