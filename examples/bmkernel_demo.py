"""One kernel, used in two ways: launched by itself, and called from a layer of a compiled graph.

python examples/bmkernel_demo.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from tpulayer import Device, Graph, Toolkit, Workspace
from user_layers.scaffold import init
from user_layers.toolchain.targets import build_bmkernel, build_layers

PROJECT = Path(__file__).resolve().parent.parent / "bmkernel_demo"
sys.path.insert(0, str(PROJECT / "host"))

from scale_add import scale_add  # noqa: E402  (the project's own host code)

FACTOR = 0.5


def make_workspace(root: Path) -> Workspace:
    """A workspace with the layer scale_add, whose global function calls the project's C function."""
    init(root)
    for folder in ("device", "host"):
        shutil.copytree(PROJECT / "layer" / folder, root / folder, dirs_exist_ok=True)
    ws = Workspace(root)
    ws.set_config(BMKERNEL_PATH=str(PROJECT))
    build_layers(ws)
    return ws


def main() -> None:
    rng = np.random.default_rng(1684)
    a, b = (rng.standard_normal((3, 100, 17)).astype(np.float32) for _ in range(2))
    expected = np.float32(FACTOR) * a + b

    with tempfile.TemporaryDirectory() as folder:
        ws = make_workspace(Path(folder))

        build_bmkernel(ws)
        with Device(PROJECT / "install" / "firmware" / "firmware.so") as device:
            launched = scale_add(device, a, b, FACTOR)
        print("launched by itself:", "equals numpy" if np.array_equal(launched, expected) else "DIFFERS")

        with Graph("BM1684", name="scale_add", toolkit=Toolkit(ws)) as graph:
            graph.add_input("a", a.shape)
            graph.add_input("b", b.shape)
            graph.add_tpu_layer("TPU_SCALE_ADD", ["a", "b"], {"factor": FACTOR}, ["y"])
            graph.compile(directory=Path(folder) / "net")
            (y,) = graph.run({"a": a, "b": b})
        print("called by a layer: ", "equals numpy" if np.array_equal(y, expected) else "DIFFERS")


if __name__ == "__main__":
    main()
