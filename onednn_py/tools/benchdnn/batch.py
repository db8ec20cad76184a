"""benchdnn's batch files: descriptors and options, one after the other.

Words are separated by white space; one that begins with ``#`` starts a comment, a backslash
at the end of a word joins the next one to it. An option holds for the descriptors behind it,
in files that ``--batch=FILE`` includes too (oneDNN, tests/benchdnn: ``batch`` of common.cpp).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from onednn_py.errors import AttributeValueError

from .case import DIRECTIONS
from .descriptor import LARGEST, Descriptor, parse_descriptor

__all__ = ["Batch", "BatchProblem", "parse_directions", "parse_dtypes", "read_batch"]

DTYPES = ("f32", "bf16", "f16")

# benchdnn's inference computes what its training does.
SYNONYMS = {"FWD_I": "FWD_D"}


@dataclass(frozen=True, slots=True)
class BatchProblem:
    """A descriptor and what the file says about it; None where it says nothing.

    Attributes
    ----------
    descriptor : Descriptor
    directions, dtypes : tuple of str or None
    minibatch : int or None
        In place of the descriptor's own; 0 keeps that.
    """

    descriptor: Descriptor
    directions: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    minibatch: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The problems of a file and of those it includes, and what was passed over."""

    problems: tuple[BatchProblem, ...]
    notes: tuple[str, ...]


def parse_directions(text: str) -> tuple[str, ...]:
    """Return the directions of ``--dir=FWD_B,BWD_D``.

    Raises
    ------
    AttributeValueError
        Naming the word that is none.
    """
    found = []
    for word in text.upper().split(","):
        direction = SYNONYMS.get(word, word)
        if direction not in DIRECTIONS:
            raise AttributeValueError(
                f"--dir={text}: expected some of {', '.join(DIRECTIONS)}; got {word!r}"
            )
        found.append(direction)
    return tuple(dict.fromkeys(found))


def parse_dtypes(text: str) -> tuple[str, ...]:
    """Return the data types of ``--dt=f32,bf16:bf16:bf16``; the tensors of a call share one.

    Raises
    ------
    AttributeValueError
        Naming the word that is none.
    """
    found: list[str] = []
    for word in text.lower().split(","):
        dtypes = set(word.split(":"))
        if not (len(dtypes) == 1 and dtypes <= set(DTYPES)):
            raise AttributeValueError(
                f"--dt={text}: expected some of {', '.join(DTYPES)}; got {word!r}"
            )
        found.extend(dtypes)
    return tuple(dict.fromkeys(found))


def read_batch(path: Path, *, transposed: bool) -> Batch:
    """Return what a batch file asks for.

    Parameters
    ----------
    path : Path
    transposed : bool
        Whether its descriptors are deconv's.

    Raises
    ------
    AttributeValueError
        If a file cannot be read, or a word of it is wrong; with file and line.
    """
    reader = _Reader(transposed)
    reader.read(path)
    ignored = [f"{path}: ignored {option}" for option in dict.fromkeys(reader.ignored)]
    return Batch(tuple(reader.problems), (*reader.notes, *ignored))


@dataclass(slots=True)
class _Options:
    directions: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    minibatches: tuple[int | None, ...] = (None,)


@dataclass(slots=True)
class _Reader:
    transposed: bool
    options: _Options = field(default_factory=_Options)
    problems: list[BatchProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    including: list[Path] = field(default_factory=list)

    def read(self, path: Path) -> None:
        resolved = path.resolve()
        if resolved in self.including:
            raise AttributeValueError(f"{path}: the file includes itself")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise AttributeValueError(f"{path}: cannot be read: {error}") from None
        self.including.append(resolved)
        for number, word in _words(text):
            try:
                self._take(word, path)
            except AttributeValueError as error:
                raise AttributeValueError(f"{path}:{number}: {error}") from None
        self.including.pop()

    def _take(self, word: str, path: Path) -> None:
        if not word.startswith("--"):
            if word.count('"') == 1 and word[-1] != '"':
                raise AttributeValueError(f"{word}: a name has no white space, which ends a word")
            descriptor = parse_descriptor(word, transposed=self.transposed)
            for minibatch in self.options.minibatches:
                self.problems.append(
                    BatchProblem(
                        descriptor, self.options.directions, self.options.dtypes, minibatch
                    )
                )
            return
        option, _, value = word[2:].partition("=")
        if option == "reset":
            self.options = _Options()
        elif option == "batch":
            beside = path.parent / value
            self.read(beside if beside.is_file() else Path(value))
        elif option == "dir":
            self.options.directions = parse_directions(value)
        elif option == "mb":
            self.options.minibatches = tuple(_minibatch(word, text) for text in value.split(","))
        elif option == "dt":
            self.options.dtypes = self._supported(value, path)
        else:
            self.ignored.append(f"--{option}")

    def _supported(self, value: str, path: Path) -> tuple[str, ...]:
        """Return the types that the package has; the file may ask for benchdnn's others too."""
        found: dict[str, None] = {}
        for word in value.split(","):
            try:
                found.update(dict.fromkeys(parse_dtypes(word)))
            except AttributeValueError:
                note = f"{path}: left out what is of type {word}"
                if note not in self.notes:
                    self.notes.append(note)
        return tuple(found)


def _minibatch(word: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST))):
        raise AttributeValueError(f"{word}: expected integers of at least 0, got {text!r}")
    return int(text)


def _words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of the line on which a word ends, and the word."""
    begun = ""
    for number, line in enumerate(text.splitlines(), start=1):
        for word in line.split():
            if word.startswith("#"):
                break
            begun += word
            if word.endswith("\\"):
                begun = begun[:-1]
                continue
            yield number, begun
            begun = ""
    if begun:
        yield number, begun
