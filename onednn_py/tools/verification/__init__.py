"""benchdnn's cases on oneDNN, against a float64 reference, NumPy and native oneDNN."""
