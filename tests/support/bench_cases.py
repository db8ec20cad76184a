"""Cases, timings and results of the benchmark's tests."""

from __future__ import annotations

from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark.results import Result, Timing


def case(text: str = "mb1ic4ih6oc8kh3ph1", direction: str = "BWD_D", **more: str) -> Case:
    dtype, data_format = more.get("dtype", "f32"), more.get("data_format", "NCX")
    return Case(parse_descriptor(text), direction, dtype, data_format)


def timed(*seconds: float, detail: str = "jit") -> Timing:
    return Timing("ok", detail, seconds)


def four_results() -> list[Result]:
    """Ratios to native 2, 0.5, 8 with NCX and 3 with NXC; 2 and 3 with the same implementation."""
    rows = [
        ("mb1ic4ih6oc8kh3n0", "NCX", timed(0.1, 0.2, 0.9), timed(0.4)),
        ("mb1ic4ih6oc8kh3n1", "NCX", timed(1.0), timed(0.5, detail="gemm")),
        ("mb1ic4ih6oc8kh3n2", "NCX", timed(1.0), timed(8.0, detail="gemm")),
        ("mb1ic4ih6oc8kh3n3", "NXC", timed(0.0001), timed(0.0003)),
    ]
    return [
        Result(case(text, data_format=data_format), {"ours": ours, "native": native}, 1e9)
        for text, data_format, ours, native in rows
    ]
