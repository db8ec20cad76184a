"""A hypothesis strategy for cases over all attributes.

Importing this module needs hypothesis, which the extra ``testing`` installs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from onednn_py import AttributeValueError
from onednn_py.errors import brief
from onednn_py.problem.geometry import effective_kernel, windows
from onednn_py.tools.benchdnn.case import DATA_FORMATS, DIRECTIONS, Case
from onednn_py.tools.benchdnn.descriptor import Descriptor
from onednn_py.tools.benchdnn.options import CHOICES
from onednn_py.tools.extras import require

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

st = require("hypothesis.strategies", "hypothesis", "testing")

__all__ = ["cases"]

Draw = Callable[[Any], Any]

OPERATIONS = ("conv", "deconv")
AXES = (1, 2, 3)

# Channels of one group; sizes around blocks of 16, where tails hide.
FEW_CHANNELS = (1, 2, 3)
CHANNELS = (1, 2, 3, 5, 7, 16, 17)


def cases(
    *,
    operations: Sequence[str] = OPERATIONS,
    directions: Sequence[str] = tuple(DIRECTIONS),
    dtypes: Sequence[str] = ("f32",),
    formats: Sequence[str] = DATA_FORMATS,
    axes: Sequence[int] = AXES,
) -> SearchStrategy[Case]:
    """Return a strategy for small cases with any attributes.

    Kernels, strides, dilations, pads at either end, output padding, groups (depthwise too),
    channels and sizes are drawn for each axis alone, so that windows that lie in the padding and
    elements that no window meets are among them.

    Parameters
    ----------
    operations : sequence of {"conv", "deconv"}
    directions : sequence of {"FWD_D", "FWD_B", "BWD_D", "BWD_W", "BWD_WB"}
    dtypes : sequence of {"f32", "bf16", "f16"}
    formats : sequence of {"NCX", "NXC"}
    axes : sequence of {1, 2, 3}
        Numbers of spatial axes.

    Returns
    -------
    hypothesis.strategies.SearchStrategy
        Of `onednn_py.testing.Case`.

    Raises
    ------
    AttributeValueError
        If an argument has another entry, or none.

    Examples
    --------
    >>> import onednn_py
    >>> from hypothesis import given
    >>> from onednn_py.testing import assert_matches, strategies
    >>> @given(strategies.cases(directions=("BWD_D",), axes=(1,)))
    ... def test_kernel(case):
    ...     assert_matches(onednn_py, case, against="float64")
    >>> test_kernel()
    """
    accepted: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
        "operations": (operations, OPERATIONS),
        "directions": (directions, CHOICES["dir"]),
        "dtypes": (dtypes, CHOICES["dt"]),
        "formats": (formats, CHOICES["format"]),
        "axes": (axes, AXES),
    }
    for name, (values, known) in accepted.items():
        several = isinstance(values, Iterable) and not isinstance(values, str)
        entries = list(values) if several else [values]
        # 2.0 and True are equal to numbers of axes.
        if not entries or any(
            isinstance(value, (bool, float)) or value not in known for value in entries
        ):
            raise AttributeValueError(
                f"strategies.cases: {name}: expected some of {', '.join(map(str, known))}; got"
                f" {brief(values)}"
            )
        accepted[name] = entries, known
    choices = [st.sampled_from(values) for values, _ in accepted.values()]
    strategy: SearchStrategy[Case] = st.composite(_drawn_case)(*choices)
    return strategy


def _drawn_case(
    draw: Draw, operations: Any, directions: Any, dtypes: Any, formats: Any, axes: Any
) -> Case:
    transposed = draw(operations) == "deconv"
    descriptor = _drawn_descriptor(draw, transposed, draw(axes))
    return Case(descriptor, draw(directions), draw(dtypes), draw(formats))


def _drawn_descriptor(draw: Draw, transposed: bool, axes: int) -> Descriptor:
    # As tuples by attribute of what is drawn by axis.
    size, counts, kernel, strides, dilations, pads_begin = zip(
        *(_drawn_axis(draw, 5 if axes < 3 else 3) for _ in range(axes)), strict=True
    )
    groups = draw(st.sampled_from((1, 1, 2, 3, 8, 16)))
    channels = st.sampled_from(CHANNELS if groups < 4 else FEW_CHANNELS)
    return Descriptor(
        transposed=transposed,
        groups=groups,
        minibatch=draw(st.integers(1, 3)),
        inputs=groups * draw(channels),
        outputs=groups * draw(channels),
        src=counts if transposed else size,
        dst=size if transposed else counts,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        pads_begin=pads_begin,
    )


def _drawn_axis(draw: Draw, largest_kernel: int) -> tuple[int, ...]:
    """Return size, number of windows, kernel, stride, dilation and begin pad of an axis.

    The kernel moves over ``size`` elements: those of src, or of dst if transposed.
    """
    kernel = draw(st.integers(1, largest_kernel))
    stride, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    begin, end = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    extent = effective_kernel(kernel, dilation)
    size = max(1, extent - begin - end + draw(st.integers(0, 9)))
    # What the stride leaves over makes the end pad smaller, or negative.
    count = windows(size, extent, stride, begin + end)
    return size, count, kernel, stride, dilation, begin
