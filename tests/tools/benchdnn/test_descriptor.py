"""benchdnn's descriptors and batch files, and its integers."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onednn_py.errors import AttributeValueError
from onednn_py.tools.benchdnn import Descriptor, parse_descriptor
from onednn_py.tools.benchdnn.batch import BatchProblem, parse_directions, parse_dtypes, read_batch
from onednn_py.tools.benchdnn.case import DIRECTIONS, Case
from onednn_py.tools.benchdnn.filling import density, fill_integers, fill_normal, largest

# Descriptor, deconv?, then src, dst, kernel, strides, dilations - 1, pads_begin, pads_end: what
# benchdnn's str2desc and init_pad_r make of it.
READINGS = [
    ("ic16ih10oc8kh3", 0, (10, 10), (8, 8), (3, 3), (1, 1), (0, 0), (0, 0), (0, 0)),
    ("ic16iw10oc8kw3pw1", 0, (10,), (10,), (3,), (1,), (0,), (1,), (1,)),
    ("ic16iw10oc8ow10kw3", 0, (10,), (10,), (3,), (1,), (0,), (1,), (1,)),
    ("ic16id6oc8kd2sd3", 0, (6,) * 3, (2,) * 3, (2,) * 3, (3,) * 3, (0,) * 3, (0,) * 3, (-1,) * 3),
    ("ic2ih9iw7oc4kh3kw5sw2ph1", 0, (9, 7), (9, 2), (3, 5), (1, 2), (0, 0), (1, 0), (1, 0)),
    ("ic2iw8oc4kw3dw2pw2", 0, (8,), (6,), (3,), (1,), (2,), (2,), (2,)),
    # Integers are divided as in C: an even total is split, an odd one loses its half.
    ("ic2iw8oc4ow4kw3sw2", 0, (8,), (4,), (3,), (2,), (0,), (0,), (1,)),
    ("ic2iw1oc4kw2sw2", 0, (1,), (1,), (2,), (2,), (0,), (0,), (1,)),
    # Zeros are as good as nothing: no height, no output size, no axis of strides 1 alone.
    ("ic2id0ih0iw8oc4ow0kw3ph0sh1pd0", 0, (8,), (6,), (3,), (1,), (0,), (0,), (0,)),
    ("ic3ih5oc2kh3sh2", 1, (5, 5), (11, 11), (3, 3), (2, 2), (0, 0), (0, 0), (0, 0)),
    ("ic3iw5oc2ow10kw3sw2pw1", 1, (5,), (10,), (3,), (2,), (0,), (1,), (0,)),
    ("ic3iw5oc2ow12kw3sw2", 1, (5,), (12,), (3,), (2,), (0,), (0,), (-1,)),
    ("ic3iw5oc2kw3dw1pw1", 1, (5,), (7,), (3,), (1,), (1,), (1,), (1,)),
]


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: f"{reading[0]}-{reading[1]}")
def test_reading_is_benchdnns(reading) -> None:
    text, transposed, *expected = reading
    d = parse_descriptor(text, transposed=bool(transposed))
    dilations = tuple(dilation - 1 for dilation in d.dilations)
    found = [d.src, d.dst, d.kernel, d.strides, dilations, d.pads_begin, d.pads_end]
    assert found == expected


def test_totals_defaults_and_name() -> None:
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
def test_text_reproduces_the_descriptor(descriptor: Descriptor) -> None:
    text = str(descriptor)
    assert len(text.split()) == 1
    assert parse_descriptor(text, transposed=descriptor.transposed) == descriptor


@given(descriptors())
def test_flops_are_those_of_the_loops(descriptor: Descriptor) -> None:
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


BATCH = """# a comment
ic8iw5oc8kw3   # and another
--reset --dt=bf16,u8:s8:f32 --dir=FWD_I,BWD_D
--mb=4,0 --attr-post-ops=relu --skip-impl=ref

