"""The search for a library: order, rejections, and life without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import onednn_py
from onednn_py import ShapeError
from onednn_py.backends.onednn.binding import library
from onednn_py.backends.onednn.binding import runtime as runtime_module
from onednn_py.backends.onednn.binding.library import Rejection
from onednn_py.backends.onednn.binding.search import LibraryFile
from onednn_py.system.parallel import available_cpus
from tests.support.requirements import HAS_ONEDNN, needs_onednn

COMPILER = os.environ.get("CC", "cc")


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


# The search finds nothing: how the package behaves on a machine without oneDNN.
WITHOUT = """
from onednn_py.backends.onednn.binding import library
from onednn_py.backends.onednn.binding import runtime as runtime_module
library.library_files = lambda: {files!r}
import numpy as np, onednn_py
src, weights = np.ones((1, 4, 2), np.float32), np.ones((3, 2, 1), np.float32)
"""


def test_without_a_library_auto_uses_numpy_and_says_so_once() -> None:
    code = WITHOUT.format(files=[]) + (
        "for _ in range(3):\n"
        "    print(onednn_py.convolution(src, weights).ravel().tolist())\n"
        "print(onednn_py.plan(onednn_py.convolution, src, weights).backend)\n"
    )
    done = run(code, ONEDNN_PY_LIBRARY="", ONEDNN_PY_BACKEND="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[6.0, 6.0]"] * 3 + ["numpy"]
    assert done.stderr.count("RuntimeWarning") == 1
    assert "pip install onednn-cpu-gomp" in done.stderr


def test_without_a_library_onednn_is_an_error_with_every_path_tried() -> None:
    tried = [LibraryFile("/nowhere/libdnnl.so.3", "system"), LibraryFile(__file__, "a text file")]
    code = WITHOUT.format(files=[tuple(c) for c in tried]).replace(
        "lambda: ", "lambda: [library.LibraryFile(*c) for c in "
    ).replace(")]\n", ")]]\n") + (
        "try:\n"
        "    onednn_py.convolution(src, weights, backend='onednn')\n"
        "except onednn_py.LibraryNotFoundError as error:\n"
        "    print(error)\n"
        "info = onednn_py.info()\n"
        "cpus = onednn_py.system.parallel.available_cpus()\n"
        "print(info['library'], len(info['rejected']), onednn_py.get_num_threads() == cpus)\n"
    )
    done = run(code, ONEDNN_PY_LIBRARY="", ONEDNN_PY_BACKEND="")
    assert done.returncode == 0, done.stderr
    for file in tried:
        assert file.path in done.stdout
        assert file.source in done.stdout
    assert done.stdout.splitlines()[-1] == "None 2 True"


@pytest.mark.parametrize("backend", ["auto", "onednn"])
@pytest.mark.parametrize("path", ["/nowhere/libdnnl.so.3", "/", __file__])
def test_an_explicit_path_that_fails_is_an_error(path: str, backend: str) -> None:
    code = (
        "import numpy as np, onednn_py\n"
        "try:\n"
        f"    onednn_py.convolution(np.ones((1, 4, 2)), np.ones((3, 2, 1)), backend={backend!r})\n"
        "    onednn_py.convolution(np.ones((1, 4, 2), 'f4'), np.ones((3, 2, 1), 'f4'),"
        f" backend={backend!r})\n"
        "except onednn_py.LibraryNotFoundError as error:\n"
        "    print(error)\n"
    )
    done = run(code, ONEDNN_PY_LIBRARY=path)
    assert done.returncode == 0, done.stderr
    assert "ONEDNN_PY_LIBRARY names a library that cannot be used" in done.stdout
    assert path in done.stdout


@needs_onednn
def test_an_explicit_path_is_used() -> None:
    path = onednn_py.info()["library"]
    code = "import onednn_py; info = onednn_py.info(); print(info['library'], info['source'])"
    done = run(code, ONEDNN_PY_LIBRARY=path)
    assert done.stdout.split() == [path, "ONEDNN_PY_LIBRARY"]


FAKE = """
typedef struct {{ int major, minor, patch; const char *hash; unsigned cpu, gpu; }} version_t;
static const version_t version = {{ {major}, 6, 0, "x", {runtime}, 0 }};
const version_t *dnnl_version(void) {{ return &version; }}
unsigned long dnnl_engine_get_count(int kind) {{ return {engines}; }}
int dnnl_engine_create(void **engine, int kind, unsigned long index) {{ return {status}; }}
{more}
"""


def fake(
    *,
    major: int = 3,
    runtime: int = 2,
    engines: int = 1,
    status: int = 5,
    more: str = "",
) -> str:
    """Return the source of a library with few of oneDNN's functions."""
    return FAKE.format(major=major, runtime=runtime, engines=engines, status=status, more=more)


