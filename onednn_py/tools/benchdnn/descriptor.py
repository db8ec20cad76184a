"""benchdnn's problem descriptors: ``g32mb16ic128ih56oc128oh56kh3ph1n"name"``.

The rules are benchdnn's own (oneDNN, tests/benchdnn: ``str2desc`` of conv/conv_aux.cpp and
deconv/deconv_aux.cpp, ``sanitize_desc`` of common.cpp, doc/knobs_desc.md). Problems that oneDNN
itself would refuse, such as channels that the groups do not divide, are refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from onednn_py import AttributeValueError
from onednn_py.problem.geometry import axis_from_size, effective_kernel, exact_pad_end

__all__ = ["Descriptor", "parse_descriptor"]

AXES = "dhw"
DEFAULT_MINIBATCH = 2
INT64_MAX = 2**63 - 1

# For larger kernels, counting the operations on padding takes too long, and flops includes them.
COUNTED_KERNEL = 100_000

_ENTRY = re.compile(r"(g|mb|[io]c|[iokspd][dhw])(-?[0-9]*)")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Sizes and attributes of a convolution, without direction, data type and format.

    ``str(descriptor)`` is text from which `parse_descriptor` returns an equal Descriptor.

    Attributes
    ----------
    transposed : bool
        True for a transposed convolution, benchdnn's deconv.
    inputs, outputs : int
        Channels of src and dst, all groups together.
    src, dst, kernel, strides, dilations, pads_begin : tuple of int
        One entry per spatial axis. A dense kernel has dilation 1, which benchdnn writes 0.
    """

    transposed: bool
    groups: int
    minibatch: int
    inputs: int
    outputs: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    name: str = ""

    @property
    def operation(self) -> str:
        """benchdnn's name of the operation: ``"conv"`` or ``"deconv"``."""
        return "deconv" if self.transposed else "conv"

    @property
    def size(self) -> tuple[int, ...]:
        """Spatial sizes that the kernel moves over: src, or dst of a transposed convolution."""
        return self.dst if self.transposed else self.src

    @property
    def windows(self) -> tuple[int, ...]:
        """Spatial numbers of kernel windows: dst, or src of a transposed convolution."""
        return self.src if self.transposed else self.dst

    @property
    def pads_end(self) -> tuple[int, ...]:
        """End pads that the sizes imply; negative where no window reaches the last elements."""
        return tuple(
            exact_pad_end(size, windows, effective_kernel(kernel, dilation), stride, pad)
            for size, windows, kernel, stride, dilation, pad in self._axes()
        )

    @property
    def flops(self) -> int:
        """Floating-point operations of one direction, without those on padding.

        As in benchdnn, a multiplication and an addition for each product of two elements.
        """
        products = self.minibatch * self.inputs * self.outputs // self.groups
        return 2 * products * prod(_unpadded_positions(*axis) for axis in self._axes())

    def _axes(self) -> Iterator[tuple[int, ...]]:
        """Yield size, windows, kernel, stride, dilation and begin pad of each spatial axis."""
        attributes = (self.kernel, self.strides, self.dilations, self.pads_begin)
        return zip(self.size, self.windows, *attributes, strict=True)

    @property
    def shapes(self) -> str:
        """The shapes in short, for people: ``3→64 224x224 7x7/2``; defaults are left out."""
        entries = [f"{self.inputs}→{self.outputs}", _by_axis(self.src)]
        entries.append(_by_axis(self.kernel))
        if set(self.strides) != {1}:
            entries[-1] += f"/{_in_short(self.strides)}"
        if set(self.dilations) != {1}:
            entries.append(f"dilation {_in_short(self.dilations)}")
        if self.groups > 1:
            is_depthwise = self.groups == self.inputs == self.outputs
            entries.append("depthwise" if is_depthwise else f"{self.groups} groups")
        if self.transposed:
            entries.append("transposed")
        return " ".join(entries)

    def with_minibatch(self, minibatch: int) -> Descriptor:
        return replace(self, minibatch=minibatch)

    def __str__(self) -> str:
        entries = {
            "i": self.src,
            "o": self.dst,
            "k": self.kernel,
            "s": self.strides,
            "p": self.pads_begin,
            "d": tuple(dilation - 1 for dilation in self.dilations),
        }
        letters = AXES[-len(self.src) :]
        if all(len(set(values)) == 1 for values in entries.values()):
            # benchdnn takes the first axis's value for the axes that follow it.
            letters = letters[0]
        defaults = {"s": 1, "d": 0}

        def text(entry: str) -> str:
            values = entries[entry]
            if set(values) == {defaults.get(entry)}:
                return ""
            return "".join(f"{entry}{axis}{v}" for axis, v in zip(letters, values, strict=False))

        groups = f"g{self.groups}" if self.groups > 1 else ""
        name = f'n"{self.name}"' if self.name else ""
        return (
            f"{groups}mb{self.minibatch}ic{self.inputs}{text('i')}oc{self.outputs}{text('o')}"
            f"{''.join(map(text, 'kspd'))}{name}"
        )


