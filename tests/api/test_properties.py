"""Properties over the whole attribute space, by hypothesis, on both backends."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import onednn_py
from tests.support.cases import CURATED, OPERATIONS, Case
from tests.support.reproduction import needs_shell, reproduction, run_reproduction
from tests.support.requirements import HAS_ONEDNN
from tests.support.strategies import geometries

BACKENDS = ["onednn", "numpy"] if HAS_ONEDNN else ["numpy"]


@given(
    geometry=geometries(),
    operation=st.sampled_from(OPERATIONS),
    dtype=st.sampled_from(["f32", "bf16", "f16"]),
    data_format=st.sampled_from(["NCX", "NXC"]),
    weights_first=st.booleans(),
    form=st.sampled_from(["native", "documented"]),
    seed=st.integers(0, 10),
)
def test_every_backend_gives_the_exact_result(
    geometry: Case,
    operation: str,
    dtype: str,
    data_format: str,
    weights_first: bool,
    form: str,
    seed: int,
) -> None:
    for backend in BACKENDS:
        arguments = {"data_format": data_format, "weights_first": weights_first, "form": form}
        check = f"check({operation!r}, {backend!r}, **{arguments})"
        note(reproduction(__name__, f"{geometry}.integers({dtype!r}, {seed}).{check}"))
        geometry.integers(dtype, seed).check(operation, backend, **arguments)


@pytest.mark.slow
@settings(max_examples=4000)
@given(
    geometry=geometries(),
    operation=st.sampled_from(OPERATIONS),
    dtype=st.sampled_from(["f32", "bf16", "f16"]),
    data_format=st.sampled_from(["NCX", "NXC"]),
    weights_first=st.booleans(),
)
def test_long_sweep_of_exact_results(
    geometry: Case, operation: str, dtype: str, data_format: str, weights_first: bool
) -> None:
    for backend in BACKENDS:
        arguments = {"data_format": data_format, "weights_first": weights_first}
        check = f"check({operation!r}, {backend!r}, **{arguments})"
        note(reproduction(__name__, f"{geometry}.integers({dtype!r}).{check}"))
        geometry.integers(dtype).check(operation, backend, **arguments)


@given(geometry=geometries(), seed=st.integers(0, 1000))
def test_adjoint_identity(geometry: Case, seed: int) -> None:
    note(reproduction(__name__, f"check_adjoint({geometry}, {seed})"))
    check_adjoint(geometry, seed)


def check_adjoint(geometry: Case, seed: int) -> None:
    """<dst, conv(src)> = <convT(dst), src> = <weights, grad(src, dst)>, exactly, in integers."""
    tensors = geometry.integers("f64", seed)
    src, weights, dst = (tensors.arrays[role] for role in ("src", "weights", "dst"))
    keywords = geometry.attributes() | {"data_format": "NCX", "weights_format": "OIX"}
    forward = np.vdot(onednn_py.convolution(src, weights, **keywords), dst)
    diff_src = onednn_py.convolution_backward_data(dst, weights, src.shape, **keywords)
    diff_weights = onednn_py.convolution_backward_weights(src, dst, weights.shape, **keywords)
    assert forward == np.vdot(diff_src, src) == np.vdot(diff_weights, weights)

    keywords |= {"weights_format": "IOX", "output_padding": geometry.output_padding}
    transposed = onednn_py.conv_transpose(dst, weights, **keywords)
    back = onednn_py.conv_transpose_backward_data(src, weights, **keywords)
    diff_weights = onednn_py.conv_transpose_backward_weights(dst, src, weights.shape, **keywords)
    assert np.vdot(transposed, src) == np.vdot(back, dst) == np.vdot(diff_weights, weights)


@given(
    geometry=geometries(most_axes=2),
    auto_pad=st.sampled_from(["same_upper", "same_lower", "valid"]),
    extra=st.integers(0, 3),
    seed=st.integers(0, 100),
)
def test_adjoint_identity_under_auto_pad(
    geometry: Case, auto_pad: str, extra: int, seed: int
) -> None:
    check = f"check_adjoint_under_auto_pad({geometry}, {auto_pad!r}, {extra}, {seed})"
    note(reproduction(__name__, check))
    check_adjoint_under_auto_pad(geometry, auto_pad, extra, seed)


def check_adjoint_under_auto_pad(geometry: Case, auto_pad: str, extra: int, seed: int) -> None:
    """Forward and gradients find the same pads from different sizes, output_padding too."""
    rng = np.random.default_rng(seed)
    keywords = {
        "strides": geometry.strides,
        "dilations": geometry.dilations,
        "groups": geometry.groups,
        "auto_pad": auto_pad,
        "data_format": "NCX",
    }
    if auto_pad == "valid":
        size = tuple(max(s, e) for s, e in zip(geometry.size, geometry.extents, strict=True))
    else:
        size = geometry.size
    src = rng.integers(-5, 6, (geometry.minibatch, geometry.inputs, *size)).astype(float)
    weights = rng.integers(-5, 6, geometry.shape("weights")).astype(float)
    made = onednn_py.convolution(src, weights, weights_format="OIX", **keywords)
    dst = rng.integers(-5, 6, made.shape).astype(float)
    diff_src = onednn_py.convolution_backward_data(
        dst, weights, src.shape, weights_format="OIX", **keywords
    )
    diff_weights = onednn_py.convolution_backward_weights(
        src, dst, weights.shape, weights_format="OIX", **keywords
    )
    assert np.vdot(made, dst) == np.vdot(diff_src, src) == np.vdot(diff_weights, weights)

    limits = [max(s, d) for s, d in zip(geometry.strides, geometry.dilations, strict=True)]
    keywords |= {
        "weights_format": "IOX",
        "output_padding": tuple(min(extra, limit - 1) for limit in limits),
    }
    transposed = onednn_py.conv_transpose(dst, weights, **keywords)
    other = rng.integers(-5, 6, transposed.shape).astype(float)
    back = onednn_py.conv_transpose_backward_data(other, weights, **keywords)
    grad = onednn_py.conv_transpose_backward_weights(dst, other, weights.shape, **keywords)
    assert np.vdot(transposed, other) == np.vdot(back, dst) == np.vdot(grad, weights)


@needs_shell
def test_noted_commands_run(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(sys.modules[__name__], "note", noted.append)
    monkeypatch.setattr(sys.modules[__name__], "BACKENDS", ["numpy"])
    geometry, operation = CURATED["1d_strided"], "conv_transpose"
    test_every_backend_gives_the_exact_result.hypothesis.inner_test(
        geometry, operation, "bf16", "NXC", weights_first=False, form="documented", seed=1
    )
    test_long_sweep_of_exact_results.hypothesis.inner_test(
        geometry, operation, "bf16", "NXC", weights_first=False
    )
    test_adjoint_identity.hypothesis.inner_test(geometry, seed=1)
    test_adjoint_identity_under_auto_pad.hypothesis.inner_test(geometry, "valid", extra=1, seed=1)
    assert len(noted) == 4
    for command in noted:
        done = run_reproduction(command)
        assert done.returncode == 0, done.stderr
