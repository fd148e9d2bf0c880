"""Draws the digits that any of the networks reads wrongly.

    python picture.py test.npz read.npz wrong.png

read.npz is what score.py wrote. Needs matplotlib (not tpulayer).
"""

from __future__ import annotations

import sys

import numpy as np
from matplotlib.figure import Figure

COLUMNS = 7


def main(data_file: str, read_file: str, picture: str) -> None:
    data, read = np.load(data_file), np.load(read_file)
    labels = data["labels"]
    wrong = np.flatnonzero(np.any([read[net] != labels for net in read.files], axis=0))
    rows = -(-len(wrong) // COLUMNS)
    figure = Figure(figsize=(1.3 * COLUMNS, 2.0 * rows))
    axes = figure.subplots(rows, COLUMNS, squeeze=False)
    for place in axes.flat:
        place.axis("off")
    for place, number in zip(axes.flat, wrong, strict=False):
        place.imshow(data["x"][number, 0], cmap="gray_r", vmin=0, vmax=1)
        lines = [f"is {labels[number]}", *(f"{net}: {read[net][number]}" for net in read.files)]
        place.set_title("\n".join(lines), fontsize=8)
    figure.tight_layout()
    figure.savefig(picture, dpi=80)


if __name__ == "__main__":
    main(*sys.argv[1:])
