"""Which of oneDNN's implementations, layouts and formulations computes a problem."""
