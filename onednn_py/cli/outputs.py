"""The files that commands write: figures and JSON, checked before a long run."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from onednn_py import AttributeValueError, info
from onednn_py.tools.pictures import FORMATS

__all__ = ["check_writable", "library_title", "picture", "reason", "run_facts", "write_json"]


def picture(text: str) -> Path:
    """Return the path of a figure, whose suffix selects the format."""
    path = Path(text)
    if path.suffix.lower().lstrip(".") not in FORMATS:
        listed = " or ".join(f".{name}" for name in FORMATS)
        raise argparse.ArgumentTypeError(f"expected a name ending in {listed}, got {text!r}")
    return path


def reason(error: Exception) -> str:
    """Return what is wrong without the path, which the caller names."""
    return getattr(error, "strerror", None) or str(error)


def check_writable(paths: Iterable[str | Path | None], *, takes_stdout: bool = True) -> None:
    """Raise an error that names the file that cannot be written.

    Parameters
    ----------
    paths : iterable of path or None
    takes_stdout : bool
        Whether ``-`` is the standard output; otherwise it is refused.
    """
    for path in paths:
        if str(path) == "-" and not takes_stdout:
            raise AttributeValueError("-: name a file; only --json writes to stdout")
        if path not in (None, "-"):
            try:
                file = Path(path)
                existed = file.exists()
                if not existed:
                    file = Path(os.path.realpath(file))  # a link that leads nowhere yet stays
                file.open("ab").close()
                if not existed:  # the command may end without anything to write
                    file.unlink()
            except OSError as error:
                raise AttributeValueError(f"{path}: cannot be written: {reason(error)}") from None


def write_json(path: str | None, content: Mapping[str, Any]) -> None:
    """Write to a file, or to the standard output if the path is ``-``; None writes nothing."""
    if path is None:
        return
    text = json.dumps(content, indent=2)
    if path == "-":
        print(text)
    else:
        Path(path).write_text(text + "\n", encoding="utf-8")


def run_facts() -> dict[str, Any]:
    """Return versions, the library and the number of threads, for the JSON of a long run."""
    facts: Mapping[str, Any] = info()
    names = ("onednn_py", "numpy", "library", "version", "hash", "cpu_isa", "threads")
    return {name: facts[name] for name in names}


def library_title(facts: Mapping[str, Any]) -> str:
    return f"oneDNN {facts['version']} for {facts['cpu_isa']}"
