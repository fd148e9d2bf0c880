"""Reference data of a compiled net, and running it on the emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from firmware_sim.errors import UsageError
from user_layers.bmodel import write
from user_layers.compiler.output import References
from user_layers.compiler.result import CompiledNet, NetTensor
from user_layers.runtime import BModelRuntime
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from user_layers.runtime.device_api import DeviceApi

SEED = 1684


def run_net(net: CompiledNet, toolkit: Toolkit, inputs: Mapping[str, ArrayLike]) -> list[NDArray[np.generic]]:
    """The net's outputs, in order, from the emulator."""
    with BModelRuntime(cast("DeviceApi", toolkit.device)) as runtime:
        runtime.load(write(net))
        return runtime.launch(net.name, {name: np.asarray(value) for name, value in inputs.items()})


def make_references(
    net: CompiledNet,
    toolkit: Toolkit,
    inputs: Mapping[str, ArrayLike] | None,
    outputs: Mapping[str, ArrayLike] | None,
) -> References:
    """The data of the two .dat files, for the net's first stage.

    Inputs that are not given are seeded random numbers; outputs that are not given are computed on the
    emulator. Errors: UsageError for unknown names and arrays of another shape or type.
    """
    stage = net.stages[0]
    given = _given(stage.inputs, inputs or {}, f"net {net.name!r}, reference input")
    expected = _given(stage.outputs, outputs or {}, f"net {net.name!r}, reference output")
    rng = np.random.default_rng(SEED)
    used = {t.name: given[t.name] if t.name in given else _random(t, rng) for t in stage.inputs}
    if len(expected) < len(stage.outputs):
        computed = run_net(net, toolkit, used)
        expected = {t.name: expected.get(t.name, y) for t, y in zip(stage.outputs, computed, strict=True)}
    return References(
        b"".join(np.ascontiguousarray(used[t.name]).tobytes() for t in stage.inputs),
        b"".join(np.ascontiguousarray(expected[t.name]).tobytes() for t in stage.outputs),
    )


def _given(
    tensors: Sequence[NetTensor], values: Mapping[str, ArrayLike], what: str
) -> dict[str, NDArray[np.generic]]:
    known = {t.name: t for t in tensors}
    arrays = {}
    for name, value in values.items():
        if name not in known:
            raise UsageError(f"{what} {name!r} is unknown", hint=f"the names are {', '.join(known)}")
        array, t = np.asarray(value), known[name]
        if array.shape != t.shape or array.dtype.name != t.dtype.numpy_name:
            raise UsageError(
                f"{what} {name!r} is {list(array.shape)} {array.dtype.name}; the net has {list(t.shape)} "
                f"{t.dtype.numpy_name}"
            )
        arrays[name] = array
    return arrays


def _random(tensor: NetTensor, rng: np.random.Generator) -> NDArray[np.generic]:
    dtype = np.dtype(tensor.dtype.numpy_name)
    if dtype.kind == "f":
        return rng.standard_normal(tensor.shape).astype(dtype)
    return rng.integers(0 if dtype.kind == "u" else -100, 100, tensor.shape).astype(dtype)