def build(folder: Path, source: str, name: str = "libdnnl.so") -> str:
    (folder / "fake.c").write_text(source)
    path = folder / name
    try:
        subprocess.run(
            [COMPILER, "-shared", "-fPIC", "-o", path, folder / "fake.c"], check=True, timeout=60
        )
    except FileNotFoundError:
        pytest.skip("no C compiler")
    return str(path)


@pytest.mark.skipif(sys.platform != "linux", reason="builds ELF libraries")
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (fake(major=2), "is version 2.6.0, another API"),
        (fake(engines=0), "has no CPU engine"),
        (fake(), "cannot create a CPU engine"),
        (fake(runtime=512, engines=0), "OCL_ICD_FILENAMES"),
        ("int other(void) { return 0; }", "not a oneDNN library"),
        (fake(status=0), "dnnl_engine_destroy"),
        (
            fake(status=0, more="int dnnl_engine_destroy(void *engine) { return 0; }"),
            "has not all functions of version 3",
        ),
        (
            fake().replace("dnnl_engine_get_count", "dnnl_engine_count"),
            "has not all functions of version 3",
        ),
    ],
)
def test_rejections_say_why(tmp_path: Path, source: str, reason: str) -> None:
    path = build(tmp_path, source)
    assert reason in library._open(LibraryFile(path, "test"))


@pytest.mark.skipif(sys.platform != "linux", reason="builds ELF libraries")
@pytest.mark.parametrize(
    ("runtime", "name", "one_thread", "note"),
    [
        (1, "sequential", True, "one thread, because the library was built without threads"),
        (2, "OpenMP", False, None),
        (4, "TBB", False, "TBB decides"),
        (8, "thread pool", True, "one thread, because this build waits for a pool"),
    ],
)
def test_the_runtime_tells_about_threads(
    tmp_path: Path, runtime: int, name: str, one_thread: bool, note: str | None
) -> None:
    path = build(tmp_path, fake(runtime=runtime))
    found = library.Library(library.ffi().dlopen(path), path, "test")
    assert (found.runtime, found.has_one_thread) == (name, one_thread)
    assert (found.thread_note is None) == (note is None)
    assert (note or "") in (found.thread_note or "")
    if runtime != library.OPENMP:
        expected = 1 if one_thread else available_cpus()
        assert runtime_module.apply_threads(found) == expected


