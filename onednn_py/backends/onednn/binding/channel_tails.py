"""Reorders between channels first and blocks of channels of which the last is not full.

Where all blocks are full, oneDNN transposes float32 by a kernel of its own (``jit:blk``). A last
block that is not full, the channel tail, leaves everything to its general kernel (``jit:uni``),
which may take five times as long; in v3.2 and still in v3.13.1. In parts, ``jit:blk`` reorders the
full blocks, one image at a time, and ``jit:uni`` the tail. Only ``jit:uni`` reorders bfloat16: it
is faster where a reorder has no tail. It may lose subnormal numbers in bfloat16, with a tail or
without.

The general kernel is called 16 times by each thread at least, in small reorders once for 1024
elements. Where blocks are fewer than calls, the kernel splits the pixels of a block, by their
smallest divisor that leaves enough elements for a call. Into blocks of 16, a call has four pixels
then, or all pixels of a prime number; out of a tail, it may have two.
"""

from __future__ import annotations

from math import ceil, isqrt, prod
from typing import Any, NamedTuple

import numpy as np

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.formats import dense_strides

from .engine import Engine, Handle
from .layouts import blocks_of, dtype_of, shape_of, strides_of
from .reorders import ReorderPart, parts_of_run

__all__ = ["parts_around_tail"]

CALLS_OF_THREAD = 16
ELEMENTS_OF_CALL = 1024
# Fewest elements of a call of the general kernel, into blocks and out of a tail.
LEAST_OF_CALL = 64
# Into blocks, calls of more elements are hardly slower than transpositions.
MOST_OF_SLOW_CALL = 160
# Fewest elements of a part, so that it gains back what its own reorder costs: some 2.5 us on two
# threads. Out of blocks, the number is divided by the channels of a block.
LEAST_READ = {"f32": 2_500, "bf16": 10_000}
LEAST_WRITTEN = {"f32": 80_000, "bf16": 640_000}
MEASURED_THREADS = 2
BLOCKS = (8, 16)

_ZERO = np.zeros(1, np.float32)


