"""The NumPy backend: every operation as matrix products, or products of arrays.

All six operations are two kernels in the roles of a convolution: a correlation (forward,
and backward data taken apart by the remainders of the stride) and the weights' gradient.
Python loops run over kernel taps and over tiles that bound the temporary memory, never
over pixels, channels or single images; tiles run on several threads.
"""

from __future__ import annotations

from .plan import NumpyPlan

__all__ = ["NumpyPlan"]
