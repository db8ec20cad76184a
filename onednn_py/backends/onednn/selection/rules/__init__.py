"""Rules: which choice to prefer for which problems, each with the measurement that justifies it.

Ratios are of oneDNN v3.2 on two cores with AVX-512, float32, minibatch 16, reorders included:
how much longer oneDNN's own preference (layout any, first implementation) takes than the rule's
choice, on arrays that begin where NumPy puts them, 16 bytes behind a cache line. The command tune
measures again.

Rules for problems that no suite has were fitted on those of `benchmarks/survey.py`, with
minibatches of 1 to 32, on two cores with AMX. Their ratios compare with the first recorded way in
layout any, which need not be oneDNN's very first. Later rules compare with what the rules behind
them choose, and name the problems that they lose. Before those, each CPU asks rules of its own: for
AMX, for AVX-512 and no AMX, or for AVX2 and no AVX-512, some of which are asked before the general
rules alone.

Where "full width" or "half width" stands, a rule was measured again on a CPU without AMX whose
AVX-512 units have the full or half the width of the registers, by `benchmarks/survey.py pairs`: the
figures are how many times as long its choice takes as the choice without the rule, in geometric
mean of so many problems. Its `on_full_width` or `on_half_width` leaves out there what it loses. The
tables of full and of half width are for such CPUs alone.

A table of rules for each kind of problem is asked before the table of its direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from .amx_bf16 import AMX_BF16_FIRST, AMX_BF16_LAST
from .amx_f32_first import AMX_F32_FIRST
from .amx_f32_last import AMX_F32_LAST
from .avx2_deep import AVX2_DEEP, AVX2_DEEP_REST
from .avx2_deep_first import AVX2_DEEP_FIRST
from .avx2_depthwise import AVX2_DEPTHWISE
from .avx2_few_inputs import AVX2_FEW_INPUTS
from .avx2_first import AVX2_FIRST
from .avx2_forward import AVX2_FORWARD
from .avx2_gradients import AVX2_GRADIENTS
from .avx2_last import AVX2_LAST
from .avx2_merged import AVX2_MERGED
from .avx2_padded import AVX2_PADDED
from .avx2_pixels import AVX2_PIXELS
from .avx2_powers import AVX2_POWERS
from .avx2_strided_1x1 import AVX2_STRIDED_1X1
from .avx2_upsampling import AVX2_UPSAMPLING
from .avx2_volumes import AVX2_VOLUMES
from .data import DATA
from .depthwise_volumes import DEPTHWISE_VOLUMES, LARGER_DEPTHWISE_VOLUMES
from .few_channels import FEW_CHANNELS
from .first_without_amx import FIRST_WITHOUT_AMX, LINES_WITHOUT_AMX
from .forward import FORWARD
from .full_width_bf16 import FULL_WIDTH_BF16
from .full_width_f32 import FULL_WIDTH_F32
from .grouped import GROUPED
from .grouped_rest import GROUPED_REST
from .half_width_bf16 import HALF_WIDTH_BF16
from .half_width_blocks import HALF_WIDTH_BLOCKS
from .half_width_deep import HALF_WIDTH_DEEP
from .half_width_f32 import HALF_WIDTH_F32
from .half_width_groups import HALF_WIDTH_GROUPS
from .im2col import IM2COL
from .kind import facts_of, kind_of, may_hold
from .last_without_amx import LAST_WITHOUT_AMX
from .lines_and_volumes import DILATED_VOLUMES, LINES_AND_VOLUMES
from .one_channel import ONE_CHANNEL
from .patches import PATCHES
from .products import PRODUCTS
from .rule import (
    AMX_FAMILIES,
    ANY_NAME,
    DEPTHWISE,
    GEMM,
    JIT,
    JIT_1X1,
    NOT_GEMM,
    Rule,
    Shape,
    always,
)
from .small import SMALL
from .strided import STRIDED_DATA
from .strided_1x1 import STRIDED_1X1
from .transposed import TRANSPOSED
from .transposed_without_amx import BF16_TRANSPOSED, F32_TRANSPOSED
from .weights import WEIGHTS
from .without_amx_bf16 import BF16_WITHOUT_AMX
from .without_amx_f32 import F32_WITHOUT_AMX

__all__ = [
    "AMX_FAMILIES",
    "ANY_NAME",
    "DEPTHWISE",
    "GEMM",
    "JIT",
    "JIT_1X1",
    "NOT_GEMM",
    "Rule",
    "Shape",
    "always",
    "rules_of",
]


def _copies_serve(shape: Shape) -> bool:
    """Whether gemm computes bfloat16 weights of so few pixels that copies gain time."""
    return (
        shape.bf16
        and shape.weights
        and shape.positions >= 9
        and shape.inputs >= shape.outputs
        and shape.pixels < 300
        and (shape.dilated or shape.positions >= 25)
    )


GENERAL = (
    Rule(
        lambda s: (
            s.dense_last
            and s.strided
            and s.inputs > 4
            and (s.transposed or s.channels >= 16)
            and (s.weights or (s.data and not s.transposed))
        ),
        "any",
        ANY_NAME,
        "128, 56 x 56, 3x3/2: its own layouts beat the caller's by 1.05 (data), 1.5 (weights);"
        " transposed 256 -> 128, 4x4/2, weights: 1.13; full width 1.01 of 33"
        " and 0.88 of 37 of suites, of fewer flops and weights 1.22 of 172;"
        " half width 1.05 of 14, of fewer flops 1.35 of 116, of those that copies serve 0.73 of 21",
        on_full_width=lambda s: s.weights_size >= 500_000 or s.flops >= 2e9,
        on_half_width=lambda s: s.flops >= 2e9 or _copies_serve(s),
    ),
    Rule(
        lambda s: s.channels_last,
        "given",
        ANY_NAME,
        "depthwise 64, 56 x 56: 4.3 (data), 3.1 (weights); 64, 56 x 56, 3x3: 1.26; 32 groups"
        " of 4: 1.3 to 1.6; 1-D, 32 -> 64: 3.9; 3-D, 32, 32 x 32 x 32: 1.2",
    ),
)


# Kinds whose rules are kept. There are some hundreds for each CPU.
MOST_KINDS = 1024


def rules_of(shape: Shape) -> Iterator[Rule]:
    """Yield the rules that apply to a problem, best first."""
    return (rule for rule in _rules_of_kind(kind_of(shape)) if rule.holds(shape))


@lru_cache(MOST_KINDS)
def _rules_of_kind(kind: tuple[bool, ...]) -> tuple[Rule, ...]:
    facts = facts_of(kind)
    return tuple(rule for table in _tables(facts) for rule in table if may_hold(rule, facts))


def _tables(facts: Any) -> tuple[tuple[Rule, ...], ...]:
    """Return the tables that a kind of problems is looked up in, by order."""
    return (
        *_of_depthwise_volumes(facts),
        _with_amx(facts),
        IM2COL,
        *_with_avx2_alone(facts),
        *_without_amx(facts),
        TRANSPOSED if facts.transposed else (),
        SMALL,
        PRODUCTS,
        () if facts.dense else GROUPED,
        (*DATA, *STRIDED_DATA) if facts.data else WEIGHTS if facts.weights else FORWARD,
        () if facts.dense else GROUPED_REST,
        LINES_WITHOUT_AMX if facts.has_avx512_alone else (),
        AVX2_DEEP_REST if _is_of_avx2_alone(facts) else (),
        GENERAL,
    )


def _of_depthwise_volumes(facts: Any) -> tuple[tuple[Rule, ...], ...]:
    has_avx512 = facts.has_amx or facts.has_avx512_alone
    if facts.bf16 or not facts.depthwise or not has_avx512:
        return ()
    return (DEPTHWISE_VOLUMES, LARGER_DEPTHWISE_VOLUMES)


def _with_amx(facts: Any) -> tuple[Rule, ...]:
    if not facts.has_amx:
        return ()
    if facts.bf16:
        return AMX_BF16_LAST if facts.channels_last else AMX_BF16_FIRST
    return AMX_F32_LAST if facts.channels_last else AMX_F32_FIRST


def _is_of_avx2_alone(facts: Any) -> bool:
    return facts.has_avx2_alone and not facts.bf16  # of bfloat16 such CPUs have no kernels


def _with_avx2_alone(facts: Any) -> tuple[tuple[Rule, ...], ...]:
    if not _is_of_avx2_alone(facts):
        return ()
    of_dense = (*AVX2_PADDED, *AVX2_FEW_INPUTS)
    own = of_dense if facts.dense else (*AVX2_DEPTHWISE, *AVX2_MERGED)
    of_families = (AVX2_GRADIENTS, AVX2_POWERS) if facts.dense else ()
    volumes = (AVX2_VOLUMES, LARGER_DEPTHWISE_VOLUMES)
    if facts.channels_last:
        first = (*volumes, AVX2_PIXELS, *of_families, AVX2_UPSAMPLING, AVX2_DEEP)
        return (*first, AVX2_STRIDED_1X1, own, AVX2_LAST)
    first = (*volumes, *of_families, AVX2_DEEP, AVX2_DEEP_FIRST)
    return (*first, AVX2_STRIDED_1X1, own, AVX2_FORWARD, AVX2_FIRST)


def _without_amx(facts: Any) -> tuple[tuple[Rule, ...], ...]:
    if not facts.has_avx512_alone:
        return ()
    transposed = BF16_TRANSPOSED if facts.bf16 else F32_TRANSPOSED
    others = BF16_WITHOUT_AMX if facts.bf16 else F32_WITHOUT_AMX
    layouts = LAST_WITHOUT_AMX if facts.channels_last else FIRST_WITHOUT_AMX
    families = (ONE_CHANNEL, STRIDED_1X1, PATCHES, FEW_CHANNELS, LINES_AND_VOLUMES)
    own: tuple[Rule, ...]
    if facts.has_full_width:
        own = FULL_WIDTH_BF16 if facts.bf16 else FULL_WIDTH_F32
    else:
        own = HALF_WIDTH_BF16 if facts.bf16 else (*HALF_WIDTH_BLOCKS, *HALF_WIDTH_F32)
        own = (*(HALF_WIDTH_DEEP if facts.dense else HALF_WIDTH_GROUPS), *own)
    return (
        DILATED_VOLUMES,
        own,
        layouts,
        transposed if facts.transposed else (),
        *families,
        others,
    )
