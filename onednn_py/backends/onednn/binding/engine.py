"""oneDNN's objects: every create with its destroy, every status checked.

A handle is wrapped by cffi's ``gc`` on the line after its status check, with a destructor
that holds the library, so that no handle outlives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from onednn_py.errors import OneDNNError, OneDNNMemoryError
from onednn_py.system.forks import forks_wait

from .declarations import (
    OBJECTS,
    c_type,
    ffi,
    from_buffer,
    new_object,
    text_of,
    with_destructor,
)
from .library import Library
from .openmp import find_openmp

__all__ = ["Engine", "Handle"]

# A cffi pointer that destroys what it points to when it is collected.
Handle = Any

# Kinds of objects whose creation takes locks of oneDNN's own: that of its cache of primitives, and
# that under which generated code is announced to profilers.
_CREATED_UNDER_LOCKS = frozenset(("engine", "primitive_desc", "primitive"))

# Memory descriptors of layouts that are kept: a call with a new shape asks for at most a dozen.
MOST_RECENT_DESCS = 64

# Types that have a buffer, which bfloat16 has not.
_BITS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


class _Kind(NamedTuple):
    """A kind of objects: what their address is written to, how they end, how they are made."""

    pointer_type: Any
    destructor: Callable[[Any], None]
    takes_locks: bool


class Engine:
    """A library's CPU engine, and checked calls into the library."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._lib = library.lib
        self._ffi = ffi()
        self._from_buffer = from_buffer
        # Called at every execution, which checks their statuses.
        self.execute = self._lib.dnnl_primitive_execute
        self.wait = self._lib.dnnl_stream_wait
        self.set_data_handle = self._lib.dnnl_memory_set_data_handle
        self.openmp = find_openmp(library) if library.uses_openmp else None
        self._statuses = {
            value: name.removeprefix("dnnl_")
            for value, name in c_type("dnnl_status_t").elements.items()
        }
        self._dims_type = c_type("dnnl_dims_t")
        self._recent_descs: dict[tuple[tuple[int, ...], str, tuple[int, ...]], Handle] = {}
        self._kinds = {"engine": self._kind("engine", None)}
        # oneDNN initializes what the first objects of these kinds use, under locks of its own.
        with forks_wait:
            self.handle = self._create("engine", "dnnl_engine_create", self._lib.dnnl_cpu, 0)
            self._kinds = {kind: self._kind(kind, self.handle) for kind in OBJECTS}
            self._attributes = {("strict", False): self._attributes_of("strict", False)}

    def on_threads(self, number: int) -> AbstractContextManager[None]:
        """Give oneDNN another number of threads inside a ``with`` block; 0 leaves it."""
        return nullcontext() if self.openmp is None else self.openmp.on(number)

    def number_of_threads(self) -> int:
        """Return how many threads oneDNN computes on now; 0 where only its runtime knows."""
        return 0 if self.openmp is None else self.openmp.number()

    def check(self, function: str, status: int, detail: str = "") -> None:
        """Raise OneDNNError unless ``status`` is success."""
        if status:
            name = self._statuses.get(status, f"status {status}")
            exception = OneDNNMemoryError if name == "out_of_memory" else OneDNNError
            raise exception(function, name, detail)

    def _kind(self, kind: str, engine: Handle | None) -> _Kind:
        destructor = _destructor(self._lib, f"dnnl_{kind}_destroy", engine)
        return _Kind(c_type(f"dnnl_{kind}_t *"), destructor, kind in _CREATED_UNDER_LOCKS)

    def _create(self, kind: str, function: str, *arguments: Any) -> Handle:
        """Call a function that creates an object of a kind into its first argument."""
        pointer_type, destructor, takes_locks = self._kinds[kind]
        pointer = new_object(pointer_type)
        create = getattr(self._lib, function)
        if takes_locks:
            with forks_wait:
                status = create(pointer, *arguments)
        else:
            status = create(pointer, *arguments)
        if status:
            self.check(function, status)
        return with_destructor(pointer[0], destructor)

    def stream(self) -> Handle:
        flags = self._lib.dnnl_stream_default_flags
        return self._create("stream", "dnnl_stream_create", self.handle, flags)

    def strided_desc(self, shape: Sequence[int], dtype: str, strides: Sequence[int]) -> Handle:
        """Memory descriptor of a plain layout given by strides in elements."""
        return self._layout_desc(tuple(shape), dtype, tuple(strides))

    def any_desc(self, shape: Sequence[int], dtype: str) -> Handle:
        """Memory descriptor whose layout the implementation chooses."""
        return self._layout_desc(tuple(shape), dtype)

    def _layout_desc(
        self, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] = ()
    ) -> Handle:
        """Return the memory descriptor of a tensor, the same object if it was asked for lately.

        A plan and its selection ask for the same few several times. No function changes one.
        """
        key = shape, dtype, strides
        found = self._recent_descs.get(key)
        if found is not None:
            return found
        how, layout = "strides", self._dims(strides)
        if not strides:
            how, layout = "tag", self._lib.dnnl_format_tag_any
        desc = self._create(
            "memory_desc",
            f"dnnl_memory_desc_create_with_{how}",
            len(shape),
            self._dims(shape),
            self._dtype(dtype),
            layout,
        )
        if len(self._recent_descs) >= MOST_RECENT_DESCS:
            self._recent_descs.clear()
        self._recent_descs[key] = desc
        return desc

    def _attributes_of(self, fpmath_mode: str, adds: bool) -> Handle:
        attributes = self._create("primitive_attr", "dnnl_primitive_attr_create")
        # The library's own scratchpad ties a primitive to the thread that created it.
        self.check(
            "dnnl_primitive_attr_set_scratchpad_mode",
            self._lib.dnnl_primitive_attr_set_scratchpad_mode(
                attributes, self._lib.dnnl_scratchpad_mode_user
            ),
        )
        # Without this, ONEDNN_DEFAULT_FPMATH_MODE would decide what "strict" means.
        mode = getattr(self._lib, f"dnnl_fpmath_mode_{fpmath_mode}")
        self.check(
            "dnnl_primitive_attr_set_fpmath_mode",
            self._lib.dnnl_primitive_attr_set_fpmath_mode(attributes, mode),
        )
        if adds:
            post_ops = self._create("post_ops", "dnnl_post_ops_create")
            self.check(
                "dnnl_post_ops_append_sum",
                self._lib.dnnl_post_ops_append_sum(
                    post_ops, 1.0, 0, self._lib.dnnl_data_type_undef
                ),
            )
            self.check(
                "dnnl_primitive_attr_set_post_ops",
                self._lib.dnnl_primitive_attr_set_post_ops(attributes, post_ops),
            )
        return attributes

    def attributes(self, fpmath_mode: str, adds: bool = False) -> Handle:
        """Primitive attributes: a scratchpad of the caller's, and a floating-point mode.

        With ``adds`` the result is added to the target's content.
        """
        key = fpmath_mode, adds
        if key not in self._attributes:
            self._attributes[key] = self._attributes_of(fpmath_mode, adds)
        return self._attributes[key]

    def convolution_desc(
        self,
        family: str,
        direction: str,
        tensors: Sequence[Handle | None],
        geometry: Sequence[Sequence[int]],
        *,
        fpmath_mode: str,
        adds: bool = False,
    ) -> Handle:
        """Primitive descriptor by ``dnnl_<family>_<direction>_primitive_desc_create``.

        Parameters
        ----------
        family : {"convolution", "deconvolution"}
        direction : {"forward", "backward_data", "backward_weights"}
        tensors : sequence of Handle or None
            Memory descriptors in the prototype's order; None for a bias that is missing.
        geometry : sequence of sequence of int
            Strides, dilations (0 is dense), padding at the beginnings and at the ends.
        fpmath_mode : str
        adds : bool, optional
            Whether dst is added to the target's content, which gradients cannot be.

        Raises
        ------
        OneDNNError
            With status ``unimplemented`` if no implementation takes the problem.
        """
        kinds = (self._lib.dnnl_forward_training,) if direction == "forward" else ()
        return self._create(
            "primitive_desc",
            f"dnnl_{family}_{direction}_primitive_desc_create",
            self.handle,
            *kinds,
            getattr(self._lib, f"dnnl_{family}_direct"),
            *(self._ffi.NULL if tensor is None else tensor for tensor in tensors),
            *(self._dims(numbers) for numbers in geometry),
            *(() if direction == "forward" else (self._ffi.NULL,)),
            self.attributes(fpmath_mode, adds),
        )

    def reorder_desc(self, source: Handle, target: Handle, *, adds: bool = False) -> Handle:
        """Primitive descriptor of a reorder, which may add to the target's content."""
        return self._create(
            "primitive_desc",
            "dnnl_reorder_primitive_desc_create",
            source,
            self.handle,
            target,
            self.handle,
            self.attributes("strict", adds),
        )

    def matmul_desc(
        self,
        factors: Sequence[Handle],
        bias: Handle | None,
        product: Handle,
        *,
        adds: bool,
        fpmath_mode: str,
    ) -> Handle:
        """Primitive descriptor of a product of matrices, or of batches of matrices.

        Parameters
        ----------
        factors : sequence of Handle
            Memory descriptors of src, (batch, m, k), and weights, (batch, k, n).
        bias : Handle or None
            (1, 1, n) or (1, m, n), for example.
        product : Handle
            (batch, m, n).
        adds : bool
            Whether the product is added to the target's content.
        fpmath_mode : str

        Raises
        ------
        OneDNNError
            With status ``unimplemented`` if no implementation takes the product, or the library was
            built without matmul.
        """
        return self._create(
            "primitive_desc",
            "dnnl_matmul_primitive_desc_create",
            self.handle,
            *factors,
            self._ffi.NULL if bias is None else bias,
            product,
            self.attributes(fpmath_mode, adds),
        )

    def next_implementation(self, primitive_desc: Handle) -> bool:
        """Move the descriptor to its next implementation; False if there is none."""
        with forks_wait:
            status = self._lib.dnnl_primitive_desc_next_impl(primitive_desc)
        if status == self._lib.dnnl_last_impl_reached:
            return False
        self.check("dnnl_primitive_desc_next_impl", status)
        return True

    def implementation(self, primitive_desc: Handle) -> str:
        """Name of the descriptor's implementation, as oneDNN's verbose mode prints it."""
        text = new_object(c_type("const char **"))
        self.check(
            "dnnl_primitive_desc_query",
            self._lib.dnnl_primitive_desc_query(
                primitive_desc, self._lib.dnnl_query_impl_info_str, 0, text
            ),
        )
        return text_of(text[0])

    def desc_of(self, primitive_desc: Handle, query: str) -> Handle:
        """Memory descriptor ``dnnl_query_<query>_md`` of a primitive descriptor, borrowed.

        It lives as long as the primitive descriptor stays at this implementation.
        """
        what = getattr(self._lib, f"dnnl_query_{query}_md")
        return self._lib.dnnl_primitive_desc_query_md(primitive_desc, what, 0)

    def clone_desc(self, desc: Handle) -> Handle:
        """Copy of a memory descriptor that outlives the primitive descriptor behind ``desc``."""
        return self._create("memory_desc", "dnnl_memory_desc_clone", desc)

    def first_part_desc(self, desc: Handle, shape: Sequence[int]) -> Handle:
        """Memory descriptor of the part of a tensor that has a shape, from its first element on."""
        begin = self._dims([0] * len(shape))
        return self._create(
            "memory_desc", "dnnl_memory_desc_create_submemory", desc, self._dims(shape), begin
        )

    def equal(self, left: Handle, right: Handle) -> bool:
        return bool(self._lib.dnnl_memory_desc_equal(left, right))

    def nbytes(self, desc: Handle) -> int:
        return int(self._lib.dnnl_memory_desc_get_size(desc)) if desc else 0

    def primitive(self, primitive_desc: Handle) -> Handle:
        return self._create("primitive", "dnnl_primitive_create", primitive_desc)

    def memory(self, desc: Handle) -> Handle:
        """Memory object without memory: the address is set before each execution."""
        return self._create(
            "memory",
            "dnnl_memory_create",
            desc,
            self.handle,
            self._ffi.NULL,
        )

    def argument(self, name: str) -> int:
        """Return the number of an execution argument, such as ``"DIFF_SRC"``."""
        return int(getattr(self._lib, f"DNNL_ARG_{name}"))

    def execution_arguments(self, memories: Sequence[tuple[int, Handle]]) -> Any:
        """Return the C array of an execution's arguments, given by number and memory object."""
        arguments = new_object(c_type("dnnl_exec_arg_t[]"), len(memories))
        for slot, (number, memory) in zip(arguments, memories, strict=True):
            slot.arg = number
            slot.memory = memory
        return arguments

    def address(self, number: int) -> Any:
        """Return a pointer to an address, which does not own it."""
        return self._ffi.cast(c_type("char *"), number)

    def pointers(self, arrays: Sequence[npt.NDArray[Any]]) -> list[Any]:
        """Addresses of the arrays' first elements, as pointers that may keep the arrays alive."""
        try:
            return list(map(self._from_buffer, arrays))
        except (ValueError, TypeError, BufferError):
            return list(map(self.pointer, arrays))

    def pointer(self, array: npt.NDArray[Any]) -> Any:
        """Address of an array's first element, as a pointer that does not own it."""
        try:
            bits: Any = array.view(_BITS[array.itemsize])
            return self._from_buffer(bits) + 0
        except (ValueError, TypeError, BufferError):
            # A strided array has no buffer that cffi takes.
            return self.address(array.__array_interface__["data"][0])

    def copy(self, target: Any, array: npt.NDArray[Any]) -> None:
        """Copy a dense array's elements to the memory that a pointer points to."""
        self._ffi.memmove(target, array.view(np.uint8).data, array.nbytes)

    def _dims(self, numbers: Sequence[int]) -> Any:
        return new_object(self._dims_type, list(numbers))

    def _dtype(self, dtype: str) -> int:
        return int(getattr(self._lib, f"dnnl_{dtype}"))


def _destructor(lib: Any, function: str, engine: Handle | None) -> Callable[[Any], None]:
    """Return a destructor that keeps the library and the engine alive until it has run."""
    destroy = getattr(lib, function)

    def destructor(pointer: Any, keep: Any = (lib, engine)) -> None:
        destroy(pointer)

    return destructor
