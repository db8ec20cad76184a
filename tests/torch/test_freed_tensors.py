"""Tensors whose storage was freed, as FSDP frees parameters, get PyTorch's own error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.frameworks

# In a process of its own, which reading at address 0 would end.
PROGRAM = """
import itertools
import torch
import onednn_py.torch

aten = torch.ops.aten
NUMBERS = (1, 1), (0, 0), (1, 1), False, (0, 0), 1
MASK = True, True, False
REASON = "a tensor has no elements of its own in the CPU's memory"


def check(images, dtype, kernel, freed, is_known):
    # A view that begins behind other elements, as parameters do that are parts of a flat one.
    flat = torch.ones(40 + 8 * 16 * kernel**2, dtype=dtype)
    weights = flat[40:].view(8, 16, kernel, kernel)
    src = torch.ones(images, 16, 20, 20, dtype=dtype)
    diff_dst = torch.ones(images, 8, 21 - kernel, 21 - kernel, dtype=dtype)
    bias = torch.ones(8, dtype=dtype)
    calls = []
    if freed != "diff_dst":
        calls.append(lambda: aten.convolution(src, weights, bias, *NUMBERS))
    if freed != "bias":
        calls.append(
            lambda: aten.convolution_backward(diff_dst, src, weights, None, *NUMBERS, MASK)
        )
    if is_known:
        for call in calls:
            call()
    tensors = {"src": src, "weights": flat, "diff_dst": diff_dst, "bias": bias}
    storage = tensors[freed].untyped_storage()
    nbytes = storage.nbytes()
    storage.resize_(0)
    onednn_py.torch.reset_statistics()
    for call in calls:
        try:
            call()
        except RuntimeError as error:
            assert "its data is not allocated yet" in str(error), error
        else:
            raise SystemExit("no error")
    left = onednn_py.torch.statistics().left
    assert len(left) == len(calls)
    assert all(reasons == {REASON: 1} for reasons in left.values()), left
    storage.resize_(nbytes)
    for call in calls:
        call()
    assert sum(onednn_py.torch.statistics().taken.values()) == len(calls)


onednn_py.torch.enable()
cases = itertools.product(
    (torch.float32, torch.float16),
    (3, 20),
    ("src", "weights", "diff_dst", "bias"),
    (False, True),
)
for images, case in enumerate(cases, 4):  # each has signatures of its own
    if case[0] is torch.float16 and case[2] == "bias":
        continue  # at which PyTorch's own kernel crashes
    print(*case, flush=True)
    check(images, *case)
"""


def test_calls_are_errors() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-60:] + done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 28
