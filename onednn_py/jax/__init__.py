"""JAX's convolution, computed by oneDNN on the CPU: `conv_general_dilated`.

The function has the signature of ``jax.lax.conv_general_dilated`` and works under ``jit``,
``grad``, ``jvp``, ``vmap``, ``scan`` and ``checkpoint``. Whatever is not computed here is lowered
as ``lax`` lowers it.
"""

from __future__ import annotations

from .requirements import require_jax

require_jax()

from .convolution import conv_general_dilated  # noqa: E402 - only where JAX can be used

__all__ = ["conv_general_dilated"]
