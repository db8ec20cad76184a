"""The architecture, tested: imports flow downwards, C has one door, import opens nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import onednn_py

PACKAGE = Path(onednn_py.__file__).parent

# From the lowest room to the highest: a module imports from its own room and from lower ones.
# docs/architecture.md shows the same order.
ROOMS = (
    "errors",
    "config",
    "system",
    "problem",
    "wisdom",
    "backends.numpy",
    "backends.onednn",
    "dispatch",
    "api",
    "__init__",
    "tools",
    "cli",
    "__main__",
)


def rank(module: str) -> int:
    homes = [room for room in ROOMS if module == room or module.startswith(f"{room}.")]
    return ROOMS.index(homes[0])


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


MODULES = modules()


def imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements, but for those of types alone and of names that a module has lazily."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        yield from imports(node)


def imported(module: str, path: Path) -> set[str]:
    """Modules of the package that a module imports, by their dotted names inside it."""
    package = ["onednn_py", *module.split(".")]
    if path.name != "__init__.py":
        package = package[:-1]
    elif module == "__init__":
        package = ["onednn_py"]
    targets = set()
    for node in imports(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = [*base, *(node.module.split(".") if node.module else [])]
            if name[0] != "onednn_py":
                continue
            for alias in node.names:
                whole = ".".join([*name[1:], alias.name])
                targets.add(whole if whole in MODULES else ".".join(name[1:]) or "__init__")
        else:
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
    ("text", "home"),
    [
        ("cffi.FFI(", "backends.onednn.binding.declarations"),
        (".dlopen(", "backends.onednn.binding.library"),
    ],
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
from onednn_py.backends.onednn.binding import library, runtime, declarations
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
