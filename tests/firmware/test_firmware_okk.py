"""The kernel API encodes what the vendor's encoder encodes: the golden vectors, and the rules on top."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from firmware_sim import chip, wire
from firmware_sim.isa.layout import BD, GDMA
from tests.paths import GOLDEN
from tests.support import firmware_harness as fh
from user_layers.encode.calls import Calls
from user_layers.kernel_api.prototypes import functions

GOLDEN = GOLDEN / "bm1684"
FUNCTIONS = functions()


def golden(name: str) -> list[dict[str, Any]]:
    with open(GOLDEN / f"{name}.jsonl") as f:
        return [json.loads(line) for line in f]


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library)


def hexes(descriptors: list[bytes]) -> list[str]:
    return [d.hex() for d in descriptors]


def test_every_declared_command_has_golden_encodings() -> None:
    known = {e["fn"] for e in golden("okk_encode")} | {e["fn"] for e in golden("okk_utils")}
    order = {"okk_initialize", "okk_poll", "okk_parallel_start", "okk_parallel_end"}
    ids = {name for name in FUNCTIONS if name.endswith("_id_node")}
    okk = {name for name in FUNCTIONS if name.startswith("okk_")}
    unknown = okk - known - order - ids
    # Without a vector: the vendor's model hands out no DTCM pointer, and the listing only logs.
    assert unknown == {"okk_dtcm_addr", "okk_dump_registered_kernel_funcs"}


def test_encodings(firmware: fh.Harness) -> None:
    done: Counter[str] = Counter()
    for e in golden("okk_encode"):
        reply = firmware.okk(e["fn"], e["args"])
        assert reply.status == 0, (e["fn"], e["args"], reply.text)
        assert hexes(firmware.bd) == e["bd"], (e["fn"], e["args"])
        assert hexes(firmware.gdma) == e["gdma"], (e["fn"], e["args"])
        assert firmware.trace()[-1][:2] == tuple(e["ids_after"])
        done[e["fn"]] += 1
    assert len(done) == 110
    assert done.total() == 1215


def test_refused_calls(firmware: fh.Harness) -> None:
    refused = golden("okk_encode_rejected")
    assert len(refused) == 123
    for e in refused:
        reply = firmware.okk(e["fn"], e["args"])
        assert reply.status == wire.Status.ASSERT, e
        assert reply.text.startswith(f"{e['fn']}: ")
        assert not firmware.batches


def test_sequences(firmware: fh.Harness) -> None:
    """Ids, waits and parallel sections."""
    compared = 0
    for sequence in golden("okk_sequences"):
        launch = Calls()
        after: list[int] = []  # how many calls were made when each golden call was complete
        known: dict[str, list[str]] = {"bd": [], "gdma": []}
        for c in sequence["seq"]:
            launch.call(c["call"], c["args"])
            after.append(launch.count)
            for engine, stream in known.items():
                stream += c[engine]
        reply = firmware.call_api(launch)
        assert reply.status == 0, reply.text
        for made, wanted in ((firmware.bd, known["bd"]), (firmware.gdma, known["gdma"])):
            assert hexes(made) == wanted
            compared += len(wanted)
        trace = [(0, 0, False), *firmware.trace()]
        seen = [trace[n] for n in after]
        assert seen == [(*c["ids_after"], c["parallel"]) for c in sequence["seq"]]
    assert len(golden("okk_sequences")) == 10
    assert compared == 141


def _util(firmware: fh.Harness, e: dict[str, Any]) -> Any:
    fn = FUNCTIONS[e["fn"]]
    types = [ctype for ctype, _ in fn.parameters]
    if types and types[0] == "dim4 *":  # a stride that is written
        out = fh.RESULTS + 64
        assert firmware.call_api(Calls().call(e["fn"], e["args"], out=out)).status == 0
        return firmware.array(out, (4,), "int32").tolist()
    assert firmware.okk(e["fn"], e["args"]).status == 0, e
    value = firmware.result()
    if fn.result == "int":
        return struct.unpack("<i", struct.pack("<I", value & 0xFFFF_FFFF))[0]
    return bool(value & 0xFF) if fn.result == "bool" else value


def test_utilities(firmware: fh.Harness) -> None:
    memories = {
        "okk_global_mem_addr": firmware.ddr,
        "okk_local_mem_addr": firmware.local,
        "okk_l2_sram_addr": firmware.l2,
    }
    done: Counter[str] = Counter()
    refused = []
    for e in golden("okk_utils"):
        if "result" in e:
            assert _util(firmware, e) == e["result"], e
        elif 0 <= e["result_offset"] < memories[e["fn"]].nbytes:
            base = memories[e["fn"]].ctypes.data
            assert firmware.okk(e["fn"], e["args"]).status == 0
            assert firmware.result() - base == e["result_offset"], e
        else:
            # The vendor's model computes a wild pointer here; this one says what is wrong.
            reply = firmware.okk(e["fn"], e["args"])
            assert reply.status == wire.Status.ASSERT
            refused.append(e)
        done[e["fn"]] += 1
    assert done.total() == 222
    # DDR is 1 MiB in this harness; L2 address 0x300000 is an offset where an address is wanted.
    assert [e["fn"] for e in refused] == ["okk_global_mem_addr", "okk_l2_sram_addr"]


def test_chip_numbers_agree_with_chip_py(firmware: fh.Harness) -> None:
    def ask(name: str) -> int:
        assert firmware.okk(name).status == 0
        return firmware.result()

    assert ask("okk_npu_num") == chip.NPU_NUM
    assert ask("okk_eu_num") == chip.EU_NUM
    assert ask("okk_local_mem_size_per_npu") == chip.LOCAL_BYTES
    assert ask("okk_local_mem_bank_per_npu") == chip.LOCAL_BANKS
    assert ask("okk_l2_sram_start_addr") == chip.L2_BASE + chip.L2_USER_OFFSET
    assert ask("okk_l2_sram_size") == chip.L2_USER_BYTES
    assert ask("okk_dtcm_start_addr") == chip.DTCM_BASE + chip.DTCM_USER_OFFSET
    assert ask("okk_dtcm_size") == chip.DTCM_USER_BYTES
    assert ask("okk_global_mem_start_addr") == chip.DDR_BASE


ADD = {"dst": 0, "src": 128, "C": 1.0, "shape": [1, 64, 4, 5], "dst_stride": None, "src_stride": None}
S2L = {"dst": 0, "src": 1 << 32, "shape": [1, 3, 4, 5], "dst_stride": None, "src_stride": None}
SHIFT = {**ADD, "C": 3}


def _with(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**base, **changes}


@pytest.mark.parametrize(
    ("function", "args", "text"),
    [
        ("okk_bdc_add_C", _with(ADD, shape=[1, 64, 1, 70000]), "70000 in bd.res0_w is over its limit 65535"),
        ("okk_bdc_add_C", _with(ADD, shape=[1, 4096, 1, 1]), "4096 in bd.res0_c is over its limit 4095"),
        ("okk_bdc_add_C", _with(ADD, shape=[70000, 1, 1, 1]), "70000 in bd.res0_n is over its limit 65535"),
        ("okk_bdc_add_C", _with(ADD, shape=[0, 1, 1, 1]), "shape [0, 1, 1, 1] has an extent below 1"),
        ("okk_bdc_add_C", _with(ADD, shape=None), "shape is NULL"),
        ("okk_bdc_add_C", _with(ADD, dst=2), "destination address 0x2 is not a multiple of 4"),
        (
            "okk_bdc_add_C",
            _with(ADD, src=64 << 19),
            "source address 0x2000000 is over the 32 MiB of local memory",
        ),
        (
            "okk_bdc_add_C",
            _with(ADD, src_stride=[1 << 19, 1, 1, 1]),
            "524288 in bd.opd0_n_str is over its limit",
        ),
        (
            "okk_bdc_add_C",
            _with(ADD, src_stride=[0, -1, 1, 1]),
            "source stride [0, -1, 1, 1] has a negative entry",
        ),
        ("okk_bdc_add_C", _with(ADD, dst=4, shape=[2, 65, 3000, 3000]), "over its limit 524287"),
        (
            "okk_gdma_32bit_cpy_S2L",
            _with(S2L, shape=[1, 3, 70000, 5]),
            "70000 in gdma.src_hsize is over its limit",
        ),
        (
            "okk_gdma_32bit_cpy_S2L",
            _with(S2L, src=1 << 40),
            "source address 0x10000000000 has more than 40 bits",
        ),
        ("okk_gdma_32bit_cpy_S2L", _with(S2L, dst_stride=[1, 1, 5, 2]), "destination w-stride is 2"),
        (
            "okk_gdma_32bit_cpy_S2L",
            _with(S2L, src_stride=[1, -1, 5, 1]),
            "source stride [1, -1, 5, 1] has a neg",
        ),
        ("okk_gdma_8bit_cpy_S2S", _with(S2L, dst=1 << 32, shape=[2, 65535, 65535, 2]), "too many elements"),
        ("okk_gdma_compact_S2L", {"dst": 1 << 19, "src": 1 << 32, "shape": [1, 1, 1, 1]}, "starts on NPU 1"),
        ("okk_parallel_end", {}, "no parallel section is open"),
        ("okk_global_mem_addr", {"addr": 0xFFFF_FFFF}, "0xffffffff is not in the 1 MiB of DDR that"),
        ("okk_local_mem_addr", {"idx": 64, "addr": 0}, "NPU 64 does not exist; there are 64"),
        ("okk_dtcm_addr", {"addr": 0x0200_0000}, "0x2000000 is not in the kernels' part of DTCM"),
        ("okk_set_id_node", {"node": [0xFFF1, 0, 0]}, "ids 65521 and 0 are over the limit 65520"),
    ],
)
def test_broken_rules_are_refused(
    firmware: fh.Harness, function: str, args: dict[str, Any], text: str
) -> None:
    reply = firmware.okk(function, args)
    assert reply.status == wire.Status.ASSERT
    assert reply.text.startswith(f"{function}: ")
    assert text in reply.text
    assert "[called at 0x" in reply.text
    assert not firmware.batches
    # The next request starts clean.
    assert firmware.okk("okk_bdc_add_C", ADD).status == 0
    assert len(firmware.bd) == 1


def test_pieces_of_an_addition_begin_inside_local_memory(firmware: fh.Harness) -> None:
    """65519 batches of 128 bytes at a time: the fifth piece begins a batch before the end, or there."""
    behind = 4 * 65519 * 128
    end = chip.NPU_NUM * chip.LOCAL_BYTES

    def add(start: int) -> fh.Reply:
        shape = [4 * 65519 + 1, 1, 1, 1]
        strides = {"dst_stride": [32, 32, 1, 1], "src_stride": [32, 32, 1, 1]}
        return firmware.okk(
            "okk_bdc_add_C", {"dst": start, "src": start, "C": 1.0, "shape": shape, **strides}
        )

    assert add(end - behind - 128).status == 0
    assert len(firmware.bd) == 5
    for start in (end - behind, end - behind + 128):
        reply = add(start)
        assert reply.status == wire.Status.ASSERT
        assert f"reaches 0x{start + behind:x}, which is over the 32 MiB of local memory" in reply.text


def test_order_rules(firmware: fh.Harness) -> None:
    for second, text in (
        ("okk_parallel_start", "already open"),
        ("okk_poll", "not allowed inside a parallel section"),
        ("okk_initialize", "a parallel section is open"),
    ):
        launch = Calls().call("okk_parallel_start").call(second)
        reply = firmware.call_api(launch)
        assert reply.status == wire.Status.ASSERT
        assert reply.text.startswith(f"{second}: ")
        assert text in reply.text
        assert re.search(r"; it was opened \[called at 0x[0-9a-f]+\] \[called at 0x[0-9a-f]+\]$", reply.text)


def test_constant_source_of_select_whose_unread_stride_does_not_fit(firmware: fh.Harness) -> None:
    """The vendor's encoder computes an unused stride from the constant's bits; where that does not fit
    its field there is nothing to refuse."""
    big = {"is_addr": False, "bits": "0x80000000"}
    tensor = {"is_addr": True, "bits": "0x00002000"}
    args = {"dst": 0, "s0": big, "s1": tensor, "a": tensor, "b": tensor, "shape": [2, 3, 250, 250]}
    assert firmware.okk("okk_bdc_greater_select", args).status == 0
    assert BD.decode(firmware.bd[0])["opd0_n_str"] == 0
    zero = {"is_addr": False, "bits": "0x00000000"}
    assert firmware.okk("okk_bdc_greater_select", {**args, "s0": zero, "shape": [2, 3, 12, 18]}).status == 0
    assert BD.decode(firmware.bd[0])["opd0_n_str"] == 125 * 224  # measured on the vendor's encoder


@pytest.mark.parametrize(("rows", "cols", "per_channel"), [(40, 200, 1), (40, 70 * 33, 33)])
def test_matrix_rows_over_64_channels(firmware: fh.Harness, rows: int, cols: int, per_channel: int) -> None:
    """The n-stride counts the slots of a matrix from NPU 0, whatever its address (vendor's encoder)."""
    args = {"dst": 40 << 19, "src": 1 << 32, "rows": rows, "cols": cols, "per": per_channel, "stride": cols}
    assert firmware.okk("okk_gdma_32bit_matrix_S2L", args).status == 0
    d = GDMA.decode(firmware.gdma[0])
    assert (d["dst_nstride"], d["dst_csize"]) == (128, -(-cols // per_channel))


@pytest.mark.parametrize(
    ("function", "changes"),
    [
        ("okk_bdc_conv2d", {"input_addr": 4, "input_stride": None}),
        ("okk_bdc_conv2d_kernel_const", {"input_addr": 4, "input_stride": None}),
        ("okk_bdc_depthwise2d", {"input_addr": 4}),
        ("okk_bdc_avg_pool2d", {"input_addr": 4}),
        ("okk_bdc_max_pool2d", {"input_addr": 4}),
        ("okk_bdc_matmul", {"bias_addr": 4, "using_bias": True}),
    ],
)
def test_aligned_layouts_start_at_multiples_of_128(
    firmware: fh.Harness, function: str, changes: dict[str, Any]
) -> None:
    args = next(e["args"] for e in golden("okk_encode") if e["fn"] == function)
    moved = {**args, **changes}
    for name in ("input_addr", "bias_addr"):
        if name in changes:
            moved[name] += args[name]
    reply = firmware.okk(function, moved)
    assert reply.status == wire.Status.ASSERT
    assert "is not a multiple of 128" in reply.text
