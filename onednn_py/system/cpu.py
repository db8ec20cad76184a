"""What the system tells of the processor."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["halves_avx512", "processor_facts"]

PROCESSORS = Path("/proc/cpuinfo")

# The models of AMD's family 25 that have AVX-512 (Zen 4) compute with units of 256 bits, so that
# kernels for AVX2 are as fast there (docs/rules.md). No mobile model of family 26 was measured.
HALVED = ("AuthenticAMD", "25")


def processor_facts() -> dict[str, str]:
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
    facts = processor_facts()
    return (facts.get("vendor_id"), facts.get("cpu family")) == HALVED
