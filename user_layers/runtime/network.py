"""What a caller may know of a loaded net, and what it may give it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from firmware_sim import shown
from firmware_sim.device.api import Array
from firmware_sim.errors import ModelError, UsageError
from firmware_sim.wire import DType
from user_layers.bmodel.model import Net, Stage, Tensor, dtype_name

Inputs = Mapping[str, Array] | Sequence[Array]


@dataclass(frozen=True)
class TensorInfo:
    """An input or output. In the vendor's quantised nets an input stores value * scale + zero_point, and an
    output's value is scale * (stored - zero_point)."""

    name: str
    dtype: DType
    scale: float
    zero_point: int


@dataclass(frozen=True)
class StageInfo:
    """The shapes of one stage: exact for static nets, the largest possible for dynamic ones. varying: of each
    output, whether its shape is known only when the net has run and this one is the largest, in static nets
    too."""

    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...]
    varying: tuple[bool, ...]


@dataclass(frozen=True)
class NetworkInfo:
    """A net as the caller sees it. n_dynamic: the first dimension may be smaller than the stage's;
    c_dynamic: so may the second; h_w_dynamic: the third and later ones; all False for static nets."""

    name: str
    is_dynamic: bool
    n_dynamic: bool
    c_dynamic: bool
    h_w_dynamic: bool
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    stages: tuple[StageInfo, ...]

    def __repr__(self) -> str:
        mode = shown.mode(self.is_dynamic, self.n_dynamic, self.c_dynamic, self.h_w_dynamic)
        stages = f", {len(self.stages)} stages" if len(self.stages) > 1 else ""
        edges = (
            shown.edges(
                _texts(self.inputs, stage.input_shapes, (False,) * len(self.inputs)),
                _texts(self.outputs, stage.output_shapes, stage.varying),
            )
            for stage in self.stages
        )
        return f"<NetworkInfo {self.name!r}, {mode}{stages}: {shown.listed(edges, ' | ')}>"


def _texts(
    tensors: Sequence[TensorInfo], shapes: Sequence[tuple[int, ...]], varying: Sequence[bool]
) -> Iterator[str]:
    for t, shape, varies in zip(tensors, shapes, varying, strict=True):
        yield shown.tensor(t.name, shape, t.dtype.numpy_name, varies=varies)


def network_info(net: Net) -> NetworkInfo:
    """Raises ModelError for tensors that a BM1684 does not have."""
    first = net.stages[0]
    return NetworkInfo(
        name=net.name,
        is_dynamic=net.is_dynamic,
        n_dynamic=net.is_dynamic and first.n_dynamic,
        c_dynamic=net.is_dynamic and first.c_dynamic,
        h_w_dynamic=net.is_dynamic and first.h_w_dynamic,
        inputs=tuple(_tensor_info(net.name, t) for t in first.inputs),
        outputs=tuple(_tensor_info(net.name, t) for t in first.outputs),
        stages=tuple(
            StageInfo(
                tuple(t.shape for t in s.inputs),
                tuple(t.shape for t in s.outputs),
                tuple(s.varies(t) for t in s.outputs),
            )
            for s in net.stages
        ),
    )


def check_stages(net: Net) -> None:
    """Stages differ in their shapes only. ModelError otherwise."""

    def rest(stage: Stage) -> list[tuple[str, int, float, int]]:
        return [(t.name, t.dtype, t.scale, t.zero_point) for t in (*stage.inputs, *stage.outputs)]

    first = net.stages[0]
    for i, stage in enumerate(net.stages):
        if stage.is_dynamic != first.is_dynamic:
            raise ModelError(f"net {net.name!r}: stages 0 and {i} are not both static or both dynamic")
        if rest(stage) != rest(first):
            raise ModelError(f"net {net.name!r}: stages 0 and {i} have other inputs or outputs")


def dtype_of(net: str, tensor: Tensor) -> DType:
    """Its element type. ModelError for one that the BM1684 does not have."""
    if tensor.dtype not in DType.__members__.values():
        raise ModelError(f"net {net!r}: {tensor.name} is {dtype_name(tensor.dtype)}, which a BM1684 has not")
    return DType(tensor.dtype)


def _tensor_info(net: str, tensor: Tensor) -> TensorInfo:
    return TensorInfo(tensor.name, dtype_of(net, tensor), tensor.scale, tensor.zero_point)


