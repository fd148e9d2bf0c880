"""Runs a compiled detector of scenes on the emulator, and says how good its detections are.

    python examples/yolov3/evaluate.py NET [--scenes 50]

NET is the folder that bmnetu wrote. Run it in the workspace with the layer YOLOV3_DETECT_OUT. The scenes are
those from number 0 on, which train.py does not use.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from precision import Truth, average_precisions, detections_of
from scenes import CLASSES, scene

from tpulayer import load_bmodel


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("net", type=Path, help="the folder that bmnetu wrote")
    parser.add_argument("--scenes", type=int, default=50, help="how many (50)")
    chosen = parser.parse_args(arguments)
    found, truths = [], []
    with load_bmodel(chosen.net) as nets:
        net = nets.networks[0]
        size = net.stages[0].input_shapes[0][2]
        for number in range(chosen.scenes):
            seen = scene(number, size)
            rows = nets.launch(net.name, [seen.image[None]])[0].astype(np.float32, copy=False)
            found += detections_of(rows, 1, size)
            truths.append(Truth(seen.boxes, seen.classes))
    precisions = average_precisions(found, truths, len(CLASSES))
    counts = sum(len(each.boxes) for each in truths), sum(len(each.boxes) for each in found)
    print(f"{chosen.scenes} scenes with {counts[0]} objects, {counts[1]} detections")
    for name, precision in zip(CLASSES, precisions, strict=True):
        print(f"{name:10} {precision:.3f}")
    print(f"{'mean':10} {np.nanmean(precisions):.3f}   average precision where boxes overlap by 0.5 and more")


if __name__ == "__main__":
    main()
