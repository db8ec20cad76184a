"""Values of benchdnn's options."""

from __future__ import annotations

import pytest

from onednn_py import AttributeValueError
from onednn_py.tools.benchdnn.options import parse_choices, parse_minibatches


def test_choices() -> None:
    assert parse_choices("dir", "fwd_i,FWD_D,bwd_wb") == ("FWD_D", "BWD_WB")
    assert parse_choices("dt", "f32,BF16:bf16:bf16") == ("f32", "bf16")
    assert parse_choices("format", "nxc,NCX,NXC") == ("NXC", "NCX")


@pytest.mark.parametrize(
    ("option", "text", "word"),
    [
        ("dt", "f64", "f64"),
        ("dt", "f32:f32:bf16", "f32:f32:bf16"),
        ("dt", "", ""),
        ("dt", "f32,", ""),
        ("dir", "FWD_D:FWD_D", "FWD_D:FWD_D"),
        ("format", "NHWC", "NHWC"),
    ],
)
def test_unknown_choices_are_errors(option: str, text: str, word: str) -> None:
    with pytest.raises(AttributeValueError, match=f"^--{option}={text}: .* got '{word}'$"):
        parse_choices(option, text)


def test_minibatches() -> None:
    assert parse_minibatches("2,0,16") == (2, 0, 16)
    for wrong in ("", "-1", "1,", "\u0665", "9" * 20):
        with pytest.raises(AttributeValueError, match="^--mb=.*at least 0"):
            parse_minibatches(wrong)
