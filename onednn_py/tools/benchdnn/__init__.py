"""benchdnn's formats: problem descriptors, batch files, cases, and what tensors are filled with."""

from .descriptor import Descriptor, parse_descriptor

__all__ = ["Descriptor", "parse_descriptor"]
