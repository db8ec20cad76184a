"""The exceptions of the package: all derive from one root and from a built-in exception.

Callers can catch either ``OneDNNPyError`` or the exception that NumPy code would raise in
the same situation.
"""

from __future__ import annotations

__all__ = [
    "AttributeValueError",
    "DTypeError",
    "GraphFileError",
    "LibraryNotFoundError",
    "OneDNNError",
    "OneDNNMemoryError",
    "OneDNNPyError",
    "ShapeError",
    "WisdomFileError",
]


class OneDNNPyError(Exception):
    """Base class of all exceptions that this package raises on purpose."""


class ShapeError(OneDNNPyError, ValueError):
    """A tensor's rank or shape does not fit the operation, its attributes or another tensor."""


class AttributeValueError(OneDNNPyError, ValueError):
    """An attribute is unknown, missing, of the wrong type, or out of range."""


class DTypeError(OneDNNPyError, TypeError):
    """A tensor is not an array, or its data type is unsupported or not that of the others."""


class GraphFileError(OneDNNPyError, ValueError):
    """A graph file, or a tensor given for it, cannot be read or contradicts itself."""


class WisdomFileError(OneDNNPyError, ValueError):
    """A file is not a wisdom file, or this version cannot read it."""


class LibraryNotFoundError(OneDNNPyError, ImportError):
    """No usable oneDNN library; the message lists every path tried and why it was rejected."""


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
