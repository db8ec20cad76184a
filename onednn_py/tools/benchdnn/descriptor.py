"""benchdnn's problem descriptors: ``g32mb16ic128ih56oc128oh56kh3ph1n"name"``.

The rules are benchdnn's own (oneDNN, tests/benchdnn: ``str2desc`` of conv/conv_aux.cpp and
deconv/deconv_aux.cpp, ``sanitize_desc`` of common.cpp, doc/knobs_desc.md). What oneDNN itself
would refuse later, such as channels that the groups do not divide, is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from onednn_py.errors import AttributeValueError
from onednn_py.problem.geometry import axis_from_size, effective_kernel, exact_pad_end

__all__ = ["Descriptor", "parse_descriptor"]

AXES = "dhw"
DEFAULT_MINIBATCH = 2
LARGEST = 2**63 - 1

# Kernel positions beyond which arithmetic is estimated rather than counted.
COUNTED_KERNEL = 100_000

_ENTRY = re.compile(r"(g|mb|[io]c|[iokspd][dhw])(-?[0-9]*)")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One convolution or transposed convolution, without direction, type and format.

    ``str`` gives the one line from which `parse_descriptor` makes an equal Descriptor.

    Attributes
    ----------
    transposed : bool
        Whether it is benchdnn's deconv; ``src`` is then the smaller side.
    groups, minibatch : int
    inputs, outputs : int
        Channels of src and dst, of all groups together.
    src, dst, kernel, strides, dilations, pads_begin : tuple of int
        One to three spatial axes. A dilation of 1 is a dense kernel, which benchdnn writes 0.
    name : str
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
        """Spatial sizes of the side that strides step over: dst of a transposed convolution."""
        return self.dst if self.transposed else self.src

    @property
    def windows(self) -> tuple[int, ...]:
        """Spatial sizes of the other side, where every element stands for one window."""
        return self.src if self.transposed else self.dst

    @property
    def pads_end(self) -> tuple[int, ...]:
        """End pads that the sizes imply; negative for a tail that no window touches."""
        return tuple(
            exact_pad_end(size, count, effective_kernel(kernel, dilation), stride, pad)
            for size, count, kernel, stride, dilation, pad in zip(
                self.size,
                self.windows,
                self.kernel,
                self.strides,
                self.dilations,
                self.pads_begin,
                strict=True,
            )
        )

    @property
    def flops(self) -> int:
        """Floating-point operations of one direction, without those on padding.

        benchdnn's count: two for every product that meets an element of src and of dst.
        """
        axes = zip(
            self.size,
            self.windows,
            self.kernel,
            self.strides,
            self.dilations,
            self.pads_begin,
            strict=True,
        )
        products = self.minibatch * self.inputs * self.outputs // self.groups
        return 2 * products * prod(_meetings(*axis) for axis in axes)

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
            # benchdnn propagates the values of the first axis to the ones behind it.
            letters = letters[0]
        defaults = {"s": 1, "d": 0}

        def axes(entry: str) -> str:
            values = entries[entry]
            if entry in defaults and all(value == defaults[entry] for value in values):
                return ""
            return "".join(f"{entry}{axis}{v}" for axis, v in zip(letters, values, strict=False))

        groups = f"g{self.groups}" if self.groups > 1 else ""
        spatial = "".join(map(axes, "kspd"))
        name = f'n"{self.name}"' if self.name else ""
        return (
            f"{groups}mb{self.minibatch}ic{self.inputs}{axes('i')}oc{self.outputs}{axes('o')}"
            f"{spatial}{name}"
        )


def parse_descriptor(text: str, *, transposed: bool = False) -> Descriptor:
    """Return the problem that a benchdnn descriptor names.

    Parameters
    ----------
    text : str
        Entries ``g mb ic id ih iw oc od oh ow kd kh kw sd sh sw pd ph pw dd dh dw``, each
        followed by an integer, in any order, with ``_`` between them or not; at the end
        ``n`` and a name, in double quotes or not.
    transposed : bool
        Whether it is a deconv descriptor.

    Returns
    -------
    Descriptor
        With what the text leaves out: minibatch 2, one group, strides 1, no dilation;
        an output size from the pads (0 if they are left out too), or pads from the output
        size; the axes h and w from the first axis given.

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
    return _Reader(text, transposed).descriptor()


class _Axis(NamedTuple):
    src: int
    dst: int
    kernel: int
    stride: int
    pad: int
    dilation: int


