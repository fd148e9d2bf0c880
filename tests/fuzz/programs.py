"""Random programs (FW_OP_PROGRAM), fixed and dynamic, and calls of layers: numbers of good ones changed, or
their bytes, on both kinds of firmware."""

from __future__ import annotations

import itertools
import random
import struct
from dataclasses import replace
from typing import Any

from firmware_sim import wire
from firmware_sim.errors import UsageError
from firmware_sim.wire import (
    BUILTIN_OP_BASE,
    DType,
    Program,
    ProgramTensor,
    Step,
    StepOp,
    TensorKind,
    TensorRecord,
    TType,
)
from tests.fuzz.mutate import damage, number
from tests.fuzz.requests import Requests, packed, request
from tests.fuzz.watched import BLOBS

_OPERANDS = sorted({name for kind in wire.STEP_KINDS for name in kind.operands})

_CONST, _EXPAND, _MANY = BUILTIN_OP_BASE, BUILTIN_OP_BASE + 1, 0
_MANY_HASH = 0x77  # of kernels.c
_DATA = BLOBS + 0x10_0000
_NEURONS, _NEURON_BYTES = BLOBS + 0x20_0000, 0x10_0000
_SHAPE = (2, 3, 4, 5)
_ROOM = 4096


def _param(op_type: int, rng: random.Random) -> bytes:
    if op_type == _MANY:
        if rng.randrange(3):
            return bytes(8)
        return struct.pack("<ii", rng.choice((-1, *range(8))), number(rng, 31) * rng.choice((1, 1, -1)))
    if op_type == _EXPAND:
        return struct.pack("<i", rng.choice((0, 1, -1)))
    return struct.pack("<fii", 1.5, rng.choice((0, 1, 2, 3, 4, 10000)), rng.randrange(2))


def _tensor(index: int, kind: TensorKind, rng: random.Random) -> ProgramTensor:
    shape = _SHAPE if rng.randrange(8) else (1, *_SHAPE)
    addr = 0x1000 * index if kind is TensorKind.LOCAL else _DATA + 0x1000 * index
    return ProgramTensor(kind, TensorRecord(shape, addr=addr), 0, rng.randrange(6), max_bytes=_ROOM)


def _dynamic(rng: random.Random) -> Program:
    kinds = [TensorKind.INPUT, *[TensorKind.NEURON] * rng.randint(1, 4), TensorKind.OUTPUT]
    tensors = [_tensor(i, kind, rng) for i, kind in enumerate(kinds)]
    steps = []
    for i in range(1, len(kinds)):
        if rng.randrange(5) == 0:
            steps.append(Step(StepOp.COPY, (i - 1,), (i,), name=f"copy {i}"))
        else:
            op = rng.choice((_CONST, _EXPAND, _MANY, _MANY))
            steps.append(
                Step(
                    StepOp.GLOBAL,
                    (i - 1,),
                    (i,),
                    op,
                    f"layer {i}",
                    _param(op, rng),
                    0,
                    rng.choice((0, 0, 256)),
                )
            )
    steps = [replace(s, param_check=_MANY_HASH) if s.op_type == _MANY else s for s in steps]
    if rng.randrange(4) == 0:
        steps = [steps[0]] * rng.randint(2, 12) + steps[1:]
    return Program(tensors, steps, 1, 1)


