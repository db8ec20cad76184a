"""From a call to its plan: what the arguments mean, which backend computes it, what is cached."""
