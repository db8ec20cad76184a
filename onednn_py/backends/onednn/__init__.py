"""The oneDNN backend: a problem on oneDNN's primitives."""
