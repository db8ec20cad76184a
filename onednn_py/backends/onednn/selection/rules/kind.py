"""Kinds of problems: which rules cannot hold, whatever the sizes of a problem are.

There are hundreds of rules, and most say no by a fact with few values, such as the data type or the
direction. They are asked once for each kind, and not for each problem.
"""

from __future__ import annotations

from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from .rule import Rule

__all__ = ["facts_of", "kind_of", "may_hold"]

# What of a `Shape` makes its kind.
FACTS = (
    "has_amx",
    "has_avx512_alone",
    "has_full_width",
    "has_half_width",
    "has_avx2_alone",
    "bf16",
    "channels_last",
    "data",
    "weights",
    "forward",
    "transposed",
    "dense",
    "dense_first",
    "dense_last",
    "depthwise",
    "in_groups",
    "strided",
    "is_1x1",
    "is_product",
)

kind_of = attrgetter(*FACTS)


def facts_of(kind: tuple[bool, ...]) -> Any:
    """Return an object with the facts of a kind, as a `Shape` has them, and nothing else."""
    return SimpleNamespace(**dict(zip(FACTS, kind, strict=True)))


def may_hold(rule: Rule, facts: Any) -> bool:
    """Whether a rule holds for some problems with these facts."""
    try:
        return rule.holds(facts)
    except AttributeError:  # it depends on sizes, which the facts lack
        return True
