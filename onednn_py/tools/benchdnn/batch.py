"""benchdnn's batch files: descriptors and options, separated by white space.

A word that begins with ``#`` starts a comment; a backslash at the end of a word joins the next
word to it. An option applies to the descriptors that follow it, also in files included with
``--batch=FILE`` (oneDNN, tests/benchdnn: ``batch`` of common.cpp).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onednn_py import AttributeValueError

from .case import DATA_FORMATS, Case
from .descriptor import Descriptor, parse_descriptor
from .options import parse_choices, parse_minibatches

__all__ = ["Batch", "BatchProblem", "Selection", "named_operation", "read_batch"]


@dataclass(frozen=True, slots=True)
class Selection:
    """What a caller asks of every problem; None where the caller leaves it to the problem.

    The defaults are used where neither the caller nor the problem's file says anything.
    """

    default_directions: tuple[str, ...]
    directions: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    formats: tuple[str, ...] | None = None
    minibatch: int | None = None
    default_dtypes: tuple[str, ...] = ("f32",)
    default_formats: tuple[str, ...] = DATA_FORMATS


@dataclass(frozen=True, slots=True)
class BatchProblem:
    """A descriptor and the options that a file sets for it; None for options it does not set.

    A minibatch replaces the descriptor's own unless it is 0.
    """

    descriptor: Descriptor
    directions: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    minibatch: int | None = None
    formats: tuple[str, ...] | None = None

    def cases(self, selection: Selection) -> list[Case]:
        """Return the cases of the problem; what the caller selects goes before its own options."""

        def first(*choices: tuple[str, ...] | None) -> tuple[str, ...]:
            return next(choice for choice in choices if choice is not None)

        minibatch = self.minibatch if selection.minibatch is None else selection.minibatch
        descriptor = self.descriptor.with_minibatch(minibatch) if minibatch else self.descriptor
        return [
            Case(descriptor, direction, dtype, data_format)
            for direction in first(
                selection.directions, self.directions, selection.default_directions
            )
            for dtype in first(selection.dtypes, self.dtypes, selection.default_dtypes)
            for data_format in first(selection.formats, self.formats, selection.default_formats)
        ]


@dataclass(frozen=True, slots=True)
class Batch:
    """The problems of a file and the files it includes, and notes on ignored parts."""

    problems: tuple[BatchProblem, ...]
    notes: tuple[str, ...]


def read_batch(path: Path, *, transposed: bool) -> Batch:
    """Return the problems of a batch file of conv descriptors, or deconv ones if transposed.

    Raises
    ------
    AttributeValueError
        If a file cannot be read or has an error; the message names file and line.
    """
    reader = _Reader(transposed)
    reader.read(path)
    ignored = [f"{path}: ignored {option}" for option in reader.ignored]
    return Batch(tuple(reader.problems), (*reader.notes, *ignored))


def named_operation(path: Path) -> str | None:
    """Return the operation that a batch file's name or its folder's names, if any."""
    resolved = path.resolve()
    for name in (resolved.name.lower(), resolved.parent.name.lower()):
        for operation in ("deconv", "conv"):
            if operation in name:
                return operation
    return None


@dataclass(slots=True)
class _Reader:
    transposed: bool
    # Directions and dtypes, by their names in BatchProblem.
    options: dict[str, Any] = field(default_factory=dict)
    minibatches: tuple[int | None, ...] = (None,)
    problems: list[BatchProblem] = field(default_factory=list)
    # Dictionaries hold each text once, in order.
    notes: dict[str, None] = field(default_factory=dict)
    ignored: dict[str, None] = field(default_factory=dict)
    including: list[Path] = field(default_factory=list)

    def read(self, path: Path) -> None:
        resolved = path.resolve()
        if resolved in self.including:
            raise AttributeValueError(f"{path}: the file includes itself")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise AttributeValueError(f"{path}: cannot be read: {reason}") from None
        self.including.append(resolved)
        for number, word in _words(text):
            try:
                self._read_word(word, path)
            except AttributeValueError as error:
                raise AttributeValueError(f"{path}:{number}: {error}") from None
        self.including.pop()

    def _read_word(self, word: str, path: Path) -> None:
        if not word.startswith("--"):
            if word.count('"') == 1 and word[-1] != '"':
                raise AttributeValueError(f"{word}: a name has no white space, which ends a word")
            descriptor = parse_descriptor(word, transposed=self.transposed)
            self.problems += [
                BatchProblem(descriptor, **self.options, minibatch=minibatch)
                for minibatch in self.minibatches
            ]
            return
        option, _, value = word[2:].partition("=")
        if option == "reset":
            self.options, self.minibatches = {}, (None,)
        elif option == "batch":
            sibling = path.parent / value
            self.read(sibling if sibling.is_file() else Path(value))
        elif option == "dir":
            self.options["directions"] = parse_choices("dir", value)
        elif option == "mb":
            self.minibatches = parse_minibatches(value)
        elif option == "dt":
            self.options["dtypes"] = self._supported_dtypes(value, path)
        else:
            self.ignored[f"--{option}"] = None

    def _supported_dtypes(self, value: str, path: Path) -> tuple[str, ...]:
        """Return the supported data types, and note the unsupported ones."""
        supported: dict[str, None] = {}
        for word in value.split(","):
            try:
                supported.update(dict.fromkeys(parse_choices("dt", word)))
            except AttributeValueError:
                self.notes[f"{path}: left out what is of type {word}"] = None
        return tuple(supported)


def _words(text: str) -> Iterator[tuple[int, str]]:
    """Yield each word with the number of the line on which it ends."""
    start = ""
    for number, line in enumerate(text.splitlines(), start=1):
        for part in line.split():
            if part.startswith("#"):
                break
            word = start + part
            if part.endswith("\\"):
                start = word[:-1]
            else:
                yield number, word
                start = ""
    if start:
        yield number, start
