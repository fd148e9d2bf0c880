"""Tensors that are too large for one command: cut as the vendor's encoder cuts them, or refused.

The expected pieces are those that the vendor's encoder gives for the same calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim import chip, wire
from firmware_sim.isa.layout import BD, GDMA
from tests.support import firmware_harness as fh
from user_layers.kernels.run_kernel import Output, run_kernel

DDR = chip.DDR_BASE
LOCAL = chip.LOCAL_BASE


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library)


def issue(firmware: fh.Harness, name: str, **args: Any) -> None:
    reply = firmware.okk(name, args)
    assert reply.status == 0, reply.text


def bd(firmware: fh.Harness, *names: str) -> list[tuple[int, ...]]:
    return [tuple(BD.decode(d)[n] for n in names) for d in firmware.bd]


def gdma(firmware: fh.Harness, *names: str) -> list[tuple[int, ...]]:
    return [tuple(GDMA.decode(d)[n] for n in names) for d in firmware.gdma]


def pool(name: str, shape: list[int], kernel: int, output: int = 0) -> dict[str, Any]:
    window = {"kernel_h": kernel, "kernel_w": kernel, "padding": None, "stride": None}
    return {"output_addr": output, "input_addr": output + 65536, "input_shape": shape, **window}


@pytest.mark.parametrize("name", ["okk_bdc_avg_pool2d", "okk_bdc_max_pool2d"])
def test_pools_of_many_channels(firmware: fh.Harness, name: str) -> None:
    issue(firmware, name, **pool(name, [1, 8192, 7, 7], 7))
    assert bd(firmware, "res0_n", "res0_c", "res0_addr", "opd0_addr") == [
        (1, 4032, LOCAL, LOCAL + 65536),
        (1, 4032, LOCAL + 8064, LOCAL + 81664),
        (1, 128, LOCAL + 16128, LOCAL + 97792),
    ]
    assert bd(firmware, "cmd_id_tpu") == [(1,), (2,), (3,)]


def test_pools_cut_batch_by_batch_on_any_npu(firmware: fh.Harness) -> None:
    start = 5 * chip.LOCAL_BYTES
    issue(firmware, "okk_bdc_avg_pool2d", **pool("", [2, 4096, 1, 1], 1, start))
    assert bd(firmware, "res0_n", "res0_c", "res0_addr", "opd0_addr") == [
        (1, 4032, LOCAL + start, LOCAL + start + 65536),
        (1, 64, LOCAL + start + 8064, LOCAL + start + 73600),
        # 4096 channels from NPU 5 on take 65 rounds, so the second batch is one further
        (1, 4032, LOCAL + start + 8320, LOCAL + start + 73856),
        (1, 64, LOCAL + start + 16384, LOCAL + start + 81920),
    ]


def test_pools_of_4095_channels_are_one_command(firmware: fh.Harness) -> None:
    issue(firmware, "okk_bdc_max_pool2d", **pool("", [2, 4095, 1, 1], 1))
    assert bd(firmware, "res0_n", "res0_c") == [(2, 4095)]


def test_arithmetic_with_strides(firmware: fh.Harness) -> None:
    """Any extent; the constant keeps its bits."""
    where = {"dst_addr": 0, "src_addr": 65536}
    strides = {"dst_stride": [500, 2, 1, 1], "src_stride": [600, 3, 1, 1]}
    issue(firmware, "okk_bdc_32bit_cpy", **where, shape=[2, 8192, 1, 1], **strides)
    names = ("res0_n", "res0_c", "res0_addr", "opd0_addr", "res0_n_str", "opd0_c_str")
    assert bd(firmware, *names) == [
        (2, 4032, LOCAL, LOCAL + 65536, 500, 3),
        (2, 4032, LOCAL + 504, LOCAL + 66292, 500, 3),
        (2, 128, LOCAL + 1008, LOCAL + 67048, 500, 3),
    ]
    issue(firmware, "okk_bdc_32bit_cpy", **where, shape=[1, 1, 1, 70000], dst_stride=None, src_stride=None)
    assert bd(firmware, "res0_w", "res0_addr", "opd0_addr", "res0_n_str", "res0_h_str") == [
        (65519, LOCAL, LOCAL + 65536, 70016, 70000),
        (4481, LOCAL + 262076, LOCAL + 327612, 70016, 70000),
    ]
    issue(
        firmware, "okk_bdc_32bit_set_C", dst_addr=0, C="0x3f800000", shape=[1, 5000, 1, 1], dst_stride=[1] * 4
    )
    assert bd(firmware, "res0_c", "res0_addr", "opd1_addr") == [
        (4032, LOCAL, 0x3F800000),
        (968, LOCAL + 252, 0x3F800000),
    ]


def test_arithmetic_cuts_in_the_order_of_the_axes(firmware: fh.Harness) -> None:
    ones = {"dst_stride": [1] * 4, "src_stride": [1] * 4}
    for shape, names, extents in (
        ([70000, 5000, 1, 1], ("res0_n", "res0_c"), [(65519, 4032), (65519, 968), (4481, 4032), (4481, 968)]),
        ([1, 5000, 70000, 1], ("res0_c", "res0_h"), [(4032, 65519), (4032, 4481), (968, 65519), (968, 4481)]),
        (
            [1, 1, 70000, 70000],
            ("res0_h", "res0_w"),
            [(65519, 65519), (65519, 4481), (4481, 65519), (4481, 4481)],
        ),
    ):
        issue(firmware, "okk_bdc_32bit_cpy", dst_addr=0, src_addr=65536, shape=shape, **ones)
        assert bd(firmware, *names) == extents
    assert bd(firmware, "res0_addr") == [(LOCAL,), (LOCAL + 262076,), (LOCAL + 262076,), (LOCAL + 524152,)]


@pytest.mark.parametrize(
    ("name", "shape", "count"),
    [
        ("okk_bdc_4N_int8_to_fp32", [70000, 1, 1, 1], 13),
        ("okk_bdc_4N_int8_to_fp32", [8, 5000, 1, 1], 18),
        ("okk_bdc_int8_to_fp32", [1, 1, 70000, 1], 13),
    ],
)
def test_sequences_cut_each_of_their_steps(
    firmware: fh.Harness, name: str, shape: list[int], count: int
) -> None:
    where = {"dst_addr": 0, "src_addr": 65536, "work_addr": 3 * 65536}
    issue(firmware, name, **where, shape=shape, is_signed=False, is_aligned_layout=False)
    assert len(firmware.bd) == count


def test_copies_between_the_memories_by_channels(firmware: fh.Harness) -> None:
    shape = [1, 131072, 1, 1]
    issue(firmware, "okk_gdma_32bit_cpy_S2L", dst_addr=0, src_addr=DDR, shape=shape, dst_stride=None,
          src_stride=[0, 1, 1, 1])  # fmt: skip
    names = ("dst_csize", "dst_start_addr_l32", "src_start_addr_l32", "dst_nstride", "dst_cstride")
    assert gdma(firmware, *names) == [
        (65472, LOCAL, 0, 65536, 32),
        (65472, LOCAL + 130944, 261888, 65536, 32),
        (128, LOCAL + 261888, 523776, 65536, 32),
    ]
    issue(firmware, "okk_gdma_32bit_cpy_L2S", dst_addr=DDR, src_addr=0, shape=[70000, 1, 1, 1],
          dst_stride=[1] * 4, src_stride=[1] * 4)  # fmt: skip
    assert gdma(firmware, "src_nsize", "src_start_addr_l32", "dst_start_addr_l32") == [
        (65535, LOCAL, 0),
        (4465, LOCAL + 262140, 262140),
    ]


@pytest.mark.parametrize(
    ("shape", "sizes", "offsets"),
    [
        ([1, 131072, 1, 1], [(1, 65535, 1, 1), (1, 65535, 1, 1), (1, 2, 1, 1)], [0, 65535, 131070]),
        ([1, 1, 70000, 2], [(1, 1, 65535, 2), (1, 1, 4465, 2)], [0, 131070]),
        (
            [70000, 1, 1, 70000],
            [(65535, 1, 1, 65535), (65535, 1, 1, 4465), (4465, 1, 1, 65535), (4465, 1, 1, 4465)],
            [0, 65535, 65535 * 70000, 65535 * 70001],
        ),
    ],
)
@pytest.mark.parametrize("width", [8, 16, 32])
def test_copies_within_ddr(
    firmware: fh.Harness, width: int, shape: list[int], sizes: list[tuple[int, ...]], offsets: list[int]
) -> None:
    name = f"okk_gdma_{width}bit_cpy_S2S"
    issue(firmware, name, dst_addr=DDR, src_addr=DDR, shape=shape, dst_stride=None, src_stride=None)
    assert gdma(firmware, "src_nsize", "src_csize", "src_hsize", "src_wsize") == sizes
    assert gdma(firmware, "dst_nsize", "dst_csize", "dst_hsize", "dst_wsize") == sizes
    for side in ("src", "dst"):
        at = gdma(firmware, f"{side}_start_addr_l32", f"{side}_start_addr_h8")
        assert [(high << 32) + low - DDR for low, high in at] == [n * width // 8 for n in offsets]


def test_what_the_vendor_does_not_cut_is_refused(firmware: fh.Harness) -> None:
    load, repeat = "okk_gdma_32bit_cpy_S2L", [1, 1, 1, 1]
    for name, source, shape, dst_stride, text in (
        (load, DDR, [1, 70000, 1, 1], None, "70000 in gdma.src_csize"),
        (load, DDR, [1, 1, 1, 70000], repeat, "70000 in gdma.src_wsize"),
        ("okk_gdma_32bit_cpy_L2L", 4096, [1, 70000, 1, 1], None, "70000 in gdma.src_csize"),
        ("okk_bdc_relu", 65536, [1, 4096, 1, 1], None, "4096 in bd.res0_c"),
        ("okk_bdc_32bit_cpy", 4, [70000, 1, 1, 1], [256, 1, 1, 1], "destination reaches 0x3ffbc00"),
    ):
        strides = {"dst_stride": dst_stride, "src_stride": dst_stride and repeat}
        reply = firmware.okk(name, {"dst_addr": 0, "src_addr": source, "shape": shape, **strides})
        assert reply.status == wire.Status.ASSERT, name
        assert reply.text.startswith(f"{name}: {text}"), reply.text


KERNEL = """
#include "okk.h"
typedef struct {
    unsigned long long average_addr, maximum_addr, sum_addr, input_addr;
    int n, c, h, w;
} __attribute__((packed)) args_t;
void pools(const void *args) {
    const args_t *p = args;
    enum { INPUT = 0, RESULT = 262144 };
    const dim4 shape = {p->n, p->c, p->h, p->w}, one = {p->n, p->c, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(INPUT, p->input_addr, &shape, NULL, NULL);
    okk_bdc_avg_pool2d(RESULT, INPUT, &shape, p->h, p->w, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->average_addr, RESULT, &one, NULL, NULL);
    okk_bdc_max_pool2d(RESULT, INPUT, &shape, p->h, p->w, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->maximum_addr, RESULT, &one, NULL, NULL);
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    okk_bdc_add(INPUT, INPUT, INPUT, &shape, &stride, &stride, &stride);
    okk_gdma_32bit_cpy_L2S(p->sum_addr, INPUT, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pools)
"""


@pytest.mark.parametrize("shape", [(1, 8192, 2, 3), (2, 4097, 2, 2), (3, 4032, 1, 2)])
def test_the_pieces_compute_the_whole(tmp_path: Path, shape: tuple[int, int, int, int]) -> None:
    source = tmp_path / "pools.c"
    source.write_text(KERNEL)
    x = np.random.default_rng(7).integers(-50, 50, shape).astype(np.float32)
    done = run_kernel(
        source,
        "pools",
        inputs={"input_addr": x},
        outputs={
            "average_addr": Output(shape[:2]),
            "maximum_addr": Output(shape[:2]),
            "sum_addr": Output(shape),
        },
        arguments=dict(zip("nchw", shape, strict=True)),
    )
    assert np.allclose(done.outputs["average_addr"], x.mean((2, 3)), rtol=1e-6, atol=1e-5)
    assert np.array_equal(done.outputs["maximum_addr"], x.max((2, 3)))
    assert np.array_equal(done.outputs["sum_addr"], x + x)