def test_messages_keep_to_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons are shortened before paths are left out."""
    where = [f"/opt/some/where/{n}/lib/libdnnl.so.3" for n in range(40)]
    rejected = [Rejection(path, "system", "a reason " * 40) for path in where]
    monkeypatch.setattr(library, "_rejected", rejected[:3])
    message = library._failure_message(None)
    assert all(path in message for path in where[:3])
    assert "Remedy: " in message
    assert len(message) <= library.LONGEST_MESSAGE
    monkeypatch.setattr(library, "_rejected", rejected)
    message = library._failure_message(None)
    assert where[0] in message
    assert "more, see python -m onednn_py info" in message
    assert "Remedy: " in message
    assert len(message) <= library.LONGEST_MESSAGE
    monkeypatch.setattr(library, "_rejected", [Rejection("/x" * 3000, "s", "no such file")])
    message = library._failure_message("/x" * 3000)
    assert "no such file" in message
    assert len(message) <= library.LONGEST_MESSAGE


def test_a_sycl_build_that_does_not_open_says_what_it_needs() -> None:
    reason = library._unopened(
        "/opt/libdnnl.so.3", "libsycl.so.9: cannot open shared object file: No such file"
    )
    assert "LD_LIBRARY_PATH" in reason
    assert "onednn-cpu-gomp" in reason


def test_a_library_of_version_2_is_known_by_its_name() -> None:
    """Debian's is linked to OpenCL as a SYCL build is, and lacks it as often."""
    path = "/usr/lib/libdnnl.so.2"
    trouble = "libOpenCL.so.1: cannot open shared object file"
    reason = library._unopened(
        path, f"cannot load library '{path}': {trouble}.  Additionally, ctypes.util..."
    )
    assert reason.startswith(f"cannot be opened: {trouble} (")
    assert "version 2" in reason
    assert "SYCL" not in reason
    assert "SYCL" in library._unopened("/usr/lib/libdnnl.so.3", trouble)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (0x0, "default"),
        (0x7, "avx2"),
        (0xFEF, "avx512_core_amx"),
        # AVX10.2 without AMX and with it, which oneDNN 3.2 does not know.
        (0x201FF, "avx512_core_fp16 and more (0x201ff)"),
        (0x22FFF, "avx512_core_amx and more (0x22fff)"),
    ],
)
def test_instruction_sets_without_a_name_are_those_within(value: int, name: str) -> None:
    assert library.isa_name(value) == name


@needs_onednn
def test_the_instruction_set_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan needs its name, which does not change while a process runs."""
    found = library.library()
    name = found.cpu_isa
    monkeypatch.setattr(found, "lib", None)
    assert found.cpu_isa == name


def test_info_is_complete_and_json() -> None:
    info = onednn_py.info()
    assert json.loads(json.dumps(info)) == info
    assert {
        "onednn_py", "python", "numpy", "library", "version", "hash", "cpu_isa", "runtime",
        "threads", "rejected", "error",
    } <= set(info)  # fmt: skip
    if HAS_ONEDNN:
        assert info["version"].startswith("3.")
        assert Path(info["library"]).is_file()
        assert info["threads"] >= 1
        assert info["error"] is None
    else:
        assert info["library"] is None
        assert "no usable oneDNN library" in info["error"]


class TestBackendChoice:
    CODE = (
        "import numpy as np, onednn_py\n"
        "x, w = np.ones((1, 4, 2), np.float32), np.ones((3, 2, 1), np.float32)\n"
        "print(onednn_py.plan(onednn_py.convolution, x, w).backend)\n"
        "with onednn_py.use_backend('auto'):\n"
        "    print(onednn_py.plan(onednn_py.convolution, x, w).backend)\n"
        "    print(onednn_py.plan(onednn_py.convolution, x, w, backend='numpy').backend)\n"
    )

    @needs_onednn
    def test_call_before_context_before_environment(self) -> None:
        done = run(self.CODE, ONEDNN_PY_BACKEND="numpy")
        assert done.stdout.split() == ["numpy", "onednn", "numpy"]

    def test_a_wrong_environment_names_the_variable(self) -> None:
        done = run(self.CODE, ONEDNN_PY_BACKEND="gpu")
        assert "AttributeValueError: environment variable ONEDNN_PY_BACKEND" in done.stderr

    def test_context_is_restored_after_an_error(self) -> None:
        import numpy as np

        src, weights = np.ones((1, 4, 2), np.float32), np.ones((3, 2, 1), np.float32)
        before = onednn_py.plan(onednn_py.convolution, src, weights).backend
        with onednn_py.use_backend("numpy"):
            assert onednn_py.plan(onednn_py.convolution, src, weights).backend == "numpy"
        with pytest.raises(ShapeError), onednn_py.use_backend("numpy"):
            onednn_py.convolution(src[0], weights)
        assert onednn_py.plan(onednn_py.convolution, src, weights).backend == before
