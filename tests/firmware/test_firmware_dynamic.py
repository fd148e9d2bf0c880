"""Dynamic programs: shapes and memory are found in the firmware."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firmware_sim import wire
from firmware_sim.wire import (
    NONE,
    DType,
    Program,
    ProgramTensor,
    RunMode,
    Status,
    Step,
    StepOp,
    TensorKind,
    TensorRecord,
    TType,
)
from tests.support import firmware_harness as fh
from tests.support.examples import examples

CROP, DOUBLE, PROBE, EXPAND_DIMS, CONST_BINARY = 0, 1, 2, 0x10000, 0x10001
OPEN, GROW, MUL = 6, 9, 2
IN, OUT, POOL = fh.DDR, fh.DDR + (1 << 20), fh.DDR + (2 << 20)
INPUT, OUTPUT, NEURON, COEFF = TensorKind.INPUT, TensorKind.OUTPUT, TensorKind.NEURON, TensorKind.COEFF


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library, executes=True, ddr_bytes=4 << 20)


class Net(Program):
    """A program under construction with the compiled maximum of every tensor."""

    def tensor(
        self, kind: TensorKind, shape: Sequence[int], last: int = NONE, alias: int = NONE, index: int = 0
    ) -> int:
        record = TensorRecord(tuple(shape))
        if kind == INPUT:
            self.in_num += 1
        if kind == OUTPUT:
            self.out_num += 1
        return self.add(ProgramTensor(kind, record, index, last, alias, record.nbytes))

    def layer(
        self, op: int, ins: Sequence[int], outs: Sequence[int], param: bytes = bytes(4), buffer: int = 0
    ) -> None:
        name = f"layer_{len(self.steps)}"
        self.steps.append(
            Step(
                StepOp.GLOBAL,
                tuple(ins),
                tuple(outs),
                op,
                name,
                param,
                buffer_bytes=buffer,
                param_check=fh.param_check(op),
            )
        )

    def run(
        self, firmware: fh.Harness, shape: Sequence[int], pool: int = 1 << 20, outputs: int = 1
    ) -> tuple[fh.Reply, list[TensorRecord]]:
        ins = [TensorRecord(tuple(shape), addr=IN)]
        outs = [TensorRecord((1,), addr=OUT + 4096 * i) for i in range(outputs)]
        reply = firmware.run(self, RunMode.DYNAMIC, ins, outs, (POOL, pool))
        records = []
        if reply.status == 0:
            records = [TensorRecord.decode(reply.payload, 152 * i) for i in range(outputs)]
        return reply, records


def crop_param(before: Sequence[int], after: Sequence[int]) -> bytes:
    pad = [[*v, *[0] * (8 - len(v))] for v in (before, after)]
    return struct.pack("<16i", *pad[0], *pad[1])


def demo(maximum: tuple[int, int, int]) -> Net:
    """crop -> expand_dims -> const_binary -> double."""
    before, after = (1, 2, 3), (2, 1, 0)
    inner = tuple(m - b - a for m, b, a in zip(maximum, before, after, strict=True))
    net = Net()
    x = net.tensor(INPUT, maximum, last=0)
    cropped = net.tensor(NEURON, inner, last=2)
    expanded = net.tensor(NEURON, (1, *inner), last=2, alias=cropped)
    scaled = net.tensor(NEURON, (1, *inner), last=3)
    y = net.tensor(OUTPUT, (1, *inner))
    net.layer(CROP, [x], [cropped], crop_param(before, after))
    net.layer(EXPAND_DIMS, [cropped], [expanded])
    net.layer(CONST_BINARY, [expanded], [scaled], struct.pack("<fii", 1.5, MUL, 0))
    net.layer(DOUBLE, [scaled], [y])
    return net


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=st.tuples(st.integers(4, 30), st.integers(4, 25), st.integers(4, 20)), seed=st.integers(0, 99))
def test_one_program_many_shapes(firmware: fh.Harness, shape: tuple[int, int, int], seed: int) -> None:
    x = firmware.array(IN, shape)
    x[...] = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    reply, (y,) = demo((30, 25, 20)).run(firmware, shape)
    assert reply.status == 0, reply.text
    wanted = (x[1:-2, 2:-1, 3:][None] * np.float32(1.5)) * np.float32(2)
    assert y.shape == wanted.shape
    assert y.addr == OUT
    assert np.array_equal(firmware.array(OUT, y.shape), wanted)


def test_a_shape_over_the_maximum_is_refused(firmware: fh.Harness) -> None:
    reply, _ = demo((8, 8, 8)).run(firmware, (8, 9, 8))
    assert reply.status == Status.SHAPE
    assert reply.text == (
        "layer of the request: net input 0 has shape [8, 9, 8], data type 0, 2304 bytes; "
        "compiled for at most [8, 8, 8], data type 0, 2048 bytes"
    )
    reply, _ = demo((8, 8, 8)).run(firmware, (8, 8))
    assert reply.status == Status.SHAPE
    reply, _ = demo((8, 8, 8)).run(firmware, (3, 8, 8))  # nothing is left by the crop
    assert reply.text.startswith(
        "layer layer_0 (TPU_CROP): shape function returned -2 (BM_LAYER_PARAM_INVALID)"
    )


def test_memory_is_reused_after_the_last_step(firmware: fh.Harness) -> None:
    """x -> a -> b -> c -> y: two neurons at a time, so c takes a's place."""
    net = Net()
    x = net.tensor(INPUT, (100,), last=0)
    a = net.tensor(NEURON, (100,), last=1)
    b = net.tensor(NEURON, (100,), last=2)
    c = net.tensor(NEURON, (100,), last=3)
    y = net.tensor(OUTPUT, (100,))
    for source, target in ((x, a), (a, b), (b, c), (c, y)):
        net.layer(DOUBLE, [source], [target])
    firmware.array(IN, (100,))[...] = np.arange(100)
    reply, _ = net.run(firmware, (100,), pool=2 * 512)  # 400 bytes take 512
    assert reply.status == 0, reply.text
    assert np.array_equal(firmware.array(OUT, (100,)), np.arange(100, dtype=np.float32) * 16)
    reply, _ = net.run(firmware, (100,), pool=2 * 512 - 1)
    assert reply.status == Status.NO_MEMORY
    assert reply.text == (
        "layer layer_1 (TPU_DOUBLE) needs 512 bytes more than the 1023 bytes of the net's neuron memory hold"
    )


