"""Which problems JAX computes faster by itself, and are left to it.

The figures are of ``benchmarks/jax_gradients.py --everything``, with and without ``--small``: JAX
0.10.2, oneDNN 3.2, float32, minibatch 8, two cores with AVX-512.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import onednn_py

from .geometry import Geometry, Shape

__all__ = ["is_left_to_lax"]


class Rule(NamedTuple):
    """A range of problems in which JAX's time was below ours.

    Attributes
    ----------
    names : tuple of str
        Primitives.
    least, most : float
        Products of elements; a problem of ``most`` does not belong to the range.
    most_inputs : float
        The most input channels of a group.
    channels_last : bool
        Only problems whose src has its channels last.
    without_f16 : bool
        Only float16, where oneDNN computes it in float32 between two conversions.
    """

    names: tuple[str, ...]
    least: float
    most: float
    most_inputs: float = float("inf")
    channels_last: bool = False
    without_f16: bool = False


_ALL = ("forward", "backward_data", "backward_weights")

RULES = (
    # JAX's time divided by ours was 1.66 to 3.4 up to 1.2 million products, 0.04 to 0.65 from 4.7
    # to 75 million, and 0.87 to 15 from 1.03e8 on. The cause was not measured, and machines
    # differ: on an EPYC with Zen 4 cores the ratio from 2.4 to 75 million products was 2.25 in the
    # mean and 1.08 at the least in float32; in bfloat16 3.14, and below 1 in two of 105 cases.
    Rule(_ALL, 2e6, 1e8),
    # JAX's time divided by ours was 0.90 for 3 to 64 channels, 224 x 224, 7x7.
    Rule(("forward",), 1e8, float("inf"), most_inputs=4, channels_last=True),
    # In float16 JAX's time divided by ours was 0.58 in the mean, 0.2 to 1.92, up to 2 million
    # products (`--small --dtype float16` with `--mb 1` and `--mb 8`, both formats, Zen 4).
    Rule(_ALL, 0, 2e6, without_f16=True),
)


# What the library supports. `info` looks at much more, and is asked until there is a library.
_supported: dict[str, bool] = {}


def is_left_to_lax(
    name: str, geometry: Geometry, src: Shape, weights: Shape, dst: Shape, dtype: str
) -> bool:
    """Return whether JAX computes a problem faster by itself, as far as was measured.

    Without a oneDNN library this is taken for granted. A backend that the user names computes all
    problems.
    """
    if geometry.settings.backend != "auto":
        return False
    supports = _supports()
    if not supports:
        return True
    outputs, inputs = (weights[axis] for axis in geometry.weights_spec[:2])
    products = prod(dst) // outputs * prod(weights)
    channels_last = geometry.src_spec[1] == len(src) - 1
    converts_f16 = dtype == "float16" and not supports["f16"]
    return any(
        name in rule.names
        and rule.least <= products < rule.most
        and inputs <= rule.most_inputs
        and (channels_last or not rule.channels_last)
        and (converts_f16 or not rule.without_f16)
        for rule in RULES
    )


def _supports() -> Mapping[str, bool]:
    if not _supported:
        _supported.update(onednn_py.info()["supports"] or {})
    return _supported