def _grouped(rng: random.Random) -> Program:
    """Two layers in a group, in one or two tiles along n."""
    kinds = [TensorKind.INPUT, TensorKind.NEURON, TensorKind.OUTPUT]
    tensors = [replace(_tensor(i, kind, rng), last_step=rng.randrange(20)) for i, kind in enumerate(kinds)]
    local = [Step(StepOp.PARALLEL_START)]
    cuts = rng.choice(((0, 2), (0, 1, 2)))
    op = rng.choice((_CONST, _MANY))
    layer = Step(StepOp.GLOBAL, (0,), (1,), op, "layer", _param(op, rng))
    if op == _MANY:
        layer = replace(layer, param_check=_MANY_HASH)
    for first, end in itertools.pairwise(cuts):
        at = len(tensors)
        for of in range(3):
            extent = (end - first, *tensors[of].tensor.shape[1:])
            dims = len(extent)
            tile = replace(
                tensors[of].tensor, addr=0x1000 * of, processed=(first, *[0] * (dims - 1)), slice_shape=extent
            )
            tensors.append(ProgramTensor(TensorKind.LOCAL, tile, alias_of=of, max_bytes=_ROOM))
        local += [
            Step(StepOp.LOAD, (0,), (at,)),
            Step(StepOp.WAIT, bd_after=1 + len(local), gdma_after=1),
            replace(layer, opcode=StepOp.LOCAL, inputs=(at,), outputs=(at + 1,), buffer_bytes=64),
            replace(layer, opcode=StepOp.LOCAL, inputs=(at + 1,), outputs=(at + 2,)),
            Step(StepOp.STORE, (at + 2,), (2,)),
        ]
    local.append(Step(StepOp.PARALLEL_END))
    calls = [layer, replace(layer, inputs=(1,), outputs=(2,))]
    head = Step(StepOp.GROUP, local_steps=len(local), global_steps=len(calls))
    return Program(tensors, [head, *local, *calls], 1, 1)


def _fixed(rng: random.Random) -> Program:
    kinds = [TensorKind.INPUT, TensorKind.LOCAL, TensorKind.LOCAL, TensorKind.OUTPUT, TensorKind.L2]
    tensors = [_tensor(i, kind, rng) for i, kind in enumerate(kinds)]
    whole = [
        Step(StepOp.PARALLEL_START),
        Step(StepOp.LOAD, (0,), (1,)),
        Step(StepOp.WAIT, bd_after=1, gdma_after=0),
        Step(StepOp.MOVE, (1,), (2,), channel=rng.choice((0, 0, 3, 64, 1 << 40))),
        Step(StepOp.PARALLEL_END),
        Step(StepOp.LOCAL, (1,), (2,), _CONST, "local", _param(_CONST, rng), 0x8000, 64),
        Step(StepOp.STORE, (2,), (3,)),
        Step(StepOp.GLOBAL, (0,), (3,), _CONST, "global", _param(_CONST, rng), _DATA + 0x8000, 64),
        Step(StepOp.GLOBAL, (0,), (3,), _EXPAND, "expand", _param(_EXPAND, rng)),
        Step(StepOp.COPY, (0,), (3,)),
    ]
    return Program(tensors, whole if rng.randrange(2) else rng.choices(whole, k=rng.randint(1, 8)), 1, 1)


