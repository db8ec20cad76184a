#!/usr/bin/env python
"""Single calls of PyTorch's convolutions on drawn problems, plain and after enable().

Each seed draws a problem as the survey does, of which the forward pass and the gradients are timed,
by turns with PyTorch's own kernels. Ratios are PyTorch's time over the enabled one, above 1 where
the enabled call is faster. The rules of what is left to PyTorch are made from runs with
``--everything``, which leaves nothing, and judged by runs on other seeds without it.

Each problem adds lines to the file; seeds that it has already are not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from typing import Any
from unittest import mock

import checkout  # noqa: F401
import torch
from survey import drop_unfinished_line, parse_seeds, read_rows
from survey_draw import Drawn, draw

import onednn_py.torch
from onednn_py.problem.geometry import axis_from_size, effective_kernel
from onednn_py.tools.benchdnn.case import Case
from onednn_py.torch import kernels
from onednn_py.torch.defects import is_defective

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}

# Blocks of calls of each side, and the seconds that a block takes at least, unless a call does.
ROUNDS, BLOCK = 5, 2e-3
# Calls that take longer are timed in fewer rounds.
LONG = 0.05
# The first calls of a block are not counted: where PyTorch's kernels have just been put back, or
# ours in their place, they take 50 to 160 microseconds more.
UNCOUNTED = 2

# Ratios below this are called slower: the medians of equal kernels differ by as much.
SLOWER = 0.95

EPILOG = """examples:
  python benchmarks/torch_calls.py --seeds 0:300 --everything --out fit.jsonl
  python benchmarks/torch_calls.py --seeds 1000:1300 --out judged.jsonl --seconds 500
"""

Call = Callable[[], Any]
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=parse_seeds, required=True, metavar="FIRST:END")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl")
    parser.add_argument("--dtype", choices=DTYPES, help="in place of the type that a seed draws")
    parser.add_argument("--everything", action="store_true", help="leave nothing to PyTorch")
    parser.add_argument("--seconds", type=float, help="begin no further problem after so long")
    parsed = parser.parse_args(arguments)
    if parsed.everything:
        kernels.reason_to_leave = lambda _: ""
    begin = time.monotonic()
    drop_unfinished_line(parsed.out)
    known = {row["seed"] for row in read_rows(parsed.out)}
    with parsed.out.open("a", encoding="utf-8") as file:
        for seed in parsed.seeds:
            if parsed.seconds is not None and time.monotonic() - begin > parsed.seconds:
                break
            if seed not in known:
                rows = list(measured(draw(seed), parsed.dtype))
                file.write("".join(json.dumps(row) + "\n" for row in rows))
                file.flush()
    print(*report_lines(read_rows(parsed.out)), sep="\n")
    return 0


def measured(drawn: Drawn, dtype: str | None = None) -> Iterator[Row]:
    """Yield what the forward pass and the gradients of a problem take.

    Yields
    ------
    dict
        ``seconds`` by ``"plain"`` and ``"enabled"``, and why the call was left, if it was; or why a
        call, or the whole problem, was not timed, under ``untimed``.
    """
    case = drawn.cases[0]
    dtype = dtype or case.dtype
    described = {
        **drawn.to_json(),
        "dtype": dtype,
        "format": "NXC" if _is_channels_last(case) else "NCX",
        "threads": torch.get_num_threads(),
        "terms": case.terms,
    }
    calls = calls_of(drawn, DTYPES[dtype])
    if not calls:
        yield {**described, "untimed": "PyTorch's numbers cannot say the problem"}
    for name, call in calls.items():
        if _ends_pytorch(call):
            yield {**described, "call": name, "untimed": "PyTorch's own kernel is defective"}
            continue
        onednn_py.torch.reset_statistics()
        seconds = _seconds(call)
        left = {reason for by in onednn_py.torch.statistics().left.values() for reason in by}
        yield {**described, "call": name, "seconds": seconds, "left": ", ".join(sorted(left))}


def calls_of(drawn: Drawn, dtype: torch.dtype) -> dict[str, Call]:
    """Return the calls of a problem.

    The backward call computes the gradient that the problem's direction asks for, the gradients of
    src and weights for a forward direction, and that of a bias if there is one. Empty where
    PyTorch's numbers cannot say it: its pads are the same at both ends.
    """
    case = drawn.cases[0]
    sizes = case.descriptor
    rank = len(sizes.kernel)
    layout = FORMATS[rank] if _is_channels_last(case) else torch.contiguous_format

    def tensor(*shape: int) -> torch.Tensor:
        return torch.randn(*shape).to(dtype).contiguous(memory_format=layout)

    output_padding = [0] * rank
    if sizes.transposed:
        axes = zip(sizes.src, sizes.kernel, sizes.dilations, sizes.strides, strict=True)
        least = [
            axis_from_size(src, effective_kernel(kernel, dilation), stride, 2 * pad, 0)
            for (src, kernel, dilation, stride), pad in zip(axes, sizes.pads_begin, strict=True)
        ]
        output_padding = [dst - size for dst, size in zip(sizes.dst, least, strict=True)]
    numbers = (
        list(sizes.strides),
        list(sizes.pads_begin),
        list(case.attributes["dilations"]),
        sizes.transposed,
        output_padding,
        sizes.groups,
    )
    channels = sizes.inputs, sizes.outputs
    first, second = channels if sizes.transposed else channels[::-1]
    src = tensor(sizes.minibatch, sizes.inputs, *sizes.src)
    weights = tensor(first, second // sizes.groups, *sizes.kernel)
    bias = torch.randn(sizes.outputs).to(dtype) if drawn.direction.endswith("B") else None
    on_meta = (None if one is None else one.to("meta") for one in (src, weights, bias))
    try:
        dst = torch.ops.aten.convolution.default(*on_meta, *numbers)
    except RuntimeError:
        return {}
    if dst.shape[2:] != sizes.dst:
        return {}
    diff_dst = tensor(*dst.shape)
    bias_shape = None if bias is None else [sizes.outputs]
    wants_src = not drawn.direction.startswith("BWD_W")
    mask = [wants_src, drawn.direction != "BWD_D", bias is not None]
    backward = torch.ops.aten.convolution_backward.default
    return {
        "forward": partial(torch.ops.aten.convolution.default, src, weights, bias, *numbers),
        "backward": partial(backward, diff_dst, src, weights, bias_shape, *numbers, mask),
    }


def _is_channels_last(case: Case) -> bool:
    """Whether the tensors lie channels last, which PyTorch's 1-D tensors cannot."""
    return case.data_format == "NXC" and len(case.descriptor.kernel) in FORMATS


