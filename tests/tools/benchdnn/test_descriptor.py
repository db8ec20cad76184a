"""Descriptors: parsed as benchdnn does, written back, and their floating-point operations."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onednn_py import AttributeValueError
from onednn_py.tools.benchdnn import Descriptor, parse_descriptor

# Descriptor, 1 for deconv, then src, dst, kernel, strides, dilations - 1, pads_begin and pads_end
# as benchdnn's str2desc and init_pad_r compute them.
PARSED = [
    ("ic16ih10oc8kh3", 0, (10, 10), (8, 8), (3, 3), (1, 1), (0, 0), (0, 0), (0, 0)),
    ("ic16iw10oc8kw3pw1", 0, (10,), (10,), (3,), (1,), (0,), (1,), (1,)),
    ("ic16iw10oc8ow10kw3", 0, (10,), (10,), (3,), (1,), (0,), (1,), (1,)),
    ("ic16id6oc8kd2sd3", 0, (6,) * 3, (2,) * 3, (2,) * 3, (3,) * 3, (0,) * 3, (0,) * 3, (-1,) * 3),
    ("ic2ih9iw7oc4kh3kw5sw2ph1", 0, (9, 7), (9, 2), (3, 5), (1, 2), (0, 0), (1, 0), (1, 0)),
    ("ic2iw8oc4kw3dw2pw2", 0, (8,), (6,), (3,), (1,), (2,), (2,), (2,)),
    # The total padding is divided by 2 as in C, rounded towards zero.
    ("ic2iw8oc4ow4kw3sw2", 0, (8,), (4,), (3,), (2,), (0,), (0,), (1,)),
    ("ic2iw1oc4kw2sw2", 0, (1,), (1,), (2,), (2,), (0,), (0,), (1,)),
    # A size or pad of 0, or a stride of 1, counts as omitted and adds no axis.
    ("ic2id0ih0iw8oc4ow0kw3ph0sh1pd0", 0, (8,), (6,), (3,), (1,), (0,), (0,), (0,)),
    ("ic3ih5oc2kh3sh2", 1, (5, 5), (11, 11), (3, 3), (2, 2), (0, 0), (0, 0), (0, 0)),
    ("ic3iw5oc2ow10kw3sw2pw1", 1, (5,), (10,), (3,), (2,), (0,), (1,), (0,)),
    ("ic3iw5oc2ow12kw3sw2", 1, (5,), (12,), (3,), (2,), (0,), (0,), (-1,)),
    ("ic3iw5oc2kw3dw1pw1", 1, (5,), (7,), (3,), (1,), (1,), (1,), (1,)),
]


@pytest.mark.parametrize("parsed", PARSED, ids=lambda parsed: f"{parsed[0]}-{parsed[1]}")
def test_parses_as_benchdnn_does(parsed) -> None:
    text, transposed, *expected = parsed
    d = parse_descriptor(text, transposed=bool(transposed))
    dilations = tuple(dilation - 1 for dilation in d.dilations)
    actual = [d.src, d.dst, d.kernel, d.strides, dilations, d.pads_begin, d.pads_end]
    assert actual == expected


def test_channels_defaults_and_name() -> None:
    d = parse_descriptor('g4_mb5_ic8iw9_oc12kw3_n"a:b*2"')
    assert (d.groups, d.minibatch, d.inputs, d.outputs, d.name) == (4, 5, 8, 12, "a:b*2")
    assert parse_descriptor("ic8iw9oc12kw3na:b").name == "a:b"
    assert parse_descriptor("ic8iw9oc12kw3").minibatch == 2
    assert parse_descriptor("oc12kw3iw9ic7ic8") == parse_descriptor("ic8iw9oc12kw3")
    assert parse_descriptor("ic8iw4294967311oc1kw3").dst == (4294967309,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ic is missing"),
        ("ic8iw5", "oc is missing"),
        ("ic0iw5oc8kw3", "ic is missing or 0"),
        ("ic8oc8", "no spatial axis"),
        ("ic8iw5oc8", "kw is missing or 0"),
        ("ic8kw3oc8", "iw is missing or 0"),
        ("ic8iw5oc8kw3x4", "'x4': no entry"),
        ("ic8iwoc8kw3", "'iwoc8kw3': no integer after iw"),
        ("ic8iw-5oc8kw3", "iw-5"),
        ("ic8iw99999999999999999999oc8kw3", "iw99999999999999999999"),
        ("ic8iw5oc8kw3sw0", "sw0"),
        ("g0ic8iw5oc8kw3", "g0"),
        ("g3ic8iw5oc9kw3", "ic8: g3 does not divide it"),
        ("g4ic8iw5oc9kw3", "oc9: g4 does not divide it"),
        ("ic8iw5oc8kw9", "ow would be -3"),
        ("ic8iw5oc8ow2kw1pw0", "ow2.*another size"),
        ("ic8iw50oc8ow2kw3", "ow2.*another size"),
        ("ic8id5iw5oc8kd3kw3", "ih and kh are missing"),
        ("ic8id5ih5oc8kd3kh3", "iw and kw are missing"),
        ("ic8iw5oc8kw3n a", "white space"),
        ("ic8iw5oc8kw3na\nb", "white space"),
        ("ic8iw\u0665oc8kw3", "no integer after iw"),
    ],
)
def test_errors_name_descriptor_and_entry(text: str, message: str) -> None:
    with pytest.raises(AttributeValueError, match=message) as raised:
        parse_descriptor(text)
    assert str(raised.value).startswith(f"conv descriptor {text!r}: ")


@st.composite
def descriptors(draw: st.DrawFn) -> Descriptor:
    def numbers(least: int, most: int) -> tuple[int, ...]:
        return draw(st.tuples(*[st.integers(least, most)] * axes))

    axes, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    size, kernel, dilations = numbers(1, 9), numbers(1, 4), numbers(1, 3)
    strides, pads, fewer = numbers(1, 3), numbers(0, 3), numbers(0, 2)
    windows = tuple(
        max(1, (s + 2 * p - (k - 1) * d - 1) // t + 1 + extra)
        for s, k, d, t, p, extra in zip(size, kernel, dilations, strides, pads, fewer, strict=True)
    )
    transposed = draw(st.booleans())
    return Descriptor(
        transposed,
        groups,
        draw(st.integers(0, 5)),
        groups * draw(st.integers(1, 4)),
        groups * draw(st.integers(1, 4)),
        windows if transposed else size,
        size if transposed else windows,
        kernel,
        strides,
        dilations,
        pads,
        draw(st.sampled_from(["", "name", 'quo"ted', "n", '"', "mb2:x*4"])),
    )


@given(descriptors())
def test_str_parses_to_an_equal_descriptor(descriptor: Descriptor) -> None:
    text = str(descriptor)
    assert len(text.split()) == 1
    assert parse_descriptor(text, transposed=descriptor.transposed) == descriptor


@given(descriptors())
def test_flops_equal_those_of_a_naive_loop(descriptor: Descriptor) -> None:
    d = descriptor
    products = 0
    for x in product(*map(range, d.windows)):
        for k in product(*map(range, d.kernel)):
            products += all(
                0 <= xi * stride - pad + ki * dilation < size
                for xi, ki, stride, pad, dilation, size in zip(
                    x, k, d.strides, d.pads_begin, d.dilations, d.size, strict=True
                )
            )
    assert d.flops == 2 * d.minibatch * d.inputs * d.outputs // d.groups * products


def test_flops_of_a_huge_kernel_are_estimated_at_once() -> None:
    d = parse_descriptor(f"ic1iw{10**12}oc1kw{10**11}")
    assert d.flops > 10**20
