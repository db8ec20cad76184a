"""A search for rules: conditions under which a choice takes less time than that of the rules.

Conditions are conjunctions of few limits. What is found on half of the problems must hold on the
other half, too. Rules that were found are drafts: `survey.py pairs --rules` tells, on problems that
were drawn afterwards, which of them hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, floor, log10
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from survey_timed import Action, Timed

__all__ = ["Found", "rule_lines", "search"]

Numbers = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

SIZES = (
    *("inputs", "outputs", "channels", "groups", "group_channels", "group_products"),
    *("positions", "pixels", "images", "all_pixels", "dst_size", "weights_size", "flops"),
)
FLAGS = (
    *("strided", "dilated", "line", "volume", "has_bias", "has_bias_gradient", "small"),
    *("is_1x1", "in_patches", "larger_kernel", "is_product", "is_split", "thin", "thin_groups"),
    *("whole_blocks", "whole_pages", "transposed", "dense", "depthwise", "in_groups"),
)
QUANTILES = np.linspace(0.06, 0.94, 14)
STEPS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)

# Rules are sought for whole kinds first, then for kinds without their last conditions.
KIND_LENGTHS = (5, 4, 3)
LEAST_PROBLEMS = 30
MOST_RULES = 10

# A condition divides off so many problems; conjunctions have so many conditions. The search goes on
# with the best conjunctions of each length.
LEAST_DIVIDED = 5
MOST_CONDITIONS = 3
WIDTH = 14

# Times differ if they differ by more; a loss counts as a lost problem from this one on.
DIFFERENT = 0.015
LOST = 0.095

# A rule must change so many problems of each half, gain so much, and lose no larger share.
LEAST_CHANGED = 4
LEAST_GAIN = 0.04
MOST_LOST = 0.22

# What a rule is worth: the sum of its gains. Losses weigh more, gains count up to a limit; each
# condition costs something, and so little is not worth a rule.
LOSS_WEIGHT = 1.6
MOST_GAIN = 1.2
CONDITION_COSTS = 0.25
LEAST_WORTH = 0.8


class _Condition(NamedTuple):
    text: str
    holds: Mask


@dataclass(frozen=True)
class Found:
    """A draft of a rule: conditions, what it says, and times with it over those without."""

    conditions: tuple[str, ...]
    action: Action
    ratios: tuple[float, ...]


def search(problems: Sequence[Timed]) -> list[Found]:
    """Return rules in the order in which they are to be asked, before the package's."""
    takes = np.array([one.rules_take for one in problems])
    decided = np.zeros(len(problems), bool)
    found: list[Found] = []
    for length in KIND_LENGTHS:
        kinds: dict[tuple[str, ...], list[int]] = {}
        for index, one in enumerate(problems):
            kinds.setdefault(one.kind[:length], []).append(index)
        for kind, members in sorted(kinds.items()):
            if len(members) >= LEAST_PROBLEMS:
                group = _Group([problems[index] for index in members])
                found += group.rules(kind, takes, decided, np.array(members))
    return found


