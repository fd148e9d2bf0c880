"""Bmodels taken apart and put together, as tpu_model --extract, --combine and --combine_dir do.

Nets pass through whatever they hold: static, dynamic, parts on the host, of this or of the vendor's compiler.
Nets of one name become the stages of one net. What comes out is checked like a file that is to run before it
is written, and written in one step.
"""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from firmware_sim.chip import DDR_BYTES
from firmware_sim.errors import ModelError, UsageError
from firmware_sim.wire import DType
from user_layers.bmodel.container import Pool, Unpacked, pack, unpack
from user_layers.bmodel.directory import (
    BMODEL,
    INPUT_REFERENCE,
    OUTPUT_REFERENCE,
    OUTPUT_SHAPES,
    Shape,
    read_shapes,
    shapes_text,
)
from user_layers.bmodel.generated.CpuopModule import CpuopModuleT
from user_layers.bmodel.generated.KernelModule import KernelModuleT
from user_layers.bmodel.generated.Model import ModelT
from user_layers.bmodel.generated.Net import NetT
from user_layers.bmodel.generated.NetParameter import NetParameterT
from user_layers.bmodel.model import Net, Stage, Tensor, dtype_name
from user_layers.bmodel.read import read
from user_layers.files import read_input, write_atomic, write_together

_ONE_BLOCK = 1  # bmodel_type: all nets share one block of constants


def extract(path: Path, folder: Path) -> list[Path]:
    """Each stage of each net as a file of its own, folder/bm_netI_stageK.bmodel; returns their paths.

    Raises ModelError when the file is damaged, or cannot be taken apart.
    """
    source = unpack(path)
    _separable(source)
    made: dict[Path, bytes] = {}
    for i, net in enumerate(source.model.net):
        for k in range(len(net.parameter)):
            one = copy.copy(net)
            one.parameter = [net.parameter[k]]
            made[folder / f"bm_net{i}_stage{k}.bmodel"] = _file([source], [copy.deepcopy([one])])
    write_together(made)
    return list(made)


def combine(paths: Sequence[Path], target: Path) -> None:
    """All nets of several files in one; nets of one name become stages of one net.

    Raises ModelError when a file is damaged, when stages of one net differ in more than their shapes or have
    the same ones, or when the files carry different modules.
    """
    sources = [unpack(path) for path in paths]
    _places(sources)
    write_atomic(target, _file(sources, [source.model.net for source in sources]))


def combine_dirs(folders: Sequence[Path], target: Path) -> None:
    """Several context directories in one: the bmodels combined, and the reference data in the same order.

    Raises ModelError as combine(), and when reference data is missing or does not fit its bmodel.
    """
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file; combined context directories make a folder")
    sources = [unpack(folder / BMODEL) for folder in folders]
    places = [place for stages in _places(sources).values() for place in stages]
    shapes = [_output_shapes(source) for source in sources]
    made: dict[Path, bytes | str] = {}
    for name in (INPUT_REFERENCE, OUTPUT_REFERENCE):
        cut = [_cut(source, name, own) for source, own in zip(sources, shapes, strict=True)]
        made[target / name] = b"".join(cut[place.file][place.net, place.stage] for place in places)
    gone = [target / OUTPUT_SHAPES]
    stages = [stage for source in sources for stage in _stages(source).values()]
    if any(stage.varies(t) for stage in stages for t in stage.outputs):
        made[gone.pop()] = shapes_text(shapes[place.file][place.net, place.stage] for place in places)
    made[target / BMODEL] = _file(sources, [source.model.net for source in sources])
    write_together(made, gone)


@dataclass(frozen=True)
class _Place:
    """Where a stage of the result comes from, all counted from 0."""

    file: int
    net: int
    stage: int


def _places(sources: Sequence[Unpacked]) -> dict[str, list[_Place]]:
    """Nets by name in the order of the result, and where their stages come from. ModelError, UsageError."""
    if len(sources) < 2:
        raise UsageError("combining takes at least two files", hint="--combine FILE1 FILE2 ... -o NEW_FILE")
    places: dict[str, list[_Place]] = {}
    for i, source in enumerate(sources):
        _separable(source)
        for k, net in enumerate(source.checked.nets):
            known = places.setdefault(net.name, [])
            for n, stage in enumerate(net.stages):
                for place in known:
                    other = sources[place.file]
                    first = other.checked.nets[place.net]
                    why = _difference(first, first.stages[place.stage], net, stage)
                    if why:
                        raise ModelError(
                            f"net {net.name!r} of {source.path}, stage {n}, and of {other.path}, stage "
                            f"{place.stage}, cannot be stages of one net: {why}"
                        )
                known.append(_Place(i, k, n))
    return places


def _difference(net: Net, stage: Stage, other_net: Net, other: Stage) -> str:
    """Why two stages are not of one net, or nothing."""
    if stage.is_dynamic != other.is_dynamic:
        return "one is static, the other dynamic"
    if net.addr_mode != other_net.addr_mode:
        return f"their address modes are {other_net.addr_mode} and {net.addr_mode}"
    for what in ("inputs", "outputs"):
        mine, theirs = ([_kind(t) for t in getattr(s, what)] for s in (other, stage))
        if mine != theirs:
            return f"their {what} are {', '.join(mine)} and {', '.join(theirs)}"
    if [t.shape for t in stage.inputs] == [t.shape for t in other.inputs]:
        return "their inputs have the same shapes"
    return ""


