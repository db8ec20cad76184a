"""What a test needs of the machine."""

from __future__ import annotations

from typing import NoReturn

import pytest

import onednn_py
from onednn_py.backends.onednn import library

HAS_ONEDNN = onednn_py.info()["library"] is not None

needs_onednn = pytest.mark.skipif(not HAS_ONEDNN, reason="no oneDNN library here")


def has_isa(name: str) -> bool:
    """Whether oneDNN may use an instruction set here, such as ``"avx512_core"``."""
    lib = library().lib
    needed = getattr(lib, f"dnnl_cpu_isa_{name}")
    return bool(needed & lib.dnnl_get_effective_cpu_isa() == needed)


def has_dtype(name: str) -> bool:
    """Whether oneDNN computes a data type here without a cast, such as ``"bf16"``."""
    found = onednn_py.info()["supports"]
    return found is not None and found[name]


def skip_for_cpu(lacking: str) -> NoReturn:
    """Skip a test of instructions that this CPU lacks; every run on this machine skips it.

    `.ci/skips.py` knows such tests by the first words of the reason.
    """
    pytest.skip(f"this CPU has no {lacking}")
