"""Damaged bmodels, read, loaded and run: fields of their tables and bytes of their commands changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import struct
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np

from firmware_sim.errors import ModelError
from firmware_sim.wire import DType
from tests.fuzz.driver import Case, Target
from tests.fuzz.mutate import damage, number
from tests.fuzz.requests import Devices, any_kind
from tests.support.bmodel_samples import dynamic_net, static_net
from tpulayer import Graph
from user_layers.bmodel import read, write
from user_layers.bmodel.combine import combine, extract
from user_layers.bmodel.generated.Model import Model, ModelT
from user_layers.graph import BINARY_MUL
from user_layers.runtime import BModelRuntime

_HEADER = struct.Struct("<4I48x")
_MOST = 1 << 22  # elements of an input that a case may ask for


def _compiled(dynamic: bool) -> bytes:
    x = np.zeros((3, 5, 9), np.float32)
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # outside of any workspace: with the built-in layers alone
        try:
            with Graph("BM1684", name="scaled") as graph:
                graph.add_input("x", x.shape)
                graph.add_expand_dims_layer("x", 0, "expanded")
                graph.add_const_binary_layer("expanded", 1.5, "y", BINARY_MUL)
                graph.compile(dynamic=dynamic, directory=Path(folder), log=lambda _: None)
        finally:
            os.chdir(here)
        return (Path(folder) / "compilation.bmodel").read_bytes()


@cache
def bases() -> tuple[bytes, ...]:
    nets = [replace(net, layers=()) for net in (static_net(2, 3), dynamic_net())]
    return (
        *(write(net, created=0) for net in nets),
        write(nets, created=0),
        _compiled(False),
        _compiled(True),
    )


def _split(data: bytes) -> tuple[bytes, bytes]:
    _, head, table, _ = _HEADER.unpack_from(data)
    return data[head : head + table], data[head + table :]


def _leaves(value: Any, found: list[tuple[Any, Any]]) -> None:
    """(object or list, attribute or index) of every number, text and list below."""
    items: list[tuple[Any, Any]]
    items = list(enumerate(value)) if isinstance(value, list) else list(vars(value).items())
    for key, inner in items:
        found.append((value, key))
        if isinstance(inner, list) or hasattr(inner, "__dict__"):
            _leaves(inner, found)


def _changed_value(rng: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return number(rng, rng.choice((8, 16, 31)), max(value, 0))
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, float("inf"), float("nan")))
    if isinstance(value, (str, bytes)):
        return rng.choice(("", "x" * 300, "net", "twice"))
    if isinstance(value, list):
        return rng.choice(([], value * 2, value[:-1], value[::-1]))
    return None


def _structured(rng: random.Random, data: bytes) -> bytes:
    table, binary = _split(data)
    model = ModelT.InitFromObj(Model.GetRootAs(table))
    leaves: list[tuple[Any, Any]] = []
    _leaves(model, leaves)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        holder, key = rng.choice(leaves)
        if isinstance(holder, list):
            if key < len(holder):
                holder[key] = _changed_value(rng, holder[key])
        else:
            setattr(holder, key, _changed_value(rng, getattr(holder, key)))
    if rng.randrange(2):
        binary = damage(rng, binary)
    for net in model.net or []:
        for stage in net.parameter or []:
            coeff = stage.coeffMem
            if coeff is not None and coeff.binaryCoeff is not None and rng.randrange(8):
                start, size = coeff.binaryCoeff.start, coeff.binaryCoeff.size
                coeff.checkCode = list(hashlib.sha256(binary[start : start + size]).digest())
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder))
    table = bytes(builder.Output())
    return _HEADER.pack(0xFF55AAEE, _HEADER.size, len(table), len(binary)) + table + binary


def model(rng: random.Random, data: bytes) -> bytes:
    """A bmodel of this file: other values in its table and bytes in its binary part, mostly."""
    if rng.randrange(8) == 0:
        return damage(rng, data)
    try:
        return _structured(rng, data)
    except (
        Exception
    ):  # the writer of flatbuffers refuses what no file can hold; or this is not a file that it knows
        return data[: _HEADER.size] + damage(rng, data[_HEADER.size :])


def _taken_apart(data: bytes) -> None:
    """Each stage into a file and all of them into one again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "given.bmodel")
        path.write_bytes(data)
        made = extract(path, Path(folder))
        if len(made) > 1:
            combine(made, Path(folder, "again.bmodel"))


class BModels(Target):
    """A case is {"model": hex, "kind": ...}."""

    def __init__(self) -> None:
        self._devices = Devices()

    def make(self, rng: random.Random) -> Case:
        return {"model": model(rng, rng.choice(bases())).hex(), "kind": any_kind(rng)}

    def run(self, case: Case) -> str:
        data = bytes.fromhex(case["model"])
        with contextlib.suppress(ModelError):
            _taken_apart(data)
        model = read(data)
        with BModelRuntime(self._devices.of(case["kind"])) as runtime:
            outcome = "loaded"
            for name in runtime.load(model):
                info = runtime.network(name)
                for i, stage in enumerate(info.stages[:4]):
                    shapes = [tuple(max(1, d) for d in shape) for shape in stage.input_shapes]
                    if sum(int(np.prod(s, dtype=object)) for s in shapes) > _MOST:
                        outcome = "too large to run here"
                        continue
                    types = [DType(t.dtype).numpy_name for t in info.inputs]
                    x = [np.ones(s, d) for s, d in zip(shapes, types, strict=True)]
                    runtime.launch(name, x, i)
                    outcome = "ran"
        return outcome

    def check(self) -> None:
        self._devices.check()

    def close(self) -> None:
        self._devices.close()


def make() -> Any:
    return BModels()
