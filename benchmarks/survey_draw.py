"""Random problems of described families, from networks and uses that no suite has.

`draw` makes a problem of a seed alone: the same at every run, whatever was drawn before it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any

from onednn_py.problem.call_spec import SubProblem
from onednn_py.problem.geometry import axis_from_size, effective_kernel, windows
from onednn_py.tools.benchdnn import Descriptor
from onednn_py.tools.benchdnn.batch import read_batch
from onednn_py.tools.benchdnn.case import DATA_FORMATS, Case
from onednn_py.tools.benchdnn.suites import SUITES, suite_files

__all__ = ["DTYPES", "FAMILIES", "JOINT", "Drawn", "Shape", "draw", "drawn_from"]

DTYPES = ("f32", "bf16")

# Directions by benchdnn's names, and how often they are drawn; both gradients of one call are
# benchdnn's BWD_DW. A share of those that have a bias is drawn with it.
JOINT = "BWD_DW"
DIRECTIONS = {"FWD_D": 0.2, "BWD_D": 0.35, "BWD_W": 0.35, JOINT: 0.1}
WITH_BIAS = {"FWD_D": "FWD_B", "BWD_W": "BWD_WB", JOINT: "BWD_DWB"}
BIAS_SHARE = 0.15

# A problem whose time, in a rough estimate, lies outside of these seconds, or whose tensors take
# more bytes, is drawn again.
SHORTEST, LONGEST = 5e-6, 0.06
MOST_BYTES = 90 * 2**20

# Arithmetic and bytes a second for that estimate: kernels over few channels reach little.
RATE, THIN_RATE = 1e11, 1e10
THIN = 8
BANDWIDTH = 1e10


@dataclass(frozen=True)
class Shape:
    """Sizes of a drawn problem, of one entry a spatial axis.

    Attributes
    ----------
    inputs, outputs : int
        Channels of all groups together.
    size : tuple of int
        Of src.
    more : int
        What a transposed convolution's dst has besides the least size, ``output_padding``.
    """

    inputs: int
    outputs: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    dilation: int = 1
    pads: tuple[int, ...] | None = None
    groups: int = 1
    transposed: bool = False
    more: int = 0
    largest_minibatch: int = 32


@dataclass(frozen=True)
class Drawn:
    """A problem of the survey, or both gradients of a call.

    Attributes
    ----------
    seed : int
    family : str
        Key of `FAMILIES`, or a kind of another module that draws.
    direction : str
        benchdnn's name, ``"BWD_DW"`` or ``"BWD_DWB"`` for both gradients of one call.
    cases : tuple of Case
        Two for both gradients, otherwise one.
    """

    seed: int
    family: str
    direction: str
    cases: tuple[Case, ...]

    @property
    def sub_problems(self) -> tuple[SubProblem, ...]:
        """The problems as a plan takes them, with the call's names of the tensors."""
        if len(self.cases) == 1:
            return (SubProblem(self.cases[0].problem()),)
        data, weights = (case.problem() for case in self.cases)
        names = (("weights", "diff_weights"), ("dst", "diff_dst"), ("bias", "diff_bias"))
        return (
            SubProblem(data, (("src", "diff_src"), ("dst", "diff_dst"))),
            SubProblem(weights, names[: 3 if weights.bias else 2]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the description that a line of a file has; `from_json` reads it."""
        described = {**self.cases[0].to_json(), "direction": self.direction}
        return {"seed": self.seed, "family": self.family, **described}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Drawn:
        cases = _cases(
            values["direction"], lambda one: Case.from_json({**values, "direction": one})
        )
        return cls(values["seed"], values["family"], values["direction"], cases)

    def __str__(self) -> str:
        case = self.cases[0]
        words = (self.direction, case.dtype, case.data_format)
        return f"{case.descriptor.operation} {case.descriptor} {' '.join(words)}"


def draw(seed: int) -> Drawn:
    """Return the problem of a seed."""
    # Of a text, the generator takes all of it; of close numbers, the first draws are alike.
    rng = random.Random(f"survey {seed}")
    family = rng.choice(list(FAMILIES))
    (direction,) = rng.choices(list(DIRECTIONS), list(DIRECTIONS.values()))
    if rng.random() < BIAS_SHARE:
        direction = WITH_BIAS.get(direction, direction)
    dtype, data_format = rng.choice(DTYPES), rng.choice(DATA_FORMATS)
    return drawn_from(rng, FAMILIES[family], seed, family, direction, dtype, data_format)


def drawn_from(
    rng: random.Random,
    shape: Callable[[random.Random], Shape],
    seed: int,
    family: str,
    direction: str,
    dtype: str,
    data_format: str,
    shortest: float = SHORTEST,
) -> Drawn:
    """Return a problem of a seed, whose shape is drawn until it is affordable and no suite's."""
    while True:
        descriptor = _descriptor(shape(rng), rng)
        if descriptor is not None and _anonymous(descriptor) not in _suite_descriptors():
            cases = _cases(direction, lambda one: Case(descriptor, one, dtype, data_format))  # noqa: B023
            if _is_affordable(cases[0], shortest):
                return Drawn(seed, family, direction, cases)


def _cases(direction: str, case: Callable[[str], Case]) -> tuple[Case, ...]:
    if not direction.startswith(JOINT):
        return (case(direction),)
    return (case("BWD_D"), case("BWD_WB" if direction.endswith("B") else "BWD_W"))


def _descriptor(shape: Shape, rng: random.Random) -> Descriptor | None:
    """Return a shape with a minibatch, None if the kernel does not fit its image."""
    extents = [effective_kernel(kernel, shape.dilation) for kernel in shape.kernel]
    pads = shape.pads or tuple((extent - 1) // 2 for extent in extents)
    axes = zip(shape.size, extents, pads, strict=True)
    if shape.transposed:
        dst = tuple(axis_from_size(n, k, shape.stride, 2 * p, shape.more) for n, k, p in axes)
    else:
        dst = tuple(windows(n, k, shape.stride, 2 * p) for n, k, p in axes)
    if min(dst) < 1 or any(k > 2 * n for n, k in zip(shape.size, extents, strict=True)):
        return None
    minibatch = rng.choice(
        [n for n in (1, 1, 2, 4, 6, 8, 16, 16, 32) if n <= shape.largest_minibatch]
    )
    rank = len(shape.size)
    return Descriptor(
        transposed=shape.transposed,
        groups=shape.groups,
        minibatch=minibatch,
        inputs=shape.inputs,
        outputs=shape.outputs,
        src=shape.size,
        dst=dst,
        kernel=shape.kernel,
        strides=(shape.stride,) * rank,
        dilations=(shape.dilation,) * rank,
        pads_begin=tuple(pads),
    )


@cache
def _suite_descriptors() -> frozenset[Descriptor]:
    """Return the problems of all suites, which a survey leaves out."""
    files = [file for name in SUITES for file in suite_files(name)]
    return frozenset(
        _anonymous(problem.descriptor)
        for operation, path in files
        for problem in read_batch(path, transposed=operation == "deconv").problems
    )


def _anonymous(descriptor: Descriptor) -> Descriptor:
    return replace(descriptor, minibatch=1, name="")


def _is_affordable(case: Case, shortest: float) -> bool:
    d = case.descriptor
    nbytes = case.numpy_dtype.itemsize * (
        d.minibatch * (d.inputs * prod(d.src) + d.outputs * prod(d.dst))
        + d.inputs * d.outputs // d.groups * prod(d.kernel)
    )
    thin = min(d.inputs, d.outputs) // d.groups < THIN
    seconds = d.flops / (THIN_RATE if thin else RATE) + nbytes / BANDWIDTH
    return nbytes <= MOST_BYTES and shortest <= seconds <= LONGEST


def _between(rng: random.Random, low: int, high: int, multiple: int = 1) -> int:
    """Return an integer whose logarithm is evenly distributed, a multiple if it is not smaller."""
    number = round(math.exp(rng.uniform(math.log(low), math.log(high))))
    return max(number // multiple * multiple, multiple) if number >= multiple else number


def _channels(rng: random.Random, low: int, high: int) -> int:
    return _between(rng, low, high, rng.choice((1, 4, 8, 8, 16, 16, 32, 32)))


def _square(rng: random.Random, low: int, high: int, rank: int = 2) -> tuple[int, ...]:
    """Return an image's size, mostly of equal sides and often of a customary one."""
    side = _between(rng, low, high, rng.choice((1, 7, 8)))
    if rng.random() < 0.75:
        return (side,) * rank
    return (side, *(_between(rng, max(side // 2, 1), 2 * side) for _ in range(rank - 1)))


def _depthwise(rng: random.Random) -> Shape:
    channels, side = _channels(rng, 16, 512), rng.choice((3, 4, 5, 5, 6, 7, 7))
    dilation = 2 if rng.random() < 0.1 else 1
    stride = rng.choice((1, 1, 1, 2))
    size = _square(rng, 7, 112)
    return Shape(channels, channels, size, (side, side), stride, dilation, groups=channels)


def _asymmetric(rng: random.Random) -> Shape:
    kernel = rng.choice(((1, 7), (7, 1), (1, 3), (3, 1), (1, 5), (5, 1)))
    return Shape(_channels(rng, 32, 384), _channels(rng, 32, 384), _square(rng, 8, 40), kernel)


def _thin(rng: random.Random) -> Shape:
    side = rng.choice((5, 7, 9, 11))
    inputs, outputs = rng.randint(1, 4), rng.randint(1, 4)
    if rng.random() < 0.3:
        outputs = rng.choice((8, 16, 32))
    if rng.random() < 0.3:
        inputs, outputs = outputs, inputs
    size = _square(rng, 48, 1024)
    return Shape(inputs, outputs, size, (side, side), largest_minibatch=8)


def _volume(rng: random.Random) -> Shape:
    kernel = rng.choice(((3, 3, 3), (3, 3, 3), (3, 3, 3), (1, 3, 3), (5, 5, 5), (1, 1, 1)))
    inputs = rng.choice((1, 2, 4, _channels(rng, 8, 128), _channels(rng, 8, 128)))
    outputs = _channels(rng, 8, 128)
    if rng.random() < 0.2:
        inputs, outputs = outputs, inputs
    size = _square(rng, 8, 96, rank=3)
    return Shape(inputs, outputs, size, kernel, rng.choice((1, 1, 1, 2)), largest_minibatch=8)


def _audio(rng: random.Random) -> Shape:
    kernel = (rng.choice((2, 3, 3, 5, 7, 9, 15, 25, 31)),)
    inputs, outputs = _channels(rng, 8, 256), _channels(rng, 8, 256)
    groups, stride, dilation = 1, 1, 1
    use = rng.random()
    if use < 0.15:
        inputs, stride = rng.choice((1, 2)), rng.choice((1, 2, 4))
    elif use < 0.35:
        outputs = groups = inputs
    elif use < 0.75:
        dilation = 2 ** rng.randint(1, 7)
    size = (_between(rng, 200, 65536, rng.choice((1, 16, 100))),)
    return Shape(inputs, outputs, size, kernel, stride, dilation, groups=groups)


def _grouped(rng: random.Random) -> Shape:
    width = rng.choice((4, 4, 8, 8, 16, 32))
    groups = rng.choice((2, 4, 8, 16, 32, 64))
    channels = width * groups
    outputs = channels if rng.random() < 0.8 else 2 * channels
    side = rng.choice((3, 3, 3, 3, 1, 5))
    size = _square(rng, 7, 64)
    return Shape(channels, outputs, size, (side, side), rng.choice((1, 1, 2)), groups=groups)


def _upsampling(rng: random.Random) -> Shape:
    side, pad, more = rng.choice(((2, 0, 0), (3, 1, 1), (4, 1, 0), (1, 0, 1)))
    rank = rng.choice((1, 2, 2, 2, 2, 3))
    inputs, outputs = _channels(rng, 16, 512), _channels(rng, 8, 256)
    if rng.random() < 0.1:
        outputs = rng.randint(1, 4)
    size = _square(rng, 4, {1: 8192, 2: 80, 3: 32}[rank], rank)
    kernel, pads = (side,) * rank, (pad,) * rank
    return Shape(inputs, outputs, size, kernel, 2, pads=pads, transposed=True, more=more)


def _pointwise(rng: random.Random) -> Shape:
    size = _square(rng, 5, 96)
    inputs, outputs = _channels(rng, 8, 1024), _channels(rng, 8, 1024)
    return Shape(inputs, outputs, size, (1, 1), rng.choice((1, 1, 1, 1, 1, 2)))


def _three(rng: random.Random) -> Shape:
    stride = rng.choice((1, 1, 1, 2))
    dilation = rng.choice((2, 4)) if stride == 1 and rng.random() < 0.15 else 1
    inputs, outputs = _channels(rng, 8, 512), _channels(rng, 8, 512)
    return Shape(inputs, outputs, _square(rng, 5, 128), (3, 3), stride, dilation)


def _stem(rng: random.Random) -> Shape:
    side, stride, pad = rng.choice(
        ((7, 2, 3), (7, 2, 3), (7, 2, 3), (5, 2, 2), (3, 2, 1), (4, 4, 0))
    )
    inputs = rng.choice((1, 3, 3, 3, 4, 6))
    size = _square(rng, 64, 384)
    return Shape(inputs, _channels(rng, 16, 96), size, (side, side), stride, pads=(pad, pad))


def _small(rng: random.Random) -> Shape:
    side = rng.choice((1, 3, 3, 5))
    rank = rng.choice((1, 2, 2, 2))
    inputs, outputs = _between(rng, 1, 48), _between(rng, 1, 48)
    size, kernel = _square(rng, 4, 20, rank), (side,) * rank
    stride, transposed = rng.choice((1, 1, 1, 2)), rng.random() < 0.15
    shape = Shape(inputs, outputs, size, kernel, stride, transposed=transposed, largest_minibatch=8)
    return shape


# By the names of families, the functions that draw their layers.
FAMILIES: dict[str, Callable[[random.Random], Shape]] = {
    "depthwise": _depthwise,
    "asymmetric": _asymmetric,
    "thin": _thin,
    "volume": _volume,
    "audio": _audio,
    "groups": _grouped,
    "upsampling": _upsampling,
    "1x1": _pointwise,
    "3x3": _three,
    "stem": _stem,
    "small": _small,
}
