"""The settings of a call: its own arguments, or else those of the context."""

from __future__ import annotations

from typing import NamedTuple

from onednn_py.config import backend_setting, effort_setting, fpmath_mode_setting

__all__ = ["Settings", "settings"]


class Settings(NamedTuple):
    """The settings in force at a call."""

    backend: str
    effort: str
    fpmath_mode: str


# The same object for the same settings, which saves making and comparing them.
_settings: dict[tuple[str, str, str], Settings] = {}


def settings(
    backend: str | None = None,
    fpmath_mode: str | None = None,
    effort: str | None = None,
    operation: str = "",
) -> Settings:
    """Return the settings of a call; an argument that is None is taken from the context."""
    key = (
        backend_setting.current(backend, operation),
        effort_setting.current(effort, operation),
        fpmath_mode_setting.current(fpmath_mode, operation),
    )
    try:
        return _settings[key]
    except KeyError:
        return _settings.setdefault(key, Settings(*key))
