"""Verify benchdnn's cases on oneDNN, NumPy and native oneDNN against a float64 reference."""
