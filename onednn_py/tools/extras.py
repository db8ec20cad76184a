"""Imports optional packages, with an error that names the command that installs them.

The command depends on how this package was installed, which its metadata tell: from an index, a
file, a folder or a repository, by pip, uv or conda.
"""

from __future__ import annotations

import importlib
import json
import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import onednn_py

__all__ = ["MissingExtraError", "install_command", "require"]

PACKAGE = "onednn_py"


class MissingExtraError(onednn_py.OneDNNPyError, ImportError):
    """An optional package cannot be imported; the message says how to install it."""


def require(module: str, package: str, extra: str) -> Any:
    """Import and return a module of a package that an extra of ``onednn_py`` installs.

    Raises
    ------
    MissingExtraError
        If the import fails; the message names the package, and the command that installs the extra,
        or the package's own error where it is installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name in (top, module):
            command = install_command(extra, package)
            raise MissingExtraError(f"{package} is needed here: {command}") from error
        raise MissingExtraError(f"{package} is installed, but fails: {error}") from error


def install_command(extra: str, package: str = "") -> str:
    """Return the command that installs an extra in the way in which this package was installed.

    Parameters
    ----------
    extra : str
    package : str, optional
        What to install where this package itself is not installed; by default what the extra has.
    """
    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError:
        return f"pip install {package or 'the packages of that extra'}"
    installer = (found.read_text("INSTALLER") or "").strip()
    if installer == "conda":
        return " ".join(["conda install -c conda-forge", *_packages(found, extra)])
    target = _target(found, extra)
    if target is None:
        target = " ".join(_packages(found, extra))
    return f"{'uv pip' if installer == 'uv' else 'pip'} install {target}"


def _target(found: Distribution, extra: str) -> str | None:
    """Return what pip is to install, None if what was installed is no longer there."""
    direct = json.loads(found.read_text("direct_url.json") or "{}")
    url = direct.get("url", "")
    if not url:
        return f'"{PACKAGE}[{extra}]"'
    if "vcs_info" in direct:
        vcs = direct["vcs_info"]
        return f'"{PACKAGE}[{extra}] @ {vcs["vcs"]}+{url}@{vcs["commit_id"]}"'
    parts = urlsplit(url)
    if parts.scheme == "file":
        path = Path(url2pathname(parts.path))
        if not path.exists():
            return None
        if "dir_info" in direct:
            option = "-e " if direct["dir_info"].get("editable") else ""
            return f'{option}"{path}[{extra}]"'
    return f'"{PACKAGE}[{extra}] @ {url}"'


def _packages(found: Distribution, extra: str) -> list[str]:
    """Return the requirements of an extra that hold on every platform, quoted for a shell."""
    pattern = re.compile(rf"""([^;]+?)\s*;\s*extra\s*==\s*['"]{extra}['"]""")
    matches = [pattern.fullmatch(requirement) for requirement in found.requires or ()]
    return [f'"{match[1]}"' for match in matches if match]
