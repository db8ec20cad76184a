"""Convolutions as linear operators of SciPy, for its iterative solvers and for PyLops.

Needs SciPy, which the extra ``scipy`` installs.
"""

from .functions import conv_transpose_operator, convolution_operator
from .operator import ConvolutionOperator

__all__ = ["ConvolutionOperator", "conv_transpose_operator", "convolution_operator"]
