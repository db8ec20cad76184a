"""Cases and timings of the benchmark's tests."""

from __future__ import annotations

from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark.results import Timing

SMALL = ("--conv", 'mb1ic4ih6oc8kh3ph1n"small"')


def case(text: str = "mb1ic4ih6oc8kh3ph1", direction: str = "BWD_D", **more: str) -> Case:
    dtype, data_format = more.get("dtype", "f32"), more.get("data_format", "NCX")
    return Case(parse_descriptor(text), direction, dtype, data_format)


def timed(*seconds: float, detail: str = "jit") -> Timing:
    return Timing("ok", detail, seconds)
