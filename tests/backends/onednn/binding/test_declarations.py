"""The declarations in ``cdefs/`` say what the real headers and the real library say."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import cffi
import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.declarations import AREAS, declarations_folder, ffi
from onednn_py.backends.onednn.binding.runtime import current_engine
from tests.support import header_check
from tests.support.forks import child_while_held, needs_fork
from tests.support.header_check import DNNL_AREAS, DNNL_HEADER, OPENMP_AREA, OPENMP_HEADER

NO_COMPILER = "no C compiler: neither CC nor cc is found"

# Each: area, what to replace, by what, and the culprit that the compiler must name.
WRONG_DECLARATIONS = {
    "enum value": ("common", "dnnl_f32 = 3", "dnnl_f32 = 4", "dnnl_f32"),
    "enum value by position": ("common", "dnnl_f32 = 3", "dnnl_f64, dnnl_f32", "dnnl_f32"),
    "enum name": ("engine", "dnnl_cpu = 1", "dnnl_cpus = 1", "dnnl_cpus"),
    "macro value": ("primitive", "DNNL_ARG_BIAS 41", "DNNL_ARG_BIAS 42", "DNNL_ARG_BIAS"),
    "macro name": ("primitive", "DNNL_ARG_BIAS 41", "DNNL_ARG_BIASES 41", "DNNL_ARG_BIASES"),
    "argument type": ("engine", "size_t index", "int index", "dnnl_engine_create"),
    "argument too many": ("engine", "wait(dnnl_stream_t", "wait(int, dnnl_stream_t", "stream_wait"),
    "argument missing": (
        "memory",
        "get_size(const_dnnl_memory_desc_t memory_desc)",
        "get_size(void)",
        "dnnl_memory_desc_get_size",
    ),
    "constness": ("memory", "get_size(const_", "get_size(", "dnnl_memory_desc_get_size"),
    "result type": (
        "engine",
        "size_t dnnl_engine_get_count",
        "int dnnl_engine_get_count",
        "dnnl_engine_get_count",
    ),
    "function name": ("memory", "dnnl_memory_create", "dnnl_memory_make", "dnnl_memory_make"),
    "typedef": ("common", "int64_t dnnl_dim_t", "int32_t dnnl_dim_t", "dnnl_dim_t"),
    "field order": (
        "primitive",
        "int arg;\n    dnnl_memory_t memory;",
        "dnnl_memory_t memory;\n    int arg;",
        "dnnl_exec_arg_t.memory",
    ),
    "order of like fields": (
        "common",
        "int major;\n    int minor;",
        "int minor;\n    int major;",
        "dnnl_version_t.minor",
    ),
    "field type": ("common", "int patch;", "unsigned patch;", "dnnl_version_t.patch"),
    "field missing": ("common", "unsigned gpu_runtime;", "", "gpu_runtime"),
}


@pytest.fixture(scope="module")
def dnnl_folders() -> Sequence[str]:
    """Return the include folders of oneDNN's headers."""
    if header_check.compiler() is None:
        pytest.skip(NO_COMPILER)
    folders = header_check.include_folders()
    if folders is None:
        pytest.skip("no oneDNN v3 headers: pip install onednn-devel-cpu-gomp")
    return folders


def test_every_area_is_checked() -> None:
    assert {path.stem for path in declarations_folder().glob("*.h")} == set(AREAS)


def test_declarations_agree_with_the_headers(dnnl_folders: Sequence[str]) -> None:
    texts = header_check.read_areas(DNNL_AREAS)
    assert header_check.compile_errors(texts, DNNL_HEADER, dnnl_folders) == ""


