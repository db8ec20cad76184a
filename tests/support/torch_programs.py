"""Programs that tests run in processes of their own: `python -m tests.support.torch_programs`.

usage: torch_programs.py PROGRAM [ARGUMENT ...]

Each prints one line, and is killed by the alarm of its system after 100 seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

import onednn_py.torch
from tests.support.paths import ROOT
from tests.support.torch_comparison import all_taken
from tests.support.torch_models import gradients, small


def join_ranks(rank: str, folder: str, enabled: str) -> None:
    """Join the group of two ranks, with convolutions computed here or by PyTorch."""
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(str(Path(folder) / "store"), 2)
    torch.distributed.init_process_group(
        "gloo", store=store, rank=int(rank), world_size=2, timeout=timedelta(seconds=60)
    )
    if enabled == "enabled":
        onednn_py.torch.enable()


def leave_ranks() -> int:
    """Leave the group with the other rank, and return how many calls were computed here."""
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return sum(onednn_py.torch.statistics().taken.values())


def distributed(rank: str, folder: str, enabled: str) -> dict[str, Any]:
    """Train one of two ranks by DistributedDataParallel, and return losses and sums."""
    join_ranks(rank, folder, enabled)
    network = small()
    # The statistics of a batch norm are each rank's own.
    network.norm = torch.nn.GroupNorm(2, 8)
    parallel = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05)
    losses = []
    for number in range(3):
        generator = torch.Generator().manual_seed(10 * number + int(rank))
        found = gradients(parallel, torch.randn(2, 3, 16, 12, generator=generator), network)
        losses.append(float(found[0]))
        optimizer.step()
    last = [parameter.grad.double().norm().item() for parameter in network.parameters()]
    weights = [parameter.detach().double().sum().item() for parameter in network.parameters()]
    taken = leave_ranks()
    return {"losses": losses, "gradients": last, "weights": weights, "taken": taken}


def sharded(rank: str, folder: str, enabled: str) -> dict[str, Any]:
    """Train one of two ranks by FSDP, which frees each layer's weights behind the layer."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    join_ranks(rank, folder, enabled)
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d
    network = torch.nn.Sequential(convolution(8, 16, 3), torch.nn.ReLU(), convolution(16, 8, 3))
    mesh = init_device_mesh("cpu", (2,))
    for layer in (network[0], network[2], network):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    losses = []
    for number in range(3):
        generator = torch.Generator().manual_seed(10 * number + int(rank))
        loss = network(torch.randn(2, 8, 16, 12, generator=generator)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    taken = leave_ranks()
    return {"losses": losses, "taken": taken}


def switching(rounds: str) -> dict[str, Any]:
    """Put the kernels in place and take them back while three threads compute."""
    torch.set_num_threads(1)
    src, weights = torch.ones(1, 2, 5, 6), torch.ones(3, 2, 3, 2, requires_grad=True)
    done = threading.Event()
    wrong: list[str] = []
    computed = 0

    def compute() -> None:
        nonlocal computed
        while not done.is_set():
            try:
                dst = torch.nn.functional.conv2d(src, weights)
                (diff_weights,) = torch.autograd.grad(dst.sum(), weights)
                if not ((dst == 12).all() and (diff_weights == 15).all()):
                    wrong.append("another result")
            except Exception as error:
                wrong.append(repr(error))
            computed += 1

    threads = [threading.Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(int(rounds)):
        onednn_py.torch.enable(forward=bool(number % 3))
        time.sleep(5e-4)  # lets the others run
        if number % 2:
            onednn_py.torch.disable()
    done.set()
    for thread in threads:
        thread.join()
    onednn_py.torch.disable()
    taken = sum(onednn_py.torch.statistics().taken.values())
    return {"wrong": wrong[:3], "computed": computed, "taken": taken}


def training(steps: str, enabled: str, dtype: str) -> dict[str, Any]:
    """Train, and return the resident memory in bytes after a tenth of the steps and at the end."""
    if enabled == "enabled":
        onednn_py.torch.enable()
    module = small()
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    sizes = []
    for number in range(int(steps)):
        # Three shapes in turn: more than one, and no new ones.
        src = torch.randn(2, 3, 32, 32 + 4 * (number % 3))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
            loss = module(src).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number in (int(steps) // 10, int(steps) - 1):
            sizes.append(resident())
    return {"resident": sizes, "taken": sum(onednn_py.torch.statistics().taken.values())}


def shapes(calls: str) -> dict[str, Any]:
    """Convolve ever new shapes, and return the resident memory half-way and at the end."""
    onednn_py.torch.enable()
    sizes = []
    weights = torch.randn(4, 3, 3, 3)
    for number in range(int(calls)):
        torch.nn.functional.conv2d(torch.randn(1, 3, 8 + number // 97, 8 + number % 97), weights)
        if number in (int(calls) // 2, int(calls) - 1):
            sizes.append(resident())
    return {"resident": sizes, "taken": sum(onednn_py.torch.statistics().taken.values())}


def run_program(*arguments: str) -> Any:
    """Run a program in a process of its own, and return what it has returned."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", __name__, *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def resident() -> int:
    """Return the memory that is mapped to this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


PROGRAMS = {
    "distributed": distributed,
    "sharded": sharded,
    "switching": switching,
    "training": training,
    "shapes": shapes,
}


if __name__ == "__main__":
    if hasattr(signal, "alarm"):
        signal.alarm(100)
    with all_taken():
        print(json.dumps(PROGRAMS[sys.argv[1]](*sys.argv[2:])), flush=True)
    if sys.argv[1] in ("distributed", "sharded"):
        # Threads of gloo outlive `destroy_process_group`. When such a thread releases a tensor
        # while the interpreter ends, PyTorch itself aborts the process (pytorch#190489), so the
        # interpreter is not ended here.
        os._exit(0)
