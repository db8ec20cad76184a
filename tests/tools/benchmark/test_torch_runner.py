"""What of the PyTorch runner needs no PyTorch."""

from __future__ import annotations

import pytest

from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchmark.torch_runner import UnsupportedCaseError, end_padding


@pytest.mark.parametrize(
    ("text", "transposed", "padding"),
    [
        ("ic4ih8oc4kh3sh2ph1", False, (0, 0)),
        ("ic4ih4oc4oh8kh3sh2ph1", True, (1, 1)),
        ("ic4iw8oc4kw2dw3", False, (0,)),
    ],
)
def test_end_pads_that_pytorch_has(text: str, transposed: bool, padding: tuple[int, ...]) -> None:
    assert end_padding(parse_descriptor(text, transposed=transposed)) == padding


@pytest.mark.parametrize("text", ["ic4ih8oc4oh8kh4ph1", "ic4ih8oc4oh4kh3sh2ph0"])
def test_end_pads_that_pytorch_has_not(text: str) -> None:
    with pytest.raises(UnsupportedCaseError, match="pads both ends alike"):
        end_padding(parse_descriptor(text))
