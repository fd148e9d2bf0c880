"""Unwritten memory as poison: carried by the compiled loop as by the plain way, and told where it matters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import chip
from firmware_sim.checks.finding import Issued
from firmware_sim.checks.init import Init
from firmware_sim.checks.sequence import Records
from firmware_sim.checks.shadow import Shadow
from firmware_sim.instructions.loops import native
from firmware_sim.isa.footprint import Space
from tests.support.check_batches import batch_of, command

L = chip.LOCAL_BASE
BYTES = {"src_data_format": 3, "dst_data_format": 3}
DDR = {"src_start_addr_h8": 1, "src_start_addr_l32": 0}
STORE = {"dst_start_addr_h8": 1, "dst_start_addr_l32": 0x10_0000}


def named(space: Space, at: int) -> str:
    return "out" if space is Space.DDR and at >= 0x10_0000 else ""


def issued(k: int) -> Issued:
    return Issued("BD", k, f"command {k}")


def checked(bd: list[bytes], gdma: list[bytes], *written: tuple[Space, int, int]) -> tuple[Init, Shadow]:
    """A batch has gone through the check, with these ranges written before."""
    shadow = Shadow()
    init = Init(shadow, named)
    init.begin()
    for one in written:
        shadow.write(*one)
    batch = batch_of(bd, gdma)
    assert not list(init.check(Records().sequence(batch), batch, issued))
    return init, shadow


@st.composite
def element_wise(draw: st.DrawFn) -> list[bytes]:
    """Commands on a few places that overlap in all ways, of 3 channels on lanes 0 to 2 and more."""
    found = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        name = draw(
            st.sampled_from(["ar.add", "ar.copy", "ar.xor", "ar.mac", "md_scalar.mul", "md_sfu.rsqrt"])
        )
        h, w = draw(st.sampled_from([(1, 1), (2, 5), (4, 8), (3, 40)]))
        shape = {
            f"{x}_{axis}": n for x in ("res0", "opd0") for axis, n in zip("nchw", (2, 70, h, w), strict=True)
        }
        places = {
            f"{x}_addr": L + draw(st.sampled_from([0, 128, 4096, 8192])) for x in ("res0", "opd0", "opd1")
        }
        found.append(command(name, number, 0, **shape, **places))
    return found


@pytest.mark.skipif(not native.ready(), reason="no compiled loops here")
@given(
    element_wise(),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9000), st.integers(1, 3000)), max_size=6),
)
def test_the_loop_carries_what_the_plain_way_carries(
    bd: list[bytes], ranges: list[tuple[int, int, int]]
) -> None:
    written = [
        (Space.LOCAL, lane * chip.LOCAL_BYTES + start // 4 * 4, size // 4 * 4) for lane, start, size in ranges
    ]
    everything = np.concatenate([lane * chip.LOCAL_BYTES + np.arange(16384) for lane in (0, 1, 2, 3, 63)])
    _, fast = checked(bd, [], *written)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Shadow,
            "first_unwritten",
            lambda self, sequence, k, end, _: self.plainly(sequence.records[:end], k),
        )
        _, slow = checked(bd, [], *written)
    assert np.array_equal(fast.written(Space.LOCAL, everything), slow.written(Space.LOCAL, everything))


@pytest.mark.parametrize("middle", ["ar.copy", "md_sum", "conv.fp32"])
def test_the_first_command_that_read_unwritten_memory_is_told(middle: str) -> None:
    """Poison goes through commands of several kinds; the store is not blamed."""
    place = {"opd0_addr": L, "res0_addr": L + 0x8000, "opd1_addr": L + 0x10000}
    window = {f"opd1_{axis}": 1 for axis in "hw"} | {
        f"opd0_{side}_pad": 0 for side in ("up", "dn", "lf", "rt")
    }
    window = window if middle.startswith("conv") else {}
    bd = [
        command("ar.copy", 1, 0, opd0_addr=L + 0x20000, res0_addr=L),
        command(middle, 2, 0, **place, **window),
    ]
    sizes = (
        {} if middle != "md_sum" else {f"{side}_{axis}size": 1 for side in ("src", "dst") for axis in "hw"}
    )
    store = command("gdma.copy.l2s", 1, 2, src_start_addr_l32=L + 0x8000, **STORE, **sizes)
    weights = [(Space.LOCAL, lane * chip.LOCAL_BYTES + 0x10000, 0x4000) for lane in range(64)]
    init, _ = checked(bd, [store], *weights)
    stored = init.stored()
    assert stored and min(one.reach()[0] for one in stored) == 0x10_0000
    [finding] = {one.finding.key: one.finding for one in stored}.values()
    assert finding.rule == "init.unwritten" and finding.by == issued(0)
    assert finding.address == "lane 0 +0x20000" and len(finding.lanes) == 64 and finding.nbytes == 64 * 1024
    assert "ends in DDR of out" in finding.more["result"]


def test_padding_that_reaches_no_result_is_silent() -> None:
    """Rows of 5 in lines of 32 words: all of the line is computed, the rows are stored."""
    load = {
        f"{side}_{axis}size": n
        for side in ("src", "dst")
        for axis, n in zip("nchw", (1, 64, 1, 5), strict=True)
    }
    strides = {"src_cstride": 5, "src_nstride": 320, "dst_cstride": 32, "dst_nstride": 32}
    line = {
        f"{x}_{axis}": n for x in ("res0", "opd0") for axis, n in zip("nchw", (1, 64, 1, 32), strict=True)
    }
    bd = [command("ar.add", 1, 1, **line, opd0_addr=L, opd1_addr=L, res0_addr=L + 0x8000)]
    back = {"dst_cstride": 5, "dst_nstride": 320, "src_cstride": 32, "src_nstride": 32}
    gdma = [
        command("gdma.copy.s2l", 1, 0, **DDR, dst_start_addr_l32=L, **load, **strides),
        command("gdma.copy.l2s", 2, 1, src_start_addr_l32=L + 0x8000, **STORE, **load, **back),
    ]
    init, shadow = checked(bd, gdma, (Space.DDR, 0, 0x1000))
    assert not init.stored()
    assert shadow.is_written(Space.LOCAL, 0x8000, 20) and not shadow.is_written(Space.LOCAL, 0x8014, 1)


def test_a_copy_carries_single_bytes() -> None:
    """Six bytes of two words: of the second word the host may read two bytes."""
    size = {
        f"{side}_{axis}size": n
        for side in ("src", "dst")
        for axis, n in zip("nchw", (1, 1, 1, 2), strict=True)
    }
    copies = [
        command("gdma.copy.s2l", 1, 0, **DDR, dst_start_addr_l32=L, **size),
        command("gdma.copy.l2s", 2, 0, src_start_addr_l32=L, **STORE, **size),
    ]
    init, shadow = checked([], copies, (Space.DDR, 0, 6))
    [stored] = init.stored()
    assert stored.ranges.tolist() == [[0x10_0006, 0x10_0008]] and stored.finding.nbytes == 2
    assert shadow.is_written(Space.DDR, 0x10_0000, 6)


def test_elements_of_one_byte() -> None:
    size = {
        f"{side}_{axis}size": n
        for side in ("src", "dst")
        for axis, n in zip("nchw", (1, 1, 1, 8), strict=True)
    }
    init, _ = checked(
        [], [command("gdma.copy.s2s", 1, 0, **DDR, **STORE, **size, **BYTES)], (Space.DDR, 0, 6)
    )
    [stored] = init.stored()
    assert stored.ranges.tolist() == [[0x10_0006, 0x10_0008]] and stored.finding.nbytes == 2


def test_the_controller_is_told_what_it_reads() -> None:
    init, _ = checked([], [], (Space.DDR, 0, 16))
    assert init.controller(Space.DDR, 0, 16, lambda: issued(0)) is None
    told = init.controller(Space.DDR, 8, 16, lambda: issued(7))
    assert told is not None and told.by == issued(7) and told.nbytes == 8 and told.address == "ddr +0x10"


def test_an_index_that_nothing_wrote_decides() -> None:
    shadow = Shadow()
    init = Init(shadow, named)
    init.begin()
    batch = batch_of([command("gather", 1, 0)], [])
    [finding] = init.check(Records().sequence(batch), batch, issued)
    assert finding.operand == "opd1" and finding.more["result"] == "decides what gather does"


@pytest.mark.parametrize(("first", "defined"), [(0, True), (1, False)])
def test_of_an_index_the_low_byte_counts(first: int, defined: bool) -> None:
    """A table is looked up by the lowest of an index's four bytes."""
    shape = {f"{x}_{axis}": 1 for x in ("res0", "opd0") for axis in "nchw"}
    places = {"res0_addr": L + 4096, "opd0_addr": L, "opt_opd0_prec": 2, "opd1_addr": chip.L2_TABLE_OFFSET}
    _, shadow = checked(
        [command("table_lookup", 1, 0, **shape, **places)],
        [],
        (Space.LOCAL, first, 1),
        (Space.L2, chip.L2_TABLE_OFFSET, 4 * 256),
    )
    assert shadow.is_written(Space.LOCAL, 4096, 4) is defined