class _Group:
    """Problems of a kind, among which rules are sought."""

    def __init__(self, problems: Sequence[Timed]) -> None:
        self.conditions = list(_conditions(problems))
        self.holds = np.array([one.holds for one in self.conditions])
        # Seeds with the same remainder are of one half, as both parts of a drawn problem are.
        self.half = np.array([one.seed % 2 for one in problems])
        actions = sorted({action for one in problems for action in one.actions})
        self.times = {
            action: np.array([one.actions.get(action, np.nan) for one in problems])
            for action in actions
        }

    def rules(
        self, kind: tuple[str, ...], takes: Numbers, decided: Mask, members: npt.NDArray[np.intp]
    ) -> Iterator[Found]:
        """Yield rules, the best first; update times and decided problems of the survey."""
        for _ in range(MOST_RULES):
            drafts = list(self._drafts(takes[members], decided[members]))
            if not drafts:
                return
            worth, action, conjunction, gains = max(drafts, key=lambda draft: draft[0])
            if worth < LEAST_WORTH:
                return
            holds = self._all_hold(conjunction)
            changed = gains[holds & (np.abs(gains) > DIFFERENT)]
            texts = tuple(self.conditions[index].text for index in conjunction)
            yield Found((*kind, *texts), action, tuple(map(float, np.exp(changed))))
            # A rule decides wherever its choice exists, for better or worse.
            decides = holds & ~np.isnan(self.times[action]) & ~decided[members]
            takes[members] = np.where(decides, self.times[action], takes[members])
            decided[members] |= decides

    def _drafts(
        self, takes: Numbers, decided: Mask
    ) -> Iterator[tuple[float, Action, tuple[int, ...], Numbers]]:
        for action, times in self.times.items():
            unknown = np.isnan(times) | decided
            gains = np.where(unknown, 0.0, times - takes)
            changed = np.abs(gains) > DIFFERENT
            worth = np.where(gains < 0, -np.maximum(gains, -MOST_GAIN), -LOSS_WEIGHT * gains)
            tried: set[tuple[int, ...]] = set()
            for half in (0, 1):
                tried.update(self._conjunctions(worth, changed, self.half == half))
            for conjunction in sorted(tried):
                holds = self._all_hold(conjunction)
                parts = [gains[holds & changed & (self.half == half)] for half in (0, 1)]
                if all(map(_is_gain, parts)):
                    total = float(worth[holds].sum()) - CONDITION_COSTS * len(conjunction)
                    yield total, action, conjunction, gains

    def _conjunctions(self, worth: Numbers, changed: Mask, part: Mask) -> list[tuple[int, ...]]:
        """Return the best conjunctions on a part of the problems, by a beam search."""
        holds, worth = self.holds[:, part], worth[part]
        numbers = changed[part].astype(float)
        beam: list[tuple[int, ...]] = [()]
        best: list[tuple[float, tuple[int, ...]]] = [(float(worth.sum()), ())]
        for length in range(1, MOST_CONDITIONS + 1):
            longer: dict[tuple[int, ...], float] = {}
            for conjunction in beam:
                both = holds & holds[list(conjunction)].all(axis=0)
                scores = both @ worth - CONDITION_COSTS * length
                # A condition alone may lose, and still be part of the best conjunction.
                scores[both @ numbers < LEAST_CHANGED] = -np.inf
                for index in np.argsort(-scores)[:WIDTH]:
                    if np.isfinite(scores[index]) and index not in conjunction:
                        longer[tuple(sorted((*conjunction, int(index))))] = float(scores[index])
            beam = sorted(longer, key=lambda one: -longer[one])[:WIDTH]
            best += [(longer[one], one) for one in beam]
        best.sort(key=lambda one: -one[0])
        return [one for _, one in best[:4]]

    def _all_hold(self, conjunction: Sequence[int]) -> Mask:
        return np.asarray(self.holds[list(conjunction)].all(axis=0))


def _is_gain(gains: Numbers) -> bool:
    return (
        len(gains) >= LEAST_CHANGED
        and float(gains.mean()) <= -LEAST_GAIN
        and float((gains > LOST).mean()) <= MOST_LOST
    )


def _conditions(problems: Sequence[Timed]) -> Iterator[_Condition]:
    """Yield conditions that divide problems, each with its opposite."""
    shapes = [one.shape for one in problems]

    def divided(holds: Mask, text: str, opposite: str) -> Iterator[_Condition]:
        if LEAST_DIVIDED <= holds.sum() <= len(problems) - LEAST_DIVIDED:
            yield _Condition(text, holds)
            yield _Condition(opposite, ~holds)

    for name in FLAGS:
        flags = np.array([bool(getattr(shape, name)) for shape in shapes])
        yield from divided(flags, f"s.{name}", f"not s.{name}")
    for name in SIZES:
        sizes = np.array([float(getattr(shape, name)) for shape in shapes])
        for limit in sorted({_round(float(size)) for size in np.quantile(sizes, QUANTILES)}):
            text = f"{limit:_}" if limit < 1e6 else f"{limit:.2g}".replace("e+0", "e")
            yield from divided(sizes < limit, f"s.{name} < {text}", f"s.{name} >= {text}")


def _round(size: float) -> int:
    """Return a limit near a size that is easy to read."""
    if size <= 32:
        return int(size)
    power = 10.0 ** floor(log10(size))
    return int(power * next(step for step in STEPS if size <= 1.0001 * step * power))


def rule_lines(found: Sequence[Found]) -> Iterator[str]:
    """Yield the lines of a Python file whose RULES `survey.py pairs --rules` reads."""
    yield from ("import re", "", "from onednn_py.backends.onednn.selection.rules import Rule", "")
    yield "RULES = ("
    for one in found:
        action = one.action
        mean = exp(float(np.log(one.ratios).mean()))
        yield "    Rule("
        yield f"        lambda s: {' and '.join(one.conditions)},"
        yield f'        "{action.activations}",'
        yield f'        re.compile(r"^{_escaped(action.implementation)}$"),'
        yield f'        "recorded: {mean:.2f}, {max(one.ratios):.2f} of {len(one.ratios)}",'
        if action.formulation != "direct":
            yield f'        formulation="{action.formulation}",'
        if (action.compute_dtype == "bf16") != ("s.bf16" in one.conditions):
            yield f'        compute_dtype="{action.compute_dtype}",'
        if action.weights != "any":
            yield f'        weights="{action.weights}",'
        yield "    ),"
    yield ")"


def _escaped(name: str) -> str:
    return name.replace("+", r"\+")