def test_shared_memory_lives_as_long_as_its_last_user(firmware: fh.Harness) -> None:
    """b is a's memory under another shape; a's own last use comes first, and c must not take its place."""
    net = Net()
    x = net.tensor(INPUT, (100,), last=0)
    a = net.tensor(NEURON, (100,), last=1)
    b = net.tensor(NEURON, (1, 100), last=3, alias=a)
    c = net.tensor(NEURON, (100,), last=2)
    y = net.tensor(OUTPUT, (1, 100))
    net.layer(DOUBLE, [x], [a])
    net.layer(EXPAND_DIMS, [a], [b])
    net.layer(DOUBLE, [x], [c])
    net.layer(DOUBLE, [b], [y])
    net.tensors[x] = ProgramTensor(INPUT, net.tensors[x].tensor, last_step=2, max_bytes=400)
    firmware.array(IN, (100,))[...] = np.arange(100)
    reply, _ = net.run(firmware, (100,), pool=2 * 512)
    assert reply.status == 0, reply.text
    assert np.array_equal(firmware.array(OUT, (100,)), np.arange(100, dtype=np.float32) * 4)


def test_outputs_keep_their_own_memory(firmware: fh.Harness) -> None:
    """A reshape whose output is the net's: its memory is the caller's, so the layer copies."""
    net = Net()
    x = net.tensor(INPUT, (4, 5), last=0)
    y = net.tensor(OUTPUT, (4, 1, 5), alias=x)
    net.layer(EXPAND_DIMS, [x], [y], struct.pack("<i", 1))
    firmware.array(IN, (4, 5))[...] = np.arange(20).reshape(4, 5)
    reply, (record,) = net.run(firmware, (4, 5))
    assert (reply.status, record.shape) == (0, (4, 1, 5))
    assert np.array_equal(firmware.array(OUT, (20,)), np.arange(20, dtype=np.float32))


def test_a_buffer_is_free_again_behind_its_layer(firmware: fh.Harness) -> None:
    """Two layers, each with a buffer that fills what memory the tensor between them leaves."""
    net = Net()
    x = net.tensor(INPUT, (8,), last=0)
    between = net.tensor(NEURON, (8,), last=1)
    y = net.tensor(OUTPUT, (8,))
    net.layer(PROBE, [x], [between], buffer=1000)
    net.layer(PROBE, [between], [y], buffer=1000)
    assert net.run(firmware, (8,), pool=2048)[0].status == 0
    assert net.run(firmware, (8,), pool=1024)[0].status == Status.NO_MEMORY


