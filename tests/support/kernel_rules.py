"""Calls of the kernel API that break one rule each, and what the vendor's encoder and model make of them.

`broken()` holds the calls; tests/golden/kernel_rules.jsonl what became of each: "encoder" or "model", which
refuse it, or "executes", with a checksum of memory afterwards. Addresses lie in the windows of isa_cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from firmware_sim.vectors import U8
from tests.support.golden_vectors import lines
from tests.support.isa_cases import DDR, LANE
from user_layers.kernel_api.prototypes import functions

Call = tuple[str, str, dict[str, Any]]  # rule, function, arguments

A, B, C, W, V = 0x1000, 0x2000, 0x3000, 0x4000, 0x5000  # in local memory
SHAPE, SMALL = [2, 5, 3, 7], [1, 1, 1, 1]


def checksum(regions: Iterable[U8]) -> int:
    """Of memory, all NaNs of fp32 words taken for one."""
    total = 0
    for region in regions:
        words = np.ascontiguousarray(region).reshape(-1).view(np.uint32).copy()
        words[np.isnan(words.view(np.float32))] = 0x7FC0_0000
        total = zlib.crc32(words.tobytes(), total)
    return total


def _call(rule: str, function: str, *values: Any, **changes: Any) -> Call:
    """values: the arguments in order."""
    names = [name for _, name in functions()[function].parameters]
    return rule, function, {**dict(zip(names, values, strict=True)), **changes}


def _add(rule: str, **changes: Any) -> Call:
    return _call(rule, "okk_bdc_add", A, B, C, SHAPE, None, None, None, **changes)


def _copy(rule: str, **changes: Any) -> Call:
    return _call(rule, "okk_bdc_32bit_cpy", A, B, SHAPE, None, None, **changes)


def _fixed(rule: str, name: str, op_type: int, *more: Any, **changes: Any) -> Call:
    function = f"okk_bdc_fixed_point_packed_{name}"
    strides = [None] * (2 if name.endswith("_C") or name.startswith("C_") else 3)
    values = [A, B, 3 if len(strides) == 2 else C, SHAPE, *strides]
    if "mac" in name:
        values.append(True)
    return _call(rule, function, *values, op_type, *more, **changes)


def _matmul(rule: str, rows: int, k: int, n: int, kw: int, nw: int, **changes: Any) -> Call:
    values = (A, B, C, W, rows, k, n, kw, nw, True, False)
    return _call(rule, "okk_bdc_matmul", *values, **changes)


def _matrix(rule: str, load: bool, *sizes: int, **changes: Any) -> Call:
    name, ends = ("S2L", (A, DDR + 64)) if load else ("L2S", (DDR + 64, A))
    return _call(rule, f"okk_gdma_32bit_matrix_{name}", *ends, *sizes, **changes)


def _conv(rule: str, **changes: Any) -> Call:
    kernel = [18, 9, 3, 1]
    sizes = ([1, 4, 6, 7], 3, 3, 3, None, kernel)
    values = (A, B, C, W, *sizes, True, False, [1, 1, 1, 1], None, None)
    return _call(rule, "okk_bdc_conv2d", *values, **changes)


def _pool(rule: str, which: str = "max", **changes: Any) -> Call:
    sizes = ([1, 4, 6, 7], 2, 3, [1, 1, 1, 1], None)
    return _call(rule, f"okk_bdc_{which}_pool2d", A, B, *sizes, **changes)


def _gdma(rule: str, name: str, **changes: Any) -> Call:
    ends = {"S2L": (A, DDR), "L2S": (DDR, A), "L2L": (A, B), "S2S": (DDR, DDR + 0x8000)}[name[-3:]]
    return _call(rule, f"okk_gdma_{name}", *ends, SHAPE, None, None, **changes)


def _columns() -> Iterator[Call]:
    yield _matmul("left columns per channel over the matrix", 3, 5, 6, 8, 4)
    yield _matmul("right columns per channel over the matrix", 3, 5, 6, 4, 8)
    yield _matmul("columns per channel over both", 3, 1, 1, 16, 16)
    yield _matmul("left columns per channel over 128", 2, 300, 6, 130, 4)
    yield _matmul("right columns per channel over 128", 2, 5, 300, 4, 150)
    yield _matmul("columns per channel 0", 2, 5, 30, 4, 0)
    yield _matmul("no rows", 0, 5, 6, 4, 4)
    for load in (True, False):
        yield _matrix("matrix columns per channel over the matrix", load, 4, 7, 9, 7)
        yield _matrix("matrix columns per channel far over", load, 2, 7, 64, 11)
        yield _matrix("row stride under the columns", load, 4, 7, 3, 5)
        yield _matrix("row stride 0", load, 4, 7, 3, 0)
        yield _matrix("row stride -1", load, 4, 7, 3, -1)
        yield _matrix("no columns per channel", load, 4, 7, 0, 7)
        yield _matrix(
            "local address off 128", load, 4, 7, 3, 7, **{("dst" if load else "src") + "_addr": A + 4}
        )


def _fixed_point() -> Iterator[Call]:
    for op_type, values in ((31, (128, -129, 1000)), (9, (256, -1)), (30, (32768, -32769)), (8, (65536, -1))):
        for value in values:
            for name in ("add_C", "sub_C", "C_sub", "max_C", "min_C"):
                extremum = name in ("max_C", "min_C")
                kind = {30: 22, 8: 0}.get(op_type, op_type) if extremum else op_type  # one width
                more = () if extremum else (1,)
                yield _fixed(f"constant {value} of op_type {kind}", name, kind, *more, C=value)
    for op_type, value in ((31, 128), (31, -129), (9, 256), (9, -1)):
        yield _fixed(f"constant {value} of op_type {op_type}", "mul_C", op_type, 1, C=value)
        yield _fixed(f"constant {value} of op_type {op_type}", "mac_C", op_type, 1, 1, C=value)
    for op_type in (2, 3, 4, 7, 11, 13, 15, 32, 63):
        yield _fixed(f"op_type {op_type}", "add", op_type, 1)
        yield _fixed(f"op_type {op_type}", "sub", op_type, 1)
        yield _fixed(f"op_type {op_type}", "mul", op_type, 1)
        yield _fixed(f"op_type {op_type}", "mac", op_type, 1, 1)
        if op_type != 7:  # two widths
            yield _fixed(f"op_type {op_type}", "max", op_type)
    for op_type in (0, 8, 16, 24, 30):
        yield _fixed(f"16-bit sources of a product, op_type {op_type}", "mul", op_type, 1)
        yield _fixed(f"16-bit sources of a product, op_type {op_type}", "mac", op_type, 1, 1)
    for op_type in (19, 21, 27):
        yield _fixed(f"one signed source of op_type {op_type}", "max", op_type)
        yield _fixed(f"one signed source of op_type {op_type}", "min", op_type)
    yield _fixed("rshift 32", "add", 31, 32)
    yield _fixed("rshift -1", "add", 31, -1)
    yield _fixed("lshift 15", "mac", 31, 15, 3)
    yield _fixed("lshift 16", "mac", 31, 16, 3)
    yield _fixed("lshift 31", "mac", 31, 31, 3)
    yield _fixed("lshift 32", "mac", 31, 32, 3)
    for count in (17, -17, 31, 32, 33, -32):
        for name in ("arithmetic", "logical"):
            function = f"okk_bdc_fixed_point_packed_16bit_{name}_shift_C"
            yield _call(f"16-bit shift by {count}", function, A, B, count, SHAPE, None, None)
    for count in (33, -33, 64, -64, 100, 1 << 20):
        for name in ("arithmetic", "logical"):
            yield _call(
                f"32-bit shift by {count}", f"okk_bdc_32bit_{name}_shift_C", A, B, count, SHAPE, None, None
            )
    for mul_type in (1, 2, 3, 4, 8, 15):
        operands = (A, B, C, W, SHAPE, None, None, None, None)
        function = "okk_bdc_fixed_point_packed_16bit_mul_8bit"
        yield _call(f"mul_type {mul_type}", function, *operands, mul_type, 2)
    for name, unit in (("add", 2), ("max", 1)):
        more = (1,) if name == "add" else ()
        yield _fixed("packed operand off a word", name, 31, *more, dst_addr=A + unit)
        yield _fixed("packed operand off a word", name, 31, *more, src0_addr=B + unit)
        yield _fixed("packed operand off a word", name, 31, *more, src1_addr=C + unit)


def _strides() -> Iterator[Call]:
    stride = [105, 21, 7, 1]
    for axis in range(4):
        negative = [-s if i == axis else s for i, s in enumerate(stride)]
        for key, at in (("dst_stride", A), ("src0_stride", B), ("src1_stride", C)):
            yield _add(f"stride {axis} below 0", **{key: negative, f"{key[:-7]}_addr": at + 0x800})
        yield _copy(f"stride {axis} below 0", src_stride=negative, src_addr=B + 0x800)
        yield _conv(f"stride {axis} below 0", input_stride=negative, input_addr=B + 0x800)
        yield _conv(f"kernel stride {axis} below 0", kernel_stride=negative, weight_addr=C + 0x800)
        yield _call(f"stride {axis} below 0", "okk_bdc_npu_bcast", A, B + 0x800, SHAPE, negative)
        yield _fixed(f"stride {axis} below 0", "add", 31, 1, src0_stride=negative, src0_addr=B + 0x800)
        for name in ("32bit_cpy_S2L", "16bit_cpy_L2S", "8bit_cpy_L2L", "32bit_cpy_S2S"):
            for key in ("src", "dst"):
                at = {"src": {"S2L": DDR, "L2S": A, "L2L": B, "S2S": DDR + 0x8000}}.get(
                    key, {"S2L": A, "L2S": DDR, "L2L": A, "S2S": DDR}
                )[name[-3:]]
                changes = {f"{key}_stride": negative, f"{key}_addr": at + 0x800}
                yield _gdma(f"{key} stride {axis} below 0", name, **changes)
    for w in (0, 2, 3):
        for name in ("32bit_cpy_S2L", "16bit_cpy_L2S", "8bit_cpy_L2L", "32bit_cpy_S2S"):
            for key in ("src", "dst"):
                changes = {f"{key}_stride": [525, 105, 21, w]}
                yield _gdma(f"{key} w-stride {w}", name, **changes)
                yield _gdma(f"{key} w-stride {w} of one column", name, shape=[2, 5, 3, 1], **changes)
    for name in ("system", "local"):
        for w in (0, 2):
            to = DDR if name == "system" else A
            yield _call(
                f"fill with w-stride {w}",
                f"okk_gdma_32bit_set_C_{name}",
                to,
                "1234",
                SHAPE,
                [525, 105, 21, w],
            )
            one = [2, 5, 3, 1]
            yield _call(
                f"fill with w-stride {w} of one column",
                f"okk_gdma_32bit_set_C_{name}",
                to,
                "1234",
                one,
                [525, 105, 21, w],
            )


def _places() -> Iterator[Call]:
    for key in ("dst_addr", "src0_addr", "src1_addr"):
        yield _add("another NPU", **{key: 3 * LANE + {"dst_addr": A, "src0_addr": B, "src1_addr": C}[key]})
    strided = {"dst_stride": [105, 21, 7, 1]}
    yield _add("another NPU, strided", src0_addr=LANE + B, **strided)
    yield _add("another NPU, strided", src1_addr=2 * LANE + C, **strided)
    yield _add("another NPU, strided", dst_addr=LANE + A, **strided)
    yield _copy("another NPU", src_addr=LANE + B)
    yield _copy("off a word", src_addr=B + 2)
    yield _add("off a word", dst_addr=A + 2)
    yield _fixed("another NPU", "add", 31, 1, src0_addr=LANE + B)
    yield _fixed("another NPU", "add", 31, 1, src1_addr=LANE + C)
    yield _conv("another NPU, weight", weight_addr=LANE + C)
    yield _conv("another NPU, bias", bias_addr=LANE + W)
    yield _conv("another NPU, input", input_addr=LANE + B)
    yield _pool("another NPU", input_addr=LANE + B)
    yield _pool("another NPU", "avg", input_addr=LANE + B)
    yield _matmul("another NPU, right", 3, 5, 6, 4, 4, right_addr=LANE + C)
    yield _matmul("another NPU, bias", 3, 5, 6, 4, 4, bias_addr=LANE + W)
    for name in ("okk_bdc_rsqrt", "okk_bdc_fp32_to_int32", "okk_bdc_lookup_exp", "okk_bdc_sqrt"):
        yield _call("another NPU", name, A, LANE + B, SHAPE)
    yield _call("another NPU", "okk_bdc_taylor_exp", A, LANE + B, SHAPE, 8)
    yield _call("another NPU, source", "okk_bdc_exp", A, LANE + B, C, SHAPE)
    yield _call("another NPU, work", "okk_bdc_exp", A, B, LANE + C, SHAPE)
    yield _call("another NPU, bias", "okk_bdc_bias", A, B, LANE + C, SHAPE, None, None)
    yield _call("another NPU, scale", "okk_bdc_scale", A, B, LANE + C, SHAPE, None, None)
    yield _call("off NPU 0", "okk_gdma_compact_S2L", LANE + A, DDR, SHAPE)
    for name in ("greater", "equal"):

        def at(address: int, *, is_addr: bool = True) -> dict[str, Any]:
            return {"is_addr": is_addr, "bits": f"{address:x}"}

        function = f"okk_bdc_{name}_select"
        sources = (at(B), at(C), at(W), at(V))
        yield _call("another NPU, source", function, A, at(LANE + B), *sources[1:], SHAPE)
        yield _call("another NPU, choice", function, A, *sources[:3], at(LANE + V), SHAPE)
        yield _call("tensor and constant", function, A, at(B), at(0, is_addr=False), at(W), at(V), SHAPE)
        yield _call("constant and tensor", function, A, at(0, is_addr=False), at(C), at(W), at(V), SHAPE)


def _buffers() -> Iterator[Call]:
    for name in ("exp", "sigmoid", "tanh"):
        yield _call("work is dst", f"okk_bdc_{name}", A, B, A, SHAPE)
        yield _call("work is src", f"okk_bdc_{name}", A, B, B, SHAPE)
        for series in (0, 65, 127, 128, -1):
            yield _call(f"{series} terms", f"okk_bdc_{name}_tunable", A, B, C, SHAPE, series)
    for series in (0, 65, 127, 128, 4095, 4096, 1 << 16):
        yield _call(f"{series} terms", "okk_bdc_taylor_exp", A, B, SHAPE, series)
    for name in ("4N_int8_to_fp32", "int8_to_fp32"):
        yield _call("work is dst", f"okk_bdc_{name}", A, B, A, SHAPE, True, True)
        yield _call("work is src", f"okk_bdc_{name}", A, B, B, SHAPE, True, True)
    yield _call("work is dst", "okk_bdc_fp32_to_4N_int8", A, B, A, SHAPE, True)
    yield _call("work is src", "okk_bdc_fp32_to_4N_int8", A, B, B, SHAPE, True)
    split = "okk_bdc_fixed_point_packed_16bit_split_low_8bit"
    yield _call("work is dst", split, A, B, A, SHAPE, None, None, None)
    yield _call("work is src", split, A, B, B, SHAPE, None, None, None)


def _windows() -> Iterator[Call]:
    for make in (_conv, _pool):
        yield make("stride 16", stride=[16, 1])
        yield make("stride 0", stride=[0, 1])
        yield make("pad 16", padding=[16, 0, 0, 0])
        yield make("pad -1", padding=[-1, 0, 0, 0])
        yield make("kernel over the input", kernel_h=9)
        yield make("kernel 0", kernel_w=0)
    yield _conv("dilation 16", dilation=[16, 1], input_shape=[1, 4, 35, 4])
    yield _conv("dilation 17", dilation=[17, 1], input_shape=[1, 4, 37, 4])
    yield _conv("dilation 0", dilation=[0, 1])
    yield _conv("no output channels", output_c=0)
    yield _conv("no weights' strides", kernel_stride=None)
    depthwise = (A, B, C, W, [1, 4, 35, 4], 3, 3, True, [1, 1, 1, 1], None)
    yield _call("dilation 16", "okk_bdc_depthwise2d", *depthwise, [16, 1])
    yield _call("dilation 17", "okk_bdc_depthwise2d", *depthwise[:4], [1, 4, 40, 4], *depthwise[5:], [17, 1])
    yield _call("another NPU, input", "okk_bdc_depthwise2d", A, LANE + B, *depthwise[2:], None)
    yield _pool("side over 2047", input_shape=[1, 1, 2048, 1], kernel_w=1, padding=None)
    yield _pool("side and pads over 2047", input_shape=[1, 1, 2040, 1], kernel_w=1, padding=[8, 8, 0, 0])
    one = {"kernel_h": 1, "kernel_w": 1, "padding": None, "kernel_stride": [1, 1, 1, 1]}
    yield _conv("side over 2047", input_shape=[1, 1, 1, 3000], output_c=1, **one)
    yield _pool("side over 2047", input_shape=[1, 1, 3, 2100])
    yield _pool("side over 2047", "avg", input_shape=[1, 1, 2048, 1], kernel_w=1, padding=None)


def _params() -> Iterator[Call]:
    """Those of bm_atomic.h; golden calls changed."""
    known: dict[str, dict[str, Any]] = {}
    for line in lines("bm_atomic"):
        known.setdefault(line["fn"], line["args"])
    cube = {"src_shape": [1, 2, 3, 4], "dst_shape": [1, 2, 3, 4], "transpose": False, "direction": 3}
    formats = {"src_format": 0, "dst_format": 0}
    ends = {"src_addr": A, "src_local_idx": 0, "dst_addr": B, "dst_local_idx": 0}
    strides = {"src_stride": [24, 12, 4, 1], "dst_stride": [24, 12, 4, 1]}
    four = {**known["bm_atomic_memcpy_4D"], **cube, **formats, **ends, **strides}
    yield "local address over the NPU", "bm_atomic_memcpy_4D", {**four, "src_addr": 3 * LANE + A}
    yield "local address over the NPU", "bm_atomic_memcpy_4D", {**four, "dst_addr": LANE + B}
    yield (
        "local address over the NPU",
        "bm_atomic_memcpy_4D",
        {**four, "dst_addr": 2 * LANE + B, "dst_local_idx": 61},
    )
    yield "NPU 64", "bm_atomic_memcpy_4D", {**four, "src_local_idx": 64}
    for w in (0, 2):
        yield f"src w-stride {w}", "bm_atomic_memcpy_4D", {**four, "src_stride": [24, 12, 4, w]}
        yield f"dst w-stride {w}", "bm_atomic_memcpy_4D", {**four, "dst_stride": [24, 12, 4, w]}
    yield "other numbers of elements", "bm_atomic_memcpy_4D", {**four, "dst_shape": [1, 2, 3, 5]}
    matrix = known["bm_atomic_memcpy_2D"]
    matrix = {**matrix, "global_mem_addr": DDR, "local_mem_addr": A, "local_mem_idx": 0, "row": 3, "col": 7}
    matrix |= {
        "sec_size": 4,
        "row_stride": 7,
        "direction": 0,
        "format": 0,
        "transpose": False,
        "result_add": False,
    }
    yield "local address over the NPU", "bm_atomic_memcpy_2D", {**matrix, "local_mem_addr": LANE + A}
    yield "columns over the matrix", "bm_atomic_memcpy_2D", {**matrix, "sec_size": 9}
    yield "row stride under the columns", "bm_atomic_memcpy_2D", {**matrix, "row_stride": 5}
    matmul = known["bm_atomic_matmul_quantized"]
    places = {"output_addr": A, "input_l_addr": B, "input_r_addr": C, "bias_addr": V}
    product = {**matmul, **places, "l_row": 2, "l_col": 5, "l_tensor_c": 2, "l_tensor_w": 4, "l_trans": False}
    yield (
        "right columns per channel over 128",
        "bm_atomic_matmul_quantized",
        {**product, "r_tensor_c": 2, "r_tensor_w": 150},
    )
    yield (
        "left columns per channel over the matrix",
        "bm_atomic_matmul_quantized",
        {**product, "l_tensor_c": 1, "l_tensor_w": 9, "r_tensor_c": 2, "r_tensor_w": 5},
    )


def _empty() -> Iterator[Call]:
    for axis in range(4):
        shape = [0 if i == axis else s for i, s in enumerate(SHAPE)]
        yield _add(f"extent {axis} of 0", shape=shape)
        yield _add(f"extent {axis} of 0, strided", shape=shape, dst_stride=[105, 21, 7, 1])
        yield _copy(f"extent {axis} of 0", shape=shape)
        yield _fixed(f"extent {axis} of 0", "add", 31, 1, shape=shape)
        yield _conv(f"extent {axis} of 0", input_shape=shape)
        yield _pool(f"extent {axis} of 0", input_shape=shape)
        yield _call(f"extent {axis} of 0", "okk_bdc_rsqrt", A, B, shape)
        yield _call(f"extent {axis} of 0", "okk_bdc_lookup_exp", A, B, shape)
        for name in ("32bit_cpy_S2L", "16bit_cpy_L2S", "8bit_cpy_L2L", "32bit_cpy_S2S"):
            yield _gdma(f"extent {axis} of 0", name, shape=shape)


def broken() -> Iterator[Call]:
    """All of them."""
    yield from _columns()
    yield from _fixed_point()
    yield from _strides()
    yield from _places()
    yield from _buffers()
    yield from _windows()
    yield from _params()
    yield from _empty()
