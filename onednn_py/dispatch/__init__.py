"""From a call to its plan: the meaning of arguments, the backend, and both caches."""
