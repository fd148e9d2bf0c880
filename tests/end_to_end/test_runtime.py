"""BModelRuntime on a stand-in device: loading, relocation, launches, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.device.api import Array
from firmware_sim.errors import DeviceError, ModelError, UsageError
from firmware_sim.firmware.image import FirmwareLayer
from firmware_sim.isa.codes import OtherEngine, Task
from firmware_sim.isa.layout import BD, GDMA
from firmware_sim.wire import CommandGroup, DType, StoreMode, TensorRecord
from tests.support.bmodel_samples import (
    COEFF,
    CONTEXT,
    LAYER,
    START,
    copy_words,
    dynamic_net,
    program_of,
    static_net,
    static_stage,
    with_groups,
)
from tests.support.examples import examples
from tests.support.fake_device import BASE, LAYERS, FakeDevice
from user_layers.bmodel import BModel, read, write
from user_layers.bmodel.model import CpuLayer, Net, Stage
from user_layers.net.compiled import CompiledNet, LayerUse
from user_layers.runtime import BModelRuntime
from user_layers.runtime.relocate import Region, relocate_addr, relocate_sorts, relocate_stream

CONSTANTS = np.frombuffer(COEFF, np.float32).reshape(2, 4)


@pytest.fixture
def device() -> Iterator[FakeDevice]:
    with FakeDevice(double) as fake:
        yield fake


def double(device: FakeDevice, inputs: list[TensorRecord], outputs: list[TensorRecord]) -> list[TensorRecord]:
    """y = 2x, in the shape of x."""
    (x,), (y,) = inputs, outputs
    values = device.read_array(x.addr, x.shape, np.float32)
    device.write(y.addr, values * np.float32(2))
    return [replace(y, shape=x.shape)]


def numbers(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_static_net_runs_where_its_memory_lies(device: FakeDevice) -> None:
    with BModelRuntime(device) as runtime:
        assert runtime.load(write(static_net())) == ("twice",)
        for scale in (1, 3):
            x = numbers(2, 4) * np.float32(scale)
            (y,) = runtime.launch("twice", {"x": x})
            assert np.array_equal(y, np.concatenate([x, CONSTANTS]))
    assert device.heap.used == 0


def test_stages_are_chosen_by_shape(device: FakeDevice) -> None:
    with BModelRuntime(device) as runtime:
        runtime.load(write(static_net(2, 5, 3)))
        for stage, rows in enumerate((2, 5, 3)):
            ran = runtime.run("twice", [numbers(rows, 4)])
            assert ran.stage == stage and ran.outputs[0].shape == (rows + 2, 4)
        with pytest.raises(
            UsageError, match=r"stage 1: input 'x' has the shape \[4, 4\], the net was compiled for \[5, 4\]"
        ):
            runtime.launch("twice", [numbers(4, 4)])
        with pytest.raises(
            UsageError, match=r"input 'x' has the shape \[2, 4\], the net was compiled for \[5, 4\]"
        ):
            runtime.launch("twice", [numbers(2, 4)], stage=1)
        with pytest.raises(UsageError, match="no stage 3; it has 3, counted from 0"):
            runtime.launch("twice", [numbers(2, 4)], stage=3)


def test_command_groups_run_in_order(device: FakeDevice) -> None:
    net = CompiledNet("split", (static_stage(2, split=True),))
    with BModelRuntime(device) as runtime:
        runtime.load(write(net))
        (y,) = runtime.launch("split", [numbers(2, 4)])
        assert np.array_equal(y[2:], CONSTANTS)


def test_dynamic_net_takes_smaller_shapes(device: FakeDevice) -> None:
    net = dynamic_net()
    with BModelRuntime(device) as runtime:
        runtime.load(write(net))
        for shape in ((4, 3, 5), (1, 3, 5), (2, 1, 4), (1, 1, 1)):
            x = numbers(*shape)
            (y,) = runtime.launch("grow", {"x": x})
            assert np.array_equal(y, x * 2)
        program, program_bytes, neurons, neuron_bytes, coeff = device.calls[0]
        assert device.read(program, program_bytes) == program_of(net)
        assert device.read(coeff, len(COEFF)) == COEFF
        assert neuron_bytes == 4096 and neurons >= BASE


@pytest.mark.parametrize(
    ("net", "shape", "message"),
    [
        (
            dynamic_net(),
            (5, 3, 5),
            r"input 'x' has the shape \[5, 3, 5\], allowed are sizes from 1 to \[4, 3, 5\]",
        ),
        (dynamic_net(), (4, 0, 5), "allowed are sizes from 1"),
        (dynamic_net(), (4, 15), "the net takes 3 dimensions"),
        (dynamic_net(n_dynamic=False), (3, 3, 5), "needs the compiled first dimension, 4"),
        (dynamic_net(c_dynamic=False), (4, 2, 5), "needs the compiled second dimension, 3"),
        (dynamic_net(h_w_dynamic=False), (4, 3, 4), r"needs the compiled height and width, \[5\]"),
    ],
)
def test_shapes_that_do_not_fit(
    device: FakeDevice, net: CompiledNet, shape: tuple[int, ...], message: str
) -> None:
    with BModelRuntime(device) as runtime:
        runtime.load(write(net))
        with pytest.raises(UsageError, match=message):
            runtime.launch("grow", [numbers(*shape)])
        assert device.launches == 0


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "needs the input 'x'; its inputs are x"),
        ({"x": numbers(2, 4), "z": numbers(1)}, "has no input 'z'"),
        ([], r"takes 1 inputs \(x\), given are 0"),
        ([np.zeros((2, 4))], "input 'x' is float64, the net takes float32"),
        ([[[1.0]]], "input 'x' is list, the net takes float32"),
    ],
)
def test_inputs_that_do_not_fit(device: FakeDevice, inputs: Any, message: str) -> None:
    with BModelRuntime(device) as runtime:
        runtime.load(write(static_net()))
        with pytest.raises(UsageError, match=message):
            runtime.launch("twice", inputs)


def test_interleaved_batches_are_plain_for_the_caller(device: FakeDevice) -> None:
    model = read(write(static_net()))
    stage = model.nets[0].stages[0]
    changes: dict[str, Any] = {"dtype": DType.INT8, "store_mode": StoreMode.N4}
    x, y = (
        replace(stage.inputs[0], shape=(5, 4), **changes),
        replace(stage.outputs[0], shape=(14, 4), **changes),
    )
    given = np.arange(1, 21, dtype=np.int8).reshape(5, 4)
    with BModelRuntime(device) as runtime:
        subnet = replace(stage.subnets[0], inputs=(x,), outputs=(y,))
        runtime.load(_with_stage(model, inputs=(x,), outputs=(y,), subnets=(subnet,)))
        (got,) = runtime.launch("twice", [given])
    constants = np.frombuffer(COEFF, np.int8).reshape(2, 4, 4).transpose(0, 2, 1).reshape(8, 4)
    assert np.array_equal(got, np.vstack([given, np.zeros((3, 4), np.int8), constants[:6]]))


def test_layouts_of_arrays_do_not_matter(device: FakeDevice) -> None:
    x = numbers(4, 2).T
    with BModelRuntime(device) as runtime:
        runtime.load(write(static_net()))
        assert np.array_equal(runtime.launch("twice", [x])[0][:2], x)


def test_networks_say_what_they_are(device: FakeDevice) -> None:
    with BModelRuntime(device) as runtime:
        runtime.load(write([static_net(2, 3), dynamic_net(h_w_dynamic=False)]))
        static, dynamic = runtime.networks
        assert (static.name, static.is_dynamic, static.n_dynamic) == ("twice", False, False)
        assert [s.input_shapes for s in static.stages] == [((2, 4),), ((3, 4),)]
        assert static.inputs[0].name == "x" and static.inputs[0].dtype == DType.FP32
        assert static.outputs[0].scale == 1.0
        assert dynamic == runtime.network("grow")
        assert (dynamic.is_dynamic, dynamic.n_dynamic, dynamic.h_w_dynamic) == (True, True, False)
        with pytest.raises(UsageError, match="no net named 'other' is loaded; loaded are: twice, grow"):
            runtime.network("other")


def test_unload_gives_everything_back(device: FakeDevice) -> None:
    runtime = BModelRuntime(device)
    runtime.load(write(static_net()))
    used = device.heap.used
    runtime.load(write(dynamic_net()))
    with pytest.raises(ModelError, match="a net named 'grow' is loaded"):
        runtime.load(write(dynamic_net()))
    runtime.unload("grow")
    assert device.heap.used == used
    runtime.close()
    assert device.heap.used == 0 and runtime.networks == ()


def test_failing_load_leaves_nothing(device: FakeDevice) -> None:
    far = CommandGroup(b"", copy_words(1 << 39, CONTEXT, 1, 1))
    bad = CompiledNet("bad", (with_groups(static_stage(), far),))
    with BModelRuntime(device) as runtime:
        with pytest.raises(ModelError, match="net 'bad' stage 0 subnet 0 group 0"):
            runtime.load(write([static_net(), bad]))
        assert runtime.networks == () and device.heap.used == 0


OTHER = FirmwareLayer("TPU_OTHER", 4, 12, 99)


@pytest.mark.parametrize(
    "layers", [(*LAYERS, OTHER), (OTHER, *LAYERS), (replace(OTHER, param_hash=1), *LAYERS)]
)
def test_layers_that_a_net_does_not_use_do_not_matter(layers: tuple[FirmwareLayer, ...]) -> None:
    for net in (static_net(2), dynamic_net()):
        with FakeDevice(double, layers) as device, BModelRuntime(device) as runtime:
            runtime.load(write(net))
            x = numbers(*net.stages[0].inputs[0].shape)
            (y,) = runtime.launch(net.name, [x])
            assert np.array_equal(y, x * 2 if net.stages[0].is_dynamic else np.concatenate([x, CONSTANTS]))


@pytest.mark.parametrize(
    ("layers", "message", "hint"),
    [
        ((OTHER,), "which the firmware does not have; it has TPU_OTHER (op_type 4)", "build_layers"),
        ((), "which the firmware does not have; it has no user layers", "build_layers"),
        (
            (replace(OTHER, op_type=0),),
            "but op_type 0 of the firmware is TPU_OTHER",
            "compile the model again",
        ),
        (
            (replace(LAYERS[0], param_bytes=12),),
            f"whose parameter struct has changed since: 8 bytes with hash {LAYER.param_hash:#x} then, "
            f"12 bytes with hash {LAYER.param_hash:#x} in the firmware",
            "compile the model again",
        ),
        (
            (OTHER, replace(LAYERS[0], param_hash=5)),
            "8 bytes with hash 0x0000000000000005 in the firmware",
            "compile the model again",
        ),
    ],
)
def test_firmware_with_other_layers_is_refused(
    layers: tuple[FirmwareLayer, ...], message: str, hint: str
) -> None:
    net = static_net()
    with FakeDevice(layers=layers) as device, BModelRuntime(device) as runtime:
        with pytest.raises(ModelError, match=re.escape(message)) as caught:
            runtime.load(write(net))
        assert str(caught.value).startswith("net 'twice' uses the layer TPU_TWICE (op_type 0), ")
        assert hint in caught.value.hint
        assert runtime.networks == () and device.heap.used == 0
        # Built-in layers are in every firmware, and a net of another compiler needs none.
        runtime.load(
            write(replace(net, name="builtin", layers=(LayerUse("TPU_EXPAND_DIMS", 0x10000, 4, 1),)))
        )
        foreign = read(write(replace(net, name="foreign")))
        runtime.load(_with_stage(foreign, manifest=None))


def _with_stage(model: BModel, **changes: Any) -> BModel:
    """The model with its first net's first stage changed."""
    net = model.nets[0]
    stage: Stage = replace(net.stages[0], **changes)
    return replace(model, nets=(replace(net, stages=(stage, *net.stages[1:])), *model.nets[1:]))


