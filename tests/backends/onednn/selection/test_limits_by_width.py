"""Rules that CPUs without AMX ask for some problems only, by the width of their AVX-512 units."""

from __future__ import annotations

import pytest

from onednn_py.backends.onednn.selection import rules as package
from onednn_py.backends.onednn.selection.rules import ANY_NAME, Rule, rules_of
from onednn_py.backends.onednn.selection.rules.rule import always, never
from tests.support.requirements import needs_onednn
from tests.support.rules import AMX, WITHOUT_AMX, applying, assert_exact, shape_of

EVERY = [
    rule
    for table in vars(package).values()
    if isinstance(table, tuple)
    for rule in table
    if isinstance(rule, Rule)
]
LIMITED_ON_FULL = [rule for rule in EVERY if rule.on_full_width is not always]
LIMITED_ON_HALF = [rule for rule in EVERY if rule.on_half_width is not always]

# Each with whether the first limited rule that applies elsewhere is asked on full width, too.
ON_FULL_WIDTH = {
    "mb1ic8ih28oc8kh3ph1 BWD_D f32 NCX": False,
    "mb1ic8ih28oc8kh3ph1 BWD_D f32 NXC": False,
    "mb4ic4ih60oc3kh5ph2 BWD_D bf16 NXC": False,
    "mb8ic64ih30oc4kh3ph1 BWD_W f32 NCX": False,
    "mb2ic128ih60oc128kh3ph1 BWD_W f32 NXC": True,
    "mb2ic16ih60oc128kh3ph1 BWD_W f32 NXC": False,
    "mb4ic100ih14oc100oh7kh1sh2ph0 BWD_D f32 NXC": True,
    "mb4ic100ih14oc20oh7kh1sh2ph0 BWD_D f32 NXC": False,
    "mb2ic256ih14oc256kh1 BWD_W f32 NXC": True,
    "mb1ic3ih8oc20kh3ph1 BWD_W f32 NCX": False,
    "mb1ic8ih6oc20kh3ph1 BWD_W f32 NCX": True,
    "g16mb2ic16id8oc16od4kd2sd2pd0 BWD_D bf16 NXC": True,
    "g16mb2ic16id8oc16kd3pd1 BWD_D bf16 NXC": False,
}

