"""Whose memory it is: allocations, areas of layers' calls, the compiled loops beside their references, and
what findings say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_sim import chip
from firmware_sim.checks.finding import Issued
from firmware_sim.checks.layer_calls import BEGINS, ENDED, GLOBAL, LOCAL, CallTensor, LayerCall, parsed
from firmware_sim.checks.memory import (
    MemoryCheck,
    not_written,
    not_written_reference,
    outside_areas,
    outside_areas_reference,
)
from firmware_sim.checks.objects import ALL_LANES, BOTH, KERNEL_AREAS, Allocations, Area, Objects
from firmware_sim.checks.outside import explained
from firmware_sim.checks.records import READS, WRITES, Record, Runs, numbers_of
from firmware_sim.instructions.loops import native
from firmware_sim.isa.footprint import Constant, Space
from firmware_sim.wire import DType, StoreMode, TType

DDR, L2 = chip.DDR_BASE, chip.L2_BASE
BY = Issued("GDMA", 7, "gdma.copy.l2s")


def record(*blocks: Runs) -> Record:
    numbers = numbers_of(blocks)
    return Record("a command", (Constant("operand", 0),), blocks, numbers, int(numbers.ctypes.data))


def tensor(
    address: int,
    shape: Sequence[int],
    extents: Sequence[int] = (),
    dtype: DType = DType.FP32,
    ttype: TType = TType.NEURON,
    mode: StoreMode = StoreMode.N1,
) -> CallTensor:
    return CallTensor(address, ttype, dtype, mode, False, tuple(shape), tuple(extents or shape))


def call(
    kind: int, ins: Sequence[CallTensor], outs: Sequence[CallTensor], buffer: int = 0, at: int = 0
) -> LayerCall:
    return LayerCall(5, kind, "crop_0 (TPU_CROP)", 0, (at, buffer), tuple(ins), tuple(outs))


# ---- allocations ----


def told(allocations: Allocations, objects: Objects) -> None:
    anew, changes = allocations.take()
    objects.apply(changes, anew=anew)


def test_changes_go_with_the_next_request() -> None:
    allocations, objects = Allocations(), Objects()
    allocations.add(DDR + 0x5100000, 1000, "weights", READS)
    told(allocations, objects)
    assert allocations.take() == (False, [])
    allocations.add(DDR + 0x5101000, 10)
    allocations.remove(DDR + 0x5100000)
    told(allocations, objects)
    [left] = objects.areas
    assert (left.name, left.start, left.nbytes, left.rights) == ("buffer 2 of 10 bytes", 0x5101000, 10, BOTH)
    assert objects.at(0x5101009) == left
    assert objects.at(0x510100A) is None
    assert (freed := objects.freed_at(0x51003E7)) is not None and freed.name == "weights"
    assert objects.freed_at(0x51003E8) is None


def test_memory_that_is_handed_out_again_is_not_freed_any_more() -> None:
    allocations, objects = Allocations(), Objects()
    told(allocations, objects)
    allocations.add(DDR + 4096, 4096)
    allocations.remove(DDR + 4096)
    allocations.add(DDR + 4096, 8)
    told(allocations, objects)
    assert objects.freed_at(4096 + 16) is None


def test_a_new_device_process_is_told_everything() -> None:
    allocations = Allocations()
    allocations.add(DDR, 16, "a")
    allocations.take()
    allocations.add(DDR + 4096, 16, "b")
    allocations.forgotten()
    anew, changes = allocations.take()
    assert anew
    assert [change[3] for change in changes] == ["a", "b"]


def test_changes_that_nobody_takes_do_not_pile_up() -> None:
    allocations, objects = Allocations(), Objects()
    allocations.take()
    for _ in range(3000):
        allocations.add(DDR, 16)
        allocations.remove(DDR)
    allocations.add(DDR, 32, "last")
    anew, changes = allocations.take()
    assert anew and len(changes) == 1
    objects.apply(changes, anew=anew)
    assert [area.name for area in objects.areas] == ["last"]


def test_copies_of_the_host_stay_in_their_buffer() -> None:
    allocations = Allocations()
    allocations.add(DDR + 0x5102000, 100, "weights")
    allocations.add(DDR + 0x5100000, 5000)
    weights, large = DDR + 0x5102000, DDR + 0x5100000
    for start, nbytes in (
        *((weights, 100), (weights + 99, 1), (weights, 0), (weights + 100, 0), (weights + 4096, 8)),
        *((large, 5000), (large - 8, 8), (large - 8, 9000)),
    ):
        assert allocations.wrong_copy(start, nbytes, "reading") is None
    found = allocations.wrong_copy(weights + 90, 14, "writing")
    assert found is not None and (found.rule, found.tensor, found.nbytes) == ("memory.beyond", "weights", 4)
    assert (
        found.what
        == "a copy of the host's, writing 14 bytes from byte 90 of weights, goes 4 bytes beyond its end"
    )
    assert found.address == "ddr +0x5102064"
    behind = allocations.wrong_copy(large + 5096, 16, "reading")  # in its second page
    assert behind is not None and (behind.nbytes, behind.address) == (16, "ddr +0x51013e8")
    allocations.remove(weights)
    gone = allocations.wrong_copy(weights + 90, 14, "writing")
    assert gone is not None and (gone.rule, gone.tensor) == ("memory.freed", "weights")
    assert gone.what == "a copy of the host's, writing 14 bytes, uses weights, which was freed"
    assert allocations.wrong_copy(weights + 100, 14, "writing") is None
    allocations.add(weights + 96, 16)
    assert allocations.wrong_copy(weights + 90, 14, "writing") is None


# ---- the loops and their references ----

SMALL = 48
lanes = st.sampled_from([1, 3, 0b110, 1 << 63, ALL_LANES])


@st.composite
def runs(draw: st.DrawFn, *, access: int | None = None) -> Runs:
    space = draw(st.sampled_from([Space.LOCAL, Space.DDR, Space.L2]))
    run = draw(st.integers(1, 12))
    dims, reach = [], run
    for _ in range(draw(st.integers(0, 2))):
        count, stride = draw(st.integers(2, 3)), reach + draw(st.integers(0, 5))
        dims.append((count, stride))
        reach += (count - 1) * stride
    return Runs(
        0,
        access or draw(st.sampled_from([READS, WRITES, READS | WRITES])),
        space,
        draw(lanes) if space is Space.LOCAL else 0,
        draw(st.integers(0, SMALL)),
        run,
        tuple(dims),
        draw(st.sampled_from([False, False, True])) if access is None else False,
    )


@st.composite
def areas(draw: st.DrawFn) -> Area:
    space = draw(st.sampled_from([Space.LOCAL, Space.DDR, Space.L2]))
    start, size = draw(st.integers(0, SMALL)), draw(st.integers(1, 2 * SMALL))
    given_lanes = draw(lanes) if space is Space.LOCAL else 0
    return Area("area", "input", space, start, size, draw(st.integers(0, 3)), given_lanes)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(runs(), min_size=1, max_size=3), max_size=6),
    st.lists(st.lists(areas(), max_size=5), min_size=1, max_size=3),
    st.data(),
)
def test_commands_outside_their_areas_as_in_the_reference(
    blocks: list[list[Runs]], tables: list[list[Area]], data: st.DataObject
) -> None:
    assert native.ready(), "without the compiled loops nothing is compared"
    records = [record(*one) for one in blocks]
    which = np.array([data.draw(st.integers(-1, len(tables) - 1)) for _ in records], np.int64)
    addresses = np.array([one.address for one in records], np.int64)
    found = list(outside_areas(records, addresses, which, tables))
    assert found == list(outside_areas_reference(records, which, tables))
    for k, i in found:  # and each can be told
        finding = explained(records[k], i, tables[which[k]], Objects(), None, BY)
        assert finding.nbytes > 0 or records[k].blocks[i].maybe


@settings(max_examples=300, deadline=None)
@given(st.lists(runs(access=WRITES), max_size=8), runs(access=WRITES))
def test_bytes_that_are_not_written_as_in_the_reference(blocks: list[Runs], wanted: Runs) -> None:
    assert native.ready()
    records = [record(one) for one in blocks]
    assert not_written(records, [wanted]) == not_written_reference(records, [wanted])


def test_reads_write_nothing() -> None:
    wanted = Runs(0, WRITES, Space.DDR, 0, 0, 8)
    reading = record(Runs(0, READS, Space.DDR, 0, 0, 8))
    assert not_written([reading], [wanted]) == (8, 0, 1)


# ---- areas of calls ----


def test_a_tile_lies_in_rounds_of_all_lanes_and_a_rest() -> None:
    tile = tensor(256, (2, 130, 3, 5), dtype=DType.INT16)  # 30 bytes of a plane of 128
    full, rest = tile.tile(0)
    assert (full.lanes, full.start, full.run, full.dims) == (ALL_LANES, 256, 30, ((2, 128), (2, 384)))
    assert (rest.lanes, rest.start, rest.run, rest.dims) == (3, 256 + 256, 30, ((2, 384),))
    given_areas = tile.tile_areas(Area("t", "output", Space.LOCAL, 0, 0))
    assert [(a.start, a.nbytes, a.lanes) for a in given_areas] == [
        (256, 256, ALL_LANES),
        (512, 128, 3),
        (640, 256, ALL_LANES),
        (896, 128, 3),
    ]


def test_weights_lie_compact_and_4n_words_hold_four_batches() -> None:
    weights = tensor(0, (1, 64, 3, 5), ttype=TType.COEFF)
    assert [(r.start, r.run) for r in weights.tile(0)] == [(0, 60)]
    assert tensor(DDR, (5, 3, 2, 2), dtype=DType.INT8, mode=StoreMode.N4).nbytes == 2 * 3 * 2 * 2 * 4
    assert tensor(DDR, (2, 3, 4, 5, 6), dtype=DType.FP16).nbytes == 2 * 3 * 4 * 5 * 6 * 2
    assert tensor(DDR, ()).nbytes == 4


def test_the_element_at_a_byte() -> None:
    assert tensor(DDR, (2, 3, 4)).element(4 * (12 + 4 + 3)) == "[1, 1, 3]"


def test_what_the_firmware_tells() -> None:
    words = [1, 0x1234, 2, 0, 0x40, 0x80, 1, 1]
    words += [0x100, 0, 0, 0, 0, 2, 1, 2, 1, 1]
    words += [0x200, 0, 2, 0, 0, 1, 9, 8]
    phase, told_call = parsed(" ".join(f"{word:x}" for word in words) + " ;crop_0 (TPU_CROP); x")
    assert phase == BEGINS
    assert (told_call.key, told_call.kind, told_call.label) == (0x1234, LOCAL, "crop_0 (TPU_CROP); x")
    assert told_call.buffer == (0x40, 0x80)
    assert told_call.inputs == (tensor(0x100, (1, 2), (1, 1)),)
    assert told_call.outputs == (tensor(0x200, (9,), (8,), DType.INT8),)


@pytest.mark.parametrize("text", ["", "1 2;x", "1 2 3 4 5 6 7 8;x", "1 0 1 0 0 0 1 0 5 0 99;", "z;"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parsed(text)


# ---- what is said ----


def said(
    block: Runs, given_areas: Sequence[Area], of: LayerCall | None = None, objects: Objects | None = None
) -> str:
    assert list(outside_areas_reference([record(block)], np.zeros(1, np.int64), [given_areas])) == [(0, 0)]
    finding = explained(record(block), 0, given_areas, objects or Objects(), of, BY)
    return f"{finding.rule}: {finding.what} [{finding.address}, {finding.nbytes}]"


def kernel(*allocated: tuple[str, int, int]) -> tuple[list[Area], Objects]:
    objects = Objects()
    objects.apply([[DDR + start, size, BOTH, name] for name, start, size in allocated], anew=True)
    return [*KERNEL_AREAS, *objects.areas], objects


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (
            Runs(0, READS, Space.DDR, 0, 0x1000, 100),
            "memory.beyond: reads 4 bytes beyond the end of x (96 bytes) [ddr +0x1060, 4]",
        ),
        (
            Runs(0, WRITES, Space.DDR, 0, 0x1000, 32, ((4, 32),)),
            "memory.beyond: writes 32 bytes beyond the end of x (96 bytes), from row 3 of 4 on "
            "(32 bytes each) [ddr +0x1060, 32]",
        ),
        (
            Runs(0, WRITES, Space.DDR, 0, 0xFF8, 16),
            "memory.beyond: writes 8 bytes before the begin of x (96 bytes) [ddr +0xff8, 8]",
        ),
        (
            Runs(0, READS, Space.DDR, 0, 0x1080, 16),
            "memory.outside: reads memory that nobody allocated, 32 bytes behind the end of x (96 bytes) "
            "[ddr +0x1080, 16]",
        ),
        (
            Runs(0, READS, Space.DDR, 0, 0x100, 16),
            "memory.outside: reads memory that nobody allocated [ddr +0x100, 16]",
        ),
        (
            Runs(0, WRITES, Space.L2, 0, chip.L2_TABLE_OFFSET, 16),
            "memory.read_only: writes the chip's tables in L2, which is for reading only "
            f"[l2 +{chip.L2_TABLE_OFFSET:#x}, 16]",
        ),
        (
            Runs(0, READS, Space.L2, 0, 0, 16),
            "memory.outside: reads memory that nobody allocated [l2 +0x0, 16]",
        ),
    ],
)
def test_what_is_said_of_a_kernel(block: Runs, text: str) -> None:
    given_areas, objects = kernel(("x", 0x1000, 96))
    assert said(block, given_areas, None, objects) == text


def test_freed_memory_is_named() -> None:
    objects = Objects()
    objects.apply([[DDR + 0x1000, 96, BOTH, "x"], [DDR + 0x1000, 0, 0, ""]], anew=True)
    block = Runs(0, READS, Space.DDR, 0, 0x1010, 16)
    assert (
        said(block, KERNEL_AREAS, None, objects) == "memory.freed: reads x, which was freed [ddr +0x1010, 16]"
    )


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (
            Runs(0, WRITES, Space.DDR, 0, 0x1000, 4),
            "memory.read_only: writes input 0, which is for reading only",
        ),
        (
            Runs(0, WRITES, Space.DDR, 0, 0x2000, 256),
            "memory.too_much: writes 128 bytes beyond the end of output 0 (128 bytes)",
        ),
        (
            Runs(0, READS, Space.DDR, 0, 0x1000, 256),
            "memory.beyond: reads 192 bytes beyond the end of input 0 (64 bytes)",
        ),
        (
            Runs(0, READS, Space.DDR, 0, 0x9000, 4),
            "memory.foreign: reads memory that the layer was not given, 28544 bytes behind the end of "
            "output 0 (128 bytes)",
        ),
    ],
)
def test_what_is_said_of_a_global_function(block: Runs, text: str) -> None:
    of = call(GLOBAL, [tensor(DDR + 0x1000, (1, 16))], [tensor(DDR + 0x2000, (1, 32))])
    assert said(block, of.areas, of).startswith(text + " [")


@pytest.mark.parametrize(
    ("block", "buffer", "text"),
    [
        (
            Runs(0, WRITES, Space.LOCAL, 7, 0x80, 128),
            0,
            "memory.read_only: writes input 0, which is for reading only [lane 0 +0x80, 384]",
        ),
        (
            Runs(0, WRITES, Space.LOCAL, 7, 0x100, 256),
            0,
            "memory.too_much: writes 384 bytes beyond the end of output 0 (128 bytes) [lane 0 +0x180, 384]",
        ),
        (
            Runs(0, WRITES, Space.LOCAL, 7, 0, 64),
            0,
            "memory.no_buffer: writes a work buffer at offset 0, but the layer asks for none "
            "[lane 0 +0x0, 192]",
        ),
        (
            Runs(0, READS, Space.LOCAL, 1, 0x400, 512),
            256,
            "memory.beyond: reads 256 bytes beyond the end of the work buffer (256 bytes) "
            "[lane 0 +0x500, 256]",
        ),
        (
            Runs(0, READS, Space.LOCAL, 1, 0x600, 4),
            256,
            "memory.foreign: reads local memory that the layer was not given, 256 bytes behind the end of "
            "the work buffer (256 bytes) [lane 0 +0x600, 4]",
        ),
        (
            Runs(0, READS, Space.DDR, 0, 0x1000, 4),
            0,
            "memory.foreign: reads memory that the layer was not given [ddr +0x1000, 4]",
        ),
    ],
)
def test_what_is_said_of_a_local_function(block: Runs, buffer: int, text: str) -> None:
    of = call(
        LOCAL, [tensor(0x80, (1, 3, 4, 8))], [tensor(0x100, (1, 3, 4, 8))], buffer, 0x400 if buffer else 0
    )
    assert said(block, of.areas, of) == text


def test_the_padding_of_a_tile_may_be_used() -> None:
    of = call(LOCAL, [tensor(0x80, (1, 3, 1, 1))], [tensor(0x100, (1, 3, 1, 1))])
    blocks = [
        Runs(0, READS, Space.LOCAL, ALL_LANES, 0x80, 256),
        Runs(0, WRITES, Space.LOCAL, ALL_LANES, 0x100, 128),
        Runs(0, WRITES, Space.LOCAL, 8, 0x80, 128),  # behind an odd number of channels
    ]
    assert not list(outside_areas_reference([record(*blocks)], np.zeros(1, np.int64), [of.areas]))


# ---- outputs ----


def announced(check: MemoryCheck, of: LayerCall, phase: int) -> None:
    words = [phase, of.key, of.kind, of.function, *of.buffer, len(of.inputs), len(of.outputs)]
    for t in (*of.inputs, *of.outputs):
        words += [
            t.address,
            t.ttype,
            t.dtype,
            t.store_mode,
            int(t.values),
            len(t.shape),
            *t.shape,
            *t.extents,
        ]
    check.announce(" ".join(f"{word:x}" for word in words) + f";{of.label}")


def left_out(of: LayerCall, *, recorded: bool = True, ended: bool = True) -> list[str]:
    check = MemoryCheck(Objects())
    check.begin(program=True, recorded=recorded)
    announced(check, of, BEGINS)
    check.controller(Space.DDR, 0x2000, 64, write=True, by=lambda: BY)
    if ended:
        announced(check, of, ENDED)
    return [f"{f.rule}: {f.what}, {f.nbytes}" for f in check.settled(lambda address: ())]


def test_an_output_that_is_written_in_part() -> None:
    of = call(GLOBAL, [tensor(DDR + 0x1000, (1, 16))], [tensor(DDR + 0x2000, (2, 16))])
    assert left_out(of) == [
        "memory.not_written: output 0 is not written in part: 64 of 128 bytes, from element [1, 0] on, 64"
    ]
    assert left_out(of, ended=False) == []
    # nobody sees what the controller's code writes
    assert left_out(of, recorded=False) == []


def test_outputs_in_place_and_outputs_that_were_not_touched() -> None:
    in_place = call(GLOBAL, [tensor(DDR + 0x3000, (1, 16))], [tensor(DDR + 0x3000, (1, 16))])
    assert left_out(in_place) == []
    never = call(GLOBAL, [], [tensor(DDR + 0x2000, (1, 16)), tensor(DDR + 0x4000, (1, 4))])
    assert left_out(never) == ["memory.not_written: output 1 is never written, 16"]


def test_tiles_beside_each_other_are_not_in_place() -> None:
    x, y = tensor(0, (1, 64, 64, 64), (1, 64, 4, 8)), tensor(128, (1, 64, 64, 64), (1, 64, 4, 8))
    assert not call(LOCAL, [x], [y]).in_place(y)
    assert call(LOCAL, [x], [x]).in_place(x)


def test_each_lane_of_a_tile_counts() -> None:
    tile = tensor(0, (1, 66, 1, 2))
    written = [Runs(0, WRITES, Space.LOCAL, ALL_LANES, 0, 8), Runs(0, WRITES, Space.LOCAL, 1, 128, 8)]
    assert not_written([record(one) for one in written], tile.tile(0)) == (8, 128, 2)
    everywhere = [*written, Runs(0, WRITES, Space.LOCAL, 2, 128, 8)]
    assert not_written([record(one) for one in everywhere], tile.tile(0)) == (0, 0, 0)
