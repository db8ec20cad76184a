"""The architecture, tested: imports flow downwards, C has one door, import opens nothing."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import onednn_py
from onednn_py.api import FUNCTIONS
from onednn_py.problem.attributes import ATTRIBUTES
from tests.support.layers import FACES, FRAMEWORKS, NOT_PUBLIC, ROOMS, TESTED_BY
from tests.support.paths import ROOT

PACKAGE = Path(onednn_py.__file__).parent


def room(module: str) -> str:
    return max((r for r in ROOMS if module == r or module.startswith(f"{r}.")), key=len)


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


MODULES = modules()


def imports(tree: ast.AST, *, in_functions: bool = True) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements, but for those of types alone and of names that a module has lazily."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and not in_functions:
            continue
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        yield from imports(node, in_functions=in_functions)


def imported(module: str, path: Path, *, in_functions: bool = True) -> set[str]:
    """Modules of the package that a module imports, by their dotted names inside it."""
    package = ["onednn_py", *module.split(".")]
    if path.name != "__init__.py":
        package = package[:-1]
    elif module == "__init__":
        package = ["onednn_py"]
    targets = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in imports(tree, in_functions=in_functions):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = [*base, *(node.module.split(".") if node.module else [])]
            if name[0] != "onednn_py":
                continue
            for alias in node.names:
                whole = ".".join([*name[1:], alias.name])
                targets.add(whole if whole in MODULES else ".".join(name[1:]) or "__init__")
        else:
            names = [alias.name.split(".") for alias in node.names]
            targets |= {".".join(n[1:]) or "__init__" for n in names if n[0] == "onednn_py"}
    return targets


EDGES = {module: imported(module, path) for module, path in MODULES.items()}


@pytest.mark.parametrize("module", MODULES)
def test_imports_flow_downwards(module: str) -> None:
    for target in EDGES[module]:
        above = ROOMS.index(room(target)) > ROOMS.index(room(module))
        assert not above, f"{module} imports {target}, of a higher room"


def test_nothing_imports_in_a_circle() -> None:
    edges = {module: targets - {"__init__"} for module, targets in EDGES.items()}
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


@pytest.mark.parametrize("face", FACES)
def test_backends_are_imported_by_their_faces(face: str) -> None:
    for module, targets in EDGES.items():
        if module.startswith((f"{face}.", "tools.", "cli.")) or module == face:
            continue
        inside = {target for target in targets if target.startswith(f"{face}.")}
        # The public face of wisdom is made of the store.
        allowed = {"backends.onednn.wisdom", "backends.onednn.wisdom.store"}
        assert not inside - (allowed if module == "wisdom" else set()), module


@pytest.mark.parametrize(("one", "other"), [FACES, FACES[::-1]])
def test_backends_do_not_know_each_other(one: str, other: str) -> None:
    for module, targets in EDGES.items():
        if module == one or module.startswith(f"{one}."):
            assert not {t for t in targets if t == other or t.startswith(f"{other}.")}, module


def test_frameworks_and_tools_use_public_names() -> None:
    public = {"__init__", "errors", "wisdom", "overlap", "testing", "tools", "cli"}
    used = set()
    for module, targets in EDGES.items():
        top = module.split(".")[0]
        if top not in (*FRAMEWORKS, "testing", "tools", "cli"):
            continue
        for target in targets:
            if target.split(".")[0] in {top, *public}:
                continue
            if target in FRAMEWORKS and top == "tools":
                continue
            users, _ = NOT_PUBLIC.get(target, (set(), ""))
            allowed = {user for user in users if module == user or module.startswith(f"{user}.")}
            assert allowed, f"{module} imports {target}"
            used |= {(target, user) for user in allowed}
    unused = {(target, user) for target, (users, _) in NOT_PUBLIC.items() for user in users} - used
    assert not unused, "exceptions that nobody needs"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_rooms_of_frameworks_are_imported_by_nothing_else(framework: str) -> None:
    for module, path in MODULES.items():
        if module == framework or module.startswith(f"{framework}."):
            continue
        used = {t for t in EDGES[module] if t == framework or t.startswith(f"{framework}.")}
        if module.startswith("tools.") and framework not in imported(
            module, path, in_functions=False
        ):
            used -= {framework}
        assert not used, f"{module} imports {used}"


def test_cffi_is_imported_by_the_binding_alone() -> None:
    users = {
        module
        for module, path in MODULES.items()
        for node in imports(ast.parse(path.read_text(encoding="utf-8")))
        if "cffi" in [getattr(node, "module", ""), *(alias.name for alias in node.names)]
    }
    assert {room(module) for module in users} == {"backends.onednn.binding"}


def test_functions_of_onednn_are_called_by_the_binding_alone() -> None:
    users = {
        module
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr.lower().startswith("dnnl_")
    }
    assert {room(module) for module in users} == {"backends.onednn.binding"}


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
    paths = [*MODULES.values(), *(ROOT / "tests").rglob("*.py")]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert not {str(path): lines for path, lines in lengths.items() if lines > 400}


def test_every_module_of_the_core_has_a_test_file() -> None:
    for module, path in MODULES.items():
        if path.name == "__init__.py" or module.split(".")[0] in ("tools", "cli", "__main__"):
            continue
        *folders, name = module.split(".")
        named = Path(*folders, f"test_{name}.py")
        exists = (ROOT / "tests" / named).is_file()
        assert exists != (module in TESTED_BY), f"{module}: tests/{named}"
        if not exists:
            assert (ROOT / "tests" / TESTED_BY[module]).is_file(), module
    assert TESTED_BY.keys() <= MODULES.keys()


def test_no_test_module_imports_another() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        for node in imports(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
                assert node.module.startswith("tests.support"), f"{path} imports {node.module}"


def test_import_opens_no_library_and_reads_no_environment() -> None:
    code = """
import os, sys
class Watched(dict):
    def __getitem__(self, key):
        assert "ONEDNN_PY" not in str(key), key
        return super().__getitem__(key)
    def __contains__(self, key):
        assert "ONEDNN_PY" not in str(key), key
        return super().__contains__(key)
    def get(self, key, default=None):
        assert "ONEDNN_PY" not in str(key), key
        return super().get(key, default)
os.environ._data = Watched(os.environ._data)
before = dict(os.environ._data)
import onednn_py
assert os.environ._data == before
from onednn_py.backends.onednn.binding import library, runtime, declarations
assert library._found is None and runtime._engine is None
assert declarations._declared.cache_info().currsize == 0
if sys.platform == "linux":
    assert "libdnnl" not in open("/proc/self/maps").read()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_import_loads_no_tool() -> None:
    code = """
import sys
import onednn_py
rooms = ("onednn_py.tools", "onednn_py.cli", "onednn_py.testing")
loaded = [m for m in sys.modules if m.startswith(rooms)]
assert not loaded, loaded
assert onednn_py.load_graph.__module__ == "onednn_py.tools.graph_files"
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
    assert set(onednn_py.__all__) <= set(dir(onednn_py))


def test_all_functions_take_the_attributes_that_operations_share() -> None:
    own = {"weights_format", "output_padding", "auto_pad_rule"}
    for name, function in FUNCTIONS.items():
        missing = ATTRIBUTES.keys() - own - inspect.signature(function).parameters.keys()
        assert not missing, f"{name} lacks {missing}"
