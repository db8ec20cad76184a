"""What a test needs of the machine."""

from __future__ import annotations

import pytest

import onednn_py

HAS_ONEDNN = onednn_py.info()["library"] is not None

needs_onednn = pytest.mark.skipif(not HAS_ONEDNN, reason="no oneDNN library here")
