"""Wisdom files: JSON of one schema, read with suspicion, written atomically.

A file holds the wisdom of any number of machines::

    {"schema": 1, "machines": [
        {"version": "3.2.0", "hash": "...", "cpu_isa": "avx512_core", "threads": 2, "problems": {
            "...": {"choice": {...}, "microseconds": 81.5, "heuristic_microseconds": 120.2}}}]}
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from onednn_py.errors import (
    AttributeValueError,
    WisdomFileError,
    WisdomFileNotFoundError,
    WisdomFileUnreadableError,
)

from .entry import Entry, Machine, checked_problem

try:
    import fcntl
except ImportError:
    _HAS_LOCKS = False
else:
    _HAS_LOCKS = True

__all__ = ["LARGEST_FILE", "MOST_ENTRIES", "SCHEMA", "Contents", "Entries", "merge_into", "read"]

_log = logging.getLogger("onednn_py")

SCHEMA = 1
MOST_ENTRIES = 10_000
LARGEST_FILE = 32 * 2**20

# Whoever holds a folder's lock longer than this is no writer of wisdom.
LOCK_SECONDS = 10.0

Entries = dict[tuple[Machine, str], Entry]


class Contents(NamedTuple):
    """The sound entries of a file, and the reasons why others were left out."""

    entries: Entries
    ignored: list[str]


def read(path: Path) -> Contents:
    """Return the entries of a wisdom file.

    Raises
    ------
    WisdomFileError
        If it is no wisdom file of this schema.
    WisdomFileUnreadableError
        If it cannot be read.
    """
    try:
        data = _data(path)
    except FileNotFoundError:
        raise WisdomFileNotFoundError(f"{path}: No such file") from None
    except (OSError, ValueError) as error:  # a ValueError for a null character in the path
        reason = getattr(error, "strerror", None) or error
        raise WisdomFileUnreadableError(f"{path}: cannot be read: {reason}") from None
    if len(data) > LARGEST_FILE:
        raise WisdomFileError(f"{path}: is larger than {LARGEST_FILE} bytes")
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_object)
    except RecursionError:
        raise WisdomFileError(f"{path}: is nested too deeply") from None
    except ValueError as error:
        raise WisdomFileError(f"{path}: is no JSON: {error}") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise WisdomFileError(f"{path}: is no wisdom file: it has no schema number")
    if type(document["schema"]) is not int or document["schema"] != SCHEMA:
        raise WisdomFileError(f"{path}: expected schema {SCHEMA}, got {document['schema']!r:.40}")
    machines = document.get("machines")
    if not isinstance(machines, list):
        raise WisdomFileError(f"{path}: machines: expected a list")
    return _contents(machines)


def _data(path: Path) -> bytes:
    """Return the bytes of a regular file, at most one more than are allowed."""
    # Opening a pipe would wait for a writer.
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("is no regular file")
    with open(path, "rb") as file:
        return file.read(LARGEST_FILE + 1)


def merge_into(path: Path, entries: Mapping[tuple[Machine, str], Entry], older: Entries) -> int:
    """Merge ``entries`` into a file; return how many entries the file has then.

    Where both know a problem, ``entries`` win over the file and the file over ``older``. A
    file that is no wisdom is kept aside under the suffix ``.bak``, or ``.bak1``, ``.bak2``, ...
    where there is one already.

    Raises
    ------
    OSError
        If the file cannot be read or written.
    """
    # A link stays a link: its target is replaced.
    target = Path(os.path.realpath(path))
    with _locked(target.parent):
        try:
            present = read(target).entries
        except FileNotFoundError:
            present = {}
        except WisdomFileUnreadableError:
            raise
        except WisdomFileError as error:
            aside = _free_name(target)
            os.replace(target, aside)
            _log.warning("wisdom: kept aside as %s: %s", aside, error)
            present = {}
        # The last win, and stand at the end, where the bound does not reach.
        merged: Entries = {}
        for source in (older, present, entries):
            for key, entry in source.items():
                merged.pop(key, None)
                merged[key] = entry
        kept = dict(list(merged.items())[-MOST_ENTRIES:])
        _replace(target, _text(kept))
    return len(kept)


def _free_name(path: Path) -> Path:
    """Return the path with the suffix ``.bak``, and a number behind it where that is taken."""
    names = (f"{path.name}.bak{number or ''}" for number in count())
    return next(aside for aside in map(path.with_name, names) if not os.path.lexists(aside))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the name {twice!r:.80} twice")
    return found


def _contents(machines: list[Any]) -> Contents:
    entries: Entries = {}
    ignored: list[str] = []
    for given in machines:
        try:
            machine = Machine(**_fields(given, "version", "hash", "cpu_isa", "threads"))
            problems = _fields(given, "problems")["problems"]
            if not isinstance(problems, dict):
                raise AttributeValueError("wisdom: problems: expected an object")
        except AttributeValueError as error:
            ignored.append(f"a machine: {error}")
            continue
        for name, value in problems.items():
            if len(entries) == MOST_ENTRIES:
                ignored.append(f"what follows the first {MOST_ENTRIES} entries")
                return Contents(entries, ignored)
            try:
                fields = _fields(value, "choice", "microseconds", "heuristic_microseconds")
                entries[machine, checked_problem(name)] = Entry(**fields)
            except AttributeValueError as error:
                ignored.append(f"{name!r:.80}: {error}")
    return Contents(entries, ignored)


def _fields(value: Any, *names: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise AttributeValueError("wisdom: expected an object")
    missing = [name for name in names if name not in value]
    if missing:
        raise AttributeValueError(f"wisdom: {missing[0]} is missing")
    return {name: value[name] for name in names}


def _text(entries: Entries) -> str:
    machines: dict[Machine, dict[str, Any]] = {}
    for (machine, problem), entry in entries.items():
        machines.setdefault(machine, {})[problem] = {
            "choice": entry.choice,
            "microseconds": entry.microseconds,
            "heuristic_microseconds": entry.heuristic_microseconds,
        }
    document = {
        "schema": SCHEMA,
        "machines": [
            {
                "version": machine.version,
                "hash": machine.hash,
                "cpu_isa": machine.cpu_isa,
                "threads": machine.threads,
                "problems": problems,
            }
            for machine, problems in machines.items()
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _replace(path: Path, text: str) -> None:
    """Replace a file as a whole: readers see the old content or the new content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other writers of wisdom out of a folder, where the system has such locks.

    Without such a lock, the last of two writers at once replaces what the other wrote.
    """
    if not _HAS_LOCKS:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _wait_for_lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, folder: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                _log.warning("wisdom: the lock of %s is held by others; writing without", folder)
                return
            time.sleep(0.02)
        except OSError as error:
            # Some network file systems have no locks.
            _log.debug("wisdom: %s cannot be locked: %s", folder, error)
            return
