"""One kernel, used twice: launched by itself from the host, and called from a layer's global function.

Run it in a workspace whose bmkernel project is bmkernel_demo (`tpulayer set_bmkernel_path`; this
repository is one) after build_layers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bmkernel_demo" / "host"))

from scale_add import scale_add  # noqa: E402

from firmware_sim.device import Device  # noqa: E402
from user_layers.build import firmware_path  # noqa: E402
from user_layers.workspace import Workspace  # noqa: E402


def main() -> None:
    """Launch scale_add and compare with numpy."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(100_003).astype(np.float32) for _ in range(2))
    with Device(firmware_path(Workspace.find())) as device:
        out = scale_add(device, a, b, 0.5)
    if not np.array_equal(out, a * np.float32(0.5) + b):
        raise SystemExit("scale_add differs from numpy")
    print(f"scale_add: {out.size} elements, equals numpy bit for bit")


if __name__ == "__main__":
    main()
