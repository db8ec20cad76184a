"""The results of timed training steps as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from onednn_py.tools.text import aligned

from .results import StepResult, mean_ratio
from .settings import Settings

__all__ = ["HEADING", "call_lines", "left_lines", "settings_title", "step_line", "summary_lines"]

COLUMNS = "{:<16} {:<18} {:>9} {:>9} {:>6} {:>11} {:>6} {:>5} {:>8} {:>6}"
HEADING = COLUMNS.format(
    "network",
    "samples",
    "plain s",
    "enabled s",
    "ratio",
    "convolution",
    "taken",
    "left",
    "MiB",
    "memory",
)

MIB = 2**20

# Calls that the summary names at the most, of each network.
MOST_CALLS = 12


def settings_title(settings: Settings) -> str:
    """Return in words what all networks have in common."""
    words = [settings.dtype, "channels last" if settings.channels_last else "channels first"]
    if settings.autocast:
        words[0] = f"autocast to {settings.dtype}"
    words.append("compiled by Inductor" if settings.compiled else "eager")
    words.append(f"effort {settings.effort}")
    if settings.batch is not None:
        words.append(f"batch {settings.batch}")
    if settings.small:
        words.append("small networks")
    return ", ".join(words)


def step_line(result: StepResult) -> str:
    """Return a network's line below `HEADING`."""
    if result.failure:
        return f"{result.title:<16} {result.failure}"
    peak, ratio = result.peaks.get("enabled"), result.memory_ratio
    return COLUMNS.format(
        result.title,
        result.shapes[0],
        f"{result.median('plain'):.3f}",
        f"{result.median('enabled'):.3f}",
        f"{result.ratio:.2f}",
        f"{result.share:.0%}",
        sum(result.taken.values()),
        sum(result.left.values()),
        f"{peak / MIB:.0f}" if peak else "-",
        f"{ratio:.2f}" if ratio else "-",
    ).rstrip()


def summary_lines(results: Sequence[StepResult]) -> Iterator[str]:
    """Yield the geometric mean and the worst network, nothing without a ratio."""
    ratios = {result.title: result.ratio for result in results if result.ratio}
    if ratios:
        worst = min(ratios, key=lambda title: ratios[title])
        mean = mean_ratio(results)
        yield f"geometric mean {mean:.2f}, worst {ratios[worst]:.2f} ({worst})"


def left_lines(results: Sequence[StepResult]) -> list[str]:
    """Return how many calls of a step of every network are left to PyTorch, by reason."""
    reasons: Counter[str] = Counter()
    for result in results:
        reasons.update(result.left)
    return [f"{number} calls left to PyTorch: {reason}" for reason, number in reasons.most_common()]


def call_lines(result: StepResult) -> Iterator[str]:
    """Yield the calls that are slower than PyTorch's own, inside of the step."""
    rows = [
        (
            f"{1e3 * call.lost:.2f} ms",
            f"{1e3 * call.seconds['plain'] / call.count:.3f}",
            f"{1e3 * call.seconds['enabled'] / call.count:.3f}",
            f"x{call.count}",
            call.operation,
            call.shapes,
            call.arguments,
        )
        for call in result.slower_calls[:MOST_CALLS]
    ]
    if rows:
        heading = ("lost a step", "plain ms", "enabled ms", "calls", "", "tensors", "arguments")
        yield f"{result.title}: calls that are slower than PyTorch's own"
        yield from (f"  {line}" for line in aligned([heading, *rows], ">>>>"))