def test_buffers_and_shape_values(firmware: fh.Harness) -> None:
    net = Net()
    x = net.tensor(INPUT, (8,), last=0)
    y = net.tensor(OUTPUT, (8,))
    net.layer(PROBE, [x], [y], buffer=1000)
    assert net.run(firmware, (8,), pool=1024)[0].status == 0
    assert net.run(firmware, (8,), pool=1023)[0].status == Status.NO_MEMORY
    constant = TensorRecord((2,), DType.INT32, TType.NEURON_SHAPE, host_data=(23, 1))
    net = Net()
    net.tensor(INPUT, (8,), last=0)
    y = net.tensor(OUTPUT, (2,))
    c = net.add(ProgramTensor(COEFF, constant, max_bytes=8))
    net.tensors[y] = ProgramTensor(OUTPUT, TensorRecord((2,), DType.INT32), max_bytes=8)
    net.layer(PROBE, [c], [y])
    reply, _ = net.run(firmware, (8,))
    assert reply.status == 0, reply.text
    assert ctypes.c_int32.in_dll(firmware.lib, "test_host_value").value == 23


def test_an_output_may_not_outgrow_its_inferred_shape(firmware: fh.Harness) -> None:
    net = Net()
    x = net.tensor(INPUT, (1,), last=0)
    y = net.tensor(OUTPUT, (2,))
    net.layer(PROBE, [x], [y], struct.pack("<i", GROW))
    reply, _ = net.run(firmware, (1,))
    assert reply.status == Status.SHAPE
    assert (
        reply.text
        == "layer layer_0 (TPU_PROBE): global function made output 0 larger than its shape function said"
    )


def test_programs_that_make_no_sense(firmware: fh.Harness) -> None:
    def status(net: Net) -> tuple[int, str]:
        reply, _ = net.run(firmware, (8,))
        return reply.status, reply.text

    early = Net()
    x, a, y = early.tensor(INPUT, (8,)), early.tensor(NEURON, (8,)), early.tensor(OUTPUT, (8,))
    early.layer(DOUBLE, [a], [y])
    assert status(early) == (
        Status.BAD_MESSAGE,
        "step 0 (layer_0) reads tensor 1, which does not exist (any more)",
    )
    twice = Net()
    x, a, y = twice.tensor(INPUT, (8,)), twice.tensor(NEURON, (8,)), twice.tensor(OUTPUT, (8,))
    for _ in range(5):
        twice.layer(DOUBLE, [x], [a])
    assert status(twice)[1] == "step 1 (layer_1) makes tensor 1, which is in use"
    doubled = Net()
    x, a, y = doubled.tensor(INPUT, (8,)), doubled.tensor(NEURON, (8,), last=0), doubled.tensor(OUTPUT, (8,))
    for _ in range(5):  # each would allocate two blocks and give back one
        doubled.layer(DOUBLE, [x], [a, a])
    assert status(doubled) == (Status.BAD_MESSAGE, "step 0 makes tensor 1 twice")
    endless = Net()
    x, y = endless.tensor(INPUT, (8,)), endless.tensor(OUTPUT, (8,))
    endless.layer(DOUBLE, [x], [y], buffer=(1 << 64) - 64)
    assert status(endless)[0] == Status.NO_MEMORY
    into = Net()
    x, y = into.tensor(INPUT, (8,)), into.tensor(OUTPUT, (8,))
    into.layer(DOUBLE, [x], [into.tensor(COEFF, (8,))])
    assert status(into)[0] == Status.BAD_MESSAGE
    local = Net()
    x, y = local.tensor(INPUT, (8,)), local.tensor(OUTPUT, (8,))
    local.steps.append(Step(StepOp.PARALLEL_START))
    assert status(local)[1] == "step 0 (PARALLEL_START) is in the wrong place: it is in no group"
    reply = firmware.run(local, RunMode.DYNAMIC, (), ())
    assert "the net has 1 inputs and 1 outputs; the request gives 0 and 0" in reply.text
    reply = firmware.run(local, RunMode.DYNAMIC, record=True)
    assert reply.text == "a dynamic program cannot be recorded"


def test_program_in_ddr(firmware: fh.Harness) -> None:
    net = demo((10, 10, 10))
    data = net.encode()
    at = fh.DDR + (3 << 20)
    firmware.array(at, (len(data),), "uint8")[...] = np.frombuffer(data, np.uint8)
    tensors = [TensorRecord((10, 10, 10), addr=IN).encode(), TensorRecord((1,), addr=OUT).encode()]
    for addr, status in ((at, 0), (fh.DDR + (4 << 20) - 8, Status.BAD_MESSAGE), (8, Status.BAD_MESSAGE)):
        head = wire.RUN.pack(RunMode.DYNAMIC, 1, 1, len(data), addr, POOL, 1 << 20, 0)
        assert firmware.request(wire.Op.PROGRAM, [head, *tensors]).status == status
