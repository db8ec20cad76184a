#!/usr/bin/env python
"""Times `onednn_py.jax.conv_general_dilated` against JAX's own, both under jit.

For each convolution of ResNet-50: the forward operation, each gradient and both gradients. The two
libraries take turns; a figure is the median over the rounds. Prints a table in Markdown, in
milliseconds and as ratios (JAX's time by ours, above 1 where ours is faster). ``--everything``
computes here what the rules leave to JAX, too: the rules are made from these figures.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import checkout  # noqa: F401
import jax
import numpy as np
from jax import lax

from onednn_py.jax import conv_general_dilated, lowering

# Input channels, height of src, output channels, height of the kernel, stride.
LAYERS = (
    (3, 224, 64, 7, 2),
    (64, 56, 64, 1, 1),
    (64, 56, 64, 3, 1),
    (64, 56, 256, 1, 1),
    (256, 56, 64, 1, 1),
    (256, 56, 128, 1, 1),
    (128, 56, 128, 3, 2),
    (128, 28, 512, 1, 1),
    (256, 56, 512, 1, 2),
    (512, 28, 128, 1, 1),
    (128, 28, 128, 3, 1),
    (512, 28, 256, 1, 1),
    (256, 28, 256, 3, 2),
    (256, 14, 1024, 1, 1),
    (512, 28, 1024, 1, 2),
    (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1),
    (1024, 14, 512, 1, 1),
    (512, 14, 512, 3, 2),
    (512, 7, 2048, 1, 1),
    (1024, 14, 2048, 1, 2),
    (2048, 7, 512, 1, 1),
    (512, 7, 512, 3, 1),
)
# Small problems, in which a call's own cost shows.
SMALL = (
    (4, 8, 4, 3, 1),
    (8, 16, 8, 3, 1),
    (16, 16, 16, 3, 1),
    (16, 32, 16, 3, 1),
    (32, 32, 32, 3, 1),
    (64, 14, 64, 1, 1),
    (128, 14, 128, 3, 1),
    (1, 28, 8, 5, 1),
)
FORMATS = {"NHWC": ("NHWC", "HWIO", "NHWC"), "NCHW": ("NCHW", "OIHW", "NCHW")}
OPERATIONS = ("forward", "data", "weights", "both")


def operation(kind: str, convolution: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function of src, weights and diff_dst that computes one operation."""

    def gradients(src: Any, weights: Any, diff_dst: Any) -> Any:
        return jax.vjp(convolution, src, weights)[1](diff_dst)

    functions: dict[str, Callable[..., Any]] = {
        "forward": lambda src, weights, _: convolution(src, weights),
        "data": lambda src, weights, diff_dst: gradients(src, weights, diff_dst)[0],
        "weights": lambda src, weights, diff_dst: gradients(src, weights, diff_dst)[1],
        "both": gradients,
    }
    return jax.jit(functions[kind])


def timed(function: Callable[..., Any], arguments: Sequence[Any], repeats: int) -> float:
    """Return milliseconds a call."""
    begin = time.perf_counter()
    for _ in range(repeats):
        jax.block_until_ready(function(*arguments))
    return (time.perf_counter() - begin) / repeats * 1e3


def measured(
    layer: Sequence[int], minibatch: int, formats: str, dtype: str, rounds: int
) -> Iterator[tuple[float, float]]:
    """Yield for each of the operations the medians of JAX and of ours."""
    inputs, height, outputs, kernel, stride = layer
    numbers = FORMATS[formats]
    src, weights = _shapes(formats, minibatch, inputs, outputs, height, kernel)
    arguments = {
        "window_strides": (stride, stride),
        "padding": [(kernel // 2, kernel // 2)] * 2,
        "dimension_numbers": numbers,
    }
    theirs = partial(lax.conv_general_dilated, **arguments)
    ours = partial(conv_general_dilated, **arguments)
    random = np.random.default_rng(0)
    tensors = [jax.numpy.asarray(random.standard_normal(shape), dtype) for shape in (src, weights)]
    dst = jax.eval_shape(theirs, *tensors).shape
    tensors.append(jax.numpy.asarray(random.standard_normal(dst), dtype))
    for kind in OPERATIONS:
        pair = [operation(kind, convolution) for convolution in (theirs, ours)]
        for function in pair:
            timed(function, tensors, 2)
        # About 20 ms a round.
        repeats = [max(1, min(500, int(20 / timed(one, tensors, 1)))) for one in pair]
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            for index, function in enumerate(pair):
                times[index].append(timed(function, tensors, repeats[index]))
        yield statistics.median(times[0]), statistics.median(times[1])


def _shapes(
    formats: str, minibatch: int, inputs: int, outputs: int, height: int, kernel: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if formats == "NHWC":
        return (minibatch, height, height, inputs), (kernel, kernel, inputs, outputs)
    return (minibatch, inputs, height, height), (outputs, inputs, kernel, kernel)


def print_row(*cells: str) -> None:
    """Print a row of a table in Markdown."""
    print("|", " | ".join(cells), "|", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=8, help="minibatch (default: 8)")
    parser.add_argument("--formats", choices=FORMATS, default="NHWC")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default: 7)")
    parser.add_argument("--small", action="store_true", help="small problems in place of ResNet-50")
    parser.add_argument("--layers", type=int, help="only the first layers")
    parser.add_argument("--everything", action="store_true", help="without the rules")
    options = parser.parse_args()
    if options.everything:
        lowering.is_left_to_lax = lambda *arguments, **shapes: False
    print_row("layer", *(f"{kind}{unit}" for kind in OPERATIONS for unit in (" JAX", " ours", "")))
    print_row("---", *["---:"] * 3 * len(OPERATIONS))
    ratios: dict[str, list[float]] = {kind: [] for kind in OPERATIONS}
    for layer in (SMALL if options.small else LAYERS)[: options.layers]:
        inputs, height, outputs, kernel, stride = layer
        row = [f"{inputs} to {outputs}, {height}, {kernel}x{kernel}/{stride}"]
        arguments = (options.mb, options.formats, options.dtype, options.rounds)
        for kind, (theirs, ours) in zip(OPERATIONS, measured(layer, *arguments), strict=True):
            ratios[kind].append(theirs / ours)
            row += [f"{theirs:.3g}", f"{ours:.3g}", f"{theirs / ours:.2f}"]
        print_row(*row)
    for kind, values in ratios.items():
        print(f"{kind}: {statistics.geometric_mean(values):.2f}, worst {min(values):.2f}")


if __name__ == "__main__":
    main()
