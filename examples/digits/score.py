"""Runs compiled networks on the digits of a file, and says how many they read rightly.

    python score.py NET [NET ...] --data test.npz [-o read.npz]

NET is a folder that `tpulayer compile` wrote. read.npz: what each of them reads, by the folders' names.
Run it in the workspace with the networks' layers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tpulayer import load_bmodel


def read_digits(folder: Path, x: NDArray[np.float32]) -> NDArray[np.int64]:
    """What the network of a folder takes each picture for."""
    found = []
    with load_bmodel(folder) as nets:
        net = nets.networks[0]
        batch = net.stages[0].input_shapes[0][0]
        for start in range(0, len(x), batch):
            part = x[start : start + batch]
            filled = np.resize(part, (batch, *x.shape[1:]))  # the last batch repeats its own pictures
            (scores,) = nets.launch(net.name, [filled])
            found.append(scores[: len(part)].argmax(1))
    return np.concatenate(found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("nets", type=Path, nargs="+", help="folders that compile wrote")
    parser.add_argument("--data", type=Path, required=True, help="an .npz with x and labels")
    parser.add_argument("-o", "--out", type=Path, help="the .npz to write")
    chosen = parser.parse_args(arguments)
    data = np.load(chosen.data)
    read = {net.name: read_digits(net, data["x"]) for net in chosen.nets}
    for name, digits in read.items():
        right = int((digits == data["labels"]).sum())
        print(f"{name}: {right} of {len(digits)} right, {right / len(digits):.2%}")
    if chosen.out is not None:
        np.savez_compressed(chosen.out, **read)


if __name__ == "__main__":
    main()