class _Reader:
    def __init__(self, text: str, transposed: bool) -> None:
        self._text = text
        self._transposed = transposed

    def descriptor(self) -> Descriptor:
        entries, name = self._entries()
        for entry in ("ic", "oc"):
            if not entries.get(entry):
                raise self._fail(f"{entry} is missing or 0")
        groups = entries.get("g", 1)
        if not groups:
            raise self._fail("g0: expected at least one group")
        for entry in ("ic", "oc"):
            if entries[entry] % groups:
                raise self._fail(f"{entry}{entries[entry]}: g{groups} does not divide it")
        letters, axes = self._axes(entries)
        dilations = tuple(axis.dilation for axis in axes)
        descriptor = Descriptor(
            transposed=self._transposed,
            groups=groups,
            minibatch=entries.get("mb", DEFAULT_MINIBATCH),
            inputs=entries["ic"],
            outputs=entries["oc"],
            src=tuple(axis.src for axis in axes),
            dst=tuple(axis.dst for axis in axes),
            kernel=tuple(axis.kernel for axis in axes),
            strides=tuple(axis.stride for axis in axes),
            dilations=tuple(dilation + 1 for dilation in dilations),
            pads_begin=tuple(axis.pad for axis in axes),
            name=name,
        )
        self._check_pads(descriptor, letters)
        return descriptor

    def _fail(self, message: str) -> AttributeValueError:
        operation = "deconv" if self._transposed else "conv"
        return AttributeValueError(f"{operation} descriptor {self._text!r}: {message}")

    def _entries(self) -> tuple[dict[str, int], str]:
        """Return the values by entry, where the last one counts, and the name."""
        entries: dict[str, int] = {}
        text, position = self._text, 0
        while position < len(text):
            if text[position] == "_":
                position += 1
                continue
            if text[position] == "n":
                return entries, self._name(text[position + 1 :])
            match = _ENTRY.match(text, position)
            if match is None:
                raise self._fail(f"{text[position:]!r}: no entry begins like that")
            entry, digits = match.groups()
            if digits in ("", "-"):
                raise self._fail(f"{text[position:]!r}: no integer after {entry}")
            if digits[0] == "-" or len(digits) > len(str(LARGEST)) or int(digits) > LARGEST:
                raise self._fail(f"{entry}{digits}: expected an integer from 0 to {LARGEST}")
            entries[entry] = int(digits)
            position = match.end()
        return entries, ""

    def _name(self, text: str) -> str:
        if len(text) > 1 and text[0] == text[-1] == '"':
            text = text[1:-1]
        if not text.isprintable() or " " in text:
            raise self._fail(f"n{text!r}: a name has no white space")
        return text

    def _axes(self, entries: Mapping[str, int]) -> tuple[str, list[_Axis]]:
        """Return the letters of the axes as the text gives them, and all axes."""
        for axis in AXES:
            if entries.get(f"s{axis}") == 0:
                raise self._fail(f"s{axis}0: expected a stride of at least 1")
        given = {axis: found for axis in AXES if (found := self._axis(axis, entries))}
        letters = "".join(given)
        if letters in ("w", "hw", "dhw"):
            return letters, list(given.values())
        if letters in ("h", "d"):
            first = AXES.index(letters)
            return letters, list(given.values()) * (len(AXES) - first)
        if not letters:
            raise self._fail("no spatial axis: expected iw and kw, ih and kh, or id and kd")
        missing = "w" if "h" in letters else "h"
        raise self._fail(
            f"i{missing} and k{missing} are missing: expected both of h and w, or none"
        )

    def _axis(self, axis: str, entries: Mapping[str, int]) -> _Axis | None:
        src, dst, kernel, dilation = (entries.get(f"{entry}{axis}", 0) for entry in "iokd")
        stride, pad = entries.get(f"s{axis}", 1), entries.get(f"p{axis}")
        if not (src or dst or kernel or dilation or stride > 1 or pad):
            return None
        for entry, value in (("i", src), ("k", kernel)):
            if not value:
                raise self._fail(f"{entry}{axis} is missing or 0")
        extent = effective_kernel(kernel, dilation + 1)
        if not dst:
            pad = pad or 0
            if self._transposed:
                dst = axis_from_size(src, extent, stride, 2 * pad, 0)
            else:
                dst = _truncated(src - extent + 2 * pad, stride) + 1
            if dst <= 0:
                raise self._fail(
                    f"o{axis} would be {dst}: k{axis}{kernel} is larger than its input"
                )
        if pad is None:
            size, count = (dst, src) if self._transposed else (src, dst)
            pad = _truncated(stride * (count - 1) - size + extent, 2)
        return _Axis(src, dst, kernel, stride, pad, dilation)

    def _check_pads(self, descriptor: Descriptor, letters: str) -> None:
        """Refuse sizes that no pads of oneDNN connect."""
        for axis, begin, end, stride, dst in zip(
            letters,
            descriptor.pads_begin,
            descriptor.pads_end,
            descriptor.strides,
            descriptor.dst,
            strict=False,
        ):
            if begin < 0 or end <= -stride:
                raise self._fail(
                    f"o{axis}{dst}: expected another size; the pads would be {begin} and {end},"
                    f" where oneDNN takes p{axis} >= 0 and an end pad above -s{axis} = {-stride}"
                )


def _truncated(numerator: int, denominator: int) -> int:
    """Divide as C does, towards zero."""
    quotient = abs(numerator) // denominator
    return quotient if numerator >= 0 else -quotient


def _meetings(size: int, count: int, kernel: int, stride: int, dilation: int, pad: int) -> int:
    """Pairs of a window and a kernel position that meet an element, on one axis."""
    if kernel > COUNTED_KERNEL:
        return count * kernel
    total = 0
    for position in range(kernel):
        offset = position * dilation - pad
        first = max(0, -(offset // stride))
        last = min(count - 1, (size - 1 - offset) // stride)
        total += max(0, last - first + 1)
    return total