def _with_net(model: BModel, **changes: Any) -> BModel:
    net: Net = replace(model.nets[0], **changes)
    return replace(model, nets=(net, *model.nets[1:]))


STATIC = read(write(static_net(2, 3), created=0))
DYNAMIC = read(write(dynamic_net(), created=0))
FIRST = STATIC.nets[0].stages[0]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (_with_net(STATIC, cascade=True), "one part of a net for several devices"),
        (_with_net(STATIC, addr_mode=3), "the address mode 3; those that run here are 0, 1, 2, 5"),
        (_with_stage(STATIC, core_num=2), "for 2 cores; a BM1684 has one"),
        (_with_stage(STATIC, ctx_sizes=(1 << 63, 1 << 63)), "context of 18446744073709551616 bytes"),
        (_with_stage(STATIC, is_dynamic=True), "not both static or both dynamic"),
        (_with_stage(STATIC, inputs=FIRST.outputs), "stages 0 and 1 have other inputs or outputs"),
        (_with_stage(STATIC, subnets=(replace(FIRST.subnets[0], mode=2),)), "subnet 0 is of the kind merge"),
        (_with_stage(STATIC, subnets=(replace(FIRST.subnets[0], mode=9),)), r"kind unknown \(9\)"),
        (
            _with_stage(STATIC, subnets=(replace(FIRST.subnets[0], mode=1, cpu=CpuLayer(0, b"x")),)),
            "runs layer 0 of the vendor's CPU library",
        ),
        (
            _with_stage(STATIC, subnets=(replace(FIRST.subnets[0], is_dynamic=True),)),
            "a dynamic net of another compiler",
        ),
        (
            _with_stage(DYNAMIC, subnets=(replace(DYNAMIC.nets[0].stages[0].subnets[0], is_dynamic=False),)),
            "subnet 0 is static in a dynamic net",
        ),
        (_with_stage(STATIC, ctx_addr=CONTEXT + 4096), "32 bytes at 0x105101000 are outside the context"),
        (_with_stage(DYNAMIC, manifest=None), "a dynamic net of another compiler"),
        (_with_stage(DYNAMIC, ir=b"BMIR" + bytes(64)), "a dynamic net of another compiler"),
        (_with_stage(DYNAMIC, subnets=DYNAMIC.nets[0].stages[0].subnets * 2), "2 dynamic subnets"),
        (
            _with_stage(
                DYNAMIC,
                ir=b"\0\0" + DYNAMIC.nets[0].stages[0].ir,
                subnets=(replace(DYNAMIC.nets[0].stages[0].subnets[0], ir_offset=2),),
            ),
            r"program of \d+ bytes in subnet 0, stored are \d+ words at byte 2",
        ),
    ],
)
def test_nets_that_do_not_run_here(device: FakeDevice, model: BModel, message: str) -> None:
    with BModelRuntime(device) as runtime, pytest.raises(ModelError, match=message):
        runtime.load(model)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": 8}, "x is bfloat16, which a BM1684 has not"),
        ({"store_mode": 2}, r"stage 0: 'x', float32, is stored in mode 2; known are 1N"),
        ({"store_mode": 2, "dtype": 2, "shape": (5, 3), "size": 15}, "x needs 24 bytes, .* gives it 15"),
        ({"size": 31}, "x needs 32 bytes, the bmodel gives it 31"),
    ],
)
def test_tensors_that_do_not_run_here(device: FakeDevice, changes: dict[str, Any], message: str) -> None:
    model = read(write(static_net()))
    tensor = replace(model.nets[0].stages[0].inputs[0], **changes)
    with BModelRuntime(device) as runtime, pytest.raises(ModelError, match=message):
        runtime.load(_with_stage(model, inputs=(tensor,)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": 8}, "x is bfloat16, which a BM1684 has not"),
        ({"name": "inner", "dtype": 128}, "inner is unknown type 128"),
        ({"name": "inner", "size": 8}, "stage 0 subnet 0: inner needs 240 bytes, the bmodel gives it 8"),
        ({"dtype": DType.INT32}, "subnet 0 has another x than the rest"),
        ({"size": 1000}, "subnet 0 has another x than the rest"),
        ({"name": "inner", "dtype": DType.INT8, "store_mode": 1}, "inner', int8, is stored in mode 1"),
    ],
)
def test_tensors_of_subnets_that_do_not_run_here(
    device: FakeDevice, changes: dict[str, Any], message: str
) -> None:
    subnet = DYNAMIC.nets[0].stages[0].subnets[0]
    wrong = replace(subnet, inputs=(replace(subnet.inputs[0], **changes),))
    with BModelRuntime(device) as runtime, pytest.raises(ModelError, match=message):
        runtime.load(_with_stage(DYNAMIC, subnets=(wrong,)))


