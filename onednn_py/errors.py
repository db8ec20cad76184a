"""The exceptions of the package: all derive from one root and from a built-in exception.

Callers can catch either ``OneDNNPyError`` or the exception that NumPy code would raise in
the same situation. `brief` is how messages write a value that the caller gave.
"""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

__all__ = [
    "AttributeValueError",
    "DTypeError",
    "GraphFileError",
    "LibraryNotFoundError",
    "OneDNNError",
    "OneDNNMemoryError",
    "OneDNNPyError",
    "ShapeError",
    "SignatureError",
    "WisdomFileError",
    "WisdomFileNotFoundError",
    "WisdomFileUnreadableError",
    "brief",
]

LONGEST_MESSAGE = 600


class OneDNNPyError(Exception):
    """Base class of all exceptions that this package raises on purpose.

    A message of more than 600 characters, which only very long names give, lacks its middle.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*map(self._shortened, arguments))

    @staticmethod
    def _shortened(argument: object) -> object:
        if not isinstance(argument, str) or len(argument) <= LONGEST_MESSAGE:
            return argument
        tail = LONGEST_MESSAGE // 3
        return f"{argument[: LONGEST_MESSAGE - tail - 5]} ... {argument[-tail:]}"


class ShapeError(OneDNNPyError, ValueError):
    """A tensor's rank or shape does not fit the operation, its attributes or another tensor."""


class AttributeValueError(OneDNNPyError, ValueError):
    """An attribute is unknown, missing, of the wrong type, or out of range."""


class SignatureError(AttributeValueError, TypeError):
    """The arguments do not fit a function's signature, such as a keyword that it does not have."""


class DTypeError(OneDNNPyError, TypeError):
    """A tensor is not an array, or its data type is unsupported or not that of the others."""


class GraphFileError(OneDNNPyError, ValueError):
    """A graph file, or a tensor given for it, cannot be read or contradicts itself."""


class WisdomFileError(OneDNNPyError, ValueError):
    """A file is not a wisdom file, or this version cannot read it."""


class WisdomFileUnreadableError(WisdomFileError, OSError):
    """A wisdom file cannot be opened: it is a folder or a pipe, or the user may not read it."""


class WisdomFileNotFoundError(WisdomFileUnreadableError, FileNotFoundError):
    """There is no wisdom file at a path that was given."""


class LibraryNotFoundError(OneDNNPyError, ImportError):
    """No usable oneDNN library; the message lists every path tried and why it was rejected."""

    @staticmethod
    def _shortened(argument: object) -> object:
        return argument


class OneDNNError(OneDNNPyError, RuntimeError):
    """A call into oneDNN failed.

    Attributes
    ----------
    status : str
        oneDNN's name of the status, for example ``"invalid_arguments"``.
    function : str
        Name of the C function that returned it.
    """

    def __init__(self, function: str, status: str, detail: str = "") -> None:
        message = f"{function} failed with status {status}"
        super().__init__(f"{message}: {detail}" if detail else message)
        self.function = function
        self.status = status
        self.detail = detail

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.function, self.status, self.detail)


class OneDNNMemoryError(OneDNNError, MemoryError):
    """A call into oneDNN ran out of memory."""


def brief(value: Any) -> str:
    """Return how a message writes a caller's value: its ``repr`` if that is short.

    Longer values lack their middle. Of an array, of any library, the shape and type are given and
    never the content.
    """
    text = _brief.repr(value)
    return text if len(text) <= 120 else f"{text[:110]} ..."


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxtuple = self.maxlist = self.maxset = self.maxfrozenset = self.maxdict = 6
        self.maxlevel = 3
        self.maxstring = self.maxother = 60

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, np.generic):
            return self._checked(x, level)
        try:
            kind, shape, dtype = type(x).__qualname__, tuple(x.shape), str(x.dtype)
        except Exception:
            return self._checked(x, level)
        return f"{kind} of shape {super().repr1(shape, 1)} and dtype {dtype[:40]}"

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to print integers of thousands of digits.
        return repr(x) if abs(x) < 2**128 else f"an integer of {x.bit_length()} bits"

    def _checked(self, x: Any, level: int) -> str:
        try:
            return super().repr1(x, level)
        except Exception:
            return f"a value of type {type(x).__qualname__[:60]}"


_brief = _Brief()
