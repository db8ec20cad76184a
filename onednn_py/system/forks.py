"""What a forked child must make new: locks that a thread of its parent may have held."""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["in_forked_child"]


def in_forked_child(reset: Callable[[], None]) -> Callable[[], None]:
    """Call a function in every forked child, before anything else runs there; a decorator.

    The order is that of the registrations. Where the system has no forks it is never called.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)
    return reset
