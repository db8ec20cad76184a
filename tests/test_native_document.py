"""docs/native.md: its programs print what it shows, and this package computes the right results."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py.tools import native_programs
from tests.support.requirements import has_isa, skip_for_cpu

DOCUMENT = Path(__file__).parents[1] / "docs" / "native.md"
HEAD, *BLOCKS = re.findall(
    r"```(cpp|text)\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL
)
PROGRAMS = [(BLOCKS[i][1], BLOCKS[i + 1][1]) for i in range(0, len(BLOCKS), 2)]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_print_what_the_document_says(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, onednn: str
) -> None:
    if onednn_py.info()["version"] != "3.2.0":
        pytest.skip("the document shows what v3.2.0 prints")
    source, printed = PROGRAMS[number]
    (tmp_path / "graph.cpp").write_text(HEAD[1] + source)
    (tmp_path / "cases.hpp").write_text("")
    monkeypatch.setattr(native_programs, "sources_folder", lambda: tmp_path)
    try:
        program = native_programs.native_program("graph", folder=tmp_path)
    except native_programs.NativeProgramError:
        raise
    except native_programs.ComparisonUnavailableError as error:
        pytest.skip(str(error))
    # The document shows implementations of this instruction set; a CPU with AMX has others.
    if "avx512_core" in printed and not has_isa("avx512_core_bf16"):
        skip_for_cpu("avx512_core_bf16")
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    done = subprocess.run(
        [program], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert [line.rstrip() for line in done.stdout.splitlines()] == printed.splitlines()


NCX = {"data_format": "NCX"}


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32).reshape(1, 1, -1)


def test_dilations_of_the_transposed_data_gradient(backend: str) -> None:
    result = onednn_py.conv_transpose_backward_data(
        array(1, 2, 3, 4, 5), array(1, 10), strides=2, dilations=2,
        weights_format="IOX", backend=backend, **NCX,
    )  # fmt: skip
    np.testing.assert_array_equal(result, array(31, 53))


def test_same_padding_of_the_transposed_weights_gradient(backend: str) -> None:
    result = onednn_py.conv_transpose_backward_weights(
        array(1, 1, 1, 1, 1), array(*range(1, 11)), (1, 1, 3), strides=2,
        auto_pad="same_upper", weights_format="IOX", backend=backend, **NCX,
    )  # fmt: skip
    np.testing.assert_array_equal(result, array(25, 30, 24))


def test_groups_of_the_data_gradient(backend: str) -> None:
    result = onednn_py.convolution_backward_data(
        np.array([[[1, 2], [3, 4]]], np.float32), np.array([[[1]], [[10]]], np.float32),
        groups=2, weights_format="OIX", backend=backend, **NCX,
    )  # fmt: skip
    np.testing.assert_array_equal(result, [[[1, 2], [30, 40]]])


def test_output_padding_of_zero_in_the_transposed_gradient(backend: str) -> None:
    attributes = {
        "strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1],
        "output_padding": [0], "data_format": "NCX", "weights_format": "IOX",
    }  # fmt: skip
    result = onednn_py.run_op(
        "ConvTransposeBackwardData", [array(1, 2, 3), array(1)], attributes, backend=backend
    )
    np.testing.assert_array_equal(result, array(1, 2, 3))


def test_bf16_weights_gradient_over_padding(backend: str) -> None:
    ones = np.ones((1, 16, 1), ml_dtypes.bfloat16)
    result = onednn_py.convolution_backward_weights(
        ones, ones, (16, 16, 2), strides=2, pads_end=1, weights_format="OIX",
        backend=backend, **NCX,
    )  # fmt: skip
    np.testing.assert_array_equal(result.astype(np.float32), [[[1, 0]] * 16] * 16)
