"""The NumPy backend: every operation as matrix products, or elementwise products.

The six operations are two computations: a correlation (forward; backward data is one for
every remainder of the stride) and the weights' gradient. Python loops run over tiles, which
bound the temporary memory, never over pixels or single images; tiles run on several threads.
"""

from __future__ import annotations

from .plan import NumpyPlan

__all__ = ["NumpyPlan"]
