"""Wisdom: which choices measuring found the fastest, and on which machine.

Entries of another version or build of oneDNN, of another CPU ISA or number of threads are kept,
but never recalled on this machine.
"""

from .entry import Entry, Machine

__all__ = ["Entry", "Machine"]
