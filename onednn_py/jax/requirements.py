"""Which JAX this package needs, and the error where it is missing or too old."""

from __future__ import annotations

import importlib

__all__ = ["OLDEST_JAX", "require_jax"]

# The first version with `buffer_callback`. With `pure_callback` in its place, a program that ended
# with work under way was seen to hang (JAX 0.6.0).
OLDEST_JAX = "0.6.1"

_COMMAND = 'pip install --upgrade "onednn_py[jax]"'

# Where the names stand that this package builds on.
_NEEDED = {
    "jax": ("typeof",),
    "jax.experimental.buffer_callback": ("buffer_callback",),
    "jax.extend.core": ("Primitive",),
    "jax.interpreters.ad": ("defbilinear",),
    "jax.interpreters.batching": ("primitive_batchers",),
    "jax.interpreters.mlir": ("lower_fun", "register_lowering"),
    "jax.interpreters.xla": ("apply_primitive",),
    "jax.sharding": ("AxisType",),
}


def require_jax() -> None:
    """Check that JAX is there, and new enough by the names that it has.

    Raises
    ------
    ImportError
        With the command that installs JAX.
    """
    try:
        jax = importlib.import_module("jax")
    except ImportError as error:
        raise ImportError(f"onednn_py.jax needs JAX: {_COMMAND}") from error
    for module, names in _NEEDED.items():
        try:
            found = importlib.import_module(module)
        except ImportError:
            found = None
        missing = [name for name in names if not hasattr(found, name)]
        if missing:
            version = getattr(jax, "__version__", "of unknown version")
            raise ImportError(
                f"onednn_py.jax needs JAX {OLDEST_JAX} or newer; JAX {version} has no "
                f"{module}.{missing[0]}: {_COMMAND}"
            )
