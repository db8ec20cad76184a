"""The store of wisdom in memory; files are merged into it.

Planning asks for entries (`recall`), measuring adds them (`remember`), `save` and `load` keep them
in files. The default file, where it exists, is read once, when a plan first asks.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import Counter
from pathlib import Path

import platformdirs

from onednn_py.errors import (
    AttributeValueError,
    WisdomFileError,
    WisdomFileUnreadableError,
    brief,
)
from onednn_py.system.forks import in_forked_child

from .entry import Entry, Machine, checked_problem
from .files import MOST_ENTRIES, Contents, merge_into, read

__all__ = [
    "VARIABLE",
    "default_path",
    "forget",
    "is_empty",
    "load",
    "recall",
    "remember",
    "revision",
    "save",
]

_log = logging.getLogger("onednn_py")

#: Name of the environment variable that names the default file, or is ``off``.
VARIABLE = "ONEDNN_PY_WISDOM"


class _Known:
    """An entry, the file that it was read from, None if it was measured here, and when it was used.

    Uses are numbered, so that an entry has its place without leaving it: a signal handler may
    recall, keep and forget entries on the thread that is about to.
    """

    __slots__ = "entry", "source", "used"

    def __init__(self, entry: Entry, source: str | None) -> None:
        self.entry, self.source, self.used = entry, source, next(_uses)


_lock = threading.RLock()
_uses = itertools.count()
_known: dict[tuple[Machine, str], _Known] = {}
_revision = 0

# Whether reading the default file has begun, and whether it has ended.
_reading_began = _default_was_read = False


def default_path() -> Path | None:
    """Return the path of the default wisdom file; None if there is to be none.

    The environment variable ``ONEDNN_PY_WISDOM`` names another path; ``off`` or an empty
    value is none.

    Raises
    ------
    AttributeValueError
        If the variable's path begins with the home folder of an unknown user.
    """
    path = os.environ.get(VARIABLE)
    if path is None:
        return platformdirs.user_data_path("onednn_py", appauthor=False) / "wisdom.json"
    if not path or path.lower() == "off":
        return None
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # of a user that the system does not know
        raise AttributeValueError(f"{VARIABLE}: {brief(path)}: {error}") from None


def revision() -> int:
    """Return a number that changes when wisdom is loaded or forgotten, and plans are to follow.

    `remember` leaves it: a measurement concerns the plan that it was made for, and must not
    make all others be built again.
    """
    return _revision


def is_empty() -> bool:
    """Whether `recall` finds nothing, whatever the problem, and has read the default file."""
    return _default_was_read and not _known


def recall(machine: Machine, problem: str) -> Entry | None:
    """Return the entry of a problem on a machine, None if there is none.

    Parameters
    ----------
    machine : Machine
    problem : str
        The name under which it was remembered.

    Returns
    -------
    Entry or None
    """
    with _lock:
        _read_default(machine)
        known = _known.get((machine, problem))
        if known is None:
            return None
        known.used = next(_uses)
        return known.entry


def remember(machine: Machine, problem: str, entry: Entry) -> None:
    """Keep an entry in memory; ``save`` writes it to a file.

    Parameters
    ----------
    machine : Machine
    problem : str
        Any text that tells problems apart, printable and of at most 1000 characters.
    entry : Entry

    Raises
    ------
    AttributeValueError
        If ``problem`` is no such text.
    """
    checked_problem(problem)
    with _lock:
        _keep({(machine, problem): entry}, None)


def load(path: str | os.PathLike[str] | None, here: Machine | None) -> int:
    """Add the wisdom of a file, or of the default file, to what is known.

    Returns how many entries count on the machine ``here``, None without a library; see
    `onednn_py.wisdom.load`.
    """
    global _revision, _reading_began, _default_was_read
    chosen = default_path() if path is None else Path(path)
    if chosen is None:
        _log.info("wisdom: no default file: %s is off", VARIABLE)
        return 0
    try:
        contents = read(chosen)
    except FileNotFoundError:
        if path is not None:
            raise
        _log.info("wisdom: there is no default file %s", chosen)
        return 0
    except WisdomFileUnreadableError:
        raise
    except WisdomFileError as error:
        _log.warning("wisdom: ignored: %s", error)
        return 0
    with _lock:
        _keep(contents.entries, _name(chosen))
        _revision += 1
        if path is None:
            _reading_began = _default_was_read = True
    count = _report(chosen, contents, here)
    if not count:
        _log.warning("wisdom: nothing in %s counts here", chosen)
    return count


def save(path: str | os.PathLike[str] | None = None) -> Path:
    """Write all known entries to a file, together with the entries that the file holds already.

    Where both know a problem, this process's own measurement wins over the file's, and the file's
    over what was loaded earlier, from it or from other files. The file is replaced as a whole,
    so that readers never see half a file, and the entries of two processes that save at once are
    both in it. A file that is no wisdom file is kept aside as ``<name>.bak``, or
    as ``<name>.bak1`` and so on where there is one already.

    Parameters
    ----------
    path : path, optional
        Left out: the default file, whose folder is made if needed.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    AttributeValueError
        If no path is given, and ``ONEDNN_PY_WISDOM`` is off or names the home folder of an unknown
        user.
    OSError
        If the file cannot be written.
    """
    if path is None:
        chosen = default_path()
        if chosen is None:
            raise AttributeValueError(f"wisdom.save: expected a path, since {VARIABLE} is off")
        chosen.parent.mkdir(parents=True, exist_ok=True)
    else:
        chosen = Path(path)
    with _lock:
        known = dict(_known)
    newer = {key: found.entry for key, found in known.items() if found.source is None}
    older = {key: found.entry for key, found in known.items() if found.source is not None}
    merge_into(chosen, newer, older)
    return chosen


def forget(path: str | os.PathLike[str] | None = None) -> None:
    """Drop all wisdom from memory; this process does not read the default file again by itself.

    Parameters
    ----------
    path : path, optional
        A wisdom file to delete as well. Without one, files stay as they are.

    Raises
    ------
    WisdomFileError
        If the file is no wisdom file or cannot be read; it is not deleted.
    OSError
        If it cannot be read or deleted.
    """
    global _revision, _reading_began, _default_was_read
    with _lock:
        _known.clear()
        _reading_began = _default_was_read = True
        _revision += 1
    if path is not None:
        read(Path(path))
        os.remove(path)


def _read_default(machine: Machine) -> None:
    """Read the default file once; entries that are known already win over it.

    The revision stays: nobody has been answered before.
    """
    global _reading_began, _default_was_read
    if _reading_began:  # or is being read by the call that a signal handler interrupts
        return
    _reading_began = True
    try:
        _merge_default(machine)
    finally:
        _default_was_read = True


def _merge_default(machine: Machine) -> None:
    try:
        chosen = default_path()
        if chosen is None:
            return
        contents = read(chosen)
    except FileNotFoundError:
        return
    except (WisdomFileError, AttributeValueError) as error:
        _log.warning("wisdom: ignored: %s", error)
        return
    learned = dict(_known)
    _keep(contents.entries, _name(chosen))
    for key, known in learned.items():
        known.used = next(_uses)
        _known[key] = known
    _bound()
    _report(chosen, contents, machine)


def _keep(entries: dict[tuple[Machine, str], Entry], source: str | None) -> None:
    for key, entry in entries.items():
        _known[key] = _Known(entry, source)
    _bound()


def _bound() -> None:
    if len(_known) > MOST_ENTRIES:
        by_use = sorted(dict(_known).items(), key=lambda item: item[1].used)
        for key, _ in by_use[:-MOST_ENTRIES]:
            _known.pop(key, None)


def _name(path: Path) -> str:
    return os.path.realpath(path)


def _report(path: Path, contents: Contents, here: Machine | None) -> int:
    """Log which entries of a file are ignored, and why; return how many count on this machine."""
    for reason in contents.ignored:
        _log.warning("wisdom: %s: ignored %s", path, reason)
    if here is None:
        if contents.entries:
            _log.info("wisdom: %s: no oneDNN library to use it with", path)
        return 0
    reasons = Counter(machine.difference(here) for machine, _ in contents.entries)
    count = reasons.pop("", 0)
    for reason, ignored in reasons.items():
        _log.info("wisdom: %s: ignored %d entries for %s", path, ignored, reason)
    return count


@in_forked_child
def _reset() -> None:
    global _lock, _reading_began
    _lock = threading.RLock()
    _reading_began = _default_was_read  # by a thread that the child does not have
