"""Compiles the C++ programs that run native oneDNN, and runs cases on them.

The programs link with the very library that the package uses and run with its number of
threads, so that the same implementation must give the same bits: ``"primitives"`` runs
convolution and deconvolution primitives, ``"graph"`` single operations of the Graph API, and
``"timing"`` serves the benchmark. The comment at the head of each C++ file names the tokens of
its cases. For example::

    program = native_program("primitives")  # ComparisonUnavailableError says what is missing
    requests = [Request({"op": "conv", "dir": "bwd_d", ...}, "f32", (diff_dst, weights)), ...]
    for outcome in run_program(program, requests, timeout=120):
        print(outcome.status, outcome.detail, outcome.arrays)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import platformdirs

from onednn_py import get_num_threads
from onednn_py.backends.onednn import (
    DEFECTS,
    GRAPH_FUNCTION,
    Library,
    headers_command,
    library,
)
from onednn_py.errors import LibraryNotFoundError, OneDNNPyError
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Problem

__all__ = [
    "PROGRAMS",
    "ComparisonUnavailableError",
    "NativeProgramError",
    "Outcome",
    "Request",
    "Token",
    "case_line",
    "find_compiler",
    "known_defect",
    "native_program",
    "run_program",
    "sources_folder",
]

PROGRAMS = ("graph", "primitives", "timing")

Array = npt.NDArray[Any]
Token = int | str | Sequence[int]


class ComparisonUnavailableError(OneDNNPyError):
    """Native oneDNN cannot be run on this machine; the message says what is missing."""


class NativeProgramError(ComparisonUnavailableError):
    """A program does not compile although nothing is missing, or it ends with an error."""


@dataclass(frozen=True)
class Request:
    """One case for a native program.

    Attributes
    ----------
    tokens : mapping of str to int, str or sequence of int
        What the program reads of the case, without ``dt`` and ``inputs_at``.
    dtype : {"f32", "bf16", "f16"}
        Data type of all tensors.
    inputs : tuple of ndarray
        In the order in which the program takes them; written in C order.
    """

    tokens: Mapping[str, Token]
    dtype: str
    inputs: tuple[Array, ...]


@dataclass(frozen=True)
class Outcome:
    """The answer of native oneDNN to a request.

    Attributes
    ----------
    status : str
        ``"success"``, the name of oneDNN's status (``"unimplemented"``, ...), ``"crashed"``
        or ``"timed out"`` if the process ended during this case, ``"not run"`` if it ended
        during an earlier one.
    detail : str
        The implementation's name where the program knows it, or the error's message.
    arrays : tuple of ndarray
        The results, dense, in the shapes that the program reports.
    """

    status: str
    detail: str
    arrays: tuple[Array, ...] = ()


def sources_folder() -> Path:
    """Return the folder of the C++ sources: in the package if installed, or tests/native."""
    tools = Path(__file__).resolve().parent
    inside = tools / "native"
    return inside if inside.is_dir() else tools.parents[1] / "tests" / "native"


def native_program(name: str, *, include: Sequence[str] = (), folder: Path | None = None) -> Path:
    """Return the path of a compiled program, compiling it if it is not in ``folder`` yet.

    Parameters
    ----------
    name : {"graph", "primitives", "timing"}
    include : sequence of str
        Folders of oneDNN's headers. By default the folder beside the library, ``sys.prefix``
        and the compiler's own folders are searched.
    folder : Path, optional
        Where compiled programs are kept, under names that depend on the sources, the library
        and the compiler's command. By default the user's cache.

    Raises
    ------
    ComparisonUnavailableError
        If there is no library, no compiler, no headers of the library's version, or no Graph
        API in it.
    NativeProgramError
        If the compiler fails.
    """
    if name not in PROGRAMS:
        raise ValueError(f"native_program: expected one of {', '.join(PROGRAMS)}; got {name!r}")
    found, path = _library()
    if name == "graph" and not found.exports(GRAPH_FUNCTION):
        raise ComparisonUnavailableError(f"{path} is built without the Graph API")
    compiler = find_compiler()
    folders = _include_folders(compiler, found.version[:2], path, include)
    source = sources_folder() / f"{name}.cpp"
    command = [compiler, "-std=c++17", "-O1", "-Wall", *(f"-I{where}" for where in folders)]
    command += [str(source), str(path), f"-Wl,-rpath,{path.parent}"]
    if sys.platform == "linux":
        # DT_RPATH, because LD_LIBRARY_PATH takes precedence over DT_RUNPATH.
        command.append("-Wl,--disable-new-dtags")
    if folder is None:
        folder = platformdirs.user_cache_path("onednn_py", appauthor=False) / "native_programs"
    program = folder / f"{name}-{_digest(source, command, found)}"
    if not program.is_file():
        _compile(command, program)
    return program


def run_program(program: Path, requests: Sequence[Request], timeout: float = 120) -> list[Outcome]:
    """Run all requests in one process of a program that `native_program` returned.

    Outcomes are in the order of the requests. A process that crashes or exceeds the timeout,
    in seconds for all requests together, is an outcome, not an exception.

    Raises
    ------
    NativeProgramError
        If the program cannot be started, or ends with an error of its own.
    """
    with tempfile.TemporaryDirectory(prefix="onednn_py-") as folder:
        files = [Path(folder, name) for name in ("cases", "inputs", "outputs", "report")]
        cases, inputs, outputs, report = files
        _write(requests, cases, inputs)
        ending = _execute([program, *files], timeout)
        raw = outputs.read_bytes() if outputs.exists() else b""
        lines = report.read_text().splitlines() if report.exists() else []
    outcomes = [_outcome(line, r.dtype, raw) for line, r in zip(lines, requests, strict=False)]
    if ending:
        if len(outcomes) == len(requests):
            raise NativeProgramError(
                f"{program} {ending.status} {ending.detail} after its last case"
            )
        outcomes.append(ending)
    missing = len(requests) - len(outcomes)
    return outcomes + [Outcome("not run", "the process ended earlier")] * missing


def _execute(command: Sequence[Path], timeout: float) -> Outcome | None:
    """Run a program to its end; return the outcome of the case during which it was killed."""
    # Spinning threads slow the cases down many times where other processes want the cores.
    threads = {"OMP_NUM_THREADS": str(get_num_threads()), "OMP_WAIT_POLICY": "passive"}
    try:
        done = _run(command, timeout, env=os.environ | threads)
    except subprocess.TimeoutExpired:
        return Outcome("timed out", f"after {timeout:g} s")
    except OSError as error:
        raise NativeProgramError(f"{command[0]} cannot be run: {error}") from None
    if done.returncode > 0:
        raise NativeProgramError(
            f"{command[0]} exited with {done.returncode}: {done.stderr.strip()}"
        )
    return Outcome("crashed", f"by signal {-done.returncode}") if done.returncode else None


def known_defect(problem: Problem) -> str:
    """Return the reference of a known defect of native oneDNN that a problem may meet, or "".

    The implementation that native oneDNN would choose is not known here, so the answer also
    covers some problems that it would compute correctly.
    """
    version, convolution = library().version, problem.as_convolution()
    met = (
        defect.reference
        for defect in DEFECTS
        if defect.is_in(version) and not defect.only_slow and defect.affects(problem, convolution)
    )
    return next(met, "")


def _write(requests: Iterable[Request], cases: Path, inputs: Path) -> None:
    with cases.open("w") as text, inputs.open("wb") as raw:
        for request in requests:
            offsets = []
            for array in request.inputs:
                offsets.append(raw.tell())
                raw.write(array.tobytes())
            tokens = {**request.tokens, "dt": request.dtype, "inputs_at": offsets}
            text.write(case_line(tokens) + "\n")


def case_line(tokens: Mapping[str, Token]) -> str:
    """Return tokens as a line that the native programs read: ``strides=1,2 dt=f32``."""
    return " ".join(
        f"{key}={value if isinstance(value, int | str) else ','.join(map(str, value))}"
        for key, value in tokens.items()
    )


def _outcome(line: str, dtype: str, raw: bytes) -> Outcome:
    status, detail, *results = line.split("\t")
    arrays = []
    for shape_text, offset in zip(results[::2], results[1::2], strict=True):
        shape = tuple(map(int, shape_text.split(",")))
        arrays.append(np.ndarray(shape, DTYPES[dtype], raw, int(offset)))
    return Outcome(status, detail, tuple(arrays))


def _library() -> tuple[Library, Path]:
    try:
        found = library()
    except LibraryNotFoundError as error:
        raise ComparisonUnavailableError(f"no native oneDNN to compare with: {error}") from error
    path = Path(found.path).absolute()
    if not path.is_file():
        raise ComparisonUnavailableError(
            f"the loader found {path} by its name: set ONEDNN_PY_LIBRARY to the file's path"
        )
    return found, path


def find_compiler() -> str:
    """Return the path of the C++ compiler: ``CXX``, c++, g++ or clang++.

    Raises
    ------
    ComparisonUnavailableError
        If there is none, or on Windows, where the programs are not built.
    """
    if sys.platform == "win32":
        raise ComparisonUnavailableError("the native programs are not built on Windows")
    chosen = os.environ.get("CXX")
    for name in (chosen,) if chosen else ("c++", "g++", "clang++"):
        if path := shutil.which(name):
            return path
    if chosen:
        raise ComparisonUnavailableError(
            f"no C++ compiler: CXX is {chosen!r}; expected the name or path of a program, without"
            " options"
        )
    raise ComparisonUnavailableError("no C++ compiler: set CXX, or install g++")


def _include_folders(
    compiler: str, version: tuple[int, ...], path: Path, chosen: Sequence[str]
) -> Sequence[str]:
    """Return the first folders whose headers have the library's minor version."""
    beside, installed = path.parent.parent / "include", Path(sys.prefix, "include")
    tried: list[str] = []
    for folders in [chosen] if chosen else [[str(beside)], [str(installed)], []]:
        found = _headers_version(compiler, folders)
        if found == version:
            return folders
        if found:
            tried.append(f"; {'.'.join(map(str, found))} in {', '.join(folders) or 'its own'}")
    wanted = ".".join(map(str, version))
    command = headers_command(version)
    install = f"`{command}`" if command else "install the package of that version that has them"
    raise ComparisonUnavailableError(
        f"no headers of oneDNN {wanted} beside {path}, in {installed} or where {compiler}"
        f" looks{''.join(tried)}: {install}, or set CPLUS_INCLUDE_PATH"
    )


