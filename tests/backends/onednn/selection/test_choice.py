"""Choices as wisdom keeps them, and as one line of text."""

from __future__ import annotations

from typing import Any

import pytest

from onednn_py.backends.onednn.selection.choice import Choice


@pytest.mark.parametrize(
    "choice",
    [
        Choice("f32"),
        Choice("bf16", "as_convolution", "nxc", "given", "brgconv:avx512_core", threads=1),
        Choice("f32", "strided_1x1", implementation="ref", reference=True),
        Choice("f32", chunks=8, split_axis="channels"),
        Choice("bf16", implementation="x64:gemm:jit", bias_apart=True),
    ],
    ids=str,
)
def test_a_choice_is_read_back(choice: Choice) -> None:
    assert Choice.from_dict(choice.as_dict()) == choice


@pytest.mark.parametrize(("older", "formulation"), [
    ("direct", "direct"), ("exchanged", "as_convolution"), ("sliced", "strided_1x1"),
])  # fmt: skip
@pytest.mark.parametrize(("cut", "split_axis"), [
    ("images", "minibatch"), ("rows", "spatial"), ("channels", "channels"),
])  # fmt: skip
def test_wisdom_of_version_0_1_is_read(
    older: str, formulation: str, cut: str, split_axis: str
) -> None:
    fields = {
        "compute_dtype": "f32",
        "formulation": older,
        "activations": "nxc",
        "weights": "any",
        "implementation": "jit:avx2",
        "reference": False,
        "threads": 0,
        "pieces": 4,
        "cut": cut,
    }
    expected = Choice(
        "f32", formulation, "nxc", implementation="jit:avx2", chunks=4, split_axis=split_axis
    )
    assert Choice.from_dict(fields) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"chunks": 2},
        {"compute_dtype": None},
        {"compute_dtype": "f32", "kernel": "fast"},
        *({"compute_dtype": "f32", name: ["direct"]} for name in ("formulation", "cut")),
        *({"compute_dtype": "f32", name: "2"} for name in ("chunks", "pieces")),
        *({"compute_dtype": "f32", "threads": threads} for threads in (-1, 2, True)),
        {"compute_dtype": "f32", "reference": 1},
        {"compute_dtype": "f32", "bias_apart": 1},
    ],
    ids=str,
)
def test_other_fields_are_no_choice(fields: dict[str, Any]) -> None:
    assert Choice.from_dict(fields) is None


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (Choice("f32"), "first, activations any, weights any, f32"),
        (
            Choice("bf16", "as_convolution", "nxc", "ncx", "jit:avx2", threads=1),
            "jit:avx2, as_convolution, activations nxc, weights ncx, bf16, one thread",
        ),
        (
            Choice("f32", implementation="jit:avx2", chunks=4, split_axis="spatial"),
            "jit:avx2, activations any, weights any, f32, 4 chunks along spatial",
        ),
        (
            Choice("f32", implementation="x64:gemm:jit", chunks=2, bias_apart=True),
            "x64:gemm:jit, activations any, weights any, f32, 2 chunks along minibatch, bias apart",
        ),
    ],
)
def test_a_choice_is_one_line(choice: Choice, text: str) -> None:
    assert str(choice) == text
