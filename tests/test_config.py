"""Settings: the call's own argument, the innermost block, the environment, the default."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from onednn_py import AttributeValueError, config


class Setting(NamedTuple):
    name: str
    current: Callable[..., str]
    use: Callable[[Any], Any]
    accepted: tuple[str, ...]
    variable: str | None


SETTINGS = [
    Setting(
        "backend",
        config.backend_setting.current,
        config.use_backend,
        ("auto", "onednn", "numpy"),
        "ONEDNN_PY_BACKEND",
    ),
    Setting(
        "effort",
        config.effort_setting.current,
        config.use_effort,
        ("heuristic", "measure"),
        "ONEDNN_PY_EFFORT",
    ),
    Setting(
        "fpmath_mode",
        config.fpmath_mode_setting.current,
        config.use_fpmath_mode,
        ("strict", "bf16", "tf32", "f16", "any"),
        None,
    ),
]


@pytest.fixture(params=SETTINGS, ids=lambda setting: setting.name)
def setting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Setting:
    if request.param.variable:
        monkeypatch.delenv(request.param.variable, raising=False)
    chosen: Setting = request.param
    return chosen


def test_the_first_name_is_the_default(setting: Setting) -> None:
    assert setting.current() == setting.accepted[0]


def test_precedence(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = setting.accepted[:2]
    if setting.variable:
        monkeypatch.setenv(setting.variable, second.upper())
        assert setting.current() == second
    with setting.use(first):
        assert setting.current() == first
        assert setting.current(second.upper()) == second


def test_an_empty_variable_counts_as_unset(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting.variable:
        monkeypatch.setenv(setting.variable, "")
    assert setting.current() == setting.accepted[0]


def test_blocks_nest_and_end_with_an_exception(setting: Setting) -> None:
    first, second = setting.accepted[:2]
    with setting.use(second):
        with setting.use(first):
            assert setting.current() == first
        assert setting.current() == second
        with pytest.raises(ZeroDivisionError), setting.use(first):
            raise ZeroDivisionError
        assert setting.current() == second
    assert setting.current() == setting.accepted[0]


def test_a_block_applies_to_its_own_thread_only(setting: Setting) -> None:
    seen: list[str] = []
    with setting.use(setting.accepted[1]):
        thread = threading.Thread(target=lambda: seen.append(setting.current()))
        thread.start()
        thread.join()
    assert seen == [setting.accepted[0]]


@pytest.mark.parametrize("wrong", ["fastest", "", 3, None, b"numpy", ["auto"]])
def test_a_wrong_name_is_refused_with_the_accepted_ones(setting: Setting, wrong: Any) -> None:
    with (
        pytest.raises(AttributeValueError, match=", ".join(setting.accepted)) as error,
        setting.use(wrong),
    ):
        pass
    assert f"use_{setting.name}" in str(error.value)
    assert repr(wrong) in str(error.value)
    if wrong is not None:
        with pytest.raises(AttributeValueError, match=f"^{setting.name}: expected one of"):
            setting.current(wrong)


@pytest.mark.parametrize("setting", SETTINGS[:2], ids=lambda setting: setting.name)
def test_a_wrong_name_in_the_environment(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(setting.variable, "fastest")
    with pytest.raises(AttributeValueError, match=f"environment variable {setting.variable}"):
        setting.current()


def test_idle_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's choice goes before that of the environment, and wrong ones are refused."""
    monkeypatch.setattr(config, "_process_idle_threads", None)
    monkeypatch.delenv("ONEDNN_PY_IDLE_THREADS", raising=False)
    assert not config.leaves_idle_threads()
    monkeypatch.setenv("ONEDNN_PY_IDLE_THREADS", "Leave")
    assert config.leaves_idle_threads()
    config.set_idle_threads("shorten")
    assert not config.leaves_idle_threads()
    with pytest.raises(AttributeValueError, match="idle_threads: expected one of shorten, leave"):
        config.set_idle_threads("end")
    assert not config.leaves_idle_threads()
    config.set_idle_threads(None)
    monkeypatch.setenv("ONEDNN_PY_IDLE_THREADS", "end")
    with pytest.raises(AttributeValueError, match="ONEDNN_PY_IDLE_THREADS: expected one of"):
        config.leaves_idle_threads()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_wrong_name_is_told_before_the_block(setting: Setting) -> None:
    with pytest.raises(AttributeValueError, match=f"use_{setting.name}"):
        setting.use("bogus")
