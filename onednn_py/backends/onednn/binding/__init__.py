"""The door to C: declarations, the library, its OpenMP runtime, checked calls."""
