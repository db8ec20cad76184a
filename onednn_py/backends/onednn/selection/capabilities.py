"""The data types that a library computes itself on this CPU, found with a small problem."""

from __future__ import annotations

from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.library import Library
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Direction, Problem, TensorLayout

from .defects import is_reference
from .descriptors import implementations
from .limits import COMPUTE_DTYPES

__all__ = ["support"]

# The first function of the Graph API; a build without it exports none of them.
GRAPH_FUNCTION = "dnnl_graph_graph_create"


def support(opened: Library) -> dict[str, bool]:
    """Return whether the CPU and the library have each data type, and the Graph API.

    Returns
    -------
    dict
        ``f32``, ``bf16``, ``f16`` (the keys of `COMPUTE_DTYPES`): whether backward data has an
        implementation of that type better than the reference one; where not, the work is done
        in f32.
        ``graph_api``: whether the library was built with the Graph API.
    """
    engine = Engine(opened)
    found = {
        dtype: dtype in computed and _is_native(engine, _small_problem(dtype))
        for dtype, computed in COMPUTE_DTYPES.items()
    }
    return {**found, "graph_api": opened.exports(GRAPH_FUNCTION)}


def _is_native(engine: Engine, problem: Problem) -> bool:
    try:
        return any(not is_reference(name) for _, name in implementations(engine, problem))
    except OneDNNError as error:
        if error.status != "unimplemented":
            raise
        return False


def _small_problem(dtype: str) -> Problem:
    """Backward data, 16 to 16 channels, 3x3: every implementation that exists takes it."""
    return Problem(
        transposed=False,
        direction=Direction.BACKWARD_DATA,
        dtype=dtype,
        src=_plain(1, 16, 8, 8),
        weights=_plain(1, 16, 16, 3, 3),
        dst=_plain(1, 16, 6, 6),
        bias=None,
        strides=(1, 1),
        dilations=(1, 1),
        pads_begin=(0, 0),
        pads_end=(0, 0),
    )


def _plain(*shape: int) -> TensorLayout:
    # Equal strides leave the order of the axes as it is.
    return TensorLayout(shape, (1,) * len(shape)).dense()
