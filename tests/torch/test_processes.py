"""Several processes: DistributedDataParallel, forked data loaders, forks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import onednn_py.torch
from onednn_py.torch import statistics
from tests.support.forks import exit_code_of_child, needs_fork
from tests.support.paths import ROOT
from tests.support.torch_cases import integers
from tests.support.torch_comparison import assert_equal, counted
from tests.support.torch_models import gradients, small

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    # JAX, where tests before these have imported it, warns of every fork.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
]

F = torch.nn.functional


def run_ranks(folder: Path, program: str, how: str) -> list[dict[str, Any]]:
    """Run two ranks of a program, and end both whatever happens."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.support.torch_programs", program]
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(folder), how],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        outputs = [rank.communicate(timeout=120) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    for rank, (_, errors) in zip(ranks, outputs, strict=True):
        assert rank.returncode == 0, errors[-2000:]
    return [json.loads(out) for out, _ in outputs]


needs_gloo = pytest.mark.skipif(
    sys.platform != "linux" or not torch.distributed.is_available(),
    reason="the loopback interface is called lo on Linux, where PyTorch has gloo",
)


@needs_gloo
def test_two_ranks_train_together(tmp_path: Path) -> None:
    plain = run_ranks(tmp_path / "plain", "distributed", "plain")
    ours = run_ranks(tmp_path / "ours", "distributed", "enabled")
    assert [rank["taken"] for rank in plain] == [0, 0]
    assert all(rank["taken"] for rank in ours)
    # Gradients are summed over ranks: both have the same, while their losses are their own.
    assert ours[0]["gradients"] == ours[1]["gradients"]
    assert ours[0]["weights"] == ours[1]["weights"]
    assert ours[0]["losses"] != ours[1]["losses"]
    for ran, right in zip(ours, plain, strict=True):
        for name in ("losses", "gradients", "weights"):
            torch.testing.assert_close(
                torch.tensor(ran[name]), torch.tensor(right[name]), rtol=1e-4, atol=1e-4
            )


@needs_gloo
def test_two_ranks_share_parameters(tmp_path: Path) -> None:
    """FSDP gives the memory of a layer's weights back, and takes it again for the next step."""
    plain = run_ranks(tmp_path / "plain", "sharded", "plain")
    ours = run_ranks(tmp_path / "ours", "sharded", "enabled")
    for ran, right in zip(ours, plain, strict=True):
        assert (right["taken"], ran["taken"]) == (0, 12)
        torch.testing.assert_close(
            torch.tensor(ran["losses"]), torch.tensor(right["losses"]), rtol=1e-5, atol=1e-5
        )


class Blurred(Dataset[tuple[torch.Tensor, int]]):
    """Images that the workers convolve, and how many calls their process has taken by then."""

    def __init__(self) -> None:
        self.kernel = integers(4, 3, 3, 3, seed=1)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = integers(1, 3, 10, 9 + index % 3, seed=index)
        blurred = F.conv2d(image, self.kernel, padding=1)[0, :, :, :9]
        return blurred, sum(statistics().taken.values())


@needs_fork
@pytest.mark.parametrize("prefetch", [False, True])
def test_forked_workers_convolve(prefetch: bool) -> None:
    """While the parent trains, and after it has."""
    data = Blurred()
    expected = torch.stack([data[index][0] for index in range(len(data))])
    module = torch.nn.Conv2d(4, 4, 3)
    with onednn_py.torch.enabled():
        gradients(module, expected, module)  # the parent's threads have run
        loader = DataLoader(
            data, batch_size=3, num_workers=2, multiprocessing_context="fork", timeout=60,
            persistent_workers=prefetch,
        )  # fmt: skip
        for _ in range(2):
            batches = []
            for images, taken in loader:
                gradients(module, images, module)
                batches.append(images)
                # Where all calls are left to PyTorch, they are counted nevertheless.
                assert taken.min() >= 0
            assert_equal(torch.cat(batches), expected)
        del loader


@needs_fork
def test_children_compute_what_their_parent_has_computed() -> None:
    src = torch.randn(4, 3, 16, 12)
    module = small()
    expected = gradients(module, src, module)
    with onednn_py.torch.enabled():
        gradients(module, src, module)

        # A child of a process whose OpenMP has run must compute on one thread; PyTorch's own
        # operations in the network would wait for threads that are not there.
        def good() -> bool:
            torch.set_num_threads(1)
            with counted() as calls:
                dst = module.first(src)
            return bool(dst.isfinite().all()) and calls.calls == 1

        assert exit_code_of_child(good) == 0
        for found, right in zip(gradients(module, src, module), expected, strict=True):
            torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)


@needs_fork
def test_children_disable_for_themselves() -> None:
    src, weights = integers(2, 3, 6, 6), integers(4, 3, 3, 3, seed=1)

    def good() -> bool:
        torch.set_num_threads(1)
        onednn_py.torch.disable()
        with counted() as calls:
            F.conv2d(src, weights)
        first = calls.calls
        onednn_py.torch.enable()
        with counted() as calls:
            F.conv2d(src, weights)
        return (first, calls.calls) == (0, 1)

    with onednn_py.torch.enabled():
        assert exit_code_of_child(good) == 0
        with counted() as calls:
            F.conv2d(src, weights)
        assert calls.calls == 1


@pytest.mark.parametrize("shared", [False, True])
def test_tensors_in_shared_memory(shared: bool) -> None:
    src, weights = integers(2, 3, 6, 6), integers(4, 3, 3, 3, seed=1)
    expected = F.conv2d(src, weights)
    if shared:
        src.share_memory_()
        weights.share_memory_()
    with onednn_py.torch.enabled():
        dst = F.conv2d(src, weights)
        assert_equal(dst, expected)
        assert_equal(dst.share_memory_(), expected)
        # Sharing moves a result to other memory, where the next call must not write.
        F.conv2d(src + 1, weights)
        assert_equal(dst, expected)
