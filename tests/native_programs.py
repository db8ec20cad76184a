"""Compiles the C++ programs in ``native/`` and runs cases of native oneDNN with them.

The programs link with the very library that onednn_py uses, and run with its number of threads,
so that the same implementation must give the same bits.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import header_check
import ml_dtypes
import numpy as np
import pytest

import onednn_py

SOURCES = Path(__file__).parent / "native"
DTYPES = {
    "f32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
}

Token = int | str | Sequence[int]

#: Test module's subject -> what was counted there, for the summary of the test run.
TOTALS: dict[str, dict[str, int]] = {}


@dataclass(frozen=True)
class Request:
    """One case for a native program: its tokens, and the tensors it reads."""

    tokens: Mapping[str, Token]
    dtype: str
    inputs: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Outcome:
    """What native oneDNN did with a request.

    ``status`` is ``"success"`` or the name of oneDNN's status; ``detail`` the implementation's
    name or the error message; ``arrays`` the results, in the shapes that the program reports.
    """

    status: str
    detail: str
    arrays: tuple[np.ndarray, ...] = ()


def compile_program(name: str, directory: Path) -> Path:
    """Compile ``native/<name>.cpp`` into `directory`; skip the test where that cannot be done."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the native comparison needs Linux on x86-64")
    compiler, (library, linked) = _compiler(), _library()
    if name == "graph" and not hasattr(ctypes.CDLL(str(library)), "dnnl_graph_graph_create"):
        pytest.skip(f"{library} is built without the Graph API")
    command = [compiler, "-std=c++17", *(f"-I{folder}" for folder in _include_folders())]
    headers = _headers_version(command)
    if headers != linked:
        pytest.skip(f"the headers are of oneDNN {headers}, {library} is {linked}")
    program = directory / name
    command += ["-O1", "-Wall", str(SOURCES / f"{name}.cpp"), str(library)]
    command += [f"-Wl,-rpath,{library.parent}", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{done.stderr}")
    return program


def run(program: Path, requests: Sequence[Request], timeout: float = 120) -> list[Outcome]:
    """Run all `requests` in one process of `program`; outcomes are in the order of the requests.

    A request during which the process died has the status ``"crashed"``, and the ones behind it
    ``"not run"``.
    """
    files = [program.with_name(f"{program.name}.{part}") for part in _FILES]
    cases, inputs, outputs, report = files
    _write(requests, cases, inputs)
    # Spinning threads slow the cases down many times where other processes want the cores.
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(onednn_py.get_num_threads()),
        "OMP_WAIT_POLICY": "passive",
    }
    command = [str(program), *map(str, files)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode > 0:
        pytest.fail(f"{program.name} exited with {done.returncode}: {done.stderr}")
    raw = outputs.read_bytes()
    lines = report.read_text().splitlines()
    outcomes = [_outcome(line, r.dtype, raw) for line, r in zip(lines, requests, strict=False)]
    if done.returncode and len(outcomes) == len(requests):
        pytest.fail(f"{program.name} died by signal {-done.returncode} after its last case")
    if done.returncode:
        outcomes.append(Outcome("crashed", f"by signal {-done.returncode}"))
    missing = len(requests) - len(outcomes)
    return outcomes + [Outcome("not run", "the process died earlier")] * missing


def data_shape(
    minibatch: int, channels: int, spatial: Sequence[int], data_format: str
) -> tuple[int, ...]:
    """Return the shape of activations in `data_format` order."""
    if data_format.upper() == "NCX":
        return (minibatch, channels, *spatial)
    return (minibatch, *spatial, channels)


def weights_shape(
    outer: int, inner: int, kernel: Sequence[int], groups: int, weights_format: str
) -> tuple[int, ...]:
    """Return the shape of weights; `outer` channels are those of all groups, `inner` are divided.

    The outer channels are the output's for a convolution, the input's for a transposed one.
    """
    if weights_format.upper() in ("OIX", "IOX"):
        return (outer, inner // groups, *kernel)
    return (*kernel, inner // groups, outer)


def assert_same_bits(ours: np.ndarray, native: np.ndarray) -> None:
    """Fail unless both arrays have the same shape, type and bits."""
    assert ours.shape == native.shape
    assert ours.dtype == native.dtype
    bits = np.dtype(f"u{ours.dtype.itemsize}")
    different = np.ascontiguousarray(ours).view(bits) != np.ascontiguousarray(native).view(bits)
    assert not different.any(), f"{different.sum()} of {different.size} elements differ"


_FILES = ("cases", "inputs", "outputs", "report")


def _write(requests: Iterable[Request], cases: Path, inputs: Path) -> None:
    with cases.open("w") as text, inputs.open("wb") as raw:
        for request in requests:
            offsets = []
            for array in request.inputs:
                offsets.append(raw.tell())
                raw.write(array.tobytes())
            tokens = {**request.tokens, "dt": request.dtype, "inputs_at": offsets}
            text.write(" ".join(f"{key}={_token(value)}" for key, value in tokens.items()) + "\n")


def _token(value: Token) -> str:
    return str(value) if isinstance(value, int | str) else ",".join(map(str, value))


def _outcome(line: str, dtype: str, raw: bytes) -> Outcome:
    status, detail, *results = line.split("\t")
    arrays = []
    for shape_text, offset in zip(results[::2], results[1::2], strict=True):
        shape = [int(size) for size in shape_text.split(",")]
        flat = np.frombuffer(raw, DTYPES[dtype], count=int(np.prod(shape)), offset=int(offset))
        arrays.append(flat.reshape(shape))
    return Outcome(status, detail, tuple(arrays))


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++"):
        if name and (path := shutil.which(name)):
            return path
    pytest.skip("no C++ compiler: set CXX, or install g++")


def _include_folders() -> tuple[str, ...]:
    folders = header_check.include_folders() if header_check.compiler() else None
    if folders is None:
        pytest.skip(
            "no oneDNN v3 headers, or no C compiler to try them: install onednn-devel-cpu-gomp, "
            "or set ONEDNN_PY_TEST_INCLUDE"
        )
    return folders


def _headers_version(compiler: Sequence[str]) -> tuple[int, ...]:
    """Ask the preprocessor: which headers are found is its business."""
    macros = "#include <oneapi/dnnl/dnnl_version.h>\nDNNL_VERSION_MAJOR DNNL_VERSION_MINOR\n"
    command = [*compiler, "-E", "-P", "-x", "c++", "-"]
    done = subprocess.run(command, input=macros, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no oneDNN headers: {done.stderr.strip()}")
    return tuple(map(int, done.stdout.split()[-2:]))


def _library() -> tuple[Path, tuple[int, ...]]:
    """Return the library that onednn_py uses, and its major and minor version."""
    info = onednn_py.info()
    if info["library"] is None:
        pytest.skip("no oneDNN library is found: see python -m onednn_py info")
    return Path(info["library"]), tuple(map(int, info["version"].split(".")[:2]))
