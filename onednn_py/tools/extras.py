"""Imports optional packages, with an error that names the command that installs them."""

from __future__ import annotations

import importlib
from typing import Any

import onednn_py

__all__ = ["MissingExtraError", "require"]


class MissingExtraError(onednn_py.OneDNNPyError, ImportError):
    """An optional package cannot be imported; the message says how to install it."""


def require(module: str, distribution: str, extra: str) -> Any:
    """Return a module, imported.

    Parameters
    ----------
    module : str
        Its dotted name.
    distribution : str
        The name of the package that contains it, for the message.
    extra : str
        The extra of ``onednn_py`` that installs the package.

    Raises
    ------
    MissingExtraError
        If the import fails.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f'{distribution} is needed here: pip install "onednn_py[{extra}]"'
        ) from error