@pytest.mark.parametrize(
    ("net", "which", "changes", "message"),
    [
        (
            "static",
            "outputs",
            {"shape": (1, 16)},
            r"another y than the rest: \[1, 16\] float32, 64 by",
        ),
        (
            "static",
            "outputs",
            {"shape": (8, 4), "size": 128},
            r"the net's output is \[4, 4\] float32, 64 by",
        ),
        ("static", "inputs", {"dtype": DType.INT32}, r"another x than the rest: \[2, 4\] int32"),
        ("static", "inputs", {"addr": CONTEXT + 64}, "another x than the rest: .* at 0x105101040"),
        ("static", "inputs", {"name": "w"}, "subnet 0 reads w, which is no input of the net"),
        ("static", "outputs", {"name": "w"}, "no subnet makes the output y"),
        ("dynamic", "outputs", {"shape": (4, 3, 6)}, "y needs 288 bytes, the bmodel gives it 240"),
        ("dynamic", "outputs", {"shape": (4, 5, 3)}, "subnet 0 has another y than the rest"),
        ("dynamic", "inputs", {"name": "w"}, "subnet 0 reads w"),
    ],
)
def test_subnets_that_contradict_their_net(
    device: FakeDevice, net: str, which: str, changes: dict[str, Any], message: str
) -> None:
    model = STATIC if net == "static" else DYNAMIC
    subnet = model.nets[0].stages[0].subnets[0]
    tensor = replace(getattr(subnet, which)[0], **changes)
    wrong = replace(subnet, inputs=(tensor,)) if which == "inputs" else replace(subnet, outputs=(tensor,))
    with BModelRuntime(device) as runtime, pytest.raises(ModelError, match=message):
        runtime.load(_with_stage(model, subnets=(wrong,)))


