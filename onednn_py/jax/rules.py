"""Which problems JAX computes faster by itself, and are left to it.

The figures are of ``benchmarks/jax_gradients.py --everything``, with and without ``--small``: JAX
0.10.2, oneDNN 3.2, float32, minibatch 8, two cores with AVX-512.
"""

from __future__ import annotations

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
    """

    names: tuple[str, ...]
    least: float
    most: float
    most_inputs: float = float("inf")
    channels_last: bool = False


_ALL = ("forward", "backward_data", "backward_weights")

RULES = (
    # JAX's time divided by ours was 1.66 to 3.4 up to 1.2 million products, 0.04 to 0.65 from 4.7
    # to 75 million, and 0.87 to 15 from 1.03e8 on. The cause was not measured.
    Rule(_ALL, 2e6, 1e8),
    # JAX's time divided by ours was 0.90 for 3 to 64 channels, 224 x 224, 7x7.
    Rule(("forward",), 1e8, float("inf"), most_inputs=4, channels_last=True),
)


def is_left_to_lax(
    name: str, geometry: Geometry, src: Shape, weights: Shape, dst: Shape, dtype: str
) -> bool:
    """Return whether JAX computes a problem faster by itself, as far as was measured.

    Without a oneDNN library this is taken for granted, unless the user names a backend.
    """
    if geometry.settings.backend == "auto" and onednn_py.info()["library"] is None:
        return True
    outputs, inputs = (weights[axis] for axis in geometry.weights_spec[:2])
    products = prod(dst) // outputs * prod(weights)
    channels_last = geometry.src_spec[1] == len(src) - 1
    return any(
        name in rule.names
        and rule.least <= products < rule.most
        and inputs <= rule.most_inputs
        and (channels_last or not rule.channels_last)
        for rule in RULES
    )
