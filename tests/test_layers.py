"""The architecture, tested: imports flow downwards, C has one door, import opens nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import onednn_py

PACKAGE = Path(onednn_py.__file__).parent

# Lower layers never import higher ones; modules of one layer may import each other
# where no cycle arises. docs/architecture.md explains the same list.
LAYERS = [
    ["errors"],
    ["geometry", "config", "parallel", "blas"],
    ["problem", "operations", "benchdnn", "benchdnn.descriptor"],
    [
        *("formats", "arrays", "attributes", "inference", "normalise", "plancache", "rounding"),
        "memory",
        *("wisdom.entry", "wisdom.files", "wisdom"),
    ],
    [
        *("numpy_backend.scratch", "numpy_backend.correlation", "numpy_backend.windows"),
        *("numpy_backend.matrices", "numpy_backend.products", "numpy_backend.gradient"),
        *("numpy_backend.channelwise", "numpy_backend.plan", "numpy_backend"),
        "native",
        "native.declarations",
        "native.search",
        "native.library",
        "native.openmp",
        "native.handles",
        "native.guards",
        "native.descriptors",
        "native.support",
        "native.execute",
        "native.cutting",
        "native.formulations",
        "native.amounts",
        "native.rules",
        "native.heuristics",
        "native.parts",
        "native.footprint",
        "native.conversions",
        "native.building",
        "native.plan",
        "native.packing",
        "native.selection",
        "native.tune",
        "native.runtime",
    ],
    ["dispatch", "calls"],
    [
        *("ops.call", "ops.convolutions", "ops.transposed", "ops.joint", "ops"),
        *("graph", "planning", "threads", "information", "comparison"),
        *("graph_files.parsing", "graph_files.calls", "graph_files.tensors"),
        *("graph_files.agreement", "graph_files.replay", "graph_files"),
        *("benchdnn.case", "benchdnn.batch", "benchdnn.filling"),
        *("verification", "verification.verifier", "verification.report"),
        *("verification.numerical_errors", "verification.native_runner"),
        *("benchmark", "benchmark.suites", "benchmark.requests", "benchmark.torch_calls"),
        *("benchmark.competitors", "benchmark.worker", "benchmark.__main__"),
        *("benchmark.processes", "benchmark.contestants", "benchmark.rounds"),
        *("benchmark.results", "benchmark.report", "benchmark.machine"),
    ],
    ["__init__", "cli", "__main__"],
]
RANK = {module: rank for rank, modules in enumerate(LAYERS) for module in modules}


def rank(module: str) -> int:
    return RANK["cli"] if module.startswith("cli") else RANK[module]


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


MODULES = modules()


def imported(module: str, path: Path) -> set[str]:
    """Modules of the package that a module imports, by their dotted names inside it."""
    package = ["onednn_py", *module.split(".")]
    if path.name != "__init__.py":
        package = package[:-1]
    elif module == "__init__":
        package = ["onednn_py"]
    targets = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            name = [*base, *(node.module.split(".") if node.module else [])][1:]
            for alias in node.names:
                whole = ".".join([*name, alias.name])
                targets.add(whole if whole in MODULES else ".".join(name) or "__init__")
        elif isinstance(node, ast.Import):
            targets |= {"__init__" for alias in node.names if alias.name == "onednn_py"}
    return targets


@pytest.mark.parametrize("module", MODULES)
def test_imports_flow_downwards(module: str) -> None:
    for target in imported(module, MODULES[module]):
        assert rank(target) <= rank(module), f"{module} imports {target}, a higher layer"


def test_nothing_imports_in_a_circle() -> None:
    edges = {
        module: imported(module, path) - {"__init__"}
        for module, path in MODULES.items()
        if module != "__init__"
    }
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"circle: {' -> '.join((*path, module))}"
        if module not in done:
            for target in edges.get(module, ()):
                if target != module:
                    visit(target, (*path, module))
            done.add(module)

    for module in edges:
        visit(module, ())


@pytest.mark.parametrize(
    ("text", "home"), [("cffi.FFI(", "native.declarations"), (".dlopen(", "native.library")]
)
def test_c_has_one_door(text: str, home: str) -> None:
    users = [name for name, path in MODULES.items() if text in path.read_text(encoding="utf-8")]
    assert users == [home]


def test_no_module_is_too_long() -> None:
    long = {
        path.relative_to(PACKAGE).as_posix(): lines
        for path in MODULES.values()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long


def test_import_opens_no_library_and_reads_no_environment() -> None:
    code = """
import os, sys
class Watched(dict):
    def __getitem__(self, key):
        assert not str(key).startswith("ONEDNN_PY"), key
        return super().__getitem__(key)
    def get(self, key, default=None):
        assert not str(key).startswith("ONEDNN_PY"), key
        return super().get(key, default)
os.environ = Watched(os.environ)
import onednn_py
from onednn_py.native import library, runtime, declarations
assert library._found is None and runtime._runtime is None
assert declarations.ffi.cache_info().currsize == 0
if sys.platform == "linux":
    assert "libdnnl" not in open("/proc/self/maps").read()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_public_names_are_those_of_the_contract() -> None:
    names = """
        convolution convolution_backward_data convolution_backward_weights conv_transpose
        conv_transpose_backward_data conv_transpose_backward_weights convolution_backprop_data
        convolution_backward conv_transpose_backward Gradients run_op use_backend info plan
        TensorSpec cache_info cache_clear set_cache_limit OneDNNPyError ShapeError
        use_effort use_fpmath_mode set_num_threads get_num_threads num_threads wisdom
        AttributeValueError DTypeError LibraryNotFoundError OneDNNError
    """
    assert set(names.split()) <= set(onednn_py.__all__)
    for name in onednn_py.__all__:
        assert getattr(onednn_py, name).__doc__, f"{name} has no docstring"
