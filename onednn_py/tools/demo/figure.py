"""Draws how the demo's network learnt, and what its first filters look like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onednn_py.tools.extras import require
from onednn_py.tools.pictures import save

from .training import GOAL, Epoch

__all__ = ["FORMATS", "save_figure"]

FORMATS = ("png", "svg")
FILTER_COLUMNS = 8
TRAIN_COLOUR = "#4477aa"
TEST_COLOUR = "#cc3311"
QUIET_COLOUR = "#999999"
TEXT_COLOUR = "#333333"


def save_figure(path: Path, epochs: Sequence[Epoch], filters: NDArray[Any], title: str) -> None:
    """Write loss and accuracy over the epochs, and the filters, to a PNG or SVG file.

    Parameters
    ----------
    path : Path
        Its suffix chooses the format.
    epochs : sequence of Epoch
    filters : (kh, kw, 1, O) array
        The first layer's weights.
    title : str
    """
    figures = require("matplotlib.figure", "matplotlib", "demo")
    # A Figure without pyplot needs no display, whatever backend the user's settings name.
    figure = figures.Figure(figsize=(12, 4.8), layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=13, color=TEXT_COLOUR)
    curves, pictures = figure.subfigures(1, 2, width_ratios=(1, 1.3), wspace=0.03)
    loss, accuracy = curves.subplots(2, 1, sharex=True)
    _draw_loss(loss, epochs)
    _draw_accuracy(accuracy, epochs)
    _draw_filters(pictures, filters)
    save(figure, path)


def _draw_loss(axes: Any, epochs: Sequence[Epoch]) -> None:
    numbers, losses = [epoch.epoch for epoch in epochs], [epoch.loss for epoch in epochs]
    axes.plot(numbers, losses, color=TRAIN_COLOUR, marker=_marker(epochs))
    axes.set_yscale("log")
    # Plain numbers, "0.1" rather than a power of ten.
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_ylabel("training loss", color=TEXT_COLOUR)
    _tidy(axes)


def _draw_accuracy(axes: Any, epochs: Sequence[Epoch]) -> None:
    numbers = [epoch.epoch for epoch in epochs]
    curves = (
        ("training", TRAIN_COLOUR, [epoch.train_accuracy for epoch in epochs]),
        ("test", TEST_COLOUR, [epoch.test_accuracy for epoch in epochs]),
    )
    axes.axhline(100 * GOAL, color=QUIET_COLOUR, linestyle="--", linewidth=1)
    axes.annotate(
        f"{GOAL:.0%}",
        (1, 100 * GOAL),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        verticalalignment="center",
        color=QUIET_COLOUR,
    )
    for label, colour, fractions in curves:
        percent = [100 * fraction for fraction in fractions]
        axes.plot(numbers, percent, color=colour, label=label, marker=_marker(epochs))
    axes.legend(frameon=False, loc="lower right", labelcolor="linecolor")
    axes.set_ylabel("accuracy (%)", color=TEXT_COLOUR)
    axes.set_xlabel("epoch", color=TEXT_COLOUR)
    axes.set_xlim(0.5, len(epochs) + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    _tidy(axes)


def _marker(epochs: Sequence[Epoch]) -> str:
    # A single epoch is no line: without a marker nothing would be seen.
    return "o" if len(epochs) == 1 else ""


def _tidy(axes: Any) -> None:
    axes.grid(color=QUIET_COLOUR, alpha=0.3, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=TEXT_COLOUR)


def _draw_filters(figure: Any, filters: NDArray[Any]) -> None:
    pictures = np.moveaxis(filters[:, :, 0, :], -1, 0)
    # One scale for all, white at zero; the few largest weights may saturate it.
    limit = float(np.quantile(np.abs(pictures), 0.99))
    rows = -(-len(pictures) // FILTER_COLUMNS)
    grid = figure.subplots(rows, FILTER_COLUMNS, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, picture in zip(grid.flat, pictures, strict=False):
        image = axes.imshow(picture, cmap="RdBu_r", vmin=-limit, vmax=limit)
    height, width = pictures.shape[1:]
    figure.suptitle(
        f"the first layer's {len(pictures)} filters of {height} x {width} weights",
        fontsize=11,
        color=TEXT_COLOUR,
    )
    bar = figure.colorbar(
        image, ax=grid, orientation="horizontal", extend="both", shrink=0.5, aspect=35, pad=0.04
    )
    bar.set_label("weight", color=TEXT_COLOUR)
    bar.ax.locator_params(nbins=5)
    bar.ax.tick_params(colors=TEXT_COLOUR)
    bar.outline.set_visible(False)
