#!/usr/bin/env python
"""Times convolutions of a volume larger than the memory of the workers, against SciPy's on Dask.

A forward pass and both gradients, each on a cluster of its own: two processes of one thread, with
a memory limit. SciPy's functions run inside `dask.array.map_overlap`. The volume is made block by
block and never kept. Libraries take turns; a figure is the median of the rounds. Prints a table in
Markdown, and draws which worker did what when.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import dask
import dask.array as da
import numpy as np
from dask.utils import key_split, parse_bytes
from distributed import Client, LocalCluster, get_task_stream, progress
from numpy.typing import NDArray

Array = NDArray[Any]

WORKERS = 2
# Blocks that a picture names.
MOST_NAMES = 8


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--extent", type=int, default=768, help="of the volume's axes; default: %(default)s"
    )
    parser.add_argument("--chunk", type=int, default=192, help="of an axis; default: %(default)s")
    parser.add_argument("--kernel", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--channels", type=int, default=1, help="of dst; default: %(default)s")
    parser.add_argument(
        "--memory",
        type=_size,
        default="700MiB",
        help="limit of each of two workers; default: %(default)s",
    )
    parser.add_argument("--rounds", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--picture", type=Path, help="where the task stream is drawn")
    parser.add_argument("--only", default="", help="operations whose names contain this")
    parsed = parser.parse_args(arguments)
    operations = {
        name: makers for name, makers in _operations(parsed.channels).items() if parsed.only in name
    }
    if not operations:
        parser.error(f"no operation's name contains {parsed.only!r}")
    volume = _volume(parsed.extent, parsed.chunk)
    weights = np.random.default_rng(0).standard_normal(
        (parsed.kernel,) * 3 + (1, parsed.channels), np.float32
    )
    times: dict[tuple[str, str], list[tuple[float, int]]] = {}
    streams: dict[str, list[Mapping[str, Any]]] = {}
    for _ in range(parsed.rounds):
        for operation, makers in operations.items():
            for library, make in makers.items():
                print(f"{operation}, {library}", file=sys.stderr)
                lazy = make(volume, weights)
                seconds, peak, stream = _measured(lazy, parsed.memory)
                times.setdefault((operation, library), []).append((seconds, peak))
                if library == "onednn_py":
                    streams[operation] = stream
    print(f"Volume {volume.nbytes / 1e9:.1f} GB, two workers of {parsed.memory} each,")
    print(f"chunks of {parsed.chunk}^3, kernel {parsed.kernel}^3, 1 to {parsed.channels} channels")
    print(table(times))
    if parsed.picture:
        _draw(streams, parsed.picture)
    return 0


def _size(text: str) -> str:
    try:
        parse_bytes(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a size such as 700MiB, got {text!r}") from None
    return text


def _made(block_info: Any = None) -> Array:
    """Return a block of the volume: noise, seeded by where the block lies."""
    where = block_info[None]
    rng = np.random.default_rng(where["chunk-location"])
    return rng.standard_normal(where["chunk-shape"], np.float32)


def _volume(extent: int, chunk: int) -> Any:
    edges = tuple(min(chunk, extent - start) for start in range(0, extent, chunk))
    meta = np.empty((0,) * 5, np.float32)
    return da.map_blocks(
        _made, chunks=((1,), edges, edges, edges, (1,)), dtype=np.float32, meta=meta
    )


Maker = Callable[[Any, Array], Any]


def _operations(channels: int) -> dict[str, dict[str, Maker]]:
    from onednn_py import dask as ours

    same = {"auto_pad": "same_upper"}
    found: dict[str, dict[str, Maker]] = {
        "forward": {
            "onednn_py": lambda x, w: ours.convolution(x, w, **same).max(),
        },
        "backward data": {
            "onednn_py": lambda x, w: ours.convolution_backward_data(
                _of_channels(x, w), w, **same
            ).max(),
        },
        "backward weights": {
            "onednn_py": lambda x, w: ours.convolution_backward_weights(
                x, _of_channels(x, w), w.shape, **same
            ),
        },
    }
    if channels == 1:
        found["forward"]["scipy.ndimage"] = _scipy_forward
        found["backward data"]["scipy.ndimage"] = _scipy_data
        found["backward weights"]["scipy.signal"] = _scipy_weights
    return found


def _of_channels(volume: Any, weights: Array) -> Any:
    """Return a diff_dst of as many channels as the weights have outputs."""
    return da.concatenate([volume] * weights.shape[-1], axis=-1)


def _scipy_forward(volume: Any, weights: Array) -> Any:
    return _overlapping(volume, weights[..., 0, 0], "correlate").max()


def _scipy_data(volume: Any, weights: Array) -> Any:
    return _overlapping(volume, weights[..., 0, 0], "convolve").max()


def _overlapping(volume: Any, kernel: Array, name: str) -> Any:
    from scipy import ndimage

    return da.map_overlap(
        getattr(ndimage, name),
        volume[0, ..., 0],
        weights=kernel,
        depth=kernel.shape[0] // 2,
        boundary=0,
        mode="constant",
        dtype=np.float32,
        meta=np.empty((0, 0, 0), np.float32),
    )


def _scipy_weights(volume: Any, weights: Array) -> Any:
    src, kernel = volume[0, ..., 0], weights.shape[:3]
    blocks = da.map_overlap(
        _weights_of_block,
        src,
        src,
        depth=[kernel[0] // 2, 0],
        boundary=[0, "none"],
        trim=False,
        chunks=(1, 1, weights.size),
        dtype=np.float32,
        meta=np.empty((0, 0, 0), np.float32),
    )
    return blocks.reshape(*src.numblocks, weights.size).sum(axis=(0, 1, 2)).reshape(kernel)


def _weights_of_block(src: Array, diff_dst: Array) -> Array:
    from scipy import signal

    # Directly: a transform would need many times the block's memory for a few sums.
    return signal.correlate(src, diff_dst, mode="valid", method="direct").reshape(1, 1, -1)


@contextlib.contextmanager
def _cluster(memory: str) -> Iterator[Any]:
    with (
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            memory_limit=memory,
            dashboard_address=None,
            host="127.0.0.1",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _imported() -> None:
    """Load both libraries, which takes longer than a block."""
    from scipy import ndimage, signal  # noqa: F401

    import onednn_py

    onednn_py.info()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _measured(lazy: Any, memory: str) -> tuple[float, int, list[Mapping[str, Any]]]:
    """Return the seconds, the largest peak of a worker in bytes, and the task stream."""
    with _cluster(memory) as client:
        client.run(_imported)
        with get_task_stream(client) as stream:
            start = time.perf_counter()
            future = client.compute(lazy)
            if sys.stderr.isatty():
                progress(future)
            future.result()
            seconds = time.perf_counter() - start
        peak = max(client.run(_peak).values())
        return seconds, peak, list(stream.data)


def table(times: Mapping[tuple[str, str], Sequence[tuple[float, int]]]) -> str:
    """Return medians of the seconds and peaks as a table, and the ratios to SciPy."""
    lines = [
        "| operation | seconds | a worker's peak, MiB | SciPy's seconds | peak, MiB | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for operation in dict.fromkeys(operation for operation, _ in times):
        ours = _medians(times[operation, "onednn_py"])
        entries = [f"{ours[0]:.1f}", f"{ours[1]:.0f}"]
        others = [name for one, name in times if one == operation and name != "onednn_py"]
        for library in others:
            theirs = _medians(times[operation, library])
            entries += [
                f"{theirs[0]:.1f} (`{library}`)",
                f"{theirs[1]:.0f}",
                f"{theirs[0] / ours[0]:.1f}",
            ]
        if not others:
            entries += ["", "", ""]
        lines.append(f"| {operation} | {' | '.join(entries)} |")
    return "\n".join(lines)


def _medians(figures: Sequence[tuple[float, int]]) -> tuple[float, float]:
    seconds, peaks = zip(*figures, strict=True)
    return statistics.median(seconds), max(peaks) / 2**20


def _draw(streams: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """Draw when each worker did what, an axis an operation."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(streams), 1, figsize=(10, 2 * len(streams)), squeeze=False)
    for axis, (operation, stream) in zip(axes[:, 0], streams.items(), strict=True):
        _draw_stream(axis, stream)
        axis.set_title(operation, loc="left")
    axes[-1, 0].set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_stream(axis: Any, stream: Sequence[Mapping[str, Any]]) -> None:
    spans: dict[tuple[int, str], list[tuple[float, float]]] = {}
    workers = sorted({record["worker"] for record in stream})
    first = min(span["start"] for record in stream for span in record["startstops"])
    for record in stream:
        for span in record["startstops"]:
            name = key_split(record["key"]) if span["action"] == "compute" else span["action"]
            lane = workers.index(record["worker"])
            width = span["stop"] - span["start"]
            spans.setdefault((lane, name), []).append((span["start"] - first, width))
    total: dict[str, float] = {}
    for (_, name), widths in spans.items():
        total[name] = total.get(name, 0) + sum(width for _, width in widths)
    names = sorted(total, key=total.__getitem__, reverse=True)
    for (lane, name), widths in sorted(spans.items()):
        number = names.index(name)
        color = f"C{number}" if number < MOST_NAMES else "lightgrey"
        label = f"{name}, {total[name]:.1f} s" if lane == 0 and number < MOST_NAMES else None
        axis.broken_barh(widths, (lane + 0.1, 0.8), color=color, linewidth=0, label=label)
    axis.set_yticks([lane + 0.5 for lane in range(len(workers))])
    axis.set_yticklabels([f"worker {lane}" for lane in range(len(workers))])
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


if __name__ == "__main__":
    dask.config.set({"distributed.admin.tick.limit": "60s"})
    sys.exit(main())
