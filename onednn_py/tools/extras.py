"""Imports of packages that only some commands need, with the remedy where one is missing."""

from __future__ import annotations

import importlib
from typing import Any

import onednn_py

__all__ = ["MissingExtraError", "require"]


class MissingExtraError(onednn_py.OneDNNPyError, ImportError):
    """A package of an optional extra cannot be imported; the message says how to get it."""


def require(module: str, distribution: str, extra: str) -> Any:
    """Import and return ``module``.

    Parameters
    ----------
    module : str
        As an import statement would name it.
    distribution : str
        What the user knows it as.
    extra : str
        The extra of ``onednn_py`` that installs it.

    Raises
    ------
    MissingExtraError
        Where the import fails.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f'{distribution} is needed here: pip install "onednn_py[{extra}]"'
        ) from error
