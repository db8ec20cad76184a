"""threadpoolctl, without the environment variable that importing it sets for the whole process."""

from __future__ import annotations

import os

__all__ = ["ThreadpoolController"]

# It switches a check of Intel's OpenMP off, for child processes, too.
_NAME = "KMP_DUPLICATE_LIB_OK"
_was_set = _NAME in os.environ

from threadpoolctl import ThreadpoolController  # noqa: E402

if not _was_set:
    os.environ.pop(_NAME, None)
