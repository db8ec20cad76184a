"""Verify cases: oneDNN's results, and others', compared with a float64 reference."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from onednn_py import AttributeValueError
from onednn_py.testing.comparison import judge
from onednn_py.testing.report import Outcome
from onednn_py.testing.runners import NativeRunner, Runner, run_numpy, run_onednn
from onednn_py.tools.benchdnn.case import Case

__all__ = ["COMPARABLE", "Verifier", "runners"]

COMPARABLE = ("numpy", "native")


class Verifier:
    """Verifies cases one after the other, by `onednn_py.testing`'s judgement.

    Parameters
    ----------
    compare : sequence of {"numpy", "native"}
        Implementations to compare with the reference in addition to ``backend="onednn"``.
    max_flops : float
        Floating-point operations above which a case runs with minibatch 1 or is skipped.

    Errors are those of `runners`.
    """

    def __init__(
        self, compare: Sequence[str] = ("numpy",), *, seed: int = 0, max_flops: float = inf
    ) -> None:
        self._seed = seed
        self._max_flops = max_flops
        self._runners = runners(compare)

    def verify(self, case: Case) -> Outcome:
        """Run a case and compare its results; errors of the package become failures.

        Raises
        ------
        LibraryNotFoundError
            If no oneDNN library can be loaded.
        """
        return judge(case, self._runners, seed=self._seed, max_flops=self._max_flops)


def runners(compare: Sequence[str]) -> dict[str, Runner]:
    """Return what computes a case: oneDNN, and which of `COMPARABLE` the names select.

    Raises
    ------
    AttributeValueError
        If there is another name.
    ComparisonUnavailableError
        If the native program cannot be built.
    """
    for name in compare:
        if name not in COMPARABLE:
            raise AttributeValueError(
                f"compare: expected some of {', '.join(COMPARABLE)}; got {name!r}"
            )
    chosen: dict[str, Runner] = {"onednn": run_onednn}
    if "numpy" in compare:
        chosen["numpy"] = run_numpy
    if "native" in compare:
        chosen["native"] = NativeRunner().run
    return chosen
