"""The log of the controller's accesses: joining says the same as single accesses; the block shared with C."""

from __future__ import annotations

import subprocess
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from firmware_sim.firmware import controller_log
from firmware_sim.firmware.controller_log import (
    ACCESS_DTYPE,
    ACCESSES,
    CHAIN_DEPTH,
    CHAINS,
    WATCH_DTYPE,
    AccessLog,
    ControllerAccess,
    Frames,
    WatchBlock,
)
from firmware_sim.firmware.source_lines import SourceLines
from firmware_sim.isa.footprint import Space
from tests.support.examples import examples
from tests.support.firmware_harness import INCLUDES, compilers

STEPS = st.lists(
    st.tuples(
        st.sampled_from((Space.DDR, Space.LOCAL)),
        st.integers(0, 24),
        st.sampled_from((1, 2, 4, 8)),
        st.booleans(),
        st.integers(1, 12),
        st.sampled_from((0, 0, 0, 0, 1)),
    ),
    max_size=60,
)


def conclusions(entries: list[ControllerAccess]) -> object:
    """What each place touched with so many commands pending, and which bytes were read before anything was
    written there."""
    touched = set[tuple[object, ...]]()
    written, early = set[tuple[Space, int]](), set[tuple[Space, int, int]]()
    for a in entries:
        for at in range(a.offset, a.offset + a.nbytes):
            touched.add((a.space, at, a.write, a.site, a.bd))
            if a.write:
                written.add((a.space, at))
            elif (a.space, at) not in written:
                early.add((a.space, at, a.site))
    return touched, early


@examples(300)
@given(STEPS)
def test_joined_accesses_say_the_same(steps: list[tuple[Space, int, int, bool, int, int]]) -> None:
    log, single = AccessLog(), []
    for space, offset, nbytes, write, site, issued in steps:
        log.bd += issued
        log.add(space, offset, nbytes, write, (site, 99))
        single.append(ControllerAccess(space, offset, nbytes, write, site, log.bd, 0, (99,)))
    joined = log.take()
    assert conclusions(joined) == conclusions(single)
    assert [a.bd for a in joined] == sorted(a.bd for a in joined)


def test_a_loop_is_one_entry_for_each_of_its_places() -> None:
    log = AccessLog()
    for i in range(100):
        log.add(Space.DDR, 4 * i, 4, False, (1,))
        log.add(Space.DDR, 4096 + 4 * i, 4, True, (2,))
    entries = [(a.offset, a.nbytes, a.write, a.site) for a in log.take()]
    assert entries == [(0, 400, False, 1), (4096, 400, True, 2)]
    assert log.take() == []


def test_backwards_too() -> None:
    log = AccessLog()
    for i in range(100, 0, -1):
        log.add(Space.L2, 4 * i, 4, False, (1,))
    assert [(a.offset, a.nbytes) for a in log.take()] == [(4, 400)]


def test_more_than_is_kept_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_log, "MOST_ACCESSES", 5)
    log = AccessLog()
    for i in range(6):
        assert not log.lost
        log.add(Space.DDR, 100 * i, 4, True, (1,))
    assert log.lost
    assert [a.offset for a in log.take()] == [0, 100, 200, 300, 400]
    assert not log.lost


def test_the_block_has_the_layout_of_c(tmp_path: Path) -> None:
    fields = [("fw_access", name) for name in ACCESS_DTYPE.names or ()]
    fields += [("fw_watch", name) for name in WATCH_DTYPE.names or ()]
    rows = "".join(f'printf("%zu\\n", offsetof({of}, {name}));' for of, name in fields)
    rows += 'printf("%zu %zu\\n", sizeof(fw_access), sizeof(fw_watch));'
    rows += 'printf("%d %d %d\\n", FW_ACCESSES, FW_CHAINS, FW_FRAMES);'
    rows += 'printf("%d %d %d\\n", FW_SPACE_LOCAL, FW_SPACE_DDR, FW_SPACE_L2);'
    (tmp_path / "a.c").write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "fw_message.h"\nint main(void) {{ {rows} }}\n'
    )
    compiler = next(iter(compilers().values()))
    command = [*compiler, *INCLUDES, str(tmp_path / "a.c"), "-o", str(tmp_path / "a")]
    subprocess.run(command, check=True, timeout=120)
    said = subprocess.run([tmp_path / "a"], capture_output=True, text=True, check=True, timeout=60).stdout
    dtypes = {"fw_access": ACCESS_DTYPE, "fw_watch": WATCH_DTYPE}
    offsets = [dtypes[of].fields[name][1] for of, name in fields]  # type: ignore[index]
    sizes = [ACCESS_DTYPE.itemsize, WATCH_DTYPE.itemsize, ACCESSES, CHAINS, CHAIN_DEPTH]
    assert [int(n) for n in said.split()] == [*offsets, *sizes, Space.LOCAL, Space.DDR, Space.L2]


def test_a_block_that_nobody_wrote() -> None:
    block = WatchBlock()
    block.watch(True)
    assert block.take() == []
    assert block.chain(True, 5) == ()
    assert block.chains() == [()]
    assert [part.tolist() for part in block.issued(2, 1)] == [[0, 0], [0]]


def test_without_debug_information_nothing_is_known() -> None:
    assert Frames(lambda: SourceLines(None))(5, 0, 7) == ()