def test_streams_of_another_compiler_agree_with_their_net_in_types_and_sizes(device: FakeDevice) -> None:
    """What its subnets say beyond that is not read."""
    subnet = STATIC.nets[0].stages[0].subnets[0]
    (y,) = subnet.outputs
    for other_y, runs in (
        (replace(y, shape=(1, 16), addr=1), True),
        (replace(y, dtype=2), False),
        (replace(y, shape=(5,)), False),
    ):
        other = replace(subnet, inputs=(), outputs=(other_y,))
        with BModelRuntime(device) as runtime:
            model = _with_stage(STATIC, subnets=(other,), manifest=None)
            if runs:
                runtime.load(model)
            else:
                with pytest.raises(ModelError, match="subnet 0 has another y than the rest"):
                    runtime.load(model)


def test_dynamic_output_over_the_maximum() -> None:
    def grow(_: FakeDevice, inputs: list[TensorRecord], outputs: list[TensorRecord]) -> list[TensorRecord]:
        return [replace(outputs[0], shape=(4, 3, 6))]

    with FakeDevice(grow) as device, BModelRuntime(device) as runtime:
        runtime.load(write(dynamic_net()))
        with pytest.raises(DeviceError, match=r"'y' is \[4, 3, 6\] float32; compiled was \[4, 3, 5\]"):
            runtime.launch("grow", [numbers(4, 3, 5)])


