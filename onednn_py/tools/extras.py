"""Imports optional packages, with an error that names the command that installs them."""

from __future__ import annotations

import importlib
from typing import Any

import onednn_py

__all__ = ["MissingExtraError", "require"]


class MissingExtraError(onednn_py.OneDNNPyError, ImportError):
    """An optional package cannot be imported; the message says how to install it."""


def require(module: str, distribution: str, extra: str) -> Any:
    """Import and return a module of a package that an extra of ``onednn_py`` installs.

    Raises
    ------
    MissingExtraError
        If the import fails; the message names the package's distribution and the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f'{distribution} is needed here: pip install "onednn_py[{extra}]"'
        ) from error
