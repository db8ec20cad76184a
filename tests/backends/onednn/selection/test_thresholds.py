"""One thread for which work, and into how many chunks the minibatch of a problem is split."""

from __future__ import annotations

from math import prod

import pytest

from onednn_py.backends.onednn.selection import thresholds
from onednn_py.backends.onednn.selection.thresholds import (
    GEMM_EXECUTION_FLOPS,
    Work,
    is_small,
    minibatch_chunks,
    one_thread_is_enough,
)
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.descriptor import parse_descriptor


def chunks(
    text: str, direction: str = "BWD_D", dtype: str = "f32", compute_dtype: str = "f32"
) -> int:
    problem = Case(parse_descriptor(text), direction, dtype, "NCX").problem()
    return minibatch_chunks(problem, compute_dtype)


@pytest.mark.parametrize(
    ("text", "activations", "fits"),
    [
        ("mb1ic8ih8oc8kh3ph1", "given", True),
        ("mb4ic8ih14oc16kh3ph1", "given", False),
        ("mb4ic8ih14oc16kh3ph1", "any", True),
        # Channels are rounded up to 8: 16 images of 2 channels cost more than 3 images of 8.
        ("mb16ic2ih18oc2kh3ph1", "given", False),
        ("mb3ic8ih16oc8kh3ph1", "given", True),
        # Depthwise channels are rounded up together.
        ("g32mb4ic32ih8oc32kh3ph1", "given", True),
        ("g8mb16ic8ih10oc8kh5ph2", "given", True),
        # Most of this work is to read and write elements.
        ("mb1ic18ih33oc18kh1ph0", "given", False),
    ],
)
def test_work_for_one_thread(text: str, activations: str, fits: bool) -> None:
    problem = Case(parse_descriptor(text), "BWD_D", "f32", "NXC").problem()
    assert is_small(problem)
    assert one_thread_is_enough([Work(problem, activations)]) is fits


def test_work_of_both_gradients() -> None:
    """One thread is enough for both where the one has executions to spare for the other."""
    descriptor = parse_descriptor("mb4ic8ih14oc16kh3ph1")
    data, weights = (
        Case(descriptor, direction, "f32", "NXC").problem() for direction in ("BWD_D", "BWD_W")
    )
    assert not one_thread_is_enough([Work(data, "given"), Work(weights, "given")])
    assert one_thread_is_enough([Work(data, "any"), Work(weights, "any")])
    assert one_thread_is_enough(
        [Work(data, "given"), Work(weights, "any")]
    ) is not one_thread_is_enough([Work(data, "given")])


@pytest.mark.parametrize(
    ("text", "fits", "gemm_fits"),
    [
        ("mb1ic2ih8oc3kh3ph1", True, True),
        ("mb3ic8ih12oc8kh3ph1", True, False),
        ("mb4ic8ih14oc16kh3ph1", False, False),
    ],
)
def test_gemm_takes_longer_with_avx2_alone(text: str, fits: bool, gemm_fits: bool) -> None:
    problem = Case(parse_descriptor(text), "FWD_D", "f32", "NXC").problem()
    assert one_thread_is_enough([Work(problem, "given")]) is fits
    assert one_thread_is_enough([Work(problem, "given", GEMM_EXECUTION_FLOPS)]) is gemm_fits


def test_large_activations_are_split() -> None:
    """Two images of the depthwise problem are 3 MB, four of the other one."""
    assert chunks("g128mb16ic128ih56oc128kh3ph1") == 8
    assert chunks("mb16ic64ih56oc64kh3ph1") == 4


@pytest.mark.parametrize(
    "text", ["mb1ic64ih512oc64kh3ph1", "mb3ic64ih256oc64kh3ph1", "mb16ic64ih14oc64kh3ph1"]
)
def test_few_images_and_small_ones_are_not_split(text: str) -> None:
    assert chunks(text) == 1


def test_half_precision() -> None:
    """An image of 3 or 4 MB in float32 is a chunk of its own where it is cast."""
    assert chunks("g128mb4ic128ih56oc128kh3ph1", dtype="f16") == 4
    assert chunks("mb4ic32ih112oc64kh1", dtype="f16") == 4
    assert chunks("mb4ic64ih56oc64kh1", dtype="f16") == 1
    assert chunks("mb8ic64ih56oc64kh1", dtype="f16") == 2
    assert chunks("mb8ic64ih56oc64kh1", dtype="bf16") == 2
    # Without a cast, an image takes half the bytes.
    assert chunks("mb8ic64ih56oc64kh1", dtype="f16", compute_dtype="f16") == 1


def test_depthwise_weights_gradients_have_chunks_of_one_image() -> None:
    assert chunks("g512mb16ic512ih14oc512kh3ph1", "BWD_W") == 16
    assert chunks("g512mb16ic512ih14oc512kh3ph1", "BWD_D") == 1
    assert chunks("g512mb16ic512ih7oc512kh3ph1", "BWD_W") == 1


def test_depthwise_weights_gradients_in_bfloat16() -> None:
    text = "g128mb16ic128ih56oc128kh3ph1"
    assert chunks(text, "BWD_W", "bf16", "bf16") == 4
    assert chunks(text, "BWD_D", "bf16", "bf16") == 8
    assert chunks(text, "BWD_W", "bf16", "f32") == 16


@pytest.mark.parametrize("images", range(1, 40))
def test_a_divisor_of_the_minibatch(images: int) -> None:
    number = chunks(f"mb{images}ic64ih128oc64kh3ph1")
    assert images % number == 0
    assert images < 4 or images // number >= 2
    assert number <= 2 * prod((images, 64, 128, 128, 4)) / thresholds.CHUNK_BYTES
