"""`enable`, `disable`, `enabled`: what is in place when, and who else may be there."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from onednn_py.errors import AttributeValueError, LibraryNotFoundError
from onednn_py.system import allocator
from onednn_py.system.allocator import freed_memory_is_kept
from onednn_py.torch import disable, enable, enabled, registration
from tests.support.paths import ROOT
from tests.support.torch_cases import integers
from tests.support.torch_comparison import assert_equal, counted

pytestmark = pytest.mark.frameworks

F = torch.nn.functional
BOTH = {"convolution", "convolution_backward"}


def met() -> set[str]:
    """Return the names of the operations whose kernels are ours, by one step of training."""
    src = integers(2, 4, 8, 8)
    weights = integers(6, 4, 3, 3, seed=1).requires_grad_()
    with counted() as calls:
        dst = F.conv2d(src, weights)
        dst.sum().backward()
    expected = F.conv2d(src.double(), weights.double())
    assert_equal(dst, expected)
    return {*calls.taken, *calls.left}


def test_on_and_off() -> None:
    assert met() == set()
    enable()
    assert met() == BOTH
    disable()
    assert met() == set()


def test_twice_is_once() -> None:
    enable()
    enable()
    assert met() == BOTH
    disable()
    assert met() == set()
    disable()
    assert met() == set()


def test_the_forward_pass_may_be_left_out() -> None:
    enable(forward=False)
    assert met() == {"convolution_backward"}
    enable()
    assert met() == BOTH
    enable(forward=False)
    assert met() == {"convolution_backward"}
    disable()
    assert met() == set()


def test_settings_are_keywords() -> None:
    with pytest.raises(TypeError):
        enable(False)  # type: ignore[misc]
    with pytest.raises(TypeError):
        enabled(False)  # type: ignore[misc]
    assert met() == set()


def test_inside_a_block() -> None:
    with enabled():
        assert met() == BOTH
    assert met() == set()


def test_blocks_in_blocks() -> None:
    with enabled():
        with enabled(forward=False):
            assert met() == {"convolution_backward"}
            with enabled():
                assert met() == BOTH
            assert met() == {"convolution_backward"}
        assert met() == BOTH
    assert met() == set()


def test_blocks_of_threads_end_in_any_order() -> None:
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with enabled(forward=False):
            entered.set()
            assert left.wait(60)

    with ThreadPoolExecutor(1) as pool:
        with enabled():
            future = pool.submit(other)
            assert entered.wait(60)
            assert met() == {"convolution_backward"}
        assert met() == {"convolution_backward"}
        left.set()
        future.result(60)
    assert met() == set()


def test_a_block_restores_what_was_enabled() -> None:
    enable(forward=False)
    with enabled():
        assert met() == BOTH
    assert met() == {"convolution_backward"}


def test_disabled_inside_a_block() -> None:
    with enabled():
        disable()
        assert met() == set()
    assert met() == set()


def test_an_error_inside_a_block() -> None:
    with pytest.raises(ValueError, match="mine"), enabled():
        raise ValueError("mine")
    assert met() == set()


def test_a_block_is_a_decorator_or_is_used_once() -> None:
    """As context managers of the standard library are."""

    @enabled()
    def inside() -> set[str]:
        return met()

    assert inside() == inside() == BOTH
    assert met() == set()


@pytest.mark.parametrize("forward", ["no", None, 0, []])
def test_forward_is_a_boolean(forward: Any) -> None:
    with pytest.raises(AttributeValueError, match="forward: expected True or False"):
        enable(forward=forward)
    assert met() == set()


def test_numbers_of_more_than_31_bits_are_left() -> None:
    src, weights = integers(1, 4, 5, 5), integers(4, 4, 1, 1, seed=1)
    with enabled(), counted() as calls:
        F.conv2d(src, weights, dilation=2**31)
    assert calls.left["convolution"] == {"numbers of more than 31 bits": 1}


@pytest.mark.parametrize("effort", ["fast", "", 3, True, ["heuristic"], "x" * 10_000])
def test_another_effort_is_an_error(effort: Any) -> None:
    with pytest.raises(AttributeValueError) as raised:
        enable(effort=effort)
    assert len(str(raised.value)) <= 600
    with pytest.raises(AttributeValueError), enabled(effort=effort):
        pass
    assert met() == set()
    enable(forward=False)
    with pytest.raises(AttributeValueError):
        enable(effort=effort)
    assert met() == {"convolution_backward"}, "an error changes nothing"


@pytest.mark.parametrize("effort", ["heuristic", "measure"])
def test_effort_reaches_the_plans(effort: Any, fresh_cache: None) -> None:
    src, weights = integers(2, 8, 20, 20), integers(8, 8, 3, 3, seed=1)
    expected = F.conv2d(src, weights)
    with enabled(effort=effort):
        assert_equal(F.conv2d(src, weights), expected)
        with enabled(effort="heuristic"):
            assert_equal(F.conv2d(src, weights), expected)


def test_without_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """On NumPy, PyTorch would be slower than before."""

    def library() -> Any:
        raise LibraryNotFoundError("nothing found")

    monkeypatch.setattr(registration, "library", library)
    with pytest.raises(LibraryNotFoundError, match="nothing found"):
        enable()
    with pytest.raises(LibraryNotFoundError), enabled():
        pass
    assert met() == set()


def test_kernels_are_registered_apart_from_large_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    register = registration._register
    happened: list[str] = []

    @contextmanager
    def filled() -> Iterator[None]:
        # Nothing would be filled otherwise, but where the allocator is left alone.
        assert freed_memory_is_kept() or allocator._reason_against()
        happened.append("filled")
        yield
        happened.append("freed")

    def recorded(name: str) -> None:
        happened.append(name)
        register(name)

    monkeypatch.setattr(registration, "small_holes_filled", filled)
    monkeypatch.setattr(registration, "_register", recorded)
    enable()
    assert happened == ["filled", "convolution", "convolution_backward", "freed"]
    enable(effort="heuristic")
    assert len(happened) == 4, "nothing new is registered"


def test_a_registration_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    register = registration._register

    def fails(name: str) -> None:
        if name == "convolution_backward":
            raise MemoryError
        register(name)

    monkeypatch.setattr(registration, "_register", fails)
    with pytest.raises(MemoryError):
        enable()
    assert not freed_memory_is_kept()
    assert met() == set()


@pytest.fixture
def another() -> Iterator[Any]:
    """A library of someone else's, which registers kernels of its own; and its calls."""
    library: Any = torch.library.Library("aten", "IMPL")
    library.calls = []

    def kernel(*arguments: Any) -> torch.Tensor:
        library.calls.append(arguments)
        src = arguments[0]
        return src.new_full((src.shape[0], 6, 6, 6), 5.0)

    library.register = lambda: library.impl("convolution", kernel, "CPU")
    yield library
    library._destroy()
    disable()
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("aten::convolution", "CPU")