def _ends_pytorch(call: Call) -> bool:
    """Whether PyTorch's own kernel has a known defect at a call, which may end this process."""
    found = []

    def looked_at(one: Any) -> bool:
        found.append(is_defective(one))
        return found[-1]

    with mock.patch.object(kernels, "is_defective", looked_at), onednn_py.torch.enabled():
        call()
    return any(found)


def _seconds(call: Call) -> dict[str, float]:
    """Return the median seconds of a call on each side."""
    sides: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "plain": nullcontext,
        "enabled": onednn_py.torch.enabled,
    }
    times: dict[str, list[float]] = {side: [] for side in sides}
    repeats = {}
    for side, context in sides.items():
        with context():
            once = _block(call, 1)
        repeats[side] = max(1, min(200, round(BLOCK / once)))
    rounds = 2 if once > LONG else ROUNDS
    for _ in range(rounds):
        for side, context in sides.items():
            with context():
                times[side].append(_block(call, repeats[side]))
    return {side: median(found) for side, found in times.items()}


def _block(call: Call, repeats: int) -> float:
    """Return the seconds of a call, the mean of several."""
    for _ in range(UNCOUNTED):
        call()
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats


def report_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table by type, format and call, what was not timed, and the calls that lost most."""
    timed = [row for row in rows if "untimed" not in row]
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in timed:
        groups[row["dtype"], row["format"], row["call"]].append(row)
    yield "| | calls | left | ratio | 5th percentile | worst | slower |"
    yield "|---|---|---|---|---|---|---|"
    for names, members in sorted(groups.items()):
        ratios = [_ratio(row) for row in members]
        percentile = (
            quantiles(ratios, n=20, method="inclusive")[0] if len(ratios) > 1 else ratios[0]
        )
        yield (
            f"| {' '.join(names)} | {len(ratios)} | {sum(bool(row['left']) for row in members)}"
            f" | {geometric_mean(ratios):.2f} | {percentile:.2f} | {min(ratios):.2f}"
            f" | {sum(ratio < SLOWER for ratio in ratios)} |"
        )
    untimed = Counter(row["untimed"] for row in rows if "untimed" in row)
    for reason, number in untimed.items():
        yield f"{number} not timed: {reason}"
    for row in sorted(timed, key=_ratio)[:20]:
        plain, enabled = (1e6 * row["seconds"][side] for side in ("plain", "enabled"))
        yield (
            f"{_ratio(row):.2f}  {plain:.0f} us by PyTorch, {enabled:.0f} us enabled  seed"
            f" {row['seed']} {row['call']} {row['dtype']} {row['format']} {row['descriptor']}"
            f" {row['left']}"
        )


def _ratio(row: Row) -> float:
    seconds: dict[str, float] = row["seconds"]
    return seconds["plain"] / seconds["enabled"]


if __name__ == "__main__":
    sys.exit(main())
