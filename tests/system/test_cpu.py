"""What the system tells of the processor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onednn_py.system import cpu


@pytest.fixture
def processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setattr(cpu, "PROCESSORS", tmp_path / "cpuinfo")
    cpu.halves_avx512.cache_clear()
    yield tmp_path / "cpuinfo"
    cpu.halves_avx512.cache_clear()


def test_facts_are_the_first_processor_s(processors: Path) -> None:
    assert cpu.processor_facts() == {}
    processors.write_text("vendor_id\t: A\nmodel name\t: B: C\nfpu\t\t:\n\nvendor_id\t: D\n")
    assert cpu.processor_facts() == {"vendor_id": "A", "model name": "B: C", "fpu": ""}


@pytest.mark.parametrize(
    ("vendor", "family", "halves"),
    [
        ("AuthenticAMD", "25", True),
        ("AuthenticAMD", "26", False),
        ("GenuineIntel", "6", False),
        ("GenuineIntel", "25", False),
    ],
)
def test_units_of_half_width(processors: Path, vendor: str, family: str, halves: bool) -> None:
    processors.write_text(f"vendor_id\t: {vendor}\ncpu family\t: {family}\n")
    assert cpu.halves_avx512() is halves


def test_a_system_that_tells_nothing(processors: Path) -> None:
    assert cpu.halves_avx512() is False
