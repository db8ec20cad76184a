#!/usr/bin/env python
"""Makes a blurred photograph sharp with SciPy's lsqr, and writes the picture of docs/scipy.md.

    python examples/deblur_lsqr.py docs/_static/deblur.jpg

Needs onednn_py, SciPy, scikit-learn (for the photograph) and matplotlib.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.sparse.linalg import lsqr
from sklearn.datasets import load_sample_image

from onednn_py.scipy import convolution_operator

SIZE = 240
NOISE = 0.0025
DAMP = 0.02


def shake() -> np.ndarray:
    """Return the path of a camera during the exposure, as a kernel of sum 1."""
    time = np.linspace(0, 1, 2000)
    columns, rows = 1 + 12 * time, 7 + 4 * np.sin(4 * time) * time
    path, _, _ = np.histogram2d(rows, columns, bins=15, range=((-0.5, 14.5), (-0.5, 14.5)))
    return (path / path.sum()).astype(np.float32)


def scene(size: int) -> np.ndarray:
    """Return a part of a photograph, shape (1, size, size, 3), from 0 to 1."""
    picture = load_sample_image("china.jpg")[60 : 60 + size, 150 : 150 + size]
    return picture[None].astype(np.float32) / 255


def deblurred(photograph: np.ndarray, blur: Any, iterations: int = 60) -> np.ndarray:
    """Return the picture whose blurred version is the photograph, by damped least squares."""
    # lsqr looks for what is to be added to a grey picture, so that the damping favours grey.
    grey = np.full(blur.shape[1], photograph.mean(), np.float32)
    residual = photograph.ravel() - blur @ grey
    found = lsqr(blur, residual, damp=DAMP, iter_lim=iterations)[0]
    return (grey + found).reshape(blur.src_shape).clip(0, 1)


def error(picture: np.ndarray, truth: np.ndarray) -> float:
    """Return the root-mean-square error in grey levels of 255, away from the border."""
    inside = (slice(None), slice(14, -14), slice(14, -14))
    return 255 * float(np.sqrt(np.mean((picture[inside] - truth[inside]) ** 2)))


def main(arguments: Sequence[str], size: int = SIZE) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", nargs="?", help="file to draw to, such as deblur.png")
    picture = parser.parse_args(arguments).picture
    figure = Figure(figsize=(9, 3.3), layout="constrained", facecolor="white")
    formats = figure.canvas.get_supported_filetypes()
    if picture and Path(picture).suffix[1:].lower() not in formats:
        parser.error(f"{picture}: expected a name ending in one of .{', .'.join(sorted(formats))}")
    truth, path = scene(size), shake()
    # The three colours are blurred alike, each by itself.
    weights = np.repeat(path[:, :, None, None], 3, axis=3)
    blur = convolution_operator(truth.shape, weights, groups=3)
    rng = np.random.default_rng(0)
    photograph = (blur @ truth.ravel()).reshape(blur.dst_shape)
    photograph += NOISE * rng.standard_normal(photograph.shape, np.float32)
    restored = deblurred(photograph, blur)
    margin = [(a - b) // 2 for a, b in zip(truth.shape, photograph.shape, strict=True)]
    padded = np.pad(photograph, [(width, width) for width in margin], mode="edge")
    before, after = error(padded, truth), error(restored, truth)
    print(f"error: {before:.1f} grey levels before, {after:.1f} after")
    if picture:
        draw(figure, {"the photograph": padded, "after lsqr": restored, "the scene": truth})
        figure.savefig(picture, dpi=100)
    return 0 if after < before / 2 else 1


def draw(figure: Figure, pictures: dict[str, np.ndarray]) -> None:
    for axes, (title, picture) in zip(figure.subplots(1, 3), pictures.items(), strict=True):
        axes.imshow(picture[0, 14:-14, 14:-14].clip(0, 1))
        axes.set_title(title, fontsize=11)
        axes.set_axis_off()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