# ---- relocation ----

OLD = (START, START + 0x10_0000)


@examples(60)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 0xFFF), st.integers(0, 2)), max_size=20
    )
)
def test_relocation_equals_one_descriptor_at_a_time(commands: list[tuple[int, int, int, int]]) -> None:
    regions = [
        Region("context", OLD[1], 0x1000, 0x2_1234_5000),
        Region("constants", OLD[0], 0x1000, 0x3_FFFF_F800, writable=False),
    ]
    fixed = 0x1000_0000  # L2
    stream, expected = b"", b""
    for direction, source, offset, target in commands:
        src = (fixed, OLD[0], OLD[1])[source] + offset
        dst = (fixed, OLD[1], OLD[1])[target] + offset
        moved_src = (fixed, 0x3_FFFF_F800, 0x2_1234_5000)[source] + offset if direction in (0, 2) else src
        moved_dst = (fixed, 0x2_1234_5000, 0x2_1234_5000)[target] + offset if direction in (1, 2) else dst
        stream += _copy(direction, src, dst)
        expected += _copy(direction, moved_src, moved_dst)
    assert relocate_stream(stream, regions, "here") == expected


def _copy(direction: int, source: int, target: int) -> bytes:
    return GDMA.encode(
        direction=direction,
        cmd_id=7,
        src_hshift=0xFFFFFF,  # the neighbours of the high address bytes stay as they are
        src_start_addr_l32=source & 0xFFFF_FFFF,
        src_start_addr_h8=source >> 32,
        dst_start_addr_l32=target & 0xFFFF_FFFF,
        dst_start_addr_h8=target >> 32,
    )