@pytest.mark.parametrize(
    ("area", "right", "wrong", "culprit"),
    WRONG_DECLARATIONS.values(),
    ids=WRONG_DECLARATIONS.keys(),
)
def test_wrong_declaration_is_found(
    area: str, right: str, wrong: str, culprit: str, dnnl_folders: Sequence[str]
) -> None:
    texts = header_check.read_areas(DNNL_AREAS)
    assert texts[area].count(right) == 1
    texts[area] = texts[area].replace(right, wrong)
    errors = header_check.compile_errors(texts, DNNL_HEADER, dnnl_folders)
    assert f"cdefs/{area}.h:" in errors
    assert culprit in errors


@pytest.mark.skipif(header_check.compiler() is None, reason=NO_COMPILER)
def test_openmp_declarations_agree_with_the_header() -> None:
    if header_check.compile_errors({}, OPENMP_HEADER):
        pytest.skip("no omp.h: the compiler comes without OpenMP")
    texts = header_check.read_areas([OPENMP_AREA])
    assert header_check.compile_errors(texts, OPENMP_HEADER) == ""
    texts[OPENMP_AREA] = texts[OPENMP_AREA].replace("int num_threads", "long num_threads")
    assert "omp_set_num_threads" in header_check.compile_errors(texts, OPENMP_HEADER)


@pytest.mark.parametrize("area", AREAS)
def test_cffi_reads_each_area_after_those_before_it(area: str) -> None:
    ffi = cffi.FFI()
    for text in header_check.read_areas(AREAS[: AREAS.index(area) + 1]).values():
        ffi.cdef(text)


def test_cffi_and_the_check_see_the_same_declarations() -> None:
    texts = header_check.read_areas(DNNL_AREAS)
    source = header_check.assertions(texts, DNNL_HEADER)
    ffi = cffi.FFI()
    ffi.cdef("\n".join(texts.values()))
    for name in ffi.list_types()[0]:
        ctype = ffi.typeof(name)
        if ctype.kind == "enum":
            checked = [f'"{enumerator}"' for enumerator in ctype.relements]
        elif ctype.kind == "struct" and ctype.fields:
            checked = [
                f'"{kind} of {name}.{field}"'
                for kind in ("offset", "type")
                for field, _ in ctype.fields
            ]
        else:
            checked = [f'"{name}"']
        assert [text for text in checked if f"{text});" not in source] == []


def test_every_function_exists_in_the_library() -> None:
    path = onednn_py.info()["library"]
    if path is None:
        pytest.skip("no oneDNN library is loaded")
    # Symbols of the OpenMP runtime are found through libdnnl, which is linked to it.
    library = ctypes.CDLL(path)
    functions = header_check.function_names(header_check.read_areas(AREAS))
    assert len(functions) > 20
    assert [name for name in functions if not hasattr(library, name)] == []


def fresh_gradients(effort: str = "heuristic") -> bool:
    """Plan and compute a problem in several types, and print its plan."""
    onednn_py.cache_clear()
    with onednn_py.use_effort(effort):
        for dtype in (np.float32, np.float16):
            src, weights = np.ones((1, 9, 2), dtype), np.ones((3, 2, 4), dtype)
            dst = onednn_py.convolution(src, weights)
            onednn_py.convolution_backward(src, weights, dst, wrt=("src", "weights", "bias"))
            repr(onednn_py.plan(onednn_py.convolution, src, weights))
    return bool((dst == 6).all())


class _Refused:
    """A lock that nobody may take."""

    def acquire(self, *_: object) -> bool:
        raise AssertionError("a call has taken cffi's lock")

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("effort", ["heuristic", "measure"])
def test_once_the_library_is_open_cffi_takes_no_lock(
    onednn: str, effort: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forked child could find it held for ever."""
    current_engine()
    assert hasattr(ffi(), "_lock")
    monkeypatch.setattr(ffi(), "_lock", _Refused())
    assert fresh_gradients(effort)


@needs_fork
def test_a_child_has_a_lock_of_cffi_of_its_own(onednn: str) -> None:
    current_engine()

    def parse() -> bool:
        return ffi().typeof("short **") is not None and fresh_gradients()

    assert child_while_held(ffi()._lock, parse) == 0  # type: ignore[attr-defined]
