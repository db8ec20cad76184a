"""What computes problems: oneDNN, and NumPy where no oneDNN library can be used."""
