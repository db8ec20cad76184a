"""Draws the loss and accuracy of the demo's network, and its first filters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onednn_py.tools.pictures import QUIET_COLOUR, TEXT_COLOUR, new_figure, save, tidy

from .training import GOAL, Epoch

__all__ = ["save_figure"]

FILTER_COLUMNS = 8
TRAIN_COLOUR = "#4477aa"
TEST_COLOUR = "#cc3311"


def save_figure(path: Path, epochs: Sequence[Epoch], filters: NDArray[Any], title: str) -> None:
    """Draw loss and accuracy over the epochs, and filters (kh, kw, 1, O), to a .png or .svg."""
    figure = new_figure("demo", figsize=(12, 4.8))
    figure.suptitle(title, fontsize=13, color=TEXT_COLOUR)
    curves, pictures = figure.subfigures(1, 2, width_ratios=(1, 1.3), wspace=0.03)
    loss, accuracy = curves.subplots(2, 1, sharex=True)
    _draw_loss(loss, epochs)
    _draw_accuracy(accuracy, epochs)
    for axes in (loss, accuracy):
        tidy(axes)
    _draw_filters(pictures, filters)
    save(figure, path)


def _draw_loss(axes: Any, epochs: Sequence[Epoch]) -> None:
    _plot(axes, epochs, "loss", 1, color=TRAIN_COLOUR)
    axes.set_yscale("log")
    # Plain numbers, "0.1" rather than a power of ten.
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_ylabel("training loss", color=TEXT_COLOUR)


def _draw_accuracy(axes: Any, epochs: Sequence[Epoch]) -> None:
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
    _plot(axes, epochs, "train_accuracy", 100, color=TRAIN_COLOUR, label="training")
    _plot(axes, epochs, "test_accuracy", 100, color=TEST_COLOUR, label="test")
    axes.legend(frameon=False, loc="lower right", labelcolor="linecolor")
    axes.set_ylabel("accuracy (%)", color=TEXT_COLOUR)
    axes.set_xlabel("epoch", color=TEXT_COLOUR)
    axes.set_xlim(0.5, len(epochs) + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def _plot(axes: Any, epochs: Sequence[Epoch], field: str, scale: float, **style: Any) -> None:
    numbers = [epoch.epoch for epoch in epochs]
    values = [scale * getattr(epoch, field) for epoch in epochs]
    # A line through a single point is invisible.
    axes.plot(numbers, values, marker="o" if len(epochs) == 1 else "", **style)


def _draw_filters(figure: Any, filters: NDArray[Any]) -> None:
    pictures = np.moveaxis(filters[:, :, 0, :], -1, 0)
    # A quantile: a few large weights would make all others pale.
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
