"""What both ends of a worker's pipes know: cases as text, and why a case is not run."""

from __future__ import annotations

import json

from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case

__all__ = ["Unsupported", "decoded", "encoded"]


class Unsupported(Exception):  # noqa: N818 - nobody's error: the competitor has no such call
    """A competitor cannot express a case; the message says why."""


def encoded(case: Case) -> str:
    """Return a case as one line that `decoded` reads."""
    descriptor = case.descriptor
    return json.dumps(
        [descriptor.operation, str(descriptor), case.direction, case.dtype, case.data_format]
    )


def decoded(text: str) -> Case:
    """Return the case of a line that `encoded` wrote."""
    operation, descriptor, direction, dtype, data_format = json.loads(text)
    parsed = parse_descriptor(descriptor, transposed=operation == "deconv")
    return Case(parsed, direction, dtype, data_format)
