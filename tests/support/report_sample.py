"""A report made by hand, with everything that a report can hold; its files are golden."""

from __future__ import annotations

from dataclasses import replace

from firmware_sim.instructions.instruction import Engine
from user_layers.report.model import (
    Bar,
    GroupReport,
    NetReport,
    NodeReport,
    PartReport,
    Role,
    Runs,
    StageReport,
    Stay,
    TensorReport,
    Traffic,
    ValueReport,
    Work,
)
from user_layers.report.roofline import Demand, Kind

KIB = 1024
ALIAS = "its output lies in its input's memory"
SLICES = 6
LOAD, COMPUTE, STORE = 900.0, 700.0, 600.0


def tensor(name: str, *shape: int, dtype: str = "float32") -> TensorReport:
    return TensorReport(name, shape, dtype)


DATA = tensor("data", 1, 64, 96, 96)
WEIGHTS = tensor("conv_w", 1, 64, 64, 1)
CONV = tensor("conv", 1, 64, 96, 96)
RELU = tensor("relu", 1, 64, 96, 96)
FLAT = tensor("flat", 1, 589824)
SORTED = tensor("a_long_name_of_the_tensor_with_all_that_was_sorted", 1, 589824)
TOP = tensor("top", 1, 5)
OUT = tensor("out", 1, 5)
DEMANDS = {
    "conv1": Demand(Kind.PRODUCT, 5_242_880, 131072, 0),
    "relu1": Demand(Kind.ELEMENTWISE, 589824, 0, 0),
    "flatten": Demand(Kind.COPY, 0),
    "sort_everything_by_value": Demand(Kind.COPY, 589824, 0, 2359296),
    "scale": Demand(Kind.ELEMENTWISE, 5, 20, 20),
}


def group() -> GroupReport:
    """Two layers on six slices: while one is computed, the next is loaded and the last one stored."""
    size = 64 * KIB
    constant = Stay("conv_w", Role.CONSTANT, 6 * size, 16 * KIB, 0, 0.0, 0.0)
    stays, bars = [], [Bar(Engine.GDMA, "conv_w", Role.CONSTANT, 0, 0.0, 500.0)]
    begin, dma = 500.0 + LOAD, 500.0
    computed: list[float] = []
    for p in range(SLICES):
        copy = p % 2
        bars.append(Bar(Engine.GDMA, "data", Role.LOADED, p, dma, dma + LOAD))
        start = max(begin, dma + LOAD)
        bars.append(Bar(Engine.BD, "conv1", None, p, start, start + COMPUTE))
        bars.append(Bar(Engine.BD, "relu1", None, p, start + COMPUTE, start + COMPUTE + 50))
        stays.append(Stay("data", Role.LOADED, copy * size, size, p, dma, start + COMPUTE))
        stays.append(Stay("conv", Role.MADE, (2 + copy) * size, size, p, start, start + COMPUTE))
        stays.append(Stay("conv1", Role.WORK, 7 * size, 2 * KIB, p, start, start + COMPUTE))
        begin = start + COMPUTE + 50
        computed.append(begin)
        dma += LOAD
        if p:
            bars.append(Bar(Engine.GDMA, "relu", Role.STORED, p - 1, dma, dma + STORE))
            stays.append(
                Stay("relu", Role.STORED, (2 + 1 - copy) * size, size, p - 1, computed[p - 1], dma + STORE)
            )
            dma += STORE
    end = max(begin, dma) + STORE
    bars.append(Bar(Engine.GDMA, "relu", Role.STORED, SLICES - 1, end - STORE, end))
    stays.append(Stay("relu", Role.STORED, 3 * size, size, SLICES - 1, begin, end))
    stays.append(Stay(constant.name, constant.role, constant.offset, constant.nbytes, 0, 0.0, begin))
    return GroupReport(
        index=0,
        nodes=("conv1", "relu1"),
        slices=(1, SLICES, 1),
        overlapped=True,
        local_bytes=450 * KIB,
        l2_bytes=0,
        values=(
            ValueReport("conv_w", Role.CONSTANT, 16 * KIB, (6 * size,)),
            ValueReport("data", Role.LOADED, size, (0, size)),
            ValueReport("conv", Role.MADE, size, (2 * size, 3 * size)),
            ValueReport("conv1", Role.WORK, 2 * KIB, (7 * size,)),
            ValueReport("relu", Role.STORED, size, (2 * size, 3 * size)),
        ),
        work=Work(12, 13, 4500.0, 9500.0, 0.0, end, Traffic(2359296, 2359296, 16384)),
        stays=tuple(stays),
        bars=tuple(bars),
        roofline=1234.5,
    )


