"""Commands that repeat a failure run as they are printed, and fail where the test fails."""

from __future__ import annotations

import pytest

from tests.support.cases import CURATED
from tests.support.reproduction import needs_shell, reproduction, run_reproduction

pytestmark = needs_shell


@pytest.mark.parametrize(("size", "fails"), [(9, False), (8, True)])
def test_a_command_fails_as_its_statement_does(size: int, fails: bool) -> None:
    """With both kinds of quotes in the statement, and what a shell would expand."""
    statement = f"assert CURATED['1d'].shape('dst') == (2, 4, {size}), \"it isn't $HOME\""
    done = run_reproduction(reproduction("tests.support.cases", statement))
    assert done.returncode == int(fails)
    assert done.stderr.endswith("AssertionError: it isn't $HOME\n" if fails else "")


@pytest.mark.parametrize("wrong", [False, True])
def test_a_case_fails_on_a_wrong_expectation(wrong: bool) -> None:
    statement = f"{CURATED['1d']}.integers('f32').check('convolution', 'numpy')"
    if wrong:
        statement = f"Tensors.expected = lambda self, role: self.arrays[role] + 1; {statement}"
    done = run_reproduction(reproduction("tests.support.cases", statement))
    assert done.returncode == int(wrong), done.stderr
    assert ("AssertionError" in done.stderr) == wrong
