"""The values of wisdom: for which machine, and which choice was the fastest.

They check themselves, so that what a file or a caller hands over is either sound or refused
with a reason. Texts must be printable: wisdom files travel, and are shown in terminals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onednn_py.errors import AttributeValueError

__all__ = ["Entry", "Machine", "checked_problem"]

LONGEST_TEXT = 1000
DEEPEST_CHOICE = 4
LARGEST_CHOICE = 64
MOST_THREADS = 2**31 - 1
MOST_MICROSECONDS = 1e12


@dataclass(frozen=True, slots=True)
class Machine:
    """The oneDNN build and the CPU that a measurement is valid for.

    Attributes
    ----------
    version, hash : str
        Of oneDNN.
    cpu_isa : str
        The instruction set that oneDNN dispatches to.
    threads : int

    Raises
    ------
    AttributeValueError
        If an attribute is of another kind.
    """

    version: str
    hash: str
    cpu_isa: str
    threads: int

    def __post_init__(self) -> None:
        for name in ("version", "hash", "cpu_isa"):
            _check_text(name, getattr(self, name))
        if type(self.threads) is not int or not 0 < self.threads <= MOST_THREADS:
            raise _wrong("threads", "a positive integer", self.threads)

    def __str__(self) -> str:
        counted = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"oneDNN {self.version} ({self.hash[:7]}) on {self.cpu_isa}, {counted}"

    def difference(self, here: Machine) -> str:
        """Return the first reason why this machine's entries do not count on ``here``."""
        if self.version != here.version:
            return f"oneDNN {self.version} instead of {here.version}"
        if self.hash != here.hash:
            return f"another build of oneDNN, {self.hash or 'unnamed'}"
        if self.cpu_isa != here.cpu_isa:
            return f"CPU ISA {self.cpu_isa} instead of {here.cpu_isa}"
        if self.threads != here.threads:
            return f"{self.threads} threads instead of {here.threads}"
        return ""


@dataclass(frozen=True, slots=True)
class Entry:
    """The fastest choice for one problem on one machine.

    Attributes
    ----------
    choice : mapping
        As JSON can hold it: names to texts, finite numbers, booleans, None, or lists and
        mappings of them. Not to be changed.
    microseconds, heuristic_microseconds : float
        Measured times of this choice and of the heuristic choice.

    Raises
    ------
    AttributeValueError
        If an attribute is of another kind.
    """

    choice: Mapping[str, Any]
    microseconds: float
    heuristic_microseconds: float

    def __post_init__(self) -> None:
        if not isinstance(self.choice, Mapping):
            raise _wrong("choice", "names and values", self.choice)
        object.__setattr__(self, "choice", _plain(self.choice, DEEPEST_CHOICE))
        for name in ("microseconds", "heuristic_microseconds"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 < value <= MOST_MICROSECONDS:
                raise _wrong(name, "a positive finite number", value)
            object.__setattr__(self, name, float(value))

    @property
    def gain(self) -> float:
        """How many times faster than the heuristic choice."""
        return self.heuristic_microseconds / self.microseconds


def checked_problem(problem: object) -> str:
    """Return the name of a problem.

    Raises
    ------
    AttributeValueError
        If it is no short printable text.
    """
    return _check_text("problem", problem)


def _check_text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.isprintable():
        raise _wrong(name, f"a printable text of at most {LONGEST_TEXT} characters", value)
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain(value: Any, depth: int) -> Any:
    """Return a copy of a part of a choice that consists of dict, list and scalars only."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _check_text("choice", value)
    if _is_number(value):
        if math.isfinite(value) and abs(value) <= MOST_MICROSECONDS:
            return value
        raise _wrong("choice", "finite numbers", value)
    if depth == 0:
        raise AttributeValueError("wisdom: choice: nested too deeply")
    if isinstance(value, (Mapping, list, tuple)) and len(value) > LARGEST_CHOICE:
        raise AttributeValueError(f"wisdom: choice: more than {LARGEST_CHOICE} values")
    if isinstance(value, Mapping):
        return {_check_text("choice", key): _plain(part, depth - 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, depth - 1) for part in value]
    raise _wrong("choice", "values that JSON can hold", value)


def _wrong(name: str, expected: str, value: object) -> AttributeValueError:
    try:
        shown = repr(value)
    except ValueError:
        # An integer of more digits than Python prints.
        shown = "a huge number"
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return AttributeValueError(f"wisdom: {name}: expected {expected}, got {shown}")