# Each with whether the first rule with a limit on half width is asked there.
ON_HALF_WIDTH = {
    "deconv:mb1ic256id4oc192od8kd2sd2pd0 FWD_B bf16 NXC": False,
    "deconv:mb4ic192ih4oc8oh13kh5sh4ph2 FWD_B bf16 NXC": True,
    "g4mb32ic64ih7oc8oh7kh1ph0 FWD_D bf16 NCX": False,
    "g2mb1ic4id17oc2od13kd5pd0 FWD_B bf16 NCX": True,
    "mb8ic32iw857oc64ow857kw5pw2 BWD_D bf16 NCX": False,
    "mb8ic12iw713oc6ow713kw1pw0 BWD_D bf16 NCX": True,
    "mb4ic100id4oc8od2kd1sd2pd0 BWD_D f32 NXC": False,
    "mb1ic256ih8oc40oh4kh1sh2ph0 BWD_D f32 NXC": True,
    "mb1ic4id6oc64od2kd7sd3pd3 BWD_D bf16 NXC": False,
    "deconv:mb8ic1ih6oc3oh11kh7sh2ph3 FWD_B bf16 NXC": False,
    "mb2ic96id8oc80od8kd3pd1 BWD_D f32 NCX": False,
    "deconv:mb6ic32id6oc32od6kd3pd1 FWD_D f32 NCX": True,
    "mb1ic1ih90oc3oh45kh1sh2ph0 BWD_D f32 NXC": False,
    "mb16ic1id5oc8od3kd7sd2pd3 BWD_D f32 NXC": True,
    "mb4ic4ih35oc16oh33kh3ph0 BWD_D bf16 NCX": False,
    "mb1ic512iw70oc8ow70kw3pw3dw2 FWD_D f32 NCX": False,
    "mb4ic48iw28oc48ow22kw3pw0dw2 FWD_B f32 NCX": True,
    "mb1ic48id9oc100od5kd1sd2pd0 BWD_D f32 NXC": True,
    "mb2ic32ih8oc16oh1kh7sh4ph0 BWD_W bf16 NXC": True,
    "g32mb6ic32id9oc32od9kd3pd1 FWD_D f32 NCX": False,
    "g96mb1ic96iw78oc96ow78kw1pw0 BWD_W f32 NCX": False,
    "g9mb8ic9iw400oc9ow400kw3pw1 BWD_W bf16 NCX": True,
    "g24mb4ic24iw90oc24ow90kw1pw0 BWD_D bf16 NCX": False,
    "g9mb16ic9iw5954oc9ow5954kw7pw3 BWD_D bf16 NCX": True,
    "g2mb1ic8ih49oc64oh49kh1ph0 BWD_W f32 NXC": False,
    "g2mb2ic64ih52oc8oh52kh5ph2 BWD_W f32 NXC": True,
    "g24mb32ic24ih9oc24oh9kh7ph3 BWD_D bf16 NCX": False,
    "g64mb8ic64ih25oc64oh13kh7sh2ph3 BWD_D f32 NXC": False,
    "g64mb8ic64id4oc64od4kd3pd1 BWD_D bf16 NXC": True,
    "mb1ic100ih8oc96oh2kh7ph0 FWD_B bf16 NXC": False,
    "mb1ic256id4oc128od2kd3pd0 FWD_B bf16 NXC": True,
    "mb1ic64id5oc32od2kd4pd0 BWD_W f32 NXC": False,
    "mb6ic32ih6oc512oh2kh5ph0 BWD_W f32 NXC": True,
    "mb1ic100id5oc64od1kd5pd0 FWD_D f32 NXC": False,
    "mb1ic512ih7oc192oh2kh5sh2ph0 FWD_B f32 NXC": True,
    "mb8ic64iw4538oc16ow4538kw5pw2 FWD_D bf16 NCX": False,
    "mb8ic32iw7266oc32ow7266kw5pw2 FWD_B bf16 NCX": True,
    "mb2ic16id6oc512od6kd3pd1 BWD_D f32 NCX": False,
    "mb1ic8id8oc96od8kd3pd1 BWD_D f32 NCX": True,
    "mb1ic192ih16oc1024oh16kh3ph1 BWD_D f32 NCX": False,
    "mb1ic192ih16oc960oh16kh3ph1 BWD_D f32 NCX": True,
    "mb8ic96id7oc64od7kd5pd2 FWD_D bf16 NCX": False,
    "mb6ic8id9oc112od9kd3pd1 FWD_D bf16 NCX": True,
    "mb8ic3ih7oc64oh3kh2sh2ph0 BWD_D bf16 NXC": False,
    "mb32ic4ih20oc3oh5kh4sh4ph0 BWD_W f32 NCX": False,
    "mb8ic4ih26oc64oh6kh4sh4ph0 BWD_WB f32 NCX": True,
    "mb4ic2ih8oc8oh8kh5ph2 BWD_W f32 NCX": False,
    "mb2ic8ih8oc5oh8kh3ph1 BWD_W bf16 NCX": True,
    "deconv:mb6ic32ih4oc6oh8kh2sh2ph0 BWD_D f32 NCX": False,
    "deconv:mb1ic128ih5oc192oh9kh3sh2ph1 BWD_D f32 NCX": False,
    "mb32ic3iw69oc48ow67kw3pw0 BWD_W bf16 NCX": False,
    "mb6ic96ih6oc1oh6kh1ph0 BWD_W f32 NXC": False,
    "mb6ic3ih7oc33oh7kh1ph0 BWD_W bf16 NXC": True,
    "mb1ic96ih56oc256oh52kh5ph0 BWD_W f32 NXC": False,
    "mb2ic512ih54oc128oh52kh2ph0dh1 BWD_WB f32 NXC": True,
    "mb32ic256ih8oc256oh8kh1ph0 BWD_D f32 NXC": False,
    "mb16ic256ih8oc256oh8kh1ph0 BWD_D f32 NXC": True,
    "mb8ic64iw1000oc48ow1000kw3pw2dw1 FWD_D f32 NCX": False,
    "mb1ic64iw400oc48ow400kw3pw2dw1 FWD_D f32 NCX": True,
    "mb8ic512ih7oc512oh7kh3ph1 BWD_W f32 NCX": False,
    "mb8ic512ih7oc1024oh7kh3ph1 BWD_W f32 NCX": True,
    "mb32ic128ih7oc512oh7kh1ph0 BWD_D f32 NCX": False,
    "mb1ic28ih7oc96oh7kh1ph0 BWD_D f32 NCX": True,
    "mb8ic768ih9oc384oh9kh1ph0 BWD_D bf16 NCX": False,
    "mb2ic768ih9oc384oh9kh1ph0 BWD_D bf16 NCX": True,
    "mb2ic64ih14oc256oh7kh1sh2ph0 BWD_D f32 NXC": False,
    "mb2ic64ih28oc96oh14kh1sh2ph0 BWD_D f32 NXC": True,
    "deconv:mb1ic1024ih24oc32oh48kh4sh2ph1 FWD_D f32 NXC": False,
    "deconv:mb2ic512ih12oc32oh24kh4sh2ph1 FWD_D f32 NXC": True,
}


