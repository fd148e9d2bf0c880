"""`test_tpu_layer`: the demo graph, compiled, run on the emulator and compared with numpy.

crop -> expand_dims -> const_binary -> double: two user layers and two built-in ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.errors import MissingError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from firmware_sim.firmware.image import FirmwareImage
    from user_layers.api import Graph
    from user_layers.workspace import Workspace

DEMO_LAYERS = ("crop", "double")
DEMO_OPS = ("TPU_CROP", "TPU_DOUBLE")
STATIC_DIR = "tpulayer_static"
DYNAMIC_DIR = "tpulayer_dynamic"
BEFORE = (8, 4, 2)
AFTER = (8, 4, 6)
FACTOR = 1.5
COMPILED_SHAPE = (64, 40, 40)  # what the static net takes, and the maximum of the dynamic one
OTHER_SHAPES = ((64, 33, 21), (20, 40, 17), (17, 9, 9))


def build_graph(ws: Workspace, firmware: str | None = None) -> Graph:
    """The demo graph; its only input is "x" [64, 40, 40] float32, its output "y" [1, 48, 32, 32]."""
    from user_layers.api import Graph
    from user_layers.graph import BINARY_MUL
    from user_layers.toolkit import Toolkit

    graph = Graph("BM1684", name="tpulayer", toolkit=Toolkit(ws, firmware=firmware))
    graph.add_input("x", COMPILED_SHAPE)
    graph.add_tpu_layer("TPU_CROP", ["x"], {"before": BEFORE, "after": AFTER}, ["cropped"])
    graph.add_expand_dims_layer("cropped", 0, "expanded")
    graph.add_const_binary_layer("expanded", FACTOR, "scaled", BINARY_MUL)
    graph.add_tpu_layer("TPU_DOUBLE", ["scaled"], None, ["y"])
    return graph


def expected(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the demo graph computes, in numpy."""
    import numpy as np

    cut = tuple(slice(b, n - a) for b, a, n in zip(BEFORE, AFTER, x.shape, strict=True))
    y: NDArray[np.float32] = (x[cut][None] * np.float32(FACTOR)) * np.float32(2)
    return y


def check_demo_layers(ws: Workspace) -> None:
    """Refuse a workspace that is not built, or was built without the demo layers."""
    from user_layers.params import ParamTypes

    if not ws.layer_record.exists():
        raise MissingError(f"{ws.root} is not built", hint="run build_layers")
    known = set(ParamTypes.from_record(ws.layer_record).names())
    missing = [op for op in DEMO_OPS if op not in known]
    if missing:
        raise UsageError(
            f"test_tpu_layer runs the demo layers, and {ws.root} was built without {', '.join(missing)}",
            hint=f"add them and build: tpulayer init {ws.root} --demo && tpulayer build_layers",
        )


def run(ws: Workspace, mode: int, say: Callable[[str], None] = print, firmware: str | None = None) -> bool:
    """Compile and run the demo graph: mode 0 static, 1 dynamic. True when every output equals numpy's.

    firmware: see `firmware_image`; it records the commands of a static net, too.
    """
    import numpy as np

    from user_layers.toolchain import firmware_image

    check_demo_layers(ws)
    rng = np.random.default_rng(1684)
    x = rng.standard_normal(COMPILED_SHAPE).astype(np.float32)
    directory = Path(STATIC_DIR if mode == 0 else DYNAMIC_DIR)
    with build_graph(ws, firmware) as graph:
        say(f"compiling the {'dynamic' if mode else 'static'} net into {directory}")
        graph.compile(
            dynamic=bool(mode),
            directory=directory,
            ref_inputs={"x": x},
            ref_outputs={"y": expected(x)},
            log=lambda line: say("  " + line),
            report=True,
        )
    shapes = (COMPILED_SHAPE, *(OTHER_SHAPES if mode else ()))
    return _run_compiled(firmware_image(ws, firmware), directory / "compilation.bmodel", shapes, x, say)


def _run_compiled(
    image: FirmwareImage,
    bmodel: Path,
    shapes: Sequence[tuple[int, ...]],
    first: NDArray[np.float32],
    say: Callable[[str], None],
) -> bool:
    import numpy as np

    from firmware_sim.device.client import Device
    from user_layers.runtime import BModelRuntime
    from user_layers.testing.compare import difference

    rng = np.random.default_rng(4861)
    good = True
    with Device(image) as device, BModelRuntime(device) as runtime:
        runtime.load(bmodel)
        for i, shape in enumerate(shapes):
            x = first if i == 0 else rng.standard_normal(shape).astype(np.float32)
            before = device.instructions
            y = runtime.launch("tpulayer", {"x": x})[0].astype(np.float32, copy=False)
            counted = device.instructions - before
            want = expected(x)
            if y.shape != want.shape:
                verdict = f"WRONG SHAPE, numpy gives {list(want.shape)}"
            elif found := difference(y, want):
                verdict = str(found)
            else:
                verdict = "equals numpy bit for bit"
            good &= verdict.startswith("equals")
            by = f"; the controller ran {counted} instructions" if counted else ""
            say(f"x {list(shape)} -> y {list(y.shape)}: {verdict}{by}")
    return good
