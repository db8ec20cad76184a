"""Tools on the public functions: benchdnn's problems, verification, benchmarks, the demo."""
