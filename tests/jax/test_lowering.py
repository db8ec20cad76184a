"""Where callbacks run: threads, devices, exported programs, errors, training, other versions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from jax import export, lax
from jax import numpy as jnp

from onednn_py.jax import callbacks, conv_general_dilated, lowering, requirements
from tests.support.jax_cases import assert_equal, integers

pytestmark = pytest.mark.frameworks

OPTIONS: dict[str, Any] = {
    "window_strides": (1, 1),
    "padding": "SAME",
    "dimension_numbers": ("NHWC", "HWIO", "NHWC"),
}


@pytest.fixture(autouse=True)
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "is_left_to_lax", lambda *arguments, **shapes: False)
    jax.clear_caches()


def gradients(function: Any) -> Any:
    return jax.grad(lambda s, w: (function(s, w, **OPTIONS) ** 2).sum() / 4, (0, 1))


def test_40_threads() -> None:
    cases = [(integers((2, 6, 6, n)), integers((3, 3, n, 4))) for n in (1, 2, 3, 4)] * 10
    expected = [gradients(lax.conv_general_dilated)(*case) for case in cases[:4]] * 10
    ours = jax.jit(gradients(conv_general_dilated))
    with ThreadPoolExecutor(40) as pool:
        for _ in range(5):
            for found, right in zip(pool.map(lambda c: ours(*c), cases), expected, strict=True):
                assert_equal(found, right)


def test_an_error_in_a_callback_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **keywords: Any) -> None:
        raise MemoryError("no memory for this convolution")

    monkeypatch.setattr(callbacks, "convolution", fail)
    case = integers((2, 6, 6, 3)), integers((3, 3, 3, 4))
    with pytest.raises(Exception, match="no memory for this convolution"):
        jax.block_until_ready(jax.jit(partial(conv_general_dilated, **OPTIONS))(*case))


@pytest.mark.parametrize("is_jitted", [False, True])
def test_checks_for_nan_name_the_operation(is_jitted: bool) -> None:
    function = partial(conv_general_dilated, **OPTIONS)
    src, weights = jnp.full((2, 6, 6, 3), np.inf), jnp.zeros((3, 3, 3, 4))
    with (
        jax.debug_nans(True),
        pytest.raises(FloatingPointError, match="nan.* encountered in onednn_forward"),
    ):
        (jax.jit(function) if is_jitted else function)(src, weights)


def test_operands_are_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = callbacks.convolution

    def watch(src: Any, weights: Any, *, out: Any, **keywords: Any) -> Any:
        seen.append((src.flags.writeable, weights.flags.writeable, out.flags.writeable))
        return real(src, weights, out=out, **keywords)

    monkeypatch.setattr(callbacks, "convolution", watch)
    case = integers((2, 6, 6, 3)), integers((3, 3, 3, 4))
    jax.block_until_ready(jax.jit(partial(conv_general_dilated, **OPTIONS))(*case))
    assert seen == [(False, False, True)]


def test_other_platforms_and_exported_programs() -> None:
    case = integers((2, 6, 6, 3)), integers((3, 3, 3, 4))
    function = jax.jit(gradients(conv_general_dilated))
    text = function.trace(*case).lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.convolution" in text
    assert "callback" not in text
    for platforms in (["cpu"], ["cpu", "tpu"]):
        exported = export.export(function, platforms=platforms)(*case)
        assert "callback" not in exported.mlir_module()
        assert_equal(exported.call(*case), gradients(lax.conv_general_dilated)(*case))


DEVICES = """
import jax, numpy as np
from functools import partial
from jax import lax, numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from onednn_py.jax import conv_general_dilated, lowering
from tests.support.jax_cases import assert_equal, integers
lowering.is_left_to_lax = lambda *arguments, **shapes: False
assert len(jax.devices()) == 2
options = dict(window_strides=(1, 1), padding="SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
src, weights = integers((4, 6, 6, 3)), integers((3, 3, 3, 4))
mesh = Mesh(np.array(jax.devices()), ("data",))
def gradients(function):
    return jax.grad(lambda s, w: (function(s, w, **options) ** 2).sum() / 4, (0, 1))
ours, right = gradients(conv_general_dilated), gradients(lax.conv_general_dilated)(src, weights)

# On the second device.
there = [jax.device_put(tensor, jax.devices()[1]) for tensor in (src, weights)]
found = jax.jit(ours)(*there)
assert_equal(found, right)
assert found[0].devices() == {jax.devices()[1]}

# Divided by XLA.
divided = jax.device_put(src, NamedSharding(mesh, P("data")))
whole = jax.device_put(weights, NamedSharding(mesh, P()))
lowered = jax.jit(ours).lower(divided, whole)
assert "callback" not in lowered.as_text()
assert_equal(jax.jit(ours)(divided, whole), right)

# Divided by the user.
shard_map = getattr(jax, "shard_map", None)
if shard_map is not None:
    for check in (True, False):
        def mapped(function):
            def total(s, w):
                return lax.psum((function(s, w, **options) ** 2).sum() / 4, "data")
            return shard_map(
                total, mesh=mesh, in_specs=(P("data"), P()), out_specs=P(), check_vma=check
            )
        functions = (conv_general_dilated, lax.conv_general_dilated)
        both = [jax.jit(jax.grad(mapped(f), (0, 1))) for f in functions]
        assert "callback" in both[0].lower(divided, whole).as_text()
        assert_equal(both[0](divided, whole), both[1](divided, whole))
halves = src.reshape(2, 2, 6, 6, 3)
found = jax.pmap(partial(conv_general_dilated, **options), in_axes=(0, None))(halves, weights)
assert_equal(
    jnp.asarray(np.asarray(found).reshape(4, 6, 6, 4)),
    lax.conv_general_dilated(src, weights, **options),
)
# Both at once, without waiting in between.
results = [jax.jit(ours)(*tensors) for _ in range(50) for tensors in ((src, weights), there)]
for result in results:
    assert_equal([np.asarray(one) for one in result], [np.asarray(one) for one in right])
"""


def run(code: str, **environment: str) -> None:
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        check=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_two_devices() -> None:
    run(DEVICES, XLA_FLAGS="--xla_force_host_platform_device_count=2")


def test_vmap_of_an_axis_that_is_divided() -> None:
    """The axes of `jax.make_mesh` are explicit by default: types say how arrays are divided."""
    mesh = jax.make_mesh((1,), ("images",), axis_types=(jax.sharding.AxisType.Explicit,))
    src = jax.device_put(integers((4, 2, 6, 6, 3)), jax.NamedSharding(mesh, jax.P("images")))
    weights = integers((3, 3, 3, 4))

    def batch(function: Any) -> Any:
        return jax.vmap(lambda one: function(one, weights, **OPTIONS))(src)

    expected, found = batch(lax.conv_general_dilated), batch(conv_general_dilated)
    assert_equal(found, expected)
    assert found.sharding == expected.sharding
    with jax.set_mesh(mesh):
        found, expected = (
            jax.vmap(jax.grad(lambda one, f=function: f(one, weights, **OPTIONS).sum()))(src)
            for function in (conv_general_dilated, lax.conv_general_dilated)
        )
    assert_equal(found, expected)


def test_a_program_that_ends_with_work_under_way() -> None:
    run(
        "import jax\n"
        "from onednn_py.jax import conv_general_dilated, lowering\n"
        "from tests.support.jax_cases import integers\n"
        "lowering.is_left_to_lax = lambda *arguments, **shapes: False\n"
        "f = jax.jit(lambda s, w: conv_general_dilated(s, w, (1, 1), 'SAME'))\n"
        "for _ in range(20): result = f(integers((8, 16, 64, 64)), integers((16, 16, 3, 3)))\n"
    )


@pytest.mark.parametrize("between", ["x", "jnp.tanh(x @ jnp.ones((64, 64)))"])
def test_a_program_that_drops_results_under_way(between: str) -> None:
    """No array is left that knows of them."""
    run(
        "import jax\n"
        "from jax import numpy as jnp\n"
        "from onednn_py.jax import conv_general_dilated, lowering\n"
        "lowering.is_left_to_lax = lambda *arguments, **shapes: False\n"
        "@jax.jit\n"
        "def step(x, w):\n"
        "    for _ in range(3):\n"
        "        x = conv_general_dilated(x, w, (1, 1), 'SAME')\n"
        f"        x = {between}\n"
        "    return x\n"
        "x, w = jnp.ones((16, 64, 64, 64)), jnp.ones((64, 64, 3, 3))\n"
        "results = [step(x, w), step(x + 1, w)]\n"
        "del results\n"
    )


@pytest.mark.parametrize("is_forked", [False, True])
def test_a_forked_child_waits_for_nothing_at_its_end(
    monkeypatch: pytest.MonkeyPatch, is_forked: bool
) -> None:
    asked = []
    monkeypatch.setattr(jax, "live_arrays", lambda platform: asked.append(platform) or [])
    lowering._finish(os.getpid() + is_forked)
    assert asked == ([] if is_forked else ["cpu"])


class Computing:
    """An array whose computation does not end."""

    def is_ready(self) -> bool:
        return False


def test_a_computation_without_end_keeps_no_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jax, "live_arrays", lambda platform: [Computing(), Computing()])
    begin = time.monotonic()
    lowering._finish(os.getpid(), longest=0.05)
    assert 0.05 <= time.monotonic() - begin < 10
    assert "still computes" in caplog.text


def test_an_array_says_whether_it_is_ready() -> None:
    array = jax.numpy.ones(3)
    array.block_until_ready()
    assert array.is_ready()


def test_training_with_flax() -> None:
    linen = pytest.importorskip("flax.linen")

    class Network(linen.Module):
        convolution: Any

        @linen.compact
        def __call__(self, images: Any) -> Any:
            hidden = linen.Conv(8, (3, 3), conv_general_dilated=self.convolution)(images)
            hidden = linen.Conv(
                8, (3, 3), strides=2, feature_group_count=2, conv_general_dilated=self.convolution
            )(linen.relu(hidden))
            return linen.Dense(3)(hidden.mean((1, 2)))

    images = jnp.asarray(np.random.default_rng(0).standard_normal((12, 8, 8, 2)), jnp.float32)
    labels = jnp.arange(12) % 3
    losses = []
    for convolution in (conv_general_dilated, lax.conv_general_dilated):
        network = Network(convolution)
        parameters = network.init(jax.random.key(0), images)

        def loss(parameters: Any, network: Any = network) -> Any:
            scores = jax.nn.log_softmax(network.apply(parameters, images))
            return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

        step = jax.jit(jax.value_and_grad(loss))
        history = []
        for _ in range(30):
            value, derivative = step(parameters)
            parameters = jax.tree.map(lambda p, g: p - 0.5 * g, parameters, derivative)
            history.append(float(value))
        losses.append(history)
    assert losses[0][-1] < losses[0][0]
    # Roundings of other sums, carried through 30 steps.
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


@pytest.mark.parametrize(
    ("preparation", "message"),
    [
        ("sys.modules['jax'] = None", 'needs JAX: pip install --upgrade "onednn_py[jax]"'),
        (
            "import jax; import jax.interpreters.mlir; del jax.interpreters.mlir.lower_fun; "
            "jax.__version__ = '0.3.1'",
            f"needs JAX {requirements.OLDEST_JAX} or newer; JAX 0.3.1 has no",
        ),
        (
            "import jax; sys.modules['jax.experimental.buffer_callback'] = None; "
            "jax.__version__ = '0.6.0'",
            "needs JAX 0.6.1 or newer; JAX 0.6.0 has no "
            "jax.experimental.buffer_callback.buffer_callback: pip install --upgrade "
            '"onednn_py[jax]"',
        ),
    ],
)
def test_missing_or_old_jax(preparation: str, message: str) -> None:
    code = f"import sys; {preparation}\ntry:\n import onednn_py.jax\nexcept ImportError as error:\n"
    run(f"{code} assert {message!r} in str(error), error\nelse:\n raise SystemExit(1)")
