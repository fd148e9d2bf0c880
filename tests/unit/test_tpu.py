"""The two engines: ids, replay order, waits, limits, messages, modelled time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.instruction import Engine, Run
from firmware_sim.instructions.table import TABLE
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Direction, Eu, Special, Task
from firmware_sim.isa.footprint import Access, Space, Tensor
from firmware_sim.isa.layout import BD, GDMA, U32, Row
from firmware_sim.memory import Memory
from firmware_sim.queues import NeverDone, WrongId, other, replay_order
from firmware_sim.timeline import Timer
from firmware_sim.tpu import Tpu
from firmware_sim.wire import CommandGroup
from tests.support.examples import examples

LOCAL = chip.LOCAL_BASE
NONE: U32 = np.zeros((0, 32), np.uint32)


@pytest.fixture
def tpu() -> Tpu:
    return Tpu(Memory.create(ddr_bytes=1 << 20))


def stream(*descriptors: bytes) -> U32:
    return np.frombuffer(b"".join(descriptors), np.uint32).reshape(-1, 32)


def add_one(number: int, wait: int, **more: int) -> bytes:
    """BD: the word at lane 0 +0 becomes itself + 1.0."""
    fields = {"tsk_typ": Task.ARITHMETIC, "tsk_eu_typ": Eu.ADD, "res0_addr": LOCAL, "opd0_addr": LOCAL}
    constant = {"opt_opd1_const": 1, "opd1_addr": 0x3F80_0000}
    ids = {"cmd_id_tpu": number, "cmd_id_gdma": wait}
    return BD.encode(**{**BD.defaults, **fields, **constant, **ids, **more})


def set_word(number: int, wait: int, value: float, **more: int) -> bytes:
    """GDMA: the word at lane 0 +0 becomes `value`."""
    bits = int(np.float32(value).view(np.uint32))
    fields = {"special_func": Special.CONSTANT, "direction": Direction.L2L, "stride_enable": 1}
    sizes = {f"dst_{a}size": 1 for a in "nchw"}
    place = {"constant_value": bits, "dst_start_addr_l32": LOCAL, "cmd_id": number, "eng0_sync_id": wait}
    return GDMA.encode(**{**GDMA.defaults, **fields, **sizes, **place, **more})


def first_word(tpu: Tpu) -> float:
    return float(tpu.memory.local[0, :4].view(np.float32)[0])


def test_commands_run_in_the_order_of_their_waits(tpu: Tpu) -> None:
    """GDMA 1, BD 1 (after GDMA 1), GDMA 2 (after BD 1), BD 2 and 3 (after GDMA 2)."""
    bd = stream(add_one(1, 1), add_one(2, 2), add_one(3, 2))
    gdma = stream(set_word(1, 0, 10), set_word(2, 1, 20))
    tpu.execute(bd, gdma)
    assert first_word(tpu) == 22
    assert (tpu.bd_id, tpu.gdma_id) == (3, 2)


def test_ids_count_on_in_the_next_batch(tpu: Tpu) -> None:
    tpu.execute(stream(add_one(1, 0)), NONE)
    tpu.execute(stream(add_one(2, 0), add_one(3, 1)), stream(set_word(1, 2, 5)))
    assert first_word(tpu) == 6
    tpu.execute(stream(add_one(4, 1)), NONE)
    assert first_word(tpu) == 7


def test_ids_may_start_again_at_one(tpu: Tpu) -> None:
    tpu.execute(stream(add_one(1, 1)), stream(set_word(1, 0, 5)))
    tpu.execute(stream(add_one(1, 1)), stream(set_word(1, 0, 8)))
    assert first_word(tpu) == 9
    tpu.restart()
    assert (tpu.bd_id, tpu.gdma_id) == (0, 0)


@pytest.mark.parametrize(("ids", "wrong", "right"), [((1, 3), 3, 2), ((2,), 2, 1), ((1, 1), 1, 2)])
def test_ids_that_do_not_count_up_are_refused(tpu: Tpu, ids: tuple[int, ...], wrong: int, right: int) -> None:
    with pytest.raises(DeviceError, match=rf"BD command {wrong}: its id should be {right}"):
        tpu.execute(stream(*(add_one(i, 0) for i in ids)), NONE)
    assert first_word(tpu) == 0


def test_a_wait_on_an_id_that_never_comes_is_refused(tpu: Tpu) -> None:
    with pytest.raises(DeviceError, match=r"BD command 2: waits for GDMA command 2, which never comes"):
        tpu.execute(stream(add_one(1, 1), add_one(2, 2)), stream(set_word(1, 0, 1)))
    with pytest.raises(DeviceError, match=r"GDMA command 1: waits for BD command 1, which never comes"):
        tpu.execute(NONE, stream(set_word(1, 1, 1)))


def test_two_commands_that_wait_for_each_other_are_refused(tpu: Tpu) -> None:
    with pytest.raises(DeviceError, match=r"GDMA command 1: waits for BD command 1, which never comes"):
        tpu.execute(stream(add_one(1, 1)), stream(set_word(1, 1, 1)))
    assert first_word(tpu) == 0


def test_the_chain_of_waits_is_told_with_its_places(tpu: Tpu) -> None:
    """BD 2 waits for GDMA 2, which comes after GDMA 1, which waits for BD 3, which comes after BD 2."""
    bd = stream(add_one(1, 0), add_one(2, 2), add_one(3, 2))
    with pytest.raises(NeverDone) as caught:
        tpu.execute(bd, stream(set_word(1, 3, 1), set_word(2, 3, 1)), where=lambda e, i: f"{e.value}:{i}")
    assert caught.value.message.splitlines() == [
        "GDMA:0: GDMA command 1: waits for BD command 3, which never comes: BD gets to 1 before it",
        "  GDMA:0: GDMA command 1 waits for BD command 3: BD:2: BD command 3 comes after BD command 2",
        "  BD:1: BD command 2 waits for GDMA command 2: GDMA:1: GDMA command 2 comes after GDMA command 1",
    ]
    assert caught.value.commands == ((Engine.GDMA, 0), (Engine.BD, 1))


def test_who_waits_for_nobody_is_blamed_for_both_queues(tpu: Tpu) -> None:
    """GDMA 1 waits for BD 1, which waits for a command that is not there."""
    with pytest.raises(NeverDone, match=r"^BD command 1: waits for GDMA command 9") as caught:
        tpu.execute(stream(add_one(1, 9)), stream(set_word(1, 1, 1)))
    assert caught.value.message.splitlines()[1:] == [
        "  BD command 1 waits for GDMA command 9, which nobody issues",
        "  GDMA command 1 waits for BD command 1",
    ]


QUEUE = st.lists(st.integers(0, 5), max_size=5)


@examples(400)
@given(QUEUE, QUEUE)
def test_queues_stop_exactly_when_no_order_exists(bd: list[int], gdma: list[int]) -> None:
    waits = {
        e: np.array([max(w[: i + 1]) for i in range(len(w))], np.int64)
        for e, w in ((Engine.BD, bd), (Engine.GDMA, gdma))
    }
    b = g = 0
    while True:  # the obvious scheduler
        if b < len(bd) and bd[b] <= g:
            b += 1
        elif g < len(gdma) and gdma[g] <= b:
            g += 1
        else:
            break
    try:
        segments = replay_order(waits, 0, 0, None)
    except NeverDone as error:
        stops = {(Engine.BD, b)} if b < len(bd) else set()
        stops |= {(Engine.GDMA, g)} if g < len(gdma) else set()
        assert stops and set(error.commands) == stops
    else:
        assert (b, g) == (len(bd), len(gdma))
        done = {Engine.BD: 0, Engine.GDMA: 0}
        for engine, first, last in segments:
            assert done[engine] == first
            for index in range(first, last):
                assert waits[engine][index] <= done[other(engine)]
            done[engine] = last
        assert done == {Engine.BD: b, Engine.GDMA: g}


def test_ids_end_with_16_bits(tpu: Tpu) -> None:
    tpu.bd_id = chip.ID_MAX
    with pytest.raises(WrongId, match=r"BD command 0: its id should be 65536, which 16 bits do not hold"):
        tpu.execute(stream(add_one(0, 0)), NONE)


def test_an_engine_works_in_order_even_if_a_later_command_waits_for_less(tpu: Tpu) -> None:
    tpu.execute(stream(add_one(1, 1), add_one(2, 0)), stream(set_word(1, 0, 10)))
    assert first_word(tpu) == 12


def test_commands_before_a_failing_one_are_done(tpu: Tpu) -> None:
    bad = add_one(2, 0, tsk_typ=Task.DECOMPRESS)
    with pytest.raises(DeviceError, match=r"BD command 2 \(decompress\): unverified"):
        tpu.execute(stream(add_one(1, 0), bad), NONE)
    assert first_word(tpu) == 1
    assert tpu.bd_id == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tsk_typ": 15}, "unknown BD instruction: tsk_typ 15"),
        ({"tsk_eu_typ": 31}, "unknown BD instruction: tsk_typ 3, tsk_eu_typ 31"),
        ({"tsk_typ": Task.LOCAL_ARRANGE}, r"\(local_arrange\): unverified"),
        ({"tsk_typ": Task.MD_SUM, "opd0_w": 0}, r"\(md_sum\): opd0: shape \[1, 1, 1, 0\] has a size of zero"),
        ({"tsk_typ": Task.CORRELATION, "opd1_addr": LOCAL + 0x80080}, "opd1 starts on lane 1, but res0 on"),
        ({"opt_res0_prec": 0}, r"\(ar.fixed.add\): opt_opd0_prec: 2"),
        ({"opt_res0_prec": 1}, "unknown BD instruction"),
        ({"res0_h": 0}, r"\(ar.add\): res0: shape \[1, 1, 0, 1\] has a size of zero"),
        ({"res0_addr": 0x123}, "res0: no memory at address 0x123"),
        ({"res0_addr": 0x1000_0000}, "res0: address 0x10000000 is in L2"),
        ({"opd0_addr": LOCAL + 2}, "opd0: offset 0x2 is not a multiple of 4 bytes"),
        (
            {"res0_addr": LOCAL + 0x7FF80, "opd0_addr": LOCAL, "res0_w": 33},
            r"res0 at lane 0 \+0x7ff80: shape \[1, 1, 1, 33\].* reaches offset 0x80004 in channels 0..0, "
            r"but each lane's memory ends at 0x80000",
        ),
        (
            {"opd0_addr": LOCAL + 0x7FF80, "res0_c": 65},
            r"opd0 at lane 0 \+0x7ff80: .* reaches offset 0x80004 in channels 64..64",
        ),
        (
            {"tsk_typ": Task.MD_SCALAR, "opd0_addr": LOCAL + 4},
            "opd0: offset 0x4 is not a multiple of 128 bytes",
        ),
        ({"tsk_eu_typ": Eu.SELECT_GT}, "opd2: a tensor"),
    ],
)
def test_illegal_arithmetic_is_refused(tpu: Tpu, fields: dict[str, int], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        tpu.execute(stream(add_one(1, 0, **fields)), NONE)
    assert not tpu.memory.local[:, ::4096].any()


def copy(**fields: int) -> bytes:
    """GDMA 1: S2L of [1, 2, 1, 4] fp32."""
    base = {"cmd_id": 1, "src_start_addr_h8": 1, "dst_start_addr_l32": LOCAL, "direction": Direction.S2L}
    sizes = {f"{s}_{a}size": n for s in ("src", "dst") for a, n in zip("nchw", (1, 2, 1, 4), strict=True)}
    return GDMA.encode(**{**GDMA.defaults, **base, **sizes, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"special_func": Special.WINOGRAD}, r"GDMA command 1 \(gdma.winograd\): src: format FP32"),
        (
            {"src_start_addr_h8": 0, "src_start_addr_l32": LOCAL},
            "src: address 0x8000000 is in LOCAL, but a copy S2L",
        ),
        ({"dst_start_addr_l32": 0x1000_0000}, "dst: address 0x10000000 is in L2, but .* needs local memory"),
        ({"src_start_addr_l32": 2}, "src: address 0x100000002 is not a multiple of the element size 4"),
        ({"src_start_addr_l32": (1 << 20) - 16}, r"src at ddr \+0xffff0: .* but DDR ends at 0x100000"),
        ({"src_start_addr_h8": 4}, "src: no memory at address 0x400000000"),
        ({"dst_wsize": 5}, "different numbers of elements"),
        ({"src_hsize": 0}, r"src: shape \[1, 2, 0, 4\] has a size of zero"),
        ({"src_data_format": 7}, "src: data format 7 does not exist"),
        ({"src_data_format": 4}, "src and dst formats differ"),
        ({"special_func": Special.FORMAT, "src_data_format": 1}, "does not convert INT16 to FP32"),
        (
            {"special_func": Special.TRANSPOSE_NC, "dst_wsize": 3},
            r"dst: h and w of \[1, 2, 1, 3\] are not those of src, \[1, 2, 1, 4\]",
        ),
        ({"src_wshift": 1}, "src_wshift = 1: unverified"),
        ({"common_mode": 1}, "src: a copy of 0 elements"),
        (
            {"direction": Direction.S2S, "dst_start_addr_h8": 1, "dst_start_addr_l32": 0},
            "without stride_enable",
        ),
        ({"sys_mem_type": 1}, "no matrix form with direction S2L and stride_enable 0"),
    ],
)
def test_illegal_copies_are_refused(tpu: Tpu, fields: dict[str, int], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        tpu.execute(NONE, stream(copy(**fields)))


def test_messages_tell_where_and_show_the_operands(tpu: Tpu) -> None:
    asked: list[tuple[Engine, int]] = []

    def where(engine: Engine, index: int) -> str:
        asked.append((engine, index))
        return "device/crop.c:12"

    bad = add_one(2, 0, opd0_addr=LOCAL + 0x7FFFC, res0_w=9)
    with pytest.raises(DeviceError) as caught:
        tpu.execute(stream(add_one(1, 0), bad), NONE, where=where)
    assert asked == [(Engine.BD, 1)]
    text = caught.value.message
    assert text.startswith("device/crop.c:12: BD command 2 (ar.add): opd0 at lane 0 +0x7fffc")
    assert "\n  res0=lane 0 +0x0 [1,1,1,9]" in text
    assert "opd1=0x3f800000 (1)" in text


def test_an_emulator_without_memory_is_an_error_of_the_command(
    tpu: Tpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(row: Row, memory: Memory) -> Run:
        raise MemoryError("Unable to allocate 948 MiB")

    [found] = [i for i in TABLE if i.name == "ar.add"]
    assert found.semantics is not None
    broken = replace(found, semantics=replace(found.semantics, bind=out_of_memory))
    monkeypatch.setattr("firmware_sim.tpu.lookup", lambda engine, row: broken)
    with pytest.raises(DeviceError, match=r"BD command 1 .*not enough memory for it: Unable to allocate 948"):
        tpu.execute(stream(add_one(1, 0)), NONE)


def test_where_is_not_asked_when_all_is_well(tpu: Tpu) -> None:
    def where(engine: Engine, index: int) -> str:
        raise AssertionError("asked")

    tpu.execute(stream(add_one(1, 0)), NONE, where=where)


def test_overlapping_copies_go_element_by_element(tpu: Tpu) -> None:
    """As in the functional model: a copy two words further on repeats the first two."""
    row = np.arange(1, 9, dtype=np.float32)
    tpu.memory.local[0, :32] = row.view(np.uint8)
    sizes = {f"{s}_{a}size": n for s in ("src", "dst") for a, n in zip("nchw", (1, 1, 1, 6), strict=True)}
    strides = {f"{s}_wstride": 1 for s in ("src", "dst")}
    places = {"src_start_addr_h8": 0, "src_start_addr_l32": LOCAL, "dst_start_addr_l32": LOCAL + 8}
    tpu.execute(NONE, stream(copy(direction=Direction.L2L, stride_enable=1, **sizes, **strides, **places)))
    assert tpu.memory.local[0, :32].view(np.float32).tolist() == [1, 2, 1, 2, 1, 2, 1, 2]
    with pytest.raises(DeviceError, match="overlap"):
        bad = {"localmem_mask_l32": 1, **sizes, **strides, **places}
        tpu.restart()
        tpu.execute(NONE, stream(copy(direction=Direction.L2L, stride_enable=1, **bad)))


@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 3, 9])
@pytest.mark.parametrize("space", [LOCAL, 0x1000_0000])
def test_a_copy_of_a_row_over_itself_reads_all_before_it_writes(tpu: Tpu, shift: int, space: int) -> None:
    """As memmove, in the functional model; what it is between tensors stands above."""
    memory = tpu.memory.local[0] if space == LOCAL else tpu.memory.l2
    row = np.arange(20, dtype=np.float32)
    memory[:80] = row.view(np.uint8)
    places = {"src_start_addr_l32": space + 20, "dst_start_addr_l32": space + 20 + 4 * shift}
    direction = Direction.L2L if space == LOCAL else Direction.S2S
    high = {"src_start_addr_h8": 0, "dst_start_addr_h8": 0}
    linear = copy(direction=direction, common_mode=1, src_nstride=6, **places, **high)
    tpu.execute(NONE, stream(linear))
    row[5 + shift : 11 + shift] = row[5:11].copy()
    assert memory[:80].view(np.float32).tolist() == row.tolist()


def test_arithmetic_reads_all_before_it_writes_also_over_many_pieces(tpu: Tpu) -> None:
    """The result lies one row further on than the input, over more elements than one piece holds."""
    size = 400
    fields = {"res0_c": 64, "res0_h": size, "res0_w": size // 4, "res0_addr": LOCAL + size}
    before = np.random.default_rng(0).integers(0, 99, (64, size * size // 4)).astype(np.float32)
    flat = tpu.memory.local[:, : size * size]
    flat[...] = before.view(np.uint8)
    tpu.execute(stream(add_one(1, 0, **fields)), NONE)
    after = tpu.memory.local[:, size : size + size * size].view(np.float32)
    assert np.array_equal(after, before + 1)


def test_the_same_command_runs_again_on_new_data(tpu: Tpu) -> None:
    """Commands that differ only in ids share one plan, which must not hold data."""
    for i in range(1, 6):
        tpu.execute(stream(add_one(i, 0)), NONE)
    assert first_word(tpu) == 5
    tpu.memory.local[0, :4] = np.frombuffer(np.float32(100).tobytes(), np.uint8)
    tpu.execute(stream(add_one(6, 0)), NONE)
    assert first_word(tpu) == 101


def test_engines_overlap_in_modelled_time(tpu: Tpu) -> None:
    """Two commands that do not wait for each other take the longer time, dependent ones the sum."""
    big = {"res0_c": 64, "res0_h": 100, "res0_w": 100}
    tpu.execute(stream(add_one(1, 0, **big)), NONE, streamed=True)
    bd_time = tpu.cycles
    assert bd_time == 2 * 625
    fill = {"dst_csize": 64, "dst_hsize": 100, "dst_wsize": 100, "dst_cstride": 10016, "dst_hstride": 100}
    far = {"dst_start_addr_l32": LOCAL + 0x40000, "dst_wstride": 1}
    tpu.execute(NONE, stream(set_word(1, 1, 0, **fill, **far)), streamed=True)
    gdma_time = tpu.cycles - bd_time
    assert gdma_time == pytest.approx(64 * 10000 * 4 / 32)

    def elapsed(bd_wait: int) -> float:
        start = tpu.cycles
        tpu.restart()
        gdma = stream(set_word(1, 0, 0, **fill, **far))
        tpu.execute(stream(add_one(1, bd_wait, **big)), gdma, streamed=True)
        return tpu.cycles - start

    assert elapsed(0) == pytest.approx(max(bd_time, gdma_time))
    assert elapsed(1) == pytest.approx(bd_time + gdma_time)


def test_the_controller_issues_one_command_after_another(tpu: Tpu) -> None:
    """Short commands take what issuing them takes; long ones hide it, but for the first."""
    small = stream(*(add_one(i, 0) for i in range(1, 101)))
    tpu.execute(small, NONE)
    assert tpu.cycles == pytest.approx(100 * timing.issue(), rel=0.01)
    tpu.restart()
    before = tpu.cycles
    big = stream(*(add_one(i, 0, res0_c=64, res0_h=100, res0_w=100, res0_n=9) for i in range(1, 11)))
    tpu.execute(big, NONE)
    assert tpu.cycles - before == pytest.approx(10 * 9 * 1250 + timing.issue())


@examples(60)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40), st.integers(0, 8)), max_size=40))
def test_recorded_streams_take_what_their_execution_takes(commands: list[tuple[bool, int, int]]) -> None:
    """Each waits for one of the newest commands of the other engine, or for none. An engine that reads its
    stream waits for nothing else; issue delays, never by more than all commands together."""
    streams: dict[Engine, list[bytes]] = {Engine.BD: [], Engine.GDMA: []}
    ends: dict[Engine, list[float]] = {Engine.BD: [0.0], Engine.GDMA: [0.0]}
    for is_bd, rows, back in commands:
        one, other = (Engine.BD, Engine.GDMA) if is_bd else (Engine.GDMA, Engine.BD)
        wait = max(0, len(streams[other]) - back)
        number = len(streams[one]) + 1
        if is_bd:
            made, cycles = add_one(number, wait, res0_h=16 * rows, res0_w=64), 2.0 * 64 * rows
        else:
            made, cycles = set_word(number, wait, 1, dst_wsize=16 * rows, dst_wstride=1), 2.0 * rows
        streams[one].append(made)
        ends[one].append(max(ends[one][-1], ends[other][wait]) + cycles)
    bd, gdma = (stream(*streams[engine]) for engine in (Engine.BD, Engine.GDMA))
    group = CommandGroup(bd.tobytes(), gdma.tobytes())
    times = []
    for issued in (False, True):
        tpu = Tpu(Memory.create(ddr_bytes=1 << 12))
        tpu.execute(bd, gdma, streamed=not issued)
        times.append(tpu.cycles)
        assert Timer(issued=issued).timeline(group).cycles == pytest.approx(tpu.cycles)
    free, late = times
    assert free == pytest.approx(max(found[-1] for found in ends.values()))
    issue = len(commands) * timing.issue()
    assert max(free, issue) <= late + 1e-6 and late <= free + issue + 1e-6


def test_a_launch_costs_beside_its_commands(tpu: Tpu) -> None:
    sizes = (("c", 64), ("h", 32), ("w", 64))
    plane = {f"{side}_{axis}size": n for side in ("src", "dst") for axis, n in sizes}

    def launch(loads: int) -> float:
        """Without its commands; each load is half a MiB."""
        before = tpu.cycles
        tpu.restart()
        tpu.execute(stream(add_one(1, 0)), stream(*(copy(cmd_id=i + 1, **plane) for i in range(loads))))
        commands = tpu.cycles
        tpu.end_launch()
        assert commands > before
        return tpu.cycles - commands

    assert launch(0) == pytest.approx(timing.launch(0))
    assert launch(8) == pytest.approx(timing.launch(4 << 20))
    assert launch(16) == pytest.approx(timing.launch(8 << 20)) == launch(24)
    assert 0 < timing.launch(0) < timing.launch(4 << 20) < timing.launch(8 << 20)
    before = tpu.cycles
    tpu.end_launch()
    assert tpu.cycles == before


def test_memory_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="wrong memory shapes"):
        Memory(np.zeros(16, np.uint8), np.zeros((64, 16), np.uint8), np.zeros(chip.L2_BYTES, np.uint8))


def _checked(memory: Memory, tensor: Tensor) -> None:
    for part in tensor.parts():
        memory.check(tensor, part, tensor.block(part))


@pytest.mark.parametrize(
    ("space", "end"), [(Space.LOCAL, chip.LOCAL_BYTES), (Space.DDR, 1 << 20), (Space.L2, chip.L2_BYTES)]
)
def test_operands_may_end_where_their_memory_ends(space: Space, end: int, tpu: Tpu) -> None:
    one = Tensor("res0", Access.WRITE, space, end - 3, (1, 1, 1, 3), (1, 1, 1, 1), 1)
    _checked(tpu.memory, one)
    with pytest.raises(DeviceError, match=f"res0 at .* reaches offset {end + 1:#x} .* ends at {end:#x}"):
        _checked(tpu.memory, replace(one, offset=end - 2))


def test_operands_overlap_that_share_one_byte() -> None:
    one = Tensor("res0", Access.WRITE, Space.L2, 100, (1, 1, 1, 3), (1, 1, 1, 1), 1)
    found = {at: one.may_overlap(replace(one, offset=at)) for at in (97, 98, 102, 103)}
    assert found == {97: False, 98: True, 102: True, 103: False}
    assert not one.may_overlap(replace(one, space=Space.DDR))


def test_results_may_share_bytes_as_often_as_local_memory_has_bytes(tpu: Tpu) -> None:
    most = Tensor("res0", Access.WRITE, Space.DDR, 0, (1 << 25, 1, 1, 1), (0, 0, 0, 0), 4)
    _checked(tpu.memory, most)
    more = replace(most, shape=((1 << 25) + 1, 1, 1, 1))
    with pytest.raises(DeviceError, match="writes 33554433 elements over one another; 33554432 at most"):
        _checked(tpu.memory, more)
    _checked(tpu.memory, replace(more, access=Access.READ))


def test_untouched_ddr_costs_nothing() -> None:
    """The whole 12 GiB can be had: pages exist when touched."""
    memory = Memory.create()
    assert len(memory.ddr) == chip.DDR_BYTES
    memory.ddr[-1] = 7
    assert memory.ddr[-1] == 7
    assert memory.ddr[chip.DDR_BYTES // 2] == 0


def test_modelled_time_has_a_limit_that_names_the_command(tpu: Tpu) -> None:
    tpu.execute(stream(add_one(1, 0)), NONE)
    seconds = tpu.cycles / chip.CLOCK_HZ
    tpu.allow(2.5 * seconds)
    with pytest.raises(DeviceError, match=r"^here 2: BD command 4: with it this takes more than \S+ s on"):
        tpu.execute(
            stream(*(add_one(i, 0) for i in range(2, 6))), NONE, where=lambda engine, index: f"here {index}"
        )
    tpu.allow(10 * seconds)  # from now on
    tpu.restart()
    tpu.execute(stream(add_one(1, 0)), NONE)


def test_what_runs_can_be_seen(tpu: Tpu) -> None:
    seen: list[list[int]] = []

    class Place(list[int]):
        def __setitem__(self, at: object, value: object) -> None:
            super().__setitem__(at, value)  # type: ignore[call-overload]
            seen.append(list(self))

    tpu.place = Place([0, 0])
    tpu.execute(stream(add_one(1, 1), add_one(2, 1)), stream(set_word(1, 0, 5)))
    assert [2, 0] in seen and [1, 1] in seen
    assert seen[-1][0] == 0


def test_commands_are_checked_without_being_run(tpu: Tpu) -> None:
    bd = stream(add_one(1, 0), add_one(2, 0, res0_h=3, res0_w=65535, opd0_h=3, opd0_w=65535))
    with pytest.raises(DeviceError, match=r"^layer a, line 1: BD command 2 .*reaches offset"):
        tpu.check(bd, NONE, where=lambda engine, index: f"layer a, line {index}")
    tpu.check(bd[:1], stream(set_word(1, 0, 5)))
    assert first_word(tpu) == 0


def test_reserved_ddr_is_not_written() -> None:
    ddr, local, l2 = (
        np.zeros(1 << 20, np.uint8),
        np.zeros((64, 1 << 19), np.uint8),
        np.zeros(4 << 20, np.uint8),
    )
    tpu = Tpu(Memory(ddr, local, l2, reserved=4096))
    for offset, ok in ((4096, True), (4092, False), (0, False)):
        out = Tensor("dst", Access.WRITE, Space.DDR, offset, (1, 1, 1, 2), (2, 2, 2, 1), 4)
        source = replace(out, access=Access.READ)
        part = out.parts()[0]
        tpu.memory.check(source, part, source.block(part))
        if ok:
            tpu.memory.check(out, part, out.block(part))
        else:
            with pytest.raises(DeviceError, match="where the firmware's own memory is"):
                tpu.memory.check(out, part, out.block(part))


@pytest.mark.parametrize(("stride", "first", "taken"), [(-7, 14, True), (-7, 13, False), (7, 0, True)])
def test_rows_may_lead_backwards_inside_memory(tpu: Tpu, stride: int, first: int, taken: bool) -> None:
    tensor = Tensor("opd0", Access.READ, Space.LOCAL, 4 * first, (1, 1, 3, 7), (21, 21, stride, 1), 4)
    (part,) = tensor.parts()
    if not taken:
        with pytest.raises(DeviceError, match="reaches 4 bytes below its memory"):
            tpu.memory.view(tensor, part, np.float32)
        return
    tpu.memory.local[0, :84] = np.arange(21, dtype=np.float32).view(np.uint8)
    rows = tpu.memory.view(tensor, part, np.float32)[0, 0, 0]
    assert rows[:, 0].tolist() == [first, first + stride, first + 2 * stride]
    assert tensor.reach() == (0, 84)
