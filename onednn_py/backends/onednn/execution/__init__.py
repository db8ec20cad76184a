"""Decided problems as primitives and reorders that are ready to run."""
