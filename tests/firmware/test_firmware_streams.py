"""Ids, parallel sections, and where the firmware hands descriptors over."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path

import pytest

from firmware_sim import wire
from firmware_sim.isa.layout import BD, GDMA
from tests.support import firmware_harness as fh
from user_layers.encode.calls import Calls

ID_LIMIT = 0xFFF0
ADD = {"dst_addr": 0, "src_addr": 0, "C": 1.0, "shape": [1, 1, 1, 1], "dst_stride": None, "src_stride": None}


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library)


def many(
    firmware: fh.Harness, copies: int, adds: int, *, parallel: bool, poll: bool = False, record: bool = False
) -> list[fh.Batch]:
    reply = firmware.launch("many_commands", struct.pack("<4i", copies, adds, parallel, poll), record=record)
    assert reply.status == 0, reply.text
    assert (len(firmware.gdma), len(firmware.bd)) == (copies, adds)
    return firmware.batches


def ids(descriptors: list[bytes], engine: str) -> list[tuple[int, int]]:
    """(own id, id waited for) of each."""
    names = ("cmd_id_tpu", "cmd_id_gdma") if engine == "bd" else ("cmd_id", "eng0_sync_id")
    layout = BD if engine == "bd" else GDMA
    fields = [layout[n] for n in names]
    words = [int.from_bytes(d, "little") for d in descriptors]
    return [tuple((w >> f.offset) & f.limit for f in fields) for w in words]  # type: ignore[misc]


def test_serial_ids_wait_for_the_other_engine(firmware: fh.Harness) -> None:
    (batch,) = many(firmware, 3, 3, parallel=False)
    assert batch.reason == fh.END
    assert ids(batch.gdma, "gdma") == [(1, 0), (2, 1), (3, 2)]
    assert ids(batch.bd, "bd") == [(1, 1), (2, 2), (3, 3)]


def test_parallel_sections_wait_for_their_start_only(firmware: fh.Harness) -> None:
    (batch,) = many(firmware, 3, 3, parallel=True)
    assert ids(batch.gdma, "gdma") == [(1, 0), (2, 0), (3, 0)]
    assert ids(batch.bd, "bd") == [(1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize("parallel", [False, True])
def test_long_kernels_split_before_the_ids_run_out(firmware: fh.Harness, parallel: bool) -> None:
    batches = many(firmware, 110_000, 110_000, parallel=parallel)
    assert [b.reason for b in batches] == [fh.FULL, fh.END]
    assert len(batches[0].gdma) == ID_LIMIT
    for batch in batches:
        for engine, descriptors in (("bd", batch.bd), ("gdma", batch.gdma)):
            numbers = ids(descriptors, engine)
            assert [own for own, _ in numbers] == list(range(1, len(numbers) + 1))
            other = len(batch.gdma if engine == "bd" else batch.bd)
            assert all(waits <= other for _, waits in numbers)
            if parallel:
                assert {waits for _, waits in numbers} == {0}


def test_recording_begins_a_new_group_instead(firmware: fh.Harness) -> None:
    batches = many(firmware, 5, 140_000, parallel=False, record=True)
    assert [b.reason for b in batches] == [fh.SPLIT, fh.SPLIT, fh.END]
    assert [len(b.bd) for b in batches] == [ID_LIMIT, ID_LIMIT, 140_000 - 2 * ID_LIMIT]


def test_full_arenas_are_handed_over(firmware_library: Path) -> None:
    small = fh.Harness(firmware_library, capacity=8)
    batches = many(small, 10, 20, parallel=False)
    assert [b.reason for b in batches] == [fh.FULL, fh.FULL, fh.END]
    assert [len(b.bd) for b in batches] == [8, 8, 4]
    assert ids(batches[1].bd, "bd")[0] == (1, 1)  # ids restart with the hand-over


def test_poll_hands_over_and_keeps_counting(firmware: fh.Harness) -> None:
    batches = many(firmware, 2, 2, parallel=False, poll=True)
    assert [(b.reason, len(b.bd)) for b in batches] == [(fh.POLL, 2), (fh.END, 0)]
    calls = Calls()
    calls.call("okk_bdc_add_C", ADD).call("okk_poll").call("okk_poll").call("okk_bdc_add_C", ADD)
    assert firmware.call_api(calls).status == 0
    assert [(b.reason, ids(b.bd, "bd")) for b in firmware.batches] == [
        (fh.POLL, [(1, 0)]),  # and the second poll has nothing to wait for
        (fh.END, [(2, 0)]),
    ]


def test_recorded_poll_is_only_a_barrier(firmware: fh.Harness) -> None:
    batches = many(firmware, 2, 2, parallel=False, poll=True, record=True)
    assert [b.reason for b in batches] == [fh.END]


def test_initialize_restarts_the_ids_of_a_free_kernel(firmware: fh.Harness) -> None:
    calls = Calls()
    calls.call("okk_bdc_add_C", ADD).call("okk_initialize").call("okk_bdc_add_C", ADD)
    assert firmware.call_api(calls).status == 0
    assert [(b.reason, ids(b.bd, "bd")) for b in firmware.batches] == [
        (fh.FULL, [(1, 0)]),
        (fh.END, [(1, 0)]),
    ]


def test_id_nodes(firmware: fh.Harness) -> None:
    def set_after_add(*, check: bool, node: tuple[int, int]) -> fh.Reply:
        calls = Calls()
        calls.call("okk_bdc_add_C", ADD)
        if not check:
            calls.call("okk_disable_check_id_node")
        calls.call("okk_set_id_node", {"node": [*node, 0]}).call("okk_bdc_add_C", ADD)
        return firmware.call_api(calls)

    assert set_after_add(check=True, node=(5, 7)).status == 0
    assert ids(firmware.bd, "bd") == [(1, 0), (6, 7)]
    refused = set_after_add(check=True, node=(0, 0))
    assert "ids 0 (BD) and 0 (GDMA) go back behind 1 and 0" in refused.text
    assert set_after_add(check=False, node=(0, 0)).status == 0
    assert [b.reason for b in firmware.batches] == [fh.FULL, fh.END]


def test_every_descriptor_knows_the_code_that_issued_it(firmware: fh.Harness) -> None:
    (batch,) = many(firmware, 3, 3, parallel=False)
    start = ctypes.cast(firmware.lib.many_commands, ctypes.c_void_p).value
    assert start is not None
    sites = {*batch.bd_site, *batch.gdma_site}
    assert len(sites) == 2  # one call each, three times
    assert all(start < site < start + 4096 for site in sites)


def test_a_kernel_may_not_return_inside_a_parallel_section(firmware: fh.Harness) -> None:
    reply = firmware.launch("leaves_parallel_open")
    assert reply.status == wire.Status.ASSERT
    says = (
        r"kernel leaves_parallel_open returned inside a parallel section; it was opened \[called at 0x\w+\]"
    )
    assert re.fullmatch(says, reply.text)


def test_refusal_by_the_device_ends_the_kernel(firmware_library: Path) -> None:
    firmware = fh.Harness(firmware_library)
    firmware.flush_result = -1
    reply = firmware.launch("many_commands", struct.pack("<4i", 1, 1, 0, 1))
    assert reply.status == wire.Status.RUNTIME_ERROR
    assert len(firmware.batches) == 1  # nothing is handed over after the refusal
