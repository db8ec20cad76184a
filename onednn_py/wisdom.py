"""Wisdom: what measuring has learned, remembered across processes (docs/wisdom.md).

Plans of effort ``"measure"`` add to it, and all plans use it. It is bound to oneDNN's version and
build, the CPU's instruction set and the number of threads.
"""

from __future__ import annotations

import os

from .backends.onednn import machine_here
from .backends.onednn.wisdom import store
from .backends.onednn.wisdom.store import VARIABLE, default_path, forget, save

__all__ = ["VARIABLE", "default_path", "forget", "load", "save"]


def load(path: str | os.PathLike[str] | None = None) -> int:
    """Add the wisdom of a file to what is known; where both know a problem, the file wins.

    A file that holds no wisdom, and entries that are wrong, are logged as warnings of the logger
    ``onednn_py`` and ignored.

    Parameters
    ----------
    path : path, optional
        Left out: the default file, which need not exist.

    Returns
    -------
    int
        How many entries count on this machine: those of this oneDNN, CPU ISA and number of
        threads. Others are kept for `save`, and the log says why they do not count.

    Raises
    ------
    WisdomFileNotFoundError
        If there is no file at ``path``; it is a ``FileNotFoundError``, too.
    WisdomFileUnreadableError
        If it is a folder, or cannot be read; it is an ``OSError``, too.
    AttributeValueError
        If no path is given, and ``ONEDNN_PY_WISDOM`` names the home folder of an unknown user.
    """
    return store.load(path, machine_here())