SRC, WEIGHTS = integers(2, 4, 8, 8), integers(6, 4, 3, 3, seed=1)
RIGHT = F.conv2d(SRC, WEIGHTS)


def test_kernels_of_another_library_from_before(another: Any) -> None:
    another.register()
    with pytest.raises(RuntimeError, match="another library") as raised:
        enable()
    assert len(str(raised.value)) <= 600
    with pytest.raises(RuntimeError, match="another library"), enabled():
        pass
    assert (F.conv2d(SRC, WEIGHTS) == 5).all(), "theirs is in place"
    enable(forward=False)  # the gradients are not theirs
    assert (F.conv2d(SRC, WEIGHTS) == 5).all()
    disable()
    assert (F.conv2d(SRC, WEIGHTS) == 5).all()
    assert len(another.calls) == 3
    another._destroy()
    enable()
    assert met() == BOTH


@pytest.mark.filterwarnings("ignore:Warning only once for all operators:UserWarning")
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_kernels_of_another_library_from_after(another: Any, first: str) -> None:
    """Whichever goes first, the other's stay, and PyTorch's own are there at the end."""
    enable()
    another.register()
    assert (F.conv2d(SRC, WEIGHTS) == 5).all()
    if first == "ours":
        disable()
        assert (F.conv2d(SRC, WEIGHTS) == 5).all()
        another._destroy()
    else:
        another._destroy()
        assert met() == BOTH
        disable()
    assert met() == set()
    assert_equal(F.conv2d(SRC, WEIGHTS), RIGHT)


def test_nothing_is_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for forward in (True, False, True):
            enable(forward=forward)
            F.conv2d(SRC, WEIGHTS)
        disable()


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100
    )


def test_import_changes_nothing() -> None:
    done = run("""
import torch, onednn_py.torch
for name in ("convolution", "convolution_backward"):
    assert not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU")
assert onednn_py.torch.statistics().taken == {}
torch.nn.functional.conv1d(torch.ones(1, 1, 3), torch.ones(1, 1, 2))
onednn_py.torch.enable()  # and the process ends as others do
torch.nn.functional.conv1d(torch.ones(1, 1, 3), torch.ones(1, 1, 2))
""")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


MISSING = """
import sys
import threading
sys.modules["torch"] = None
try:
    import onednn_py.torch
except ImportError as error:
    print(error)
import onednn_py
assert "onednn_py.torch" not in sys.modules
"""

OLD = """
import sys, types
torch = types.ModuleType("torch")
torch.__version__ = "2.1.0"
torch.library = types.ModuleType("torch.library")
sys.modules["torch"], sys.modules["torch.library"] = torch, torch.library
try:
    import onednn_py.torch
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(("code", "words"), [(MISSING, "PyTorch"), (OLD, "2.1.0")])
def test_pytorch_that_is_missing_or_too_old(code: str, words: str) -> None:
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert "pip install" in done.stdout
    assert words in done.stdout
    assert len(done.stdout) <= 600


def test_a_library_that_is_not_found_by_the_environment() -> None:
    done = run("""
import os
os.environ["ONEDNN_PY_LIBRARY"] = "/nowhere/libdnnl.so"
import torch, onednn_py.torch
try:
    onednn_py.torch.enable()
except onednn_py.LibraryNotFoundError as error:
    print(error)
torch.nn.functional.conv1d(torch.ones(1, 1, 3), torch.ones(1, 1, 2))
""")
    assert done.returncode == 0, done.stderr
    assert "/nowhere/libdnnl.so" in done.stdout
