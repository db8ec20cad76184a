"""Benchmarks: the public functions against native oneDNN, PyTorch and NumPy, in turns."""
