#!/usr/bin/env python
"""Training steps in PyTorch, each of a new length, enabled and not, and the same steps again.

usage: benchmarks/new_sizes.py [--steps N]

The network is nine layers of Conv1d, 256 channels, kernels of 5, minibatch 4, with lengths from 200
to 1500. Printed are PyTorch's seconds over the enabled ones, above 1 where the enabled steps are
faster: of steps whose lengths are new to both sides, and of the same steps repeated.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from contextlib import nullcontext

import checkout  # noqa: F401
import torch

import onednn_py.torch

LENGTHS = range(200, 1500)
MINIBATCH, INPUTS, CHANNELS, KERNEL = 4, 80, 256, 5


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args(arguments).steps
    pad = KERNEL // 2
    first = torch.nn.Conv1d(INPUTS, CHANNELS, KERNEL, stride=2, padding=pad)
    others = [torch.nn.Conv1d(CHANNELS, CHANNELS, KERNEL, padding=pad) for _ in range(8)]
    model = torch.nn.Sequential(first, *others)
    sides = {"plain": nullcontext, "enabled": onednn_py.torch.enabled}
    seconds = {(side, again): 0.0 for side in sides for again in (False, True)}
    for context in sides.values():
        with context():
            _step(model, LENGTHS.stop)
    for number, length in enumerate(random.Random(0).sample(LENGTHS, steps)):
        # By turns, in the opposite order each time.
        for side in list(sides)[:: 1 if number % 2 else -1]:
            with sides[side]():
                for again in (False, True):
                    seconds[side, again] += _step(model, length)
    for again, title in ((False, "new lengths"), (True, "the same again")):
        print(f"{title}: {seconds['plain', again] / seconds['enabled', again]:.2f}")


def _step(model: torch.nn.Module, length: int) -> float:
    """Return the seconds of a forward pass and its gradients."""
    src = torch.randn(MINIBATCH, INPUTS, length)
    begin = time.perf_counter()
    model(src).square().mean().backward()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
