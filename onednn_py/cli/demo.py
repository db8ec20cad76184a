"""The command ``demo``: trains a small network on handwritten digits."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import Any

import onednn_py
from onednn_py.config import BACKENDS, backend_setting
from onednn_py.problem.dtypes import DTYPES
from onednn_py.tools.benchmark.machine import busy_cores, busy_cores_warning
from onednn_py.tools.demo import training
from onednn_py.tools.demo.figure import save_figure
from onednn_py.tools.demo.network import CONVOLUTIONS, Network
from onednn_py.tools.extras import install_command, require
from onednn_py.tools.text import counted

from .outputs import check_writable, picture, write_json
from .problems import natural
from .screen import Screen

__all__ = ["add_parser", "run"]

DEFAULT_EPOCHS = 30


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="train a small convolutional network on handwritten digits",
        description="Train a small convolutional network on scikit-learn's handwritten digits, "
        "with the convolutions and their gradients computed by this package. "
        f'Needs the extra "demo": {install_command("demo")}.',
    )
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        help="what computes the convolutions (default: ONEDNN_PY_BACKEND, or auto)",
    )
    parser.add_argument(
        "--epochs",
        type=_epochs,
        default=DEFAULT_EPOCHS,
        metavar="N",
        help="passes over the training images (default: %(default)s)",
    )
    parser.add_argument(
        "--dtype",
        choices=("f32", "bf16", "f16"),
        default="f32",
        help="data type of the tensors given to the convolutions (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=natural,
        default=0,
        metavar="N",
        help="seed of the initial weights and of the order of the images (default: %(default)s)",
    )
    parser.add_argument(
        "--plot",
        type=picture,
        metavar="FILE",
        help="draw loss, accuracy and the first layer's filters to a .png or .svg file",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the result as JSON on stdout, and the progress on stderr",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    start = time.perf_counter()
    screen = Screen("-" if arguments.json else None, requires_rich=True)
    if arguments.plot is not None:
        # A missing package is reported before the training, not after it.
        require("matplotlib", "matplotlib", "demo")
        check_writable((arguments.plot,))
    digits = training.load_digits()
    network = Network(DTYPES[arguments.dtype], arguments.seed)
    backend: Any = backend_setting.current(arguments.backend)
    with onednn_py.use_backend(backend):
        implementations = training.implementations(network)
        epochs = _train(network, digits, arguments, screen)
        seconds_per_epoch = None
        if any(row["backend"] == "onednn" for row in implementations):
            if warning := busy_cores_warning(busy_cores()):
                screen.say(warning)
            seconds_per_epoch = training.seconds_per_epoch(network, digits)
    facts = onednn_py.info()
    # Accuracies are fractions; times are in seconds.
    result = {
        "dtype": arguments.dtype,
        "seed": arguments.seed,
        **{name: facts[name] for name in ("library", "version", "cpu_isa")},
        "implementations": implementations,
        "epochs": [dataclasses.asdict(epoch) for epoch in epochs],
        "test_accuracy": epochs[-1].test_accuracy,
        "seconds_per_epoch": seconds_per_epoch,
        "seconds": time.perf_counter() - start,
    }
    for line in _report(result):
        screen.say(line)
    if arguments.json:
        write_json("-", result)
    if arguments.plot is not None:
        filters = network.parameters[f"{CONVOLUTIONS[0].name} weights"]
        try:
            save_figure(arguments.plot, epochs, filters, _verdict(result))
        except OSError as error:
            raise onednn_py.OneDNNPyError(f"--plot: {error}") from None
        screen.say(f"the curves and the filters are in {arguments.plot}")
    return 0


def _train(
    network: Network, digits: training.Digits, arguments: argparse.Namespace, screen: Screen
) -> list[training.Epoch]:
    screen.say(
        f"{len(digits.train_labels)} images to learn from, {len(digits.test_labels)} to test on"
    )
    epochs = training.train(network, digits, arguments.epochs, arguments.seed)
    finished = []
    for _ in screen.tracked(range(arguments.epochs)):
        epoch = next(epochs)
        finished.append(epoch)
        screen.say(
            f"epoch {epoch.epoch:{len(str(arguments.epochs))}}/{arguments.epochs}: "
            f"loss {epoch.loss:.4f}, accuracy {epoch.train_accuracy:6.1%} training "
            f"{epoch.test_accuracy:6.1%} test, {epoch.seconds:.2f} s"
        )
    return finished


def _report(result: Mapping[str, Any]) -> Iterator[str]:
    yield "what computed the convolutions of a training step:"
    for row in result["implementations"]:
        yield "  {layer}, {computation:16}  {backend:6}  {implementation}".format(**row)
    if result["library"] is None:
        yield "no oneDNN library is loaded, so everything ran on NumPy"
    else:
        yield "oneDNN {version} for {cpu_isa}, {library}".format(**result)
    if result["seconds_per_epoch"] is not None:
        numpy, onednn = result["seconds_per_epoch"].values()
        yield (f"one epoch: NumPy {numpy:.3f} s, oneDNN {onednn:.3f} s, ratio {numpy / onednn:.1f}")
    yield _verdict(result)


def _verdict(result: Mapping[str, Any]) -> str:
    accuracy, epochs = result["test_accuracy"], counted(len(result["epochs"]), "epoch")
    reached = f"test accuracy {accuracy:.1%} after {epochs}"
    if accuracy < training.GOAL:
        reached += f", below the {training.GOAL:.0%} expected of {DEFAULT_EPOCHS} epochs"
    return f"{reached}, {result['dtype']}, {result['seconds']:.1f} s in all"


def _epochs(text: str) -> int:
    number = natural(text)
    if not number:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {text!r}")
    return number
