"""bm_atomic.h encodes what the vendor's encoder encodes, and refuses what it refuses."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from firmware_sim import wire
from firmware_sim.isa.layout import BD
from tests.support import firmware_harness as fh
from tests.support.golden_vectors import lines
from user_layers.kernel_api.prototypes import functions

_OTHER_ENGINES = {"bm_atomic_sort", "bm_atomic_gather_data"}
"""Refused where the vectors were captured, because nothing could be captured; here they have a form."""


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library)


def test_every_atomic_function_has_golden_encodings() -> None:
    known = {e["fn"] for e in lines("bm_atomic")}
    declared = {name for name in functions() if name.startswith("bm_atomic_")}
    assert declared - known == _OTHER_ENGINES


def test_encodings(firmware: fh.Harness) -> None:
    done: Counter[str] = Counter()
    for e in lines("bm_atomic"):
        reply = firmware.okk(e["fn"], e["args"])
        assert reply.status == 0, (e["fn"], e["args"], reply.text)
        assert [d.hex() for d in firmware.bd] == e["bd"], (e["fn"], e["args"])
        assert [d.hex() for d in firmware.gdma] == e["gdma"], (e["fn"], e["args"])
        done[e["fn"]] += 1
    assert len(done) == 26
    assert done.total() == 255


def test_refused_calls(firmware: fh.Harness) -> None:
    refused = [e for e in lines("bm_atomic_rejected") if e["fn"] not in _OTHER_ENGINES]
    assert refused
    for e in refused:
        reply = firmware.okk(e["fn"], e["args"])
        assert reply.status == wire.Status.ASSERT, e
        assert reply.text.startswith(f"{e['fn']}: ")


_NPU = 0x8_0000

# changes to the first vector of a function: values to set, and what to add to an address
_BROKEN: list[tuple[str, dict[str, object], dict[str, int], str]] = [
    ("bm_atomic_conv", {}, {"output_addr": 4}, "output address .* is not a multiple of 128"),
    ("bm_atomic_conv", {"kernel_is_const": False}, {"weight_addr": _NPU}, "weight starts on NPU"),
    ("bm_atomic_conv_quantized", {}, {"input_addr": 2}, "input address .* is not a multiple of 4"),
    ("bm_atomic_conv_quantized", {}, {"weight_addr": _NPU}, "weight starts on NPU"),
    ("bm_atomic_conv_quantized", {}, {"bias_addr": 1}, "bias address .* is not a multiple of 2"),
    ("bm_atomic_winograd_quantized", {}, {"weight_addr": 4}, "weight address .* is not a multiple of 128"),
    ("bm_atomic_depthwise", {}, {"input_addr": _NPU}, "input starts on NPU"),
    ("bm_atomic_depthwise", {"using_bias": True}, {"bias_addr": _NPU}, "bias starts on NPU"),
    ("bm_atomic_avg_pool", {}, {"input_addr": 4}, "input address .* is not a multiple of 128"),
    ("bm_atomic_max_pool_quantized", {}, {"output_addr": 64}, "output address .* is not a multiple of 128"),
    ("bm_atomic_matmul", {}, {"input_r_addr": 4}, "right address .* is not a multiple of 128"),
    ("bm_atomic_matmul", {"using_bias": True}, {"bias_addr": 4}, "bias address .* is not a multiple of 128"),
    ("bm_atomic_matmul_quantized", {"r_tensor_w": 129}, {}, "129 columns of the right matrix per channel"),
    ("bm_atomic_tensor_arithmetic", {"op": 14}, {}, "this function has no operation 14"),
    (
        "bm_atomic_md_scalar",
        {"input0_is_const": True},
        {"input0_addr": 4},
        "input 0 address .* is not a mult",
    ),
    ("bm_atomic_md_scalar", {"op": 1}, {}, "this function has no operation 1$"),
    ("bm_atomic_md_scalar", {"op": 2, "result_add": True}, {}, "only a product is added to the old result"),
    ("bm_atomic_md_linear", {"op": 3}, {}, "this function has no operation 3$"),
    ("bm_atomic_md_sfu", {"op": 2}, {}, "this function has no operation 2$"),
    ("bm_atomic_vec_correlation", {"op": 6}, {}, "this function has no operation 6$"),
    ("bm_atomic_table_lookup", {"index_prec": 2}, {}, "index_prec 2 is neither 0"),
    ("bm_atomic_memcpy_2D", {"format": 2, "result_add": True}, {}, "only fp32 is added to the old result"),
    ("bm_atomic_memcpy_4D", {"src_format": 1, "dst_format": 0, "transpose": False}, {}, "int16 is not conv"),
    ("bm_atomic_memcpy_4D", {"src_format": 0, "dst_format": 4, "transpose": True}, {}, "in one format"),
    ("bm_atomic_memcpy_4D", {"src_stride": [1, 1, 1, 2]}, {}, "source w-stride is 2"),
    ("bm_atomic_memset_4D", {"stride": [1, 1, 1, 0]}, {}, "destination w-stride is 0"),
    ("bm_atomic_mask_memcpy_4D", {}, {"mask_local_mem_addr": 4}, "mask address .* is not a multiple of 128"),
]


@pytest.mark.parametrize(("function", "values", "added", "message"), _BROKEN)
def test_broken_rules_are_refused(
    firmware: fh.Harness, function: str, values: dict[str, object], added: dict[str, int], message: str
) -> None:
    args = next(e["args"] for e in lines("bm_atomic") if e["fn"] == function)
    changed = {**args, **values, **{key: args[key] + more for key, more in added.items()}}
    reply = firmware.okk(function, changed)
    assert reply.status == wire.Status.ASSERT
    assert re.match(rf"{function}: .*{message}", reply.text.split(" [called")[0]), reply.text
    assert firmware.okk(function, args).status == 0


def _packed(op: int, widths: str, signs: str = "ss", shift_type: int = 0) -> dict[str, object]:
    args = next(e["args"] for e in lines("bm_atomic") if e["fn"] == "bm_atomic_tensor_arithmetic_quantized")
    flags = dict(zip(("input0_8bit", "input1_8bit", "output_8bit"), (w == "8" for w in widths), strict=True))
    sign = dict(zip(("input0_sign", "input1_sign"), (s == "s" for s in signs), strict=True))
    return {**args, "op": op, "shift_type": shift_type, **flags, **sign}


_WIDTHS = ["888", "88w", "8w8", "8ww", "w88", "w8w", "ww8", "www"]
_SOURCES_ALIKE = ["888", "88w", "ww8", "www"]


@pytest.mark.parametrize(
    ("op", "widths"),
    [
        *((op, ["888", "88w"]) for op in (0,)),
        (1, ["88w"]),
        *((op, _SOURCES_ALIKE) for op in (2, 3, 4, 5)),
        *((op, ["888", "www"]) for op in (7, 8, 9)),
        (19, _WIDTHS),
        *((op, []) for op in (10, 11, 12, 13, 20)),
    ],
)
def test_packed_operations_take_the_widths_of_the_vendors(
    firmware: fh.Harness, op: int, widths: list[str]
) -> None:
    taken = [
        w
        for w in _WIDTHS
        if firmware.okk("bm_atomic_tensor_arithmetic_quantized", _packed(op, w)).status == 0
    ]
    assert taken == widths


def test_packed_shifts_take_signed_16_bit_counts(firmware: fh.Harness) -> None:
    taken = [
        (widths, signs, kind)
        for widths in _WIDTHS
        for signs in ("ss", "su", "us", "uu")
        for kind in (0, 1)
        if firmware.okk("bm_atomic_tensor_arithmetic_quantized", _packed(6, widths, signs, kind)).status == 0
    ]
    assert taken == [("www", "ss", 1), ("www", "us", 0)]


def test_one_batch_of_packed_elements_for_all_is_said_apart(firmware: fh.Harness) -> None:
    args = {**_packed(2, "888"), "input0_stride": [0, 64, 8, 1]}
    assert firmware.okk("bm_atomic_tensor_arithmetic_quantized", args).status == 0
    assert BD.decode(firmware.bd[0])["opd0_neq1"] == 1
    args["input0_stride"] = [128, 64, 8, 1]
    assert firmware.okk("bm_atomic_tensor_arithmetic_quantized", args).status == 0
    assert BD.decode(firmware.bd[0])["opd0_neq1"] == 0
