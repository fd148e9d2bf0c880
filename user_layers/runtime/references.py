"""Reference data of a compiled net, and running it on the emulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firmware_sim.errors import UsageError
from user_layers.bmodel import as_read
from user_layers.bmodel.directory import References
from user_layers.net.compiled import CompiledNet, NetTensor
from user_layers.runtime import BModelRuntime, Ran
from user_layers.runtime.attribution import Attribution
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


SEED = 1684


def run_net(
    net: CompiledNet, toolkit: Toolkit, inputs: Mapping[str, ArrayLike], stage: int | None = None
) -> list[NDArray[np.generic]]:
    """The net's outputs, in order, from the emulator. stage: which one, by default what fits the inputs.

    Errors: UsageError where this machine has not the memory; those of the runtime.
    """
    return timed_run(net, toolkit, inputs, stage).outputs


def timed_run(
    net: CompiledNet, toolkit: Toolkit, inputs: Mapping[str, ArrayLike], stage: int | None = None
) -> Ran:
    """The same with the time that each part took, seconds by this machine's clock."""
    with load_net(net, toolkit) as runtime:
        return _launch(runtime, net, inputs, stage)


def load_net(net: CompiledNet, toolkit: Toolkit) -> BModelRuntime:
    """The net on the emulator, until the result is closed. Errors: as of `run_net`."""
    _check_memory(net)
    runtime = BModelRuntime(toolkit.device)
    runtime.load(as_read(net), Attribution(nets=[net]))  # leaves nothing behind where it fails
    return runtime


def _launch(
    runtime: BModelRuntime, net: CompiledNet, inputs: Mapping[str, ArrayLike], stage: int | None
) -> Ran:
    return runtime.run(net.name, {name: np.asarray(x) for name, x in inputs.items()}, stage)


def _check_memory(net: CompiledNet) -> None:
    """The device's memory, the bmodel and the arrays are all in this machine's. An operating system without
    /proc/meminfo is not asked."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return
    free = next((int(x.split()[1]) << 10 for x in lines if x.startswith("MemAvailable:")), 0)
    largest = max(stage.ctx_bytes for stage in net.stages)
    arrays = max(sum(t.nbytes for t in (*s.inputs, *s.outputs)) for s in net.stages)
    needed = largest + 3 * sum(len(stage.coeff) for stage in net.stages) + 2 * arrays
    if free and needed > free:
        raise UsageError(
            f"running net {net.name!r} takes about {needed >> 20} MiB of memory, this machine has "
            f"{free >> 20} MiB",
            hint="use smaller shapes",
        )


def make_references(
    net: CompiledNet,
    toolkit: Toolkit,
    inputs: Mapping[str, ArrayLike] | None,
    outputs: Mapping[str, ArrayLike] | None,
) -> References:
    """The data of the two .dat files, stage by stage.

    Inputs that are not given are seeded random numbers; outputs that are not given are computed on the
    emulator. Arrays are for a net with one stage. Errors: UsageError for unknown names, arrays of another
    shape or type, and arrays for a net with several stages.
    """
    if len(net.stages) > 1 and (inputs or outputs):
        raise UsageError(f"net {net.name!r} has {len(net.stages)} stages; reference arrays are for one")
    rng = np.random.default_rng(SEED)
    with ExitStack() as stack:
        load = cache(lambda: stack.enter_context(load_net(net, toolkit)))  # once, and only if it must run
        made = [_stage(net, i, load, inputs or {}, outputs or {}, rng) for i in range(len(net.stages))]
    return References.joined(made)


def _stage(
    net: CompiledNet,
    index: int,
    load: Callable[[], BModelRuntime],
    inputs: Mapping[str, ArrayLike],
    outputs: Mapping[str, ArrayLike],
    rng: np.random.Generator,
) -> References:
    stage = net.stages[index]
    given = _given(stage.inputs, inputs, f"net {net.name!r}, reference input")
    expected = _given(stage.outputs, outputs, f"net {net.name!r}, reference output")
    used = {t.name: given[t.name] if t.name in given else _random(t, rng) for t in stage.inputs}
    if len(expected) < len(stage.outputs):
        computed = _launch(load(), net, used, index).outputs
        expected = {t.name: expected.get(t.name, y) for t, y in zip(stage.outputs, computed, strict=True)}
    return References.of((used[t.name] for t in stage.inputs), [expected[t.name] for t in stage.outputs])


def _given(
    tensors: Sequence[NetTensor], values: Mapping[str, ArrayLike], what: str
) -> dict[str, NDArray[np.generic]]:
    known = {t.name: t for t in tensors}
    arrays = {}
    for name, value in values.items():
        if name not in known:
            raise UsageError(f"{what} {name!r} is unknown", hint=f"the names are {', '.join(known)}")
        array, t = np.asarray(value), known[name]
        fits = array.shape == t.shape
        if t.varies:
            fits = array.ndim == len(t.shape) and 0 < array.size <= math.prod(t.shape)
        if not fits or array.dtype.name != t.dtype.numpy_name:
            most = "at most " if t.varies else ""
            raise UsageError(
                f"{what} {name!r} is {list(array.shape)} {array.dtype.name}; the net has {most}"
                f"{list(t.shape)} {t.dtype.numpy_name}"
            )
        arrays[name] = array
    return arrays


def split_arrays(tensors: Sequence[NetTensor], data: bytes) -> dict[str, NDArray[np.generic]]:
    """Arrays by name out of reference data, where they lie one behind the other."""
    arrays, at = {}, 0
    for t in tensors:
        kind = np.dtype(t.dtype.numpy_name)
        arrays[t.name] = np.frombuffer(data, kind, t.nbytes // kind.itemsize, at).reshape(t.shape)
        at += t.nbytes
    return arrays


def _random(tensor: NetTensor, rng: np.random.Generator) -> NDArray[np.generic]:
    dtype = np.dtype(tensor.dtype.numpy_name)
    if dtype.kind == "f":
        return rng.standard_normal(tensor.shape).astype(dtype)
    return rng.integers(0 if dtype.kind == "u" else -100, 100, tensor.shape).astype(dtype)
