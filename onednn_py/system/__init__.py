"""The machine below: memory that is used again, threads, conversions between types."""