def bind_inputs(info: NetworkInfo, inputs: Inputs) -> list[Array]:
    """The arrays in the net's order, their names and dtypes checked. UsageError says what is wrong."""
    names = [t.name for t in info.inputs]
    if isinstance(inputs, Mapping):
        unknown = [name for name in inputs if name not in names]
        missing = [name for name in names if name not in inputs]
        if unknown or missing:
            problem = f"has no input {unknown[0]!r}" if unknown else f"needs the input {missing[0]!r}"
            raise UsageError(f"net {info.name!r} {problem}; its inputs are {', '.join(names)}")
        arrays = [inputs[name] for name in names]
    else:
        arrays = list(inputs)
        if len(arrays) != len(names):
            raise UsageError(
                f"net {info.name!r} takes {len(names)} inputs ({', '.join(names)}), given are {len(arrays)}"
            )
    for tensor, array in zip(info.inputs, arrays, strict=True):
        wanted = tensor.dtype.numpy_name
        given = str(array.dtype) if isinstance(array, np.ndarray) else type(array).__name__
        if given != wanted:
            raise UsageError(
                f"net {info.name!r}: input {tensor.name!r} is {given}, the net takes {wanted}",
                hint=f"convert it: array.astype({wanted!r})",
            )
    return arrays


def choose_stage(info: NetworkInfo, shapes: Sequence[tuple[int, ...]], stage: int | None) -> int:
    """The stage that runs inputs of these shapes: `stage` when given, else the first static one with
    exactly these shapes, or the smallest dynamic one that holds them. UsageError names what does not fit."""
    count = len(info.stages)
    if stage is not None and not 0 <= stage < count:
        raise UsageError(f"net {info.name!r} has no stage {stage}; it has {count}, counted from 0")
    candidates = range(count) if stage is None else (stage,)
    problems = []
    fitting = []
    for i in candidates:
        problem = _mismatch(info, info.stages[i], shapes)
        if problem is None:
            fitting.append(i)
        else:
            problems.append(problem if count == 1 else f"stage {i}: {problem}")
    if not fitting:
        raise UsageError(f"net {info.name!r}: {'; '.join(problems)}")
    return min(fitting, key=lambda i: sum(math.prod(s) for s in info.stages[i].input_shapes))


_REFUSED_SHAPES = re.compile(r"layer (.+): shape function returned (.+)")


def contradiction(
    info: NetworkInfo, stage: int, shapes: Sequence[tuple[int, ...]], told: str
) -> UsageError | None:
    """What a layer's shape function told of inputs smaller than compiled, in words for who gave them; None
    for anything else."""
    refused = _REFUSED_SHAPES.match(told)
    smaller = [
        f"input {tensor.name!r} has the shape {list(given)}, compiled for {list(compiled)}"
        for tensor, given, compiled in zip(info.inputs, shapes, info.stages[stage].input_shapes, strict=True)
        if given != compiled
    ]
    if refused is None or not smaller:
        return None
    return UsageError(
        f"net {info.name!r}: {'; '.join(smaller)}, and the layer {refused[1]} does not take what becomes of "
        f"it: its shape function returned {refused[2]}",
        hint="give the extents that it was compiled for, or compile the net for these",
    )


def _mismatch(info: NetworkInfo, stage: StageInfo, shapes: Sequence[tuple[int, ...]]) -> str | None:
    for tensor, given, compiled in zip(info.inputs, shapes, stage.input_shapes, strict=True):
        what = f"input {tensor.name!r} has the shape {list(given)}"
        if not info.is_dynamic:
            if given != compiled:
                return f"{what}, the net was compiled for {list(compiled)}"
            continue
        if len(given) != len(compiled):
            return f"{what}, the net takes {len(compiled)} dimensions (at most {list(compiled)})"
        for axis, (n, most) in enumerate(zip(given, compiled, strict=True)):
            if not 1 <= n <= most:
                return f"{what}, allowed are sizes from 1 to {list(compiled)}"
            if n != most and axis == 0 and not info.n_dynamic:
                return f"{what}, and a layer of the net needs the compiled first dimension, {most}"
            if n != most and axis == 1 and not info.c_dynamic:
                return f"{what}, and a layer of the net needs the compiled second dimension, {most}"
            if n != most and axis >= 2 and not info.h_w_dynamic:
                fixed = list(compiled[2:])
                return f"{what}, and a layer of the net needs the compiled height and width, {fixed}"
    return None
