"""A case as a dictionary of strings, for results in JSON and for the workers' requests."""

from __future__ import annotations

from collections.abc import Mapping

from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case

__all__ = ["case_fields", "case_from_fields"]


def case_fields(case: Case) -> dict[str, str]:
    return {
        "operation": case.descriptor.operation,
        "descriptor": str(case.descriptor),
        "name": case.descriptor.name,
        "direction": case.direction,
        "dtype": case.dtype,
        "format": case.data_format,
    }


def case_from_fields(fields: Mapping[str, str]) -> Case:
    """Return the case of a mapping that has at least the items of `case_fields`."""
    transposed = fields["operation"] == "deconv"
    descriptor = parse_descriptor(fields["descriptor"], transposed=transposed)
    return Case(descriptor, fields["direction"], fields["dtype"], fields["format"])
