"""Calls that are wrong in one or more arguments, drawn at random."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.support.call_cases import CALLS, SRC
from tests.support.foreign_arrays import ByArray, ByDLPack, Failing, OnOtherDevice

LONG = "x" * 10_000

TENSORS: tuple[Any, ...] = (
    *(None, 3, 1.5, "src", LONG, b"123", [], SRC.tolist(), (1,) * 100_000, object(), SRC.dtype),
    *(SRC.astype(int), SRC.astype(complex), SRC.astype(object), SRC.astype("f2"), SRC[..., None]),
    *(
        SRC[0],
        SRC[..., :3],
        SRC[:0],
        SRC[:1],
        SRC.T,
        np.float32(1),
        np.array(1.0),
        np.ma.array(SRC),
    ),
    *(np.ones((1,) * 30, np.float32), np.zeros((2, 6, 7, 4), [("a" * 1000, "f4")])),
    *(ByArray(SRC.astype(int)), ByArray(SRC[0]), ByDLPack(SRC, (2, 1)), ByDLPack(SRC, (99, 0))),
    *(Failing(), OnOtherDevice(SRC), memoryview(b"123"), np.ndarray, type(Failing)),
)
LISTS: tuple[Any, ...] = (
    *(None, 0, -1, 2, 1.5, True, "1", LONG, b"12", (), (1,), (1, 2), (1, 2, 3), [[1], [2]], {1: 2}),
    *((1,) * 100_000, [LONG, LONG], range(2), range(10**12), range(2**70), 2**31, 2**70, 10**5000),
    *((10**5000, 1), np.array(2), np.array([1, 1]), np.array([[1, 1]]), np.array([1.5, 1.0])),
    *(np.array(["src"]), np.arange(100_000), np.ones((300, 300)), np.array([1, 1], object)),
    *((np.array([1, 1]), 1), (np.arange(9999), 1), ByArray(np.array([1, 1])), Failing()),
    *(ByArray(np.ones(2)), {"src", 3}, object(), float("nan"), np.float64(1), (None, None)),
    *((3, 3, 4, 5), (2, 6, 7, 4), (2, 6, 7, 5), (3, 3, -4, 4), (2**62,) * 4, ["src", np.ones(2)]),
)
NAMES: tuple[Any, ...] = (
    *("", "NHWC", "NCHW", "ncw", "NDHWC", "OIHW", "HWIO", "IOX", "xoi", "same", "valid", "numpy"),
    *(LONG, None, 1, np.array("NCX"), np.array(["NCX"]), np.ones(3), ("NCX",), b"NCX", object()),
    *("cuda", "tf32", "documented", "src", "bias", "NXC\n" * 500),
)
ATTRIBUTES = {
    **dict.fromkeys(("strides", "pads_begin", "pads_end", "dilations", "groups"), LISTS),
    **dict.fromkeys(("auto_pad", "data_format", "backend", "fpmath_mode"), NAMES),
    **dict.fromkeys(("out",), (*TENSORS, *LISTS)),
}
OWN = {
    **dict.fromkeys(("weights_format", "filter_format", "auto_pad_rule"), NAMES),
    **dict.fromkeys(("weights_shape", "dst_shape", "output_shape", "output_padding"), LISTS),
    **{"wrt": (*LISTS, *NAMES), "bias": (*LISTS, *TENSORS)},
}
UNKNOWN = ("padding", "stride", "dilation", "output_size", "kernel_size", "rhs_dilation", LONG, "é")


def wrong_call(generator: random.Random, keywords: dict[str, set[str]]) -> tuple[str, Any, Any]:
    """Return a function's name, tensors and keywords, of which one to three are replaced.

    ``keywords`` has the names of each function's keywords.
    """
    case = generator.choice(list(CALLS))
    function, tensors, attributes = CALLS[case]
    name, tensors, attributes = function.__name__, list(tensors), dict(attributes)
    for _ in range(generator.randint(1, 3)):
        if generator.random() < 0.4:
            tensors[generator.randrange(len(tensors))] = generator.choice(TENSORS)
            continue
        accepted = {**ATTRIBUTES, **OWN}
        keyword = generator.choice(sorted(accepted.keys() & keywords[name]))
        if keyword == "bias" and len(tensors) == 3:
            continue
        attributes[keyword] = generator.choice(accepted[keyword])
    if generator.random() < 0.02:
        attributes[generator.choice(UNKNOWN)] = 1
    return name, tensors, attributes
