"""What the system tells of the processor."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["halves_avx512"]

PROCESSORS = Path("/proc/cpuinfo")

# AMD's family 25 has AVX-512 in its fourth generation (models from 16 on), whose units are half as
# wide as the registers: kernels of AVX2 are as fast there. Family 26 has units of full width.
HALVED = ("AuthenticAMD", "25")


def _processor() -> dict[str, str]:
    """Return what the system tells of the first processor, by its own names; empty if nothing.

    On Linux these are such as ``"vendor_id"``, ``"cpu family"``, ``"model name"``.
    """
    try:
        text = PROCESSORS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


@cache
def halves_avx512() -> bool:
    """Whether the processor computes with half an AVX-512 register at a time.

    False where the system does not tell.
    """
    facts = _processor()
    return (facts.get("vendor_id"), facts.get("cpu family")) == HALVED
