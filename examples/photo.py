"""A photograph through two custom layers: crop the face, double the brightness; static and dynamic.

    python examples/photo.py [FOLDER]      writes before.jpg, static.jpg and dynamic.jpg there

Run it in a workspace that holds the demo layers (this repository is one) after build_layers. The
photograph (Grace Hopper, public domain) comes with matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib import cbook
from numpy.typing import NDArray
from PIL import Image

from tpulayer import Graph

# What is cut off, [n, c, h, w], before and after.
BEFORE, AFTER = (0, 0, 60, 120), (0, 0, 260, 150)


def photograph() -> NDArray[np.float32]:
    """The picture as [1, 3, 600, 512], 0 to 1."""
    with cbook.get_sample_data("grace_hopper.jpg") as file:
        pixels = np.asarray(Image.open(file).convert("RGB"), dtype=np.float32) / np.float32(255)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def save(path: Path, x: NDArray[np.float32]) -> None:
    """[1, 3, h, w] as a picture; what is over 1 is white."""
    pixels = (np.clip(x[0].transpose(1, 2, 0), 0, 1) * 255).round().astype(np.uint8)
    Image.fromarray(pixels).save(path, quality=85)


def graph_for(name: str, shape: tuple[int, ...]) -> Graph:
    """crop -> double for pictures of this shape (dynamic: up to it)."""
    graph = Graph("BM1684", name=name)
    graph.add_input("picture", shape)
    graph.add_tpu_layer("TPU_CROP", ["picture"], {"before": BEFORE, "after": AFTER}, ["face"])
    graph.add_tpu_layer("TPU_DOUBLE", ["face"], None, ["bright"])
    return graph


def expected(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same in numpy."""
    cut = tuple(slice(b, n - a) for b, a, n in zip(BEFORE, AFTER, x.shape, strict=True))
    y: NDArray[np.float32] = x[cut] * np.float32(2)
    return y


def main(folder: Path) -> None:
    """Run both nets, check them against numpy, write the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = photograph()
    smaller = np.ascontiguousarray(picture[:, :, :500, :400])
    save(folder / "before.jpg", picture)
    for name, x in (("static", picture), ("dynamic", smaller)):
        with graph_for(name, picture.shape) as graph:
            graph.compile(dynamic=name == "dynamic", verbose=True)
            y = graph.run({"picture": x})[0].astype(np.float32, copy=False)
        if not np.array_equal(y, expected(x)):
            raise SystemExit(f"{name}: differs from numpy")
        save(folder / f"{name}.jpg", y)
        print(f"{name}: {list(x.shape)} -> {list(y.shape)}, equals numpy bit for bit")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
