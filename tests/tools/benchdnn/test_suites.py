"""The suites' batch files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from onednn_py.errors import AttributeValueError
from onednn_py.tools.benchdnn.batch import read_batch
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.suites import (
    ABOUT_MINUTES,
    DEFAULT_DIRECTIONS,
    SUITES,
    number_of_problems,
    suite_files,
    suite_lines,
)


@pytest.mark.parametrize("name", SUITES)
def test_every_problem_is_valid(name: str) -> None:
    names = Counter()
    for operation, path in suite_files(name):
        batch = read_batch(path, transposed=operation == "deconv")
        assert batch.problems
        assert not batch.notes
        for problem in batch.problems:
            assert problem.minibatch
            descriptor = problem.descriptor.with_minibatch(problem.minibatch)
            names[descriptor.name] += 1
            for direction in DEFAULT_DIRECTIONS:
                for data_format in ("NCX", "NXC"):
                    case = Case(descriptor, direction, "f32", data_format)
                    assert case.problem()
                    assert case.descriptor.flops < 1e11
    assert all(problem.startswith(f"{name}:") for problem in names)
    assert set(names.values()) == {1}
    assert number_of_problems(name) == len(names)


def test_every_file_belongs_to_a_suite() -> None:
    listed = {path for name in SUITES for _, path in suite_files(name)}
    folder = Path(suite_files("unet")[0][1]).parents[1]
    assert listed == set(folder.rglob("*.txt"))


def test_an_unknown_suite() -> None:
    with pytest.raises(AttributeValueError, match="expected some of resnet50, .*'vgg'"):
        suite_files("vgg")


def test_the_listing_has_problems_and_minutes_of_every_suite() -> None:
    heading, *rows, note = suite_lines()
    assert heading.split() == ["suite", "problems", "bench", "takes"]
    assert "two cores" in note
    for name, row in zip(SUITES, rows, strict=True):
        count = number_of_problems(name)
        assert row.split()[:2] == [name, str(count)]
        assert f"about {ABOUT_MINUTES[name]} minutes" in row