def mixed() -> StageReport:
    """A group, a layer alone and one that only reshapes; then the host, the firmware, and a layer alone."""
    one = group()
    end = one.work.end
    conv = Work(6, 7, 4200.0, 5900.0, 0.0, end - STORE, Traffic(2359296, 0, 16384))
    relu = Work(6, 6, 300.0, 3600.0, 2100.0, end, Traffic(0, 2359296))
    sort = Work(
        40, 80, 120_000.0, 90_000.0, end, end + 130_000.5, Traffic(2359296, 2359296, 0, 524288, 524288)
    )
    nodes = (
        NodeReport("conv1", "TPU_CONV", "CONV", (DATA, WEIGHTS), (CONV,), Runs.GROUP, "", 0, 146 * KIB, conv,
                   "CONV", DEMANDS["conv1"]),
        NodeReport("relu1", "TPU_UNARY", "UNARY", (CONV,), (RELU,), Runs.GROUP, "", 0, 64 * KIB, relu,
                   "UNARY relu", DEMANDS["relu1"]),
        NodeReport("flatten", "TPU_RESHAPE", "RESHAPE", (RELU,), (FLAT,), Runs.SHARES, ALIAS,
                   operation="RESHAPE", demand=DEMANDS["flatten"]),
        NodeReport(
            "sort_everything_by_value", "TPU_SORT", "TPU(SORT)", (FLAT,), (SORTED,), Runs.ALONE,
            "it has no version for local memory", None, 300 * KIB, sort,
            "TPU(SORT)", replace(DEMANDS["sort_everything_by_value"], read=2359296),
        ),
    )  # fmt: skip
    static = PartReport(
        0, "static", ("data",), (SORTED.name,), nodes, (one,), (one, 2, 3),
        Work(52, 93, 124_500.0, 99_500.0, 0.0, sort.end, conv.traffic + relu.traffic + sort.traffic), 0,
    )  # fmt: skip
    top = NodeReport(
        "top5", "CPU", "CPU", (SORTED,), (TOP,), Runs.HOST, "TopK of 589824 elements has no layer"
    )
    host = PartReport(1, "cpu", (SORTED.name,), ("top",), (top,), (), (0,), None, 0)
    shape = NodeReport("shaped", "TPU_SHAPED", "TPU(SHAPED)", (TOP,), (TOP,), Runs.FIRMWARE)
    firmware = PartReport(2, "dynamic", ("top",), ("top",), (shape,), (), (0,), None, 8192)
    tail = Work(1, 2, 10.0, 4400.0, 0.0, 4410.0, Traffic(20, 20))
    scale = NodeReport(
        "scale",
        "TPU_CONST_BINARY",
        "CONST_BINARY",
        (TOP,),
        (OUT,),
        Runs.ALONE,
        "opt 0 makes no groups",
        None,
        128,
        tail,
        "CONST_BINARY mul",
        DEMANDS["scale"],
    )
    last = PartReport(3, "static", ("top",), ("out",), (scale,), (), (0,), tail, 0)
    reason = "compiled dynamically: must_dynamic_run of TPU(SHAPED) (shaped) is true"
    return StageReport(
        (DATA,), (OUT,), False, (reason,), 16384, 7_000_064, (static, host, firmware, last), DEMANDS
    )


def dynamic() -> StageReport:
    node = NodeReport("relu1", "TPU_UNARY", "UNARY", (DATA,), (RELU,), Runs.FIRMWARE)
    alias = NodeReport(
        "flatten",
        "TPU_RESHAPE",
        "RESHAPE",
        (RELU,),
        (FLAT,),
        Runs.FIRMWARE,
        ALIAS,
    )
    part = PartReport(0, "dynamic", ("data",), ("flat",), (node, alias), (), (0, 1), None, 2_400_256)
    return StageReport((DATA,), (FLAT,), True, (), 0, 2_400_256, (part,))


def sample() -> list[NetReport]:
    """Two nets of a bmodel."""
    return [NetReport("mixed", (mixed(),)), NetReport("dynamic", (dynamic(), dynamic()))]
