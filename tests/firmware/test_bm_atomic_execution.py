"""What bm_atomic.h computes on the emulator, against numpy: activations, masked copy, sort, gather."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import chip
from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceError
from tests.support.examples import examples
from user_layers.toolchain.kernel import kernel_firmware

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
U32 = npt.NDArray[np.uint32]
Function = Callable[[F64], F64]

SOURCE = r"""
#include "bm_atomic.h"

static dim4 dims(const int *v) { return (dim4){v[0], v[1], v[2], v[3]}; }

/* kind -1: bm_local_exp; otherwise the activation. source: what the source holds afterwards */
typedef struct {
    unsigned long long in, out, source;
    int shape[4], kind, start;
} __attribute__((packed)) act_t;
void act(const void *args) {
    const act_t *p = args;
    const dim4 shape = dims(p->shape);
    const unsigned src = (unsigned)p->start, dst = src + 0x20000, imm = src + 0x40000;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(src, p->in, &shape, NULL, NULL);
    if (p->kind < 0) {
        ExpParam e = {src, imm, {p->shape[0], p->shape[1], p->shape[2], p->shape[3]}};
        bm_local_exp(&e);
        okk_gdma_32bit_cpy_L2S(p->out, src, &shape, NULL, NULL);
    } else {
        ActParam a = {src, dst, imm, {p->shape[0], p->shape[1], p->shape[2], p->shape[3]},
                      (BmActType)p->kind};
        bm_local_act(&a);
        okk_gdma_32bit_cpy_L2S(p->out, dst, &shape, NULL, NULL);
    }
    okk_gdma_32bit_cpy_L2S(p->source, src, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(act)

typedef struct {
    unsigned long long data, mask, out, counts;
    int shape[4], npu;
} __attribute__((packed)) filter_t;
void filter(const void *args) {
    const filter_t *p = args;
    const dim4 shape = dims(p->shape);
    const unsigned base = (unsigned)p->npu * 0x80000;
    unsigned *counts = (unsigned *)okk_global_mem_addr(p->counts);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(base, p->data, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(base + 0x20000, p->mask, &shape, NULL, NULL);
    MaskMemCpy4DPram m = {0, 0x20000, (unsigned)p->npu, p->out,
                          {p->shape[0], p->shape[1], p->shape[2], p->shape[3]}};
    bm_atomic_mask_memcpy_4D(&m);
    counts[0] = bm_get_mask_memcpy_res_num();
    m.data_local_mem_addr = 0x20000; /* the mask by itself, behind the first result */
    m.dst_global_mem_addr = p->out + 0x10000;
    bm_atomic_mask_memcpy_4D(&m);
    counts[1] = bm_get_mask_memcpy_res_num();
    counts[2] = bm_get_mask_memcpy_res_num(); /* asking does not change it */
}
OKKERNEL_FUNC_REGISTER(filter)

void sort(const void *args) {
    bm_initialize();
    bm_atomic_sort(args);
    bm_poll();
}
OKKERNEL_FUNC_REGISTER(sort)

/* Data and indices come from DDR to L2, the result goes back. */
typedef struct {
    unsigned long long data, index, out;
    int data_bytes, length, bytes, type;
} __attribute__((packed)) gather_t;
void gather(const void *args) {
    const gather_t *p = args;
    const unsigned data = okk_l2_sram_start_addr(), index = data + 0x10000, out = data + 0x20000;
    okk_initialize();
    okk_gdma_8bit_cpy_S2S(data, p->data, &(dim4){1, 1, 1, p->data_bytes}, NULL, NULL);
    okk_gdma_32bit_cpy_S2S(index, p->index, &(dim4){1, 1, 1, p->length}, NULL, NULL);
    GatherDataParam g = {data, index, out, (unsigned)p->length, (BmGDType)p->type};
    bm_atomic_gather_data(&g);
    okk_gdma_8bit_cpy_S2S(p->out, out, &(dim4){1, 1, 1, p->length * p->bytes}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(gather)

/* {address}: what the device says of itself, and a byte by way of each memory's pointer */
void facts(const void *args) {
    unsigned *out = (unsigned *)bm_global_mem_addr(*(const unsigned long long *)args);
    const unsigned found[] = {
        (unsigned)(bm_global_mem_start_addr() >> 32), bm_local_mem_start_addr(), bm_local_mem_size_per_npu(),
        bm_local_mem_bank_per_npu(), bm_l2_sram_start_addr(), bm_l2_sram_size(), bm_dtcm_start_addr(),
        bm_dtcm_size(), bm_lookup_table_start_addr(), bm_lookup_table_size(), (unsigned)bm_npu_num(),
        bm_eu_num(),
    };
    unsigned char *memories[] = {
        bm_local_mem_addr(5, 64), bm_l2_sram_addr(bm_l2_sram_start_addr()),
        bm_dtcm_addr(bm_dtcm_start_addr())};
    for (unsigned i = 0; i < sizeof found / sizeof *found; i++) out[i] = found[i];
    for (unsigned i = 0; i < 3; i++) *memories[i] = (unsigned char)(i + 7);
    for (unsigned i = 0; i < 3; i++) out[12 + i] = *memories[i];
}
OKKERNEL_FUNC_REGISTER(facts)
"""
ROOM = 1 << 18  # bytes of each buffer


@dataclass
class Bench:
    """A device and a few buffers of ROOM bytes."""

    device: Device
    buffers: list[int]

    def put(self, index: int, array: npt.NDArray[np.generic]) -> int:
        assert array.nbytes <= ROOM
        self.device.write(self.buffers[index], array)
        return self.buffers[index]

    def get(self, index: int, count: int, dtype: str) -> npt.NDArray[np.generic]:
        return self.device.read_array(self.buffers[index], (count,), dtype)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    source = tmp_path_factory.mktemp("bm_atomic") / "atomic.c"
    source.write_text(SOURCE)
    with Device(kernel_firmware([source])) as device:
        yield Bench(device, [device.malloc(ROOM) for _ in range(4)])


# ---- activations ----

SHAPES = [(1, 64, 4, 8), (2, 70, 3, 5), (1, 3, 1, 1)]


def activate(bench: Bench, kind: int, x: F32, npu: int = 0) -> tuple[F32, F32]:
    """The result, and what the source holds afterwards."""
    sent = struct.pack(
        "<3Q4iii", bench.put(0, x), bench.buffers[1], bench.buffers[2], *x.shape, kind, npu * chip.LOCAL_BYTES
    )
    bench.device.launch("act", sent)
    out, source = (bench.get(i, x.size, "float32").reshape(x.shape) for i in (1, 2))
    return out.astype(np.float32), source.astype(np.float32)


def spread(shape: tuple[int, ...], low: float, high: float) -> F32:
    return np.random.default_rng(3).uniform(low, high, shape).astype(np.float32)


def sigmoid(x: F64) -> F64:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("npu", [0, 63])
def test_local_exp(bench: Bench, shape: tuple[int, int, int, int], npu: int) -> None:
    x = spread(shape, -103, 88)
    out, source = activate(bench, -1, x, npu)
    assert np.allclose(out, np.exp(x.astype(np.float64)), rtol=1e-6, atol=1.2e-38)  # no denormals
    assert np.array_equal(out, source)  # the result replaces the source


def test_local_exp_of_whole_and_of_very_small_numbers(bench: Bench) -> None:
    x = np.arange(-103, 89, dtype=np.float32).reshape(1, 6, 8, 4)
    out, _ = activate(bench, -1, x)
    assert np.allclose(out, np.exp(x.astype(np.float64)), rtol=1e-6, atol=1.2e-38)
    assert out.reshape(-1)[103] == 1
    assert not out[x <= -88].any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("kind", "function", "low", "high", "tolerance"),
    [
        (0, lambda x: np.maximum(x, 0), -9, 9, 0),
        (1, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), -500, 500, 3e-6),
        (3, np.tanh, -10, 10, 3e-6),
        (3, np.tanh, -1e9, 1e9, 3e-6),
        (4, sigmoid, -10, 10, 3e-6),
        (4, sigmoid, -700, 700, 3e-6),
    ],
    ids=["relu", "elu", "tanh", "tanh of large", "sigmoid", "sigmoid of large"],
)
def test_local_act(
    bench: Bench,
    kind: int,
    function: Function,
    low: float,
    high: float,
    tolerance: float,
    shape: tuple[int, int, int, int],
) -> None:
    x = spread(shape, low, high)
    x.reshape(-1)[:3] = (0.0, low, high)
    out, source = activate(bench, kind, x)
    assert np.allclose(out, function(x.astype(np.float64)), rtol=tolerance, atol=tolerance)
    assert np.isfinite(out).all()
    assert np.array_equal(source, x)  # which stays as it was


@pytest.mark.parametrize(("kind", "why"), [(2, "prelu needs a slope"), (5, "activation 5 does not exist")])
def test_activations_that_are_refused(bench: Bench, kind: int, why: str) -> None:
    with pytest.raises(DeviceError, match=f"bm_local_act: {why}.*called at .*in act"):
        activate(bench, kind, spread((1, 1, 1, 1), 0, 1))


# ---- masked copy ----


@examples(60)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 70), st.integers(1, 5), st.integers(1, 7)),
    st.integers(0, 63),
    st.sampled_from([0.0, 0.1, 0.7, 1.0]),
    st.integers(0, 2**32 - 1),
)
def test_masked_copy_and_its_count(
    bench: Bench, shape: tuple[int, int, int, int], npu: int, density: float, seed: int
) -> None:
    """Words keep their bits and their order; what lies behind the last one stays."""
    random = np.random.default_rng(seed)
    data = random.integers(0, 2**32, shape, dtype=np.uint32)
    mask = np.where(random.random(shape) < density, random.integers(1, 2**32, shape, dtype=np.uint32), 0)
    mask = mask.astype(np.uint32)
    before = np.full(ROOM // 4, 0xABCDEF01, np.uint32)
    out = bench.put(2, before)
    sent = struct.pack("<4Q4ii", bench.put(0, data), bench.put(1, mask), out, bench.buffers[3], *shape, npu)
    bench.device.launch("filter", sent)
    for at, kept in ((0, data[mask != 0]), (0x10000 // 4, mask[mask != 0])):
        before[at : at + len(kept)] = kept
    assert np.array_equal(bench.get(2, ROOM // 4, "uint32"), before)
    assert bench.get(3, 3, "uint32").tolist() == [np.count_nonzero(mask)] * 3


# ---- sort ----

NUMBERS = st.lists(
    st.floats(width=32, allow_subnormal=False) | st.sampled_from([0.0, -0.0, 1.0, np.inf, -np.inf]),
    min_size=1,
    max_size=80,
)


def python_order(numbers: list[float], *, descending: bool) -> list[int]:
    """Without numpy: NaN last, and equal numbers in the order that they came in."""

    def key(i: int) -> tuple[bool, float]:
        x = numbers[i]
        return (True, 0.0) if x != x else (False, -x if descending else x)

    return sorted(range(len(numbers)), key=key)


@examples(150)
@given(st.data(), NUMBERS, st.booleans(), st.sampled_from(["none", "given", "counted"]))
def test_sort(
    bench: Bench, data: st.DataObject, numbers: list[float], descending: bool, indices: str
) -> None:
    kept = data.draw(st.integers(1, len(numbers)))
    names = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=len(numbers), max_size=len(numbers)))
    x = np.array(numbers, np.float32)
    untouched = np.full(len(numbers) + 1, 0x12345678, np.uint32)
    sent = struct.pack(
        "<4QIIi??2x",
        bench.put(0, x),
        bench.put(1, np.array(names, np.uint32)),
        bench.put(2, untouched),
        bench.put(3, untouched),
        len(numbers),
        kept,
        descending,
        indices != "none",
        indices == "counted",
    )
    bench.device.launch("sort", sent)
    order = python_order(x.tolist(), descending=descending)[:kept]
    expected, expected_names = untouched.copy(), untouched.copy()
    expected[:kept] = x.view(np.uint32)[order]
    if indices == "given":
        expected_names[:kept] = [names[i] for i in order]
    elif indices == "counted":
        expected_names[:kept] = order
    assert np.array_equal(bench.get(2, len(untouched), "uint32"), expected)
    assert np.array_equal(bench.get(3, len(untouched), "uint32"), expected_names)


def test_sort_agrees_with_numpy_on_many_numbers(bench: Bench) -> None:
    x = np.random.default_rng(8).standard_normal(20_000).astype(np.float32)
    places = bench.put(0, x), 0, bench.buffers[2], bench.buffers[3]
    bench.device.launch("sort", struct.pack("<4QIIi??2x", *places, len(x), 1000, 1, True, True))
    assert np.array_equal(bench.get(2, 1000, "float32"), np.sort(x)[::-1][:1000])
    assert np.array_equal(bench.get(3, 1000, "uint32"), np.argsort(-x, kind="stable")[:1000])


@pytest.mark.parametrize(
    ("numbers", "kept", "order", "why"),
    [
        (0, 1, 0, "1 of 0 elements"),
        (4, 5, 0, "5 of 4 elements"),
        (4, 0, 0, "0 of 4 elements"),
        (4, 4, 2, "order 2 does"),
    ],
)
def test_sorts_that_are_refused(bench: Bench, numbers: int, kept: int, order: int, why: str) -> None:
    with pytest.raises(DeviceError, match=f"bm_atomic_sort: .*{why}"):
        bench.device.launch(
            "sort", struct.pack("<4QIIi??2x", *bench.buffers, numbers, kept, order, False, False)
        )


def test_sort_of_local_memory_is_refused(bench: Bench) -> None:
    sent = struct.pack("<4QIIi??2x", chip.LOCAL_BASE, 0, bench.buffers[2], 0, 4, 4, 0, False, False)
    with pytest.raises(
        DeviceError, match=r"in sort: BD command 1 .*opd0: address 0x8000000 is in local memory"
    ):
        bench.device.launch("sort", sent)


# ---- gather ----

KINDS = {1: 0, 4: 2, 16: 4}  # bytes: BmGDType


def run_gather(bench: Bench, data: npt.NDArray[np.uint8], indices: U32, size: int) -> None:
    where = bench.put(0, data), bench.put(1, indices), bench.buffers[2]
    bench.device.launch("gather", struct.pack("<3Q4i", *where, len(data), len(indices), size, KINDS[size]))


@examples(100)
@given(st.data(), st.sampled_from([1, 4, 16]), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_gather(bench: Bench, data: st.DataObject, size: int, count: int, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 256, (count, size), np.uint8)
    chosen = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=100))
    run_gather(bench, rows.reshape(-1), np.array(chosen, np.uint32), size)
    got = bench.get(2, len(chosen) * size, "uint8").reshape(-1, size)
    assert np.array_equal(got, rows[chosen])


@pytest.mark.parametrize("size", [1, 4, 16])
def test_an_index_beyond_l2_is_refused(bench: Bench, size: int) -> None:
    start = chip.L2_USER_OFFSET
    elements = (chip.L2_BYTES - start) // size
    rows = np.zeros(size, np.uint8)
    run_gather(bench, rows, np.array([0, elements - 1], np.uint32), size)
    why = rf"opd1: index {elements} reaches beyond L2, which holds {elements} elements from opd0 on"
    with pytest.raises(DeviceError, match=f"in gather: BD command 1 .*{why}"):
        run_gather(bench, rows, np.array([0, elements], np.uint32), size)


# ---- what the device says of itself ----


def test_device_facts_in_the_bm_spelling(bench: Bench) -> None:
    bench.device.launch("facts", struct.pack("<Q", bench.buffers[0]))
    l2, dtcm = chip.L2_BASE + chip.L2_USER_OFFSET, 0x0202_0000
    assert bench.get(0, 15, "uint32").tolist() == [
        *(1, chip.LOCAL_BASE, chip.LOCAL_BYTES, 8, l2, chip.L2_USER_BYTES, dtcm, 0x5_F400),
        *(0x32_3C00, 0xD_C400, chip.NPU_NUM, 32, 7, 8, 9),
    ]