def _headers_version(compiler: str, folders: Sequence[str]) -> tuple[int, ...] | None:
    """Return the version of the headers that the compiler's preprocessor finds, if any."""
    macros = "#include <oneapi/dnnl/dnnl_version.h>\nDNNL_VERSION_MAJOR DNNL_VERSION_MINOR\n"
    command = [compiler, "-E", "-P", "-x", "c++", *(f"-I{folder}" for folder in folders), "-"]
    done = _run(command, timeout=60, input=macros)
    return None if done.returncode else tuple(map(int, done.stdout.split()[-2:]))


def _run(
    command: Sequence[str | Path], timeout: float, **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, **options
    )


def _digest(source: Path, command: Sequence[str], found: Library) -> str:
    try:
        headers = sorted(source.parent.glob("*.hpp"))
        texts = [file.read_bytes() for file in (source, *headers)]
    except OSError as error:
        raise ComparisonUnavailableError(f"the C++ sources are missing: {error}") from None
    identity = repr((texts, command, found.version, found.hash))
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _compile(command: Sequence[str], program: Path) -> None:
    """Compile in a temporary folder, then rename: no other process sees a partial program."""
    try:
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            compiled = Path(folder, program.name)
            done = _run([*command, "-o", compiled], timeout=300)
            if done.returncode:
                raise NativeProgramError(f"{' '.join(command)}\n{done.stderr}")
            compiled.replace(program)
    except subprocess.TimeoutExpired as error:
        raise NativeProgramError(f"{error}: {' '.join(command)}") from None
    except OSError as error:
        raise ComparisonUnavailableError(f"cannot write the program {program}: {error}") from None