ic8iw6oc8kw3 ic8iw7\\
oc8kw3_n"joined"
--batch=included
ic8iw8oc8kw3
--reset ic8iw9oc8kw3
"""


def test_batch_file(tmp_path: Path) -> None:
    (tmp_path / "batch").write_text(BATCH)
    (tmp_path / "included").write_text("--dir=BWD_W\nmb3ic8iw4oc8kw3\n")
    batch = read_batch(tmp_path / "batch", transposed=False)

    def problem(text: str, *options: object) -> BatchProblem:
        return BatchProblem(parse_descriptor(text), *options)

    data, weights = (("FWD_D", "BWD_D"), ("bf16",)), (("BWD_W",), ("bf16",))
    assert list(batch.problems) == [
        problem("ic8iw5oc8kw3"),
        problem("ic8iw6oc8kw3", *data, 4),
        problem("ic8iw6oc8kw3", *data, 0),
        problem("ic8iw7oc8kw3njoined", *data, 4),
        problem("ic8iw7oc8kw3njoined", *data, 0),
        problem("mb3ic8iw4oc8kw3", *weights, 4),
        problem("mb3ic8iw4oc8kw3", *weights, 0),
        # As in benchdnn, an included file's options stay.
        problem("ic8iw8oc8kw3", *weights, 4),
        problem("ic8iw8oc8kw3", *weights, 0),
        problem("ic8iw9oc8kw3"),
    ]
    path = tmp_path / "batch"
    assert batch.notes == (
        f"{path}: left out what is of type u8:s8:f32",
        f"{path}: ignored --attr-post-ops",
        f"{path}: ignored --skip-impl",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ic8iw5oc8kw3\nic8\n", "batch:2: conv descriptor 'ic8': oc is missing"),
        ("--dir=BWD_X", "batch:1: --dir=BWD_X: expected some of FWD_D"),
        ("--mb=-1", "batch:1: --mb=-1: expected integers"),
        ("--batch=nowhere", "batch:1: nowhere: cannot be read"),
        ("--batch=batch", "includes itself"),
        ('ic8iw9oc8kw3n"a name"', 'batch:1: ic8iw9oc8kw3n"a: a name has no white space'),
    ],
)
def test_batch_errors_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "batch").write_text(text)
    with pytest.raises(AttributeValueError, match=re.escape(message)):
        read_batch(tmp_path / "batch", transposed=False)


def test_batch_of_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "binary", tmp_path, tmp_path / "nowhere"):
        with pytest.raises(AttributeValueError, match="cannot be read"):
            read_batch(path, transposed=True)


def test_option_values() -> None:
    assert parse_directions("fwd_i,FWD_D,bwd_wb") == ("FWD_D", "BWD_WB")
    assert parse_dtypes("f32,BF16:bf16:bf16") == ("f32", "bf16")
    for wrong in ("f64", "f32:f32:bf16", "", "f32,"):
        with pytest.raises(AttributeValueError):
            parse_dtypes(wrong)


CASES = [
    Case(parse_descriptor(text, transposed=transposed), direction, dtype, data_format)
    for text, transposed in (
        ("g2ic4ih7iw5oc6kh3kw2sh2ph1dw1", False),
        ("g2ic4ih4iw5oc6kh3kw2sh2ph1oh8ow6", True),
        ("ic6iw9oc5ow5kw3sw2", True),
    )
    for direction in DIRECTIONS
    for dtype in ("f32", "bf16", "f16")
    for data_format in ("NCX", "NXC")
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.options)
def test_case_is_a_call_with_exact_sums(case: Case) -> None:
    inputs = fill_integers(case)
    assert [tensor.shape for tensor in inputs] == [case.shape(role) for role in case.input_roles]
    reference = case.call([tensor.astype(np.float64) for tensor in inputs], "numpy")
    results = case.call(inputs, "numpy")
    assert len(results) == len(case.result_roles)
    for role, result, exact in zip(case.result_roles, results, reference, strict=True):
        assert result.shape == case.shape(role)
        np.testing.assert_array_equal(exact % 1, 0)
        np.testing.assert_array_equal(result.astype(np.float64), exact)
        assert np.abs(exact).max() > 0
    problem = case.problem()
    assert problem.transposed == case.descriptor.transposed
    assert problem.pads_end == case.descriptor.pads_end
    assert (problem.bias is not None) == case.has_bias


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_filling_keeps_benchdnns_bounds(dtype: str, direction: str) -> None:
    case = Case(parse_descriptor("mb4ic256ih14oc256kh3ph1"), direction, dtype, "NXC")
    digits = {"f32": 24, "bf16": 8, "f16": 11}[dtype]
    thin = "src" if direction.startswith("FWD") else "dst"
    for role, tensor in zip(case.input_roles, fill_integers(case), strict=True):
        values = tensor.astype(np.float64)
        assert np.abs(values).max() == largest(case, role)
        assert values.min() == -largest(case, role)
        nonzero = np.count_nonzero(values) / values.size
        limit = largest(case, role)
        # Zero is one of the values too.
        assert nonzero == pytest.approx(density(case, role) * 2 * limit / (2 * limit + 1), rel=0.1)
        if role == thin:
            worst = case.terms * density(case, role) * largest(case, "src")
            assert worst * largest(case, "weights") <= 2**digits
            assert (density(case, role) < 1) == (dtype != "f32")


def test_filling_depends_on_case_and_seed_alone() -> None:
    case = Case(parse_descriptor("ic8iw9oc8kw3nfirst"), "BWD_D", "bf16", "NCX")
    renamed = Case(parse_descriptor("ic8iw9oc8kw3nsecond"), "BWD_D", "bf16", "NCX")
    for fill in (fill_integers, fill_normal):
        first, again, other = fill(case), fill(renamed), fill(case, seed=1)
        for a, b, c in zip(first, again, other, strict=True):
            assert a.tobytes() == b.tobytes() != c.tobytes()


def test_options_of_a_case_name_it_alone() -> None:
    case = Case(parse_descriptor('ic8iw9oc8kw3n"a*b"', transposed=True), "BWD_WB", "f16", "NXC")
    assert case.options == (
        "--dir=BWD_WB --dt=f16 --format=NXC --deconv 'mb2ic8iw9oc8ow11kw3pw0n\"a*b\"'"
    )