def _record(rng: random.Random, t: TensorRecord) -> TensorRecord:
    dims = len(t.shape)

    def one(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
        out = list(values or [fill] * dims)
        if out:
            out[rng.randrange(len(out))] = number(rng, 31) * rng.choice((1, 1, 1, -1))
        return tuple(out)

    kind = rng.randrange(9)
    if kind == 0:
        return replace(t, shape=one(t.shape, 1))
    if kind == 1:
        return replace(t, shape=t.shape[: rng.randrange(dims + 1)])
    if kind == 2:
        return replace(t, shape=(*t.shape, *[1] * (8 - dims)))
    if kind == 3:
        return replace(t, slice_shape=one(t.slice_shape or t.shape, 1))
    if kind == 4:
        return replace(t, processed=one(t.processed, 0), slice_pad=one(t.slice_pad, 0))
    if kind == 5:
        return replace(t, dtype=rng.choice(list(DType)))
    if kind == 6:
        return replace(t, ttype=rng.choice(list(TType)), host_data=(1,) * min(t.elem_num, 64))
    return replace(t, addr=rng.choice((number(rng, 64, t.addr), number(rng, 24), BLOBS)))


def _mutate(rng: random.Random, p: Program) -> Program:
    tensors, steps = list(p.tensors), list(p.steps)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if rng.randrange(2):
            at = rng.randrange(len(tensors))
            t = tensors[at]
            tensors[at] = rng.choice(
                (
                    lambda t=t: replace(t, tensor=_record(rng, t.tensor)),
                    lambda t=t: replace(t, tensor=_record(rng, t.tensor)),
                    lambda t=t: replace(t, kind=rng.choice(list(TensorKind))),
                    lambda t=t: replace(t, index=number(rng, 32)),
                    lambda t=t: replace(t, last_step=number(rng, 3)),
                    lambda t=t: replace(
                        t, alias_of=rng.choice((number(rng, 32), rng.randrange(len(tensors))))
                    ),
                    lambda t=t: replace(t, max_bytes=number(rng, 64, t.max_bytes)),
                )
            )()
        else:
            at = rng.randrange(len(steps))
            s = steps[at]
            some = tuple(rng.randrange(len(tensors)) for _ in range(rng.choice((0, 1, 2, 3, 16))))
            steps[at] = rng.choice(
                (
                    lambda s=s: replace(s, opcode=rng.choice(list(StepOp))),
                    lambda s=s, some=some: replace(s, inputs=some),
                    lambda s=s, some=some: replace(s, outputs=some),
                    lambda s=s: replace(s, outputs=s.outputs * rng.choice((2, 3, 16))),
                    lambda s=s: replace(s, op_type=rng.choice((_CONST, _EXPAND, _MANY, number(rng, 31)))),
                    lambda s=s: replace(s, param=damage(rng, s.param, 2)),
                    lambda s=s: replace(s, param=b""),
                    lambda s=s: replace(s, **{name: number(rng, 64) for name in _OPERANDS}),
                )
            )()
            if rng.randrange(4) == 0:
                steps.insert(at, s)
    return Program(tensors, steps, p.in_num, p.out_num)


def _run(rng: random.Random, dynamic: bool) -> bytes:
    program = rng.choice((_dynamic, _grouped))(rng) if dynamic else _fixed(rng)
    if rng.randrange(20):
        program = _mutate(rng, program)
    record = not dynamic and bool(rng.randrange(2))
    try:
        data = program.encode()
    except UsageError:  # a number that no program can hold
        data = b""
    if rng.randrange(5) == 0:
        data = damage(rng, data, 3)
    shape = _SHAPE if rng.randrange(3) else (1, *_SHAPE[1:])
    given = [TensorRecord(shape, addr=_DATA), TensorRecord(shape, addr=_DATA + 0x8000)]
    if rng.randrange(6) == 0:
        given[rng.randrange(2)] = _record(rng, given[0])
    try:
        records = b"".join(t.encode() for t in given)
    except UsageError:
        records = bytes(2 * wire.TENSOR.size)
    memory = [_NEURONS, _NEURON_BYTES, BLOBS + 0x8_0000]
    if rng.randrange(8) == 0:
        memory[rng.randrange(3)] = number(rng, 64, _NEURONS)
    if dynamic or rng.randrange(2):
        head = wire.RUN.pack(int(dynamic), 1, 1, len(data), BLOBS, *memory)
        payload, ddr = head + records, data
    else:
        payload = wire.RUN.pack(int(dynamic), 1, 1, len(data), 0, *memory) + records + data
        ddr = b""
    return packed(request(wire.Op.PROGRAM, payload, int(record)), ddr)


def _shape(rng: random.Random) -> bytes:
    op = rng.choice((_CONST, _EXPAND, _MANY, _MANY, number(rng, 31)))
    param = _param(op if op in (_CONST, _MANY) else _EXPAND, rng)
    if rng.randrange(2):
        param = damage(rng, param, 2)
    tensor, host = TensorRecord(_SHAPE), b""
    for _ in range(rng.randrange(3)):
        tensor = _record(rng, tensor)
    if tensor.host_data is not None:
        host = struct.pack(f"<{len(tensor.host_data)}i", *tensor.host_data)
    count = rng.choice((1, 1, 1, 0, 2, 16))
    try:
        records = tensor.encode(0 if host else wire.NONE) * count
    except UsageError:
        records = bytes(wire.TENSOR.size * count)
    head = wire.LAYER_CALL.pack(op, len(param), count, rng.choice((1, 1, 0, 2, 16, 17)), len(host), 0)
    payload = head + records + param + b"\0" * (-len(param) % 8) + host
    return packed(request(wire.Op.SHAPE, payload))


class Programs(Requests):
    """Requests to run a program or to infer the shapes of a layer."""

    name = "programs"
    operations = (wire.Op.PROGRAM, wire.Op.SHAPE)

    def generated(self, rng: random.Random) -> bytes:
        return _shape(rng) if rng.randrange(6) == 0 else _run(rng, bool(rng.randrange(2)))

    def seeds(self) -> list[bytes]:
        return [self.generated(random.Random(number)) for number in range(60)]


def make() -> Any:
    return Programs()
