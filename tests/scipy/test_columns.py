"""Several weights as those of one convolution, and back."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize("operation", ["convolution", "conv_transpose"])
def test_split_weights_are_those_that_were_joined(operation: str) -> None:
    from onednn_py import scipy as operators
    from onednn_py.scipy.columns import join_weights, joined_shapes, split_weights

    make = getattr(operators, f"{operation}_operator")
    shape = (3, 2, 4) if operation == "convolution" else (3, 2, 6)
    groups = 2 if operation == "convolution" else 3
    inputs = 4 if operation == "convolution" else 6
    spec = make(src=np.ones((1, 5, inputs)), weights_shape=shape, groups=groups)._spec
    rows = np.arange(3.0 * np.prod(shape)).reshape(3, -1)
    joined = join_weights(spec, rows)
    assert joined.shape == joined_shapes(spec, 3)[0]
    assert np.array_equal(split_weights(spec, joined, 3), rows)
    assert not np.array_equal(joined.ravel(), rows.ravel())