def _limited(text: str, limited: list[Rule]) -> list[Rule]:
    """Return which of some rules would be asked, in order, if half width had no limits."""
    shape = shape_of(text, WITHOUT_AMX, halves_avx512=True)
    shape.has_half_width = False
    return [rule for rule in rules_of(shape) if rule in limited]


@pytest.mark.parametrize("text", ON_FULL_WIDTH)
def test_what_is_asked_on_full_width(text: str) -> None:
    first = _limited(text, LIMITED_ON_FULL)[0]
    asked = applying([first], text, halves_avx512=False)
    assert asked == ([first] if ON_FULL_WIDTH[text] else [])


@pytest.mark.parametrize("text", ON_HALF_WIDTH)
def test_what_is_asked_on_half_width(text: str) -> None:
    first = _limited(text, LIMITED_ON_HALF)[0]
    assert applying([first], text) == ([first] if ON_HALF_WIDTH[text] else [])


def test_each_limit_on_half_width_leaves_out_a_problem() -> None:
    left_out = {
        id(rule)
        for text in ON_HALF_WIDTH
        for rule in _limited(text, LIMITED_ON_HALF)
        if not applying([rule], text)
    }
    assert left_out == set(map(id, LIMITED_ON_HALF))


@pytest.mark.parametrize(
    ("limit", "full", "half"),
    [("on_full_width", False, True), ("on_half_width", True, False)],
)
def test_where_the_width_counts(limit: str, full: bool, half: bool) -> None:
    """Not with AMX, where most rules were fitted, and not with AVX2 alone."""
    rule = Rule(lambda shape: True, "any", ANY_NAME, "", **{limit: never})
    text = "mb1ic8ih28oc8kh3ph1 BWD_D f32 NCX"
    for cpu_isa, halves, holds in (
        (AMX, False, True),
        (AMX, True, True),
        (WITHOUT_AMX, False, full),
        (WITHOUT_AMX, True, half),
        ("avx2", False, True),
    ):
        assert holds == rule.holds(shape_of(text, cpu_isa, halves_avx512=halves))


@needs_onednn
@pytest.mark.parametrize("text", [*ON_FULL_WIDTH, *ON_HALF_WIDTH])
def test_results_are_exact(text: str) -> None:
    assert_exact(text)