def test_tensors_lie_in_one_region_with_all_their_bytes() -> None:
    regions = [Region("first", 1000, 100, 5000), Region("second", 1100, 100, 7000)]
    assert relocate_addr(1000, 100, regions, "x") == 5000
    assert relocate_addr(1099, 1, regions, "x") == 5099
    assert relocate_addr(1100, 100, regions, "x") == 7000
    for addr, nbytes in ((999, 1), (1001, 100), (1199, 2), (1200, 1)):
        with pytest.raises(ModelError, match=rf"x: {nbytes} bytes at {addr:#x} are outside first 0x3e8\.\."):
            relocate_addr(addr, nbytes, regions, "x")


@pytest.mark.parametrize(("indices", "counted"), [(0, 0), (1, 0), (1, 1)])
def test_sorts_are_relocated(indices: int, counted: int) -> None:
    """In a BD stream among other commands; unused addresses, and those of other commands, stay."""

    def sort(base: int, given: int, made: int) -> bytes:
        (source, given, target, made) = (base + 0x10, given + 0x20, base + 0x30, made + 0x40)
        fields = {"opd0_addr": source, "opd1_addr": given, "res0_addr": target, "res1_addr": made}
        high = {"opd0_n": source, "opd1_n": given, "res0_n": target, "opd0_c": made}
        low = {name: value & 0xFFFF_FFFF for name, value in fields.items()}
        task = {"tsk_typ": Task.OTHER_ENGINE, "tsk_eu_typ": OtherEngine.SORT}
        options = {"opt_res_add": indices, "opt_left_tran": counted}
        return BD.encode(**task, **options, **low, **{name: value >> 32 for name, value in high.items()})

    other = BD.encode(tsk_typ=Task.ARITHMETIC, opd0_addr=OLD[0] & 0xFFFF_FFFF, opd0_n=OLD[0] >> 32)
    regions = [Region("context", OLD[0], 0x1000, 0x2_0000_8000)]
    moved = (0x2_0000_8000, OLD[0] if counted or not indices else 0x2_0000_8000)
    expected = sort(*moved, 0x2_0000_8000 if indices else OLD[0])
    assert (
        relocate_sorts(other + sort(OLD[0], OLD[0], OLD[0]) + other, regions, "here")
        == other + expected + other
    )
    with pytest.raises(ModelError, match=r"here: opd0_addr of BD command 2, 0x105200010, is outside"):
        relocate_sorts(other + sort(OLD[1], OLD[1], OLD[1]), regions, "here")
    constants = [Region("constants", OLD[0], 0x1000, 0x2_0000_8000, writable=False)]
    with pytest.raises(ModelError, match=r"here: BD command 1 writes to 0x105100030 in constants"):
        relocate_sorts(sort(OLD[0], OLD[0], OLD[0]), constants, "here")


def test_relocation_names_the_command() -> None:
    regions = [Region("the constants", OLD[0], 0x1000, 0x2_0000_0000, writable=False)]
    good = _copy(0, OLD[0], 0)
    with pytest.raises(
        ModelError, match=r"here: the source of GDMA command 2, 0x105101000, is outside the constants 0x1"
    ):
        relocate_stream(good + _copy(2, OLD[0] + 0x1000, 0), regions, "here")
    with pytest.raises(ModelError, match=r"here: GDMA command 1 writes to 0x105100004 in the constants"):
        relocate_stream(_copy(1, 0, OLD[0] + 4), regions, "here")
