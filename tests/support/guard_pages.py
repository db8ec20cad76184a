"""Arrays that end, or begin, where no memory is, and the candidates that keep within them.

    python -m tests.support.guard_pages OPERATION DTYPE

prints each candidate before it runs: the last line of a process that ends early tells which
candidate read or wrote memory that is not its own.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import partial

import numpy as np

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from tests.support.candidate_runs import FORMATS, NETWORKS, StridedCandidateRun
from tests.support.cases import CURATED, Tensors, case

__all__ = ["at_the_edge"]

GEOMETRIES = (
    case((5, 6), 3, pads=1, minibatch=3, inputs=12, outputs=9),
    case((4, 4), 4, minibatch=5, inputs=16, outputs=33),
    case((7, 7), 3, 2, pads=1, minibatch=2, inputs=40, outputs=72),
    case((3, 3, 3), 3, pads=1, minibatch=1, inputs=64, outputs=20),
    case(9, 5, 2, pads=2, minibatch=3, inputs=24, outputs=17),
    NETWORKS["1x1_stride_tail"],
    NETWORKS["depthwise"],
    NETWORKS["thin_groups"],
    CURATED["2d_channel_tail"],
    CURATED["2d_strided_dilated"],
)


def at_the_edge(array: np.ndarray, *, end: bool = True) -> np.ndarray:
    """Return a copy in memory behind which, or before which, is a page that nobody may touch."""
    page = mmap.PAGESIZE
    pages = -(-max(array.nbytes, 1) // page)
    memory = np.frombuffer(mmap.mmap(-1, (pages + 2) * page), np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for first in (0, (pages + 1) * page):
        if protect(memory.ctypes.data + first, page, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    begin = (pages + 1) * page - array.nbytes if end else page
    copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class _EdgeRun(StridedCandidateRun):
    """A run whose tensors, weights and bias included, all lie at the edge."""

    def __init__(self, tensors: Tensors, operation: str, data_format: str, *, end: bool) -> None:
        form = partial(at_the_edge, end=end)
        super().__init__(tensors, operation, data_format, np.ascontiguousarray)
        self._arrays = {name: form(array) for name, array in self._arrays.items()}


def main(operation: str, dtype: str) -> None:
    for geometry in GEOMETRIES:
        for data_format in FORMATS:
            tensors = geometry.integers(dtype)
            runs = [_EdgeRun(tensors, operation, data_format, end=end) for end in (True, False)]
            assert runs[0].problem == runs[1].problem
            for candidate in runs[0].candidates():
                plan = OneDNNPlan(current_engine(), candidate)
                for run in runs:
                    print(candidate.choice, "of", run.problem.name, flush=True)
                    run.check(plan)
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