def _kind(tensor: Tensor) -> str:
    """All but its shape, as text."""
    text = f"{tensor.name} ({dtype_name(tensor.dtype)}"
    if (tensor.scale, tensor.zero_point) != (1.0, 0):
        text += f", scale {tensor.scale:g}, zero point {tensor.zero_point}"
    return f"{text}{f', mode {tensor.store_mode}' if tensor.store_mode else ''})"


def _separable(source: Unpacked) -> None:
    """Each net of the file stands alone. ModelError otherwise."""
    for net in source.checked.nets:
        if net.cascade:
            raise ModelError(f"{source.path}: net {net.name!r} is one part of a net for several devices")
    if source.model.bmodelType == _ONE_BLOCK:
        raise ModelError(f"{source.path}: its nets share one block of constants and cannot be separated")


def _file(sources: Sequence[Unpacked], nets: Sequence[list[NetT]]) -> bytes:
    """A file of these nets, given per source. Their objects are used up."""
    pool = Pool()
    made = ModelT()
    first = sources[0].model
    made.type, made.version, made.chip, made.deviceNum = (
        first.type,
        first.version,
        first.chip,
        first.deviceNum,
    )
    made.time = time.asctime(time.gmtime())
    joined: dict[bytes, NetT] = {}
    for source, own in zip(sources, nets, strict=True):
        source.move(own, pool)
        for net in own:
            if net.name in joined:
                joined[net.name].parameter += net.parameter
            else:
                joined[net.name] = net
    made.net = list(joined.values())
    made.neuronSize = max(_context_bytes(net, parameter) for net in made.net for parameter in net.parameter)
    for name in ("kernelModule", "cpuopModule"):
        setattr(made, name, _module(sources, name, pool))
    data = pack(made, pool)
    read(data)
    return data


def _context_bytes(net: NetT, parameter: NetParameterT) -> int:
    blocks = parameter.ctxSizes
    size: int = parameter.ctxSize if blocks is None or not len(blocks) else sum(map(int, blocks))
    if size > DDR_BYTES:
        name = net.name.decode(errors="replace")
        raise ModelError(f"net {name!r}: context of {size} bytes; a BM1684 has {DDR_BYTES} bytes of DDR")
    return size


def _module(sources: Sequence[Unpacked], name: str, pool: Pool) -> KernelModuleT | CpuopModuleT | None:
    """The library that the files carry along, or None. ModelError when they carry different ones."""
    found: dict[bytes, tuple[Unpacked, KernelModuleT | CpuopModuleT]] = {}
    for source in sources:
        module = getattr(source.model, name)
        # the vendor's tools write an empty one where there is none, with anything as its mode
        if module is not None and (data := source.piece(module.binary)):
            found.setdefault(data, (source, module))
    if len(found) > 1:
        (a, _), (b, _) = list(found.values())[:2]
        what = "firmware" if name == "kernelModule" else "CPU library"
        raise ModelError(f"{a.path} and {b.path} carry different modules ({what}); a bmodel has one")
    for data, (_, module) in found.items():
        copied = copy.copy(module)
        copied.binary = pool.add(data)
        return copied
    return None


def _stages(source: Unpacked) -> dict[tuple[int, int], Stage]:
    """The stages by net and number, in the order of the file."""
    return {(i, k): stage for i, net in enumerate(source.checked.nets) for k, stage in enumerate(net.stages)}


def _output_shapes(source: Unpacked) -> dict[tuple[int, int], tuple[Shape, ...]]:
    """Of each stage the shapes of its outputs in the reference data beside a bmodel. ModelError."""
    stages = _stages(source)
    compiled = {key: tuple(t.shape for t in stage.outputs) for key, stage in stages.items()}
    if not any(stage.varies(t) for stage in stages.values() for t in stage.outputs):
        return compiled
    path = source.path.parent / OUTPUT_SHAPES
    found = read_shapes(path, list(compiled.values()))
    if found is None:
        raise ModelError(
            f"{path} is missing: the shapes of some outputs are known only when the net has run",
            hint="compile again with reference data",
        )
    return dict(zip(compiled, found, strict=True))


def _cut(
    source: Unpacked, name: str, output_shapes: Mapping[tuple[int, int], Sequence[Shape]]
) -> dict[tuple[int, int], bytes]:
    """Reference data beside a bmodel, by net and stage. ModelError when it does not fit."""
    path = source.path.parent / name
    try:
        data = read_input(path)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    sizes = {}
    for key, stage in _stages(source).items():
        tensors, shapes = stage.outputs, output_shapes[key]
        if name == INPUT_REFERENCE:
            tensors, shapes = stage.inputs, [t.shape for t in stage.inputs]
        sizes[key] = sum(_plain_bytes(t, shape) for t, shape in zip(tensors, shapes, strict=True))
    needed = sum(sizes.values())
    if len(data) != needed:
        raise ModelError(
            f"{path} has {len(data)} bytes; the nets of {source.path.name} beside it need {needed}"
        )
    ends = list(itertools.accumulate(sizes.values()))
    return {key: data[end - size : end] for (key, size), end in zip(sizes.items(), ends, strict=True)}


def _plain_bytes(tensor: Tensor, shape: Shape) -> int:
    if tensor.dtype not in DType.__members__.values():
        raise ModelError(f"{tensor.name} is {dtype_name(tensor.dtype)}, which a BM1684 has not")
    return math.prod(shape) * DType(tensor.dtype).itemsize
