"""Memory that is reused, threads, and conversions between data types."""
