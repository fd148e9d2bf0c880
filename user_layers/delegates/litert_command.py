"""What `tpulayer litert` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from firmware_sim.errors import TpulayerError
from firmware_sim.isa import timing
from firmware_sim.shown import count
from user_layers.bmrt.reference_data import load_npz, save_npz
from user_layers.delegates.litert import (
    DISPATCH,
    PLUGIN,
    Array,
    LiteRtModel,
    compile_ahead,
    counters,
    left_on_cpu,
    litert_libraries,
)
from user_layers.onnx.command import parse_shapes
from user_layers.toolkit import Toolkit

Say = Callable[[str], None]


def paths(say: Say) -> int:
    """Print the folder of the libraries, then each."""
    folder = litert_libraries()
    for line in (folder, folder / PLUGIN, folder / DISPATCH):
        say(str(line))
    return 0


def compile(
    model: Path,
    out: Path,
    report: bool,
    say: Say,
    *,
    opt: int | None = None,
    operations: int | None = None,
    shapes: Sequence[str] = (),
) -> int:
    """Compile a model ahead. A report says why it could not be made. Errors: as of `compile_ahead`."""
    made = compile_ahead(model, out, opt=opt, operations=operations, shapes=parse_shapes(shapes))
    say(f"{model} -> {out}: {made} for the TPU")
    if report:
        try:
            with Toolkit() as toolkit:
                lines = left_on_cpu(model, toolkit)
        except TpulayerError as error:  # LiteRT reads models that `read_tflite` does not
            lines = [f"no report: {error.message}"]
        for line in lines:
            say(line)
    return 0


def run(model: Path, given: Path | None, output: Path | None, say: Say) -> int:
    """Run a model once; exit code 1 where nothing of it ran on the TPU.

    Errors: UsageError for inputs that do not fit or a file that is no .npz, and as LiteRtModel.
    """
    with LiteRtModel(model) as loaded:
        inputs = _random(loaded) if given is None else load_npz(given, lambda _: None)
        before = counters()
        made = loaded.run(inputs)
        after = counters()
    if output is not None:
        save_npz(output, made)
    for name, array in made.items():
        values = f"{float(array.min()):.6g} to {float(array.max()):.6g}" if array.size else "no elements"
        say(f"{name} {array.dtype} {list(array.shape)}: {values}")
    ran = after.runs - before.runs
    if loaded.said:
        say(loaded.said)
    if not ran:
        say("nothing of this model ran on the TPU")
        return 1
    say(
        f"TPU: {count(ran, 'partition')}, {after.commands - before.commands} commands, "
        f"{(after.ns - before.ns) / 1e6:.3f} ms ({timing.modelled()}), "
        f"{after.bytes_in - before.bytes_in} bytes in, {after.bytes_out - before.bytes_out} bytes out"
    )
    return 0


def _random(model: LiteRtModel) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {
        name: rng.uniform(-1, 1, shape).astype(dtype)
        if np.issubdtype(dtype, np.floating)
        else rng.integers(0, 2, shape).astype(dtype)
        for name, (shape, dtype) in model.inputs.items()
    }
