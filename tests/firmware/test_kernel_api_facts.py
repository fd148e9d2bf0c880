"""What the table of the kernel API states is so: its functions, run on the emulator with random operands."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmware_sim.chip import DDR_BASE
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory
from tests.support import kernel_cases as kc
from tests.support import kernel_cases_atomic as atomic
from tests.support.api_limits import usual_calls
from tests.support.firmware_harness import Harness
from tests.support.kernel_tensors import Placed, aligned, compact, continuous
from user_layers.encode.calls import Calls
from user_layers.kernel_api.entry import Cost, Entry, Extents, Level
from user_layers.kernel_api.prototypes import arguments, functions
from user_layers.kernel_api.reference import ENTRIES, FAMILIES

Array = npt.NDArray[Any]
_LEAST = float(np.finfo(np.float32).tiny)  # what is smaller counts as 0


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> Harness:
    return Harness(firmware_library, executes=True, ddr_bytes=1 << 21)


def random_of(text: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(text.encode()))


def memory_of(firmware: Harness, placed: Placed) -> Array:
    return firmware.ddr if placed.addr >= DDR_BASE else firmware.local


def write(firmware: Harness, case: kc.Case) -> None:
    for name, placed in case.operands.items():
        placed.write(memory_of(firmware, placed), case.data[name])


def run(firmware: Harness, case: kc.Case) -> Array:
    """The result of the call."""
    write(firmware, case)
    reply = firmware.okk(case.entry.name, case.args)
    assert reply.status == 0, reply.text
    placed = case.operands[case.result]
    found = placed.read(memory_of(firmware, placed))
    return case.as_matrix(case.result, found) if case.matrices else found


def same(case: kc.Case, found: Array) -> bool:
    """Whether the result is that of the formula, as near as the table says."""
    want = np.broadcast_to(case.expected(), found.shape)
    if not case.entry.within:
        return bool(np.array_equal(found, want.astype(found.dtype), equal_nan=found.dtype.kind == "f"))
    size = {"the value": np.abs(want), "1": 1.0, "the largest result": np.abs(want).max()}[
        case.entry.within_of
    ]
    return bool(np.all(np.abs(found.astype(np.float64) - want) <= case.entry.within * size + _LEAST))


def commands_of(firmware: Harness) -> Iterator[tuple[Engine, Row]]:
    """The commands of the newest call, those of the tensor engine first."""
    for engine, commands in ((Engine.BD, firmware.bd), (Engine.GDMA, firmware.gdma)):
        if commands:
            columns = LAYOUTS[engine].columns(np.frombuffer(b"".join(commands), np.uint32).reshape(-1, 32))
            yield from ((engine, columns.row(i)) for i in range(len(commands)))


def issued(firmware: Harness) -> list[tuple[str, float]]:
    """The instructions of the newest call, with their cycles."""
    found = []
    for engine, row in commands_of(firmware):
        instruction = lookup(engine, row)
        assert instruction.semantics is not None
        found.append((instruction.name, instruction.semantics.cycles(row).chip))
    return found


def check_cost(firmware: Harness, case: kc.Case) -> None:
    """The commands and their cycles are those of the table."""
    cost: Cost = case.entry.costs[min(case.form, len(case.entry.costs) - 1)]
    done = issued(firmware)
    names = tuple(name for name, _ in done)
    if cost.commands:
        assert len(done) == case.value_of(cost.commands), names
        assert set(names) <= set(cost.issues)
    else:
        assert names == cost.issues
    cycles = sum(cycles for _, cycles in done)
    assert math.isclose(cycles, case.value_of(cost.cycles), rel_tol=1e-9), (cycles, cost)


# ---- arithmetic, special functions, packed integers ----


def test_elementwise_functions_compute_their_formula_at_their_cost(firmware: Harness) -> None:
    tried = set()
    for what, entry, form, op_type, is_signed in kc.elementwise_cases():
        case = kc.elementwise(entry, form, op_type, is_signed, random_of(what))
        assert same(case, run(firmware, case)), what
        check_cost(firmware, case)
        tried.add(case.entry.name)
    assert len(tried) == 81


def test_results_may_be_just_the_inputs_that_the_table_names(firmware: Harness) -> None:
    """In place where it says so; elsewhere the result is another one, or the call is refused."""
    for what, entry, form, op_type, is_signed in kc.elementwise_cases():
        for operand in entry.operands[1:]:
            case = kc.elementwise(entry, form, op_type, is_signed, random_of(what + operand.name))
            result, other = case.operands[case.result], case.operands[operand.name]
            alike = (result.dtype, result.shape, result.itemsize) == (
                other.dtype,
                other.shape,
                other.itemsize,
            )
            if not alike or "work" in operand.role:
                continue
            case.operands[operand.name] = result
            for suffix in ("addr", "stride"):
                key = f"{operand.name}_{suffix}"
                if key in case.args:
                    case.args[key] = case.args[f"{case.result}_{suffix}"]
            if isinstance(case.args.get(operand.name), dict):
                case.args[operand.name] = {"is_addr": True, "bits": f"{result.addr:x}"}
            case.data[case.result] = case.data[operand.name]
            assert same(case, run(firmware, case)) == (operand.name in entry.in_place), (what, operand.name)


def test_operands_that_must_be_apart_are_refused_or_warned_of_together(firmware: Harness) -> None:
    count = 0
    for entry in ENTRIES.values():
        for one, other in entry.apart:
            args = dict(usual_calls()[entry.name])
            args[f"{one}_addr"] = args[f"{other}_addr"]
            reply = firmware.okk(entry.name, args)
            warned = entry.apart_level is Level.WARNING
            assert (reply.status == 0) is warned, (entry.name, one, other)
            assert "buffer" in (reply.warnings if warned else reply.text), (entry.name, one, other)
            count += 1
    assert count > 15


def test_work_buffers_of_conversions_may_be_the_source(firmware: Harness) -> None:
    for what, entry, form, op_type, is_signed in kc.elementwise_cases():
        works = [
            o
            for o in entry.operands
            if "may be src" in f"{o.role} {' '.join(entry.notes)}" and "work" in o.name
        ]
        for work in works:
            case = kc.elementwise(entry, form, op_type, is_signed, random_of(what))
            case.operands[work.name] = case.operands["src"]
            case.data[work.name] = case.data["src"]
            case.args["work_addr"] = case.args["src_addr"]
            if "work_stride" in case.args:
                case.args["work_stride"] = case.args["src_stride"]
            assert same(case, run(firmware, case)), what
            if "left out" in entry.notes[-1]:
                assert len(issued(firmware)) == case.value_of(entry.costs[0].commands) - 1, what


# ---- windows, products, copies ----

WINDOWS = ("conv2d", "conv2d_kernel_const", "depthwise2d", "avg_pool2d", "avg_pool2d_v2", "max_pool2d")


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(firmware: Harness, name: str) -> None:
    entry = ENTRIES[f"okk_bdc_{name}"]
    for channels in (1, 2, 3, 4, 67):
        for strided in (False, True):
            case = kc.window(entry, strided, channels, random_of(f"{name} {channels} {strided}"))
            assert same(case, run(firmware, case)), (channels, strided)
            check_cost(firmware, case)


def test_the_matrix_product(firmware: Harness) -> None:
    case = kc.product(random_of("product"))
    assert same(case, run(firmware, case))
    check_cost(firmware, case)


def test_copies_and_fills(firmware: Harness) -> None:
    count = 0
    for what, entry, strided in kc.copies():
        case = kc.copy(entry, strided, random_of(what))
        assert same(case, run(firmware, case)), what
        check_cost(firmware, case)
        count += 1
    assert count == 2 * 18


ATOMIC_WINDOWS = (
    *("conv", "conv_quantized", "avg_pool", "sum_pool", "max_pool", "max_pool_quantized", "depthwise"),
    "depthwise_quantized",
)


@pytest.mark.parametrize("name", ATOMIC_WINDOWS)
def test_windows_of_bm_atomic(firmware: Harness, name: str) -> None:
    entry = ENTRIES[f"bm_atomic_{name}"]
    case = atomic.window(entry, random_of(name))
    assert same(case, run(firmware, case))
    if name != "conv":  # which the table refers to okk_bdc_conv2d for
        check_cost(firmware, case)


@pytest.mark.parametrize("name", ["bm_atomic_matmul", "bm_atomic_matmul_quantized"])
def test_products_of_bm_atomic(firmware: Harness, name: str) -> None:
    case = atomic.product(name, random_of(name))
    assert same(case, run(firmware, case))
    check_cost(firmware, case)


def test_a_broadcast_over_the_npus(firmware: Harness) -> None:
    rng = random_of("broadcast")
    one, whole = (2, 1, 3, 5), (2, 70, 3, 5)
    source = Placed(9 * 524288 + 4096, one, tuple(aligned(9, one)))
    target = Placed(kc.START * 524288, whole, tuple(aligned(kc.START, whole)))
    source.write(firmware.local, rng.normal(size=one))
    args = {"dst_addr": target.addr, "src_addr": source.addr, "shape": list(whole), "src_stride": None}
    assert firmware.okk("okk_bdc_npu_bcast", args).status == 0
    assert np.array_equal(target.read(firmware.local), np.broadcast_to(source.read(firmware.local), whole))
    ((name, cycles),) = issued(firmware)
    assert name == "conv.fp32" and math.isclose(cycles, 16.4 * 2 * 3)


@pytest.mark.parametrize("start", [0, kc.START])
@pytest.mark.parametrize("direction", ["S2L", "L2S"])
def test_matrices(firmware: Harness, direction: str, start: int) -> None:
    """Rows as far apart as from NPU 0 on, wherever they start."""
    rng = random_of(direction)
    rows, columns, per_channel, stride = 5, 37, 4, 50
    local = replace(kc.matrix(start * 524288, rows, columns, per_channel), strides=(32, 32, 4, 1))
    outside = Placed(kc.system_addr(0), (rows, 1, 1, columns), (stride, 0, 0, 1))
    local.write(firmware.local, rng.normal(size=local.shape))
    outside.write(firmware.ddr, rng.normal(size=outside.shape))
    source, target = (outside, local) if direction == "S2L" else (local, outside)
    args = {"dst_addr": target.addr, "src_addr": source.addr, "rows": rows, "cols": columns}
    args |= {"cols_per_channel": per_channel, "row_stride": stride}
    before = source.read(memory_of(firmware, source))
    assert firmware.okk(f"okk_gdma_32bit_matrix_{direction}", args).status == 0
    after = target.read(memory_of(firmware, target))
    one, other = (side.reshape(rows, -1)[:, :columns] for side in (before, after))
    assert np.array_equal(one, other)


def test_a_copy_into_the_compact_layout(firmware: Harness) -> None:
    shape = (2, 70, 3, 5)
    source = Placed(kc.system_addr(0), shape, tuple(continuous(shape)))
    target = Placed(4, shape, tuple(compact(0, shape)))
    source.write(firmware.ddr, random_of("compact").normal(size=shape))
    args = {"dst_addr": 4, "src_addr": source.addr, "shape": list(shape)}
    assert firmware.okk("okk_gdma_compact_S2L", args).status == 0
    assert np.array_equal(target.read(firmware.local), source.read(firmware.ddr))


def test_every_formula_is_tried() -> None:
    """By the tests above; what is left are copies of bm_atomic.h and two that other tests know."""
    tried = {entry.name for _, entry, *_ in kc.elementwise_cases()} | {
        entry.name for _, entry, _ in kc.copies()
    }
    tried |= {f"okk_bdc_{name}" for name in (*WINDOWS, "matmul", "npu_bcast")}
    tried |= {f"bm_atomic_{name}" for name in (*ATOMIC_WINDOWS, "matmul", "matmul_quantized")}
    tried |= {"okk_gdma_compact_S2L", "okk_gdma_32bit_matrix_S2L", "okk_gdma_32bit_matrix_L2S"}
    tried |= {e.name for f in FAMILIES for e in f.entries if f.title in ("Memories", "Layouts")}
    left = {name for name, entry in ENTRIES.items() if entry.formula} - tried
    moved = {f"bm_atomic_{name}" for name in ("memcpy_1D", "memcpy_2D", "memcpy_4D", "memset_4D")}
    assert left == {*moved, "bm_atomic_table_lookup", "bm_local_exp"}


# ---- single statements ----


def one(firmware: Harness, name: str, value: float, **more: Any) -> float:
    """What a function makes of one number."""
    shape = (1, 1, 1, 1)
    source, target = Placed(4096, shape, (1, 1, 1, 1)), Placed(0, shape, (1, 1, 1, 1))
    source.write(firmware.local, np.full(shape, value, np.float32))
    given = {"dst_addr": 0, "src_addr": 4096, "shape": list(shape), **more}
    reply = firmware.okk(name, {k: given.get(k) for k in arguments(functions()[name])})
    assert reply.status == 0, reply.text
    return float(target.read(firmware.local).item())


def test_numbers_that_the_notes_name(firmware: Harness) -> None:
    assert one(firmware, "okk_bdc_C_div", 1.0, C=1.0) == np.float32(0.99999988)
    assert one(firmware, "okk_bdc_C_div", 0.0, C=1.0) == np.inf
    assert np.isnan(one(firmware, "okk_bdc_C_div", 0.0, C=0.0))
    nan = float("nan")
    assert one(firmware, "okk_bdc_relu", nan) == 0
    assert one(firmware, "okk_bdc_max_C", nan, C=2.0) == 2 and one(firmware, "okk_bdc_min_C", nan, C=2.0) == 2
    assert np.isnan(one(firmware, "okk_bdc_max_C", 2.0, C=nan))
    assert np.isnan(one(firmware, "okk_bdc_min_C", 2.0, C=nan))
    assert math.copysign(1, one(firmware, "okk_bdc_neg", 0.0)) == 1
    assert one(firmware, "okk_bdc_equal_C_select_value", -0.0, C=0.0, select_val="3f800000") == 0
    assert one(firmware, "okk_bdc_equal_C_select_value", 0.0, C=0.0, select_val="3f800000") == 1
    assert one(firmware, "okk_bdc_add_C", 1e-39, C=0.0) == 0
    for count in (32, -32):
        assert one(firmware, "okk_bdc_32bit_arithmetic_shift_C", 1.5, C=count) == 1.5


@pytest.mark.parametrize(
    ("value", "whole"),
    [(1.9, 1), (-1.9, -1), (1e10, (1 << 31) - 1), (-1e10, -(1 << 31)), (math.nan, (1 << 31) - 1)],
)
def test_fp32_to_int32(firmware: Harness, value: float, whole: int) -> None:
    bits = np.float32(one(firmware, "okk_bdc_fp32_to_int32", value))
    assert Placed(0, (1,) * 4, (1,) * 4, "int32").read(firmware.local).item() == whole, bits


@pytest.mark.parametrize("name", ["okk_bdc_max_pool2d", "okk_bdc_conv2d"])
def test_long_sides_of_windows_are_warned_of(firmware_library: Path, name: str) -> None:
    firmware = Harness(firmware_library)
    for side, pad, warned in ((2047, 0, False), (2048, 0, True), (2040, 7, False), (2040, 8, True)):
        given = {"input_shape": [1, 1, side, 1], "kernel_h": 1, "kernel_w": 1, "padding": [pad, 0, 0, 0]}
        reply = firmware.okk(name, {**usual_calls()[name], **given})
        assert reply.status == 0 and ("more than 2047" in reply.warnings) is warned, side


@pytest.mark.parametrize("name", ["okk_bdc_conv2d", "bm_atomic_conv"])
def test_weights_of_convolutions_lie_at_multiples_of_8_when_they_run(
    firmware_library: Path, name: str
) -> None:
    firmware, memory = Harness(firmware_library), Memory.create(ddr_bytes=1 << 20)
    for offset in (0, 4):
        args = usual_calls()[name]
        at = args["weight_addr"] // 8 * 8 + offset
        assert firmware.okk(name, {**args, "weight_addr": at}).status == 0
        ((engine, row),) = commands_of(firmware)
        semantics = lookup(engine, row).semantics
        assert semantics is not None
        if offset:
            with pytest.raises(DeviceError, match="not a multiple of 8 bytes"):
                semantics.bind(row, memory)
        else:
            semantics.bind(row, memory)


def test_a_window_of_pads_alone_is_the_lowest_number(firmware: Harness) -> None:
    args = {"output_addr": 0, "input_addr": 4096, "input_shape": [1, 1, 1, 1], "kernel_h": 1, "kernel_w": 1}
    reply = firmware.okk("okk_bdc_max_pool2d", {**args, "padding": [1, 0, 0, 0], "stride": [1, 1]})
    assert reply.status == 0
    Placed(4096, (1, 1, 1, 1), (1,) * 4).write(firmware.local, np.full((1,) * 4, -np.inf))
    assert firmware.okk("okk_bdc_max_pool2d", {**args, "padding": [1, 0, 0, 0], "stride": [1, 1]}).status == 0
    found = Placed(0, (1, 1, 2, 1), (2, 2, 1, 1)).read(firmware.local).reshape(-1)
    assert found[0] == np.finfo(np.float32).min


@pytest.mark.parametrize(
    ("side", "rshift", "result"), [(2, 0, 90 * 4 / 512), (3, 0, 255), (3, 6, 90), (1, 0, 90)]
)
def test_an_8_bit_average_of_90(firmware: Harness, side: int, rshift: int, result: float) -> None:
    whole, out = (4, 1, 7, 7), (4, 1, 8 - side, 8 - side)
    source = Placed(65536, whole, tuple(aligned(0, whole)), "uint8", 4, 4)
    target = Placed(0, out, tuple(aligned(0, out)), "uint8", 4, 4)
    source.write(firmware.local, np.full(whole, 90))
    args = {
        "input_addr": 65536,
        "output_addr": 0,
        "input_shape": list(whole),
        "kernel_h": side,
        "kernel_w": side,
    }
    args |= {
        "stride_h": 1,
        "stride_w": 1,
        "ins_h": 0,
        "ins_w": 0,
        "dilate_h": 1,
        "dilate_w": 1,
        "pad": [0] * 4,
    }
    reply = firmware.okk(
        "bm_atomic_avg_pool_quantized", {**args, "rshift_bit": rshift, "input_sign": False, "if_relu": False}
    )
    assert reply.status == 0, reply.text
    assert np.all(target.read(firmware.local) == math.floor(result + 0.5))


@pytest.mark.parametrize(("kind", "place"), [(0, 0), (1, 1), (3, 2), (4, 3)])
def test_costs_of_activations(firmware: Harness, kind: int, place: int) -> None:
    cost = ENTRIES["bm_local_act"].costs[place]
    args = {"src_addr": 0, "dst_addr": 4096, "imm_addr": 8192, "shape": [2, 65, 3, 7], "act_type": kind}
    assert firmware.okk("bm_local_act", args).status == 0
    done = issued(firmware)
    assert tuple(name for name, _ in done) == cost.issues
    assert sum(cycles for _, cycles in done) == eval(cost.cycles, {"n": 2, "L": 2, "P": 2})


def test_every_call_issues_instructions_of_its_row(firmware_library: Path) -> None:
    """Of functions whose command depends on an operation, the table names the family."""
    firmware = Harness(firmware_library)
    count = 0
    for name, args in usual_calls().items():
        entry = ENTRIES[name]
        assert entry.costs, name
        assert firmware.okk(name, args).status == 0, name
        done = [lookup(engine, row).name for engine, row in commands_of(firmware)]
        named = {part for cost in entry.costs for text in cost.issues for part in text.split(" or ")}
        for instruction in done:
            assert any(instruction.startswith(part.removesuffix("OP")) for part in named), (name, instruction)
        if not any(cost.commands for cost in entry.costs):
            assert len(done) in {len(cost.issues) for cost in entry.costs}, name
        count += 1
    assert count == 140


# ---- how large a tensor may be ----


def extent_call(entry: Entry, strided: bool, axis: int, size: int) -> dict[str, Any]:
    args = dict(usual_calls()[entry.name])
    addresses = [
        key
        for key, value in args.items()
        if key.endswith("_addr") and isinstance(value, int) and value < 1 << 25
    ]
    args |= {key: 4096 * i for i, key in enumerate(addresses)}
    operands = [key for key, value in args.items() if isinstance(value, dict)]
    args |= {key: {"is_addr": True, "bits": f"{4096 * (9 + i):x}"} for i, key in enumerate(operands)}
    args |= {key: [0] * 4 for key in ("pad", "padding") if key in args}
    if "winograd" in entry.name:
        args["pad"] = [1] * 4
    if strided or functions()[entry.name].struct is not None:
        args |= {
            key: [0, 0, 0, 1]
            for key, v in args.items()
            if key.endswith("_stride") and (v is None or len(v) == 4)
        }
    assert entry.extents is not None
    return {**args, entry.extents.argument: [size if i == axis else 1 for i in range(4)]}


def check_extents(firmware: Harness, entry: Entry, extents: Extents, strided: bool) -> None:
    for axis, letter in enumerate("nchw"):
        most = extents.most[letter]
        args = extent_call(entry, strided, axis, most)
        assert firmware.okk(entry.name, args).status == 0, (entry.name, letter, most)
        count = len(firmware.bd) + len(firmware.gdma)
        reply = firmware.okk(entry.name, extent_call(entry, strided, axis, most + 1))
        if letter in extents.cut:
            assert reply.status == 0, (entry.name, letter, reply.text)
            assert len(firmware.bd) + len(firmware.gdma) > count, (entry.name, letter)
        else:
            assert reply.status != 0 and entry.name in reply.text, (entry.name, letter)


def test_extents_at_their_limits_and_beyond(firmware_library: Path) -> None:
    firmware = Harness(firmware_library)
    count = 0
    for entry in ENTRIES.values():
        if entry.extents is not None:
            check_extents(firmware, entry, entry.extents, False)
            if entry.extents.strided is not None:
                check_extents(firmware, entry, entry.extents.strided, True)
            count += 1
    assert count > 120


# ---- what the table says of the layouts, and that nothing is missing ----


def test_constants_and_layouts(firmware: Harness) -> None:
    names = [e for f in FAMILIES for e in f.entries if f.title in ("Memories", "Layouts") and e.formula]
    for entry in names:
        taken = arguments(functions()[entry.name])
        args: dict[str, Any] = {"start_idx": 3, "num_channels": 70, "addr": 3 * 524288 + 5, "h": 3, "w": 7}
        args["shape"] = [2, 70, 3, 7]
        known: dict[str, Any] = {
            **args,
            "ceil": math.ceil,
            "shape": type("Shape", (), {"c": 70, "h": 3, "w": 7}),
        }
        want = eval(entry.formula, known)
        given = {k: args[k] for k in taken if k != "stride"}
        if "stride" in taken:
            assert firmware.call_api(Calls().call(entry.name, given, out=DDR_BASE)).status == 0
            assert firmware.array(DDR_BASE, (4,), "int32").tolist() == want, entry.name
            continue
        assert firmware.okk(entry.name, given).status == 0
        assert firmware.result() & 0xFFFF_FFFF_FFFF == want, entry.name
    assert len(names) > 15