class _Tail(NamedTuple):
    """A tensor with a channel tail.

    Attributes
    ----------
    images, channels, pixels : int
    block : int
        Channels of a block.
    dtype : str
    plain_images, blocked_images : int
        Steps from image to image in elements, with channels first and in blocks.
    """

    images: int
    channels: int
    pixels: int
    block: int
    dtype: str
    plain_images: int
    blocked_images: int

    @property
    def in_full_blocks(self) -> int:
        """Channels that fill their blocks."""
        return self.channels // self.block * self.block

    @property
    def in_tail(self) -> int:
        """Channels in the last block."""
        return self.channels % self.block

    @property
    def is_by_image(self) -> bool:
        """Whether the full blocks of each image have a reorder of their own."""
        return self.dtype == "f32" and self.in_full_blocks > 0

    @property
    def elements(self) -> int:
        return self.images * self.channels * self.pixels

    def elements_of_part(self, threads: int) -> float:
        """Return the elements of a part, divided by the number of parts and one for the tail.

        More threads than were measured take longer to begin, and need as many times the elements.
        """
        parts = self.images if self.is_by_image else 1
        scale = max(1.0, threads / MEASURED_THREADS)
        return self.elements / parts / (parts + 1) / scale

    def is_split(self, threads: int) -> bool:
        """Whether the general kernel splits blocks of the whole."""
        blocks = self.images * (self.in_full_blocks // self.block + 1)
        return blocks < _calls(self.elements, threads)

    def is_read_faster(self, threads: int) -> bool:
        """Whether a reorder into blocks is faster in parts."""
        return (
            self.is_split(threads)
            and self.elements_of_part(threads) >= LEAST_READ[self.dtype]
            and _has_divisor(
                self.pixels, LEAST_OF_CALL // self.block, MOST_OF_SLOW_CALL // self.block
            )
        )

    def is_written_faster(self, threads: int) -> bool:
        """Whether a reorder out of blocks is faster in parts."""
        if self.in_full_blocks:
            if self.elements_of_part(threads) * self.block < LEAST_WRITTEN[self.dtype]:
                return False
            if not (self.is_by_image or self.is_split(threads)):
                return False
        lines = self.images * self.in_tail
        calls = _calls(lines * self.pixels, threads)
        most = self.pixels // LEAST_OF_CALL
        return lines >= calls or _has_divisor(self.pixels, ceil(calls / lines), most)


def parts_around_tail(
    engine: Engine, source: Handle, target: Handle, threads: int
) -> tuple[ReorderPart, ...]:
    """Return a reorder's parts: full blocks, tail and zeros; nothing where it is faster as a whole.

    Parameters
    ----------
    engine : Engine
    source, target : Handle
        Memory descriptors of the reorder, one of them in blocks.
    threads : int
        The number on which it runs, 0 if it is not known: a reorder into blocks has no parts then.
    """
    # Whole blocks of 16 are whole blocks of 8: there is no tail, and nothing more to be asked.
    shape = shape_of(engine.library, target)
    if len(shape) < 2 or shape[1] % max(BLOCKS) == 0:
        return ()
    is_read = bool(blocks_of(engine.library, target))
    plain, blocked = (source, target) if is_read else (target, source)
    tail = _tail(engine, plain, blocked)
    if tail is None:
        return ()
    if not (tail.is_read_faster(threads) if is_read else tail.is_written_faster(threads)):
        return ()
    if _implementation(engine, source, target) != "jit:uni":
        return ()
    return _Parts(engine, tail, blocked, is_read=is_read).all()


class _Parts:
    """Makes the parts of a reorder into blocks, or from blocks."""

    def __init__(self, engine: Engine, tail: _Tail, blocked: Handle, *, is_read: bool) -> None:
        self._engine = engine
        self._tail = tail
        self._blocked = blocked
        self._is_read = is_read

    def all(self) -> tuple[ReorderPart, ...]:
        tail = self._tail
        parts: list[ReorderPart] = []
        if tail.in_full_blocks:
            parts += self._full_blocks()
            if not parts:
                return ()
        parts += self._rest()
        if self._is_read:
            parts.append(self._zeros())
        return tuple(parts)

    def _full_blocks(self) -> list[ReorderPart]:
        """Return the parts of full blocks, nothing where oneDNN has no faster kernel for them."""
        tail = self._tail
        if not tail.is_by_image:
            blocks = tail.in_full_blocks // tail.block
            ends = self._ends((tail.images, blocks, tail.block, tail.pixels))
            return [self._part("full blocks", ends, 0)]
        engine = self._engine
        shape = (1, tail.in_full_blocks, *shape_of(engine.library, self._blocked)[2:])
        plain = engine.strided_desc(shape, tail.dtype, dense_strides(shape))
        ends = self._in_order(plain, engine.first_part_desc(self._blocked, shape))
        if _implementation(engine, *ends) != "jit:blk":
            return []
        whole = self._part("full blocks", ends, 0)
        return [self._moved(whole, image) for image in range(tail.images)]

    def _rest(self) -> list[ReorderPart]:
        """Return the parts of the channels in the last block."""
        tail = self._tail
        ends = self._ends((tail.images, tail.in_tail, tail.pixels))
        whole = self._part("tail", ends, tail.in_full_blocks * tail.pixels)
        return [
            part._replace(
                name=f"tail {part.name}",
                source_offset=whole.source_offset + part.source_offset,
                target_offset=whole.target_offset + part.target_offset,
            )
            for part in parts_of_run(self._engine, *ends)
        ] or [whole]

    def _zeros(self) -> ReorderPart:
        """Return what sets unused lanes of the last block to zero.

        Primitives multiply these lanes, and a NaN there would reach the results.
        """
        tail = self._tail
        shape = (tail.images, tail.block - tail.in_tail, tail.pixels)
        source = self._engine.strided_desc(shape, tail.dtype, (0, 0, 0))
        begin = tail.in_full_blocks * tail.pixels + tail.in_tail
        part = self._part("zeros", (source, self._in_blocks(shape)), begin)
        return part._replace(source_offset=0, constant=_ZERO)

    def _ends(self, shape: tuple[int, ...]) -> tuple[Handle, Handle]:
        """Return the memory descriptors of so many images, channels and pixels.

        Where there are blocks of channels, they are an axis behind the images: it has no tail.
        """
        tail = self._tail
        plain = self._desc(shape, tail.plain_images, tail.pixels, 1)
        return self._in_order(plain, self._in_blocks(shape))

    def _in_blocks(self, shape: tuple[int, ...]) -> Handle:
        """Return the memory descriptor of so many images, channels and pixels of blocks."""
        return self._desc(shape, self._tail.blocked_images, 1, self._tail.block)

    def _desc(self, shape: tuple[int, ...], images: int, channels: int, pixels: int) -> Handle:
        """Return a memory descriptor by its steps; blocks have the same on both sides."""
        tail = self._tail
        blocks = (tail.block * tail.pixels,) if len(shape) > 3 else ()
        return self._engine.strided_desc(shape, tail.dtype, (images, *blocks, channels, pixels))

    def _in_order(self, plain: Any, blocked: Any) -> tuple[Any, Any]:
        """Return the pair in the order source, target."""
        return (plain, blocked) if self._is_read else (blocked, plain)

    def _part(self, name: str, ends: tuple[Handle, Handle], begin: int) -> ReorderPart:
        """Return a part whose elements begin so far behind the first, on both sides."""
        offset = begin * DTYPES[self._tail.dtype].itemsize
        return ReorderPart(name, *ends, offset, offset)

    def _moved(self, part: ReorderPart, image: int) -> ReorderPart:
        """Return the part of another image."""
        tail, size = self._tail, DTYPES[self._tail.dtype].itemsize
        steps = self._in_order(tail.plain_images, tail.blocked_images)
        read, written = (image * step * size for step in steps)
        return part._replace(source_offset=read, target_offset=written)


def _tail(engine: Engine, plain: Handle, blocked: Handle) -> _Tail | None:
    """Return the channel tail of a reorder's tensor, None if it has none."""
    library = engine.library
    blocks = blocks_of(library, blocked)
    if blocks is None or len(blocks) != 1 or blocks_of(library, plain) != ():
        return None
    ((block, axis),) = blocks
    if axis != 1 or block not in BLOCKS:
        return None
    shape = shape_of(library, blocked)
    images, channels, *spatial = shape
    pixels = prod(spatial)
    dtype = dtype_of(library, blocked)
    if not channels % block or dtype not in LEAST_READ or dtype_of(library, plain) != dtype:
        return None
    padded = images * ceil(channels / block) * block * pixels
    if not padded or engine.nbytes(blocked) != padded * DTYPES[dtype].itemsize:
        return None
    (from_image, *inside), (from_block_image, *in_blocks) = (
        strides_of(library, desc) or (0,) for desc in (plain, blocked)
    )
    dense = dense_strides(shape)
    if tuple(inside) != dense[1:] or tuple(in_blocks) != tuple(one * block for one in dense[1:]):
        return None
    if images == 1:  # The step to a second image may be any number.
        from_image = dense[0]
    if from_image < dense[0]:
        return None
    return _Tail(images, channels, pixels, block, dtype, from_image, from_block_image)


def _calls(elements: int, threads: int) -> int:
    """Return how many calls of the general kernel there are at least."""
    if threads <= 1:
        return 1
    return min(CALLS_OF_THREAD * threads, ceil(elements / ELEMENTS_OF_CALL))


def _has_divisor(number: int, least: int, most: int) -> bool:
    """Whether a number is divisible by a number in a range, which includes its ends."""
    divisors = (one for one in range(1, isqrt(number) + 1) if not number % one)
    return any(least <= one <= most for divisor in divisors for one in (divisor, number // divisor))


def _implementation(engine: Engine, source: Handle, target: Handle) -> str:
    return engine.implementation(engine.reorder_desc(source, target))
