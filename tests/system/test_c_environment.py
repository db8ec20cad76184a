"""Variables of the C environment, which os.environ does not show."""

from __future__ import annotations

import ctypes
import os

import pytest

from onednn_py.system.c_environment import HAS_C_ENVIRONMENT, c_variable

pytestmark = pytest.mark.skipif(not HAS_C_ENVIRONMENT, reason="an environment a C runtime")

NAME = "ONEDNN_PY_TEST_VARIABLE"


def seen() -> bytes | None:
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    found: bytes | None = getenv(NAME.encode())
    return found


def test_a_variable_that_was_not_set() -> None:
    with c_variable(NAME, "17"):
        assert seen() == b"17"
        assert NAME not in os.environ
    assert seen() is None


@pytest.mark.parametrize("before", ["", "own"])
def test_a_variable_that_was_set(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, before)
    with c_variable(NAME, "17"):
        assert seen() == b"17"
        assert os.environ[NAME] == before
    assert seen() == before.encode()


def test_an_error_inside() -> None:
    def fail() -> None:
        with c_variable(NAME, "17"):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen() is None