def _by_axis(values: tuple[int, ...]) -> str:
    return "x".join(map(str, values))


def _in_short(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(set(values)) == 1 else _by_axis(values)


def parse_descriptor(text: str, *, transposed: bool = False) -> Descriptor:
    """Return the problem that a benchdnn descriptor states.

    Parameters
    ----------
    text : str
        Entries ``g mb ic id ih iw oc od oh ow kd kh kw sd sh sw pd ph pw dd dh dw``, each
        followed by an integer, in any order, optionally separated by ``_``; at the end
        ``n`` and a name, optionally in double quotes.
    transposed : bool
        Whether the text is a deconv descriptor.

    Returns
    -------
    Descriptor
        Entries that the text omits have benchdnn's defaults: minibatch 2, one group, strides
        1, no dilation; an output size from the pads (0 if they are omitted too), or pads from
        the output size; the axes h and w from the first axis given.

    Raises
    ------
    AttributeValueError
        Naming the descriptor and the entry that is wrong.

    Examples
    --------
    >>> from onednn_py.tools.benchdnn import parse_descriptor
    >>> descriptor = parse_descriptor("ic16ih14_oc32kh3ph1")
    >>> descriptor.dst, descriptor.minibatch
    ((14, 14), 2)
    >>> str(descriptor)
    'mb2ic16ih14oc32oh14kh3ph1'
    """
    try:
        return _parsed(text, transposed)
    except AttributeValueError as error:
        operation = "deconv" if transposed else "conv"
        raise AttributeValueError(f"{operation} descriptor {text!r}: {error}") from None


def _parsed(text: str, transposed: bool) -> Descriptor:
    entries, name = _entries(text)
    for entry in ("ic", "oc"):
        if not entries.get(entry):
            raise AttributeValueError(f"{entry} is missing or 0")
    groups = entries.get("g", 1)
    if not groups:
        raise AttributeValueError("g0: expected at least one group")
    for entry in ("ic", "oc"):
        if entries[entry] % groups:
            raise AttributeValueError(f"{entry}{entries[entry]}: g{groups} does not divide it")
    src, dst, kernel, strides, dilations, pads_begin = zip(*_axes(entries, transposed), strict=True)
    return Descriptor(
        transposed=transposed,
        groups=groups,
        minibatch=entries.get("mb", DEFAULT_MINIBATCH),
        inputs=entries["ic"],
        outputs=entries["oc"],
        src=src,
        dst=dst,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        pads_begin=pads_begin,
        name=name,
    )


def _entries(text: str) -> tuple[dict[str, int], str]:
    """Return the integers by entry, the last of a repeated entry, and the name."""
    entries: dict[str, int] = {}
    position = 0
    while position < len(text):
        if text[position] == "_":
            position += 1
            continue
        if text[position] == "n":
            return entries, _checked_name(text[position + 1 :])
        match = _ENTRY.match(text, position)
        if match is None:
            raise AttributeValueError(f"{text[position:]!r}: no entry begins like that")
        entry, digits = match.groups()
        if digits in ("", "-"):
            raise AttributeValueError(f"{text[position:]!r}: no integer after {entry}")
        # The length is checked first, because int() refuses very long texts.
        if digits[0] == "-" or len(digits) > len(str(INT64_MAX)) or int(digits) > INT64_MAX:
            raise AttributeValueError(f"{entry}{digits}: expected an integer from 0 to {INT64_MAX}")
        entries[entry] = int(digits)
        position = match.end()
    return entries, ""


def _checked_name(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if not text.isprintable() or " " in text:
        raise AttributeValueError(f"n{text!r}: a name has no white space")
    return text


def _axes(entries: Mapping[str, int], transposed: bool) -> list[tuple[int, ...]]:
    """Return the values of `_axis` for each spatial axis."""
    for letter in AXES:
        if entries.get(f"s{letter}") == 0:
            raise AttributeValueError(f"s{letter}0: expected a stride of at least 1")
    given = {letter: axis for letter in AXES if (axis := _axis(letter, entries, transposed))}
    letters = "".join(given)
    if letters in ("w", "hw", "dhw"):
        return list(given.values())
    if letters in ("h", "d"):
        return [given[letters]] * (len(AXES) - AXES.index(letters))
    if not letters:
        raise AttributeValueError("no spatial axis: expected iw and kw, ih and kh, or id and kd")
    missing = "w" if "h" in letters else "h"
    raise AttributeValueError(
        f"i{missing} and k{missing} are missing: expected both of h and w, or none"
    )


def _axis(axis: str, entries: Mapping[str, int], transposed: bool) -> tuple[int, ...] | None:
    """Return src, dst, kernel, stride, dilation and begin pad of an axis, None if not given.

    Omitted sizes and pads are filled in.
    """
    src, dst, kernel = (entries.get(f"{entry}{axis}", 0) for entry in "iok")
    stride, pad = entries.get(f"s{axis}", 1), entries.get(f"p{axis}")
    dilation = entries.get(f"d{axis}", 0) + 1
    if not (src or dst or kernel or dilation > 1 or stride > 1 or pad):
        return None
    for entry, value in (("i", src), ("k", kernel)):
        if not value:
            raise AttributeValueError(f"{entry}{axis} is missing or 0")
    extent = effective_kernel(kernel, dilation)
    if not dst:
        pad = pad or 0
        if transposed:
            dst = axis_from_size(src, extent, stride, 2 * pad, 0)
        else:
            dst = _divided(src - extent + 2 * pad, stride) + 1
        if dst <= 0:
            raise AttributeValueError(
                f"o{axis} would be {dst}: k{axis}{kernel} is larger than its input"
            )
    size, windows = (dst, src) if transposed else (src, dst)
    if pad is None:
        pad = _divided(exact_pad_end(size, windows, extent, stride, 0), 2)
    end = exact_pad_end(size, windows, extent, stride, pad)
    if pad < 0 or end <= -stride:
        raise AttributeValueError(
            f"o{axis}{dst}: expected another size; the pads would be {pad} and {end},"
            f" where oneDNN takes p{axis} >= 0 and an end pad above -s{axis} = {-stride}"
        )
    return src, dst, kernel, stride, dilation, pad


def _divided(numerator: int, denominator: int) -> int:
    """Divide as C does: round towards zero."""
    quotient = abs(numerator) // denominator
    return quotient if numerator >= 0 else -quotient


def _unpadded_positions(
    size: int, windows: int, kernel: int, stride: int, dilation: int, pad: int
) -> int:
    """Return how many pairs of window and kernel position on one axis are not on padding."""
    if kernel > COUNTED_KERNEL:
        return windows * kernel
    total = 0
    for position in range(kernel):
        offset = position * dilation - pad
        first = max(0, -(offset // stride))
        last = min(windows - 1, (size - 1 - offset) // stride)
        total += max(0, last - first + 1)
    return total
