"""benchdnn's problem descriptors, batch files, options, cases and fillings of tensors."""

from .descriptor import Descriptor, parse_descriptor

__all__ = ["Descriptor", "parse_descriptor"]
