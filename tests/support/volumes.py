"""Geometries of volumes, and runs of the formulations that compute them by planes."""

from __future__ import annotations

from typing import Any

import numpy as np

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.decide import decide
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.select import candidate_of
from tests.support.candidate_runs import CandidateRun, sub_problems
from tests.support.cases import Case, case
from tests.support.memory_layouts import gaps

__all__ = ["FAMILIES", "VOLUMES", "assert_equal_gradients", "candidate", "run_of"]

FAMILIES = ("convolution", "conv_transpose")

VOLUMES = {
    "3x3x3": case((6, 7, 8), 3, pads=1, inputs=8, outputs=16),
    "one image": case((9, 6, 7), 3, pads=1, minibatch=1, inputs=16, outputs=8),
    "strides": case((10, 9, 7), 3, 2, pads=1, inputs=8, outputs=8),
    "patches": case((8, 6, 4), 2, 2, inputs=16, outputs=8),
    "tail": case((12, 11, 8), 2, 3, pads=(0, 1), inputs=8, outputs=8),
    "padded at one end": case((7, 6, 5), (4, 3, 3), pads=((2, 1, 1), (0, 1, 1)), inputs=8),
    "dilation": case((9, 8, 9), 3, 1, (2, 1, 2), pads=((2, 1, 0), (2, 1, 0)), inputs=8, outputs=8),
    "stride and dilation": case((14, 9, 8), 3, (2, 1, 1), (3, 1, 2), pads=3, inputs=8, outputs=8),
    "wide pads": case((8, 6, 6), (5, 3, 3), pads=((3, 1, 1), (3, 1, 1)), inputs=8, outputs=8),
    "flat kernel": case((5, 8, 9), (1, 3, 3), pads=((0, 1, 1), (0, 1, 1)), inputs=8, outputs=8),
    "deep kernel": case((9, 5, 6), (3, 1, 1), pads=((1, 0, 0), (1, 0, 0)), inputs=8, outputs=8),
    "few channels": case((6, 7, 5), 3, pads=1, inputs=3, outputs=5),
    "groups": case((6, 7, 5), 3, pads=1, groups=2, inputs=16, outputs=16),
}


def run_of(geometry: Case, family: str = "convolution", data_format: str = "NCX") -> CandidateRun:
    """Return the weights gradient of a geometry on small integers in float32."""
    return CandidateRun(geometry.integers("f32"), f"{family}_backward_weights", data_format)


def candidate(run: CandidateRun, formulation: str, activations: str = "any") -> Candidate:
    """Return a run's candidate of a formulation in float32, which must exist."""
    preference = Preference(Choice("f32", formulation, activations))
    found = candidate_of(current_engine(), run.problem, preference)
    assert found is not None
    return found


def assert_equal_gradients(inputs: int, groups: int, formulation: str, kernel: int = 3) -> None:
    """Compare the gradients of one call with those of the NumPy backend, of the bias too.

    The weights gradient is written into an array with gaps. It is to be of the formulation, but
    ``"unpadded_depth"`` only on CPUs with AVX2 alone.
    """
    rng = np.random.default_rng(7)
    src, diff_dst, weights = (
        rng.integers(-3, 4, shape).astype(np.float32)
        for shape in (
            (2, inputs, 20, 20, 20),
            (2, 32, 20, 20, 20),
            (32, inputs // groups, kernel, kernel, kernel),
        )
    )
    keywords: dict[str, Any] = {"groups": groups, "data_format": "NCX", "weights_format": "OIX"}
    keywords |= {"pads_begin": kernel // 2, "pads_end": kernel // 2}
    (asked,) = sub_problems(
        onednn_py.convolution_backward_weights, src, diff_dst, weights.shape, **keywords
    )
    isa = current_engine().library.cpu_isa
    if "avx2" in isa or ("avx512" in isa and formulation != "unpadded_depth"):
        assert decide(current_engine(), asked.problem).choice.formulation == formulation
    both, expected = (
        onednn_py.convolution_backward(
            src,
            weights,
            diff_dst,
            wrt=("src", "weights", "bias"),
            out=(None, out, None),
            backend=backend,
            **keywords,
        )
        for backend, out in (("onednn", gaps(np.full_like(weights, 77))), ("numpy", None))
    )
    for actual, right in zip(both, expected, strict=True):
        np.testing.assert_array_equal(actual, right)
