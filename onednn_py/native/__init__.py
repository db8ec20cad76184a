"""oneDNN through cffi: nothing outside this package knows C."""
