"""The roofline's figures beside the clock's, and its sum."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.instructions import adder_tree
from firmware_sim.instructions.arithmetic import BY_EU
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Eu
from firmware_sim.wire import BUILTIN_OP_BASE, DType
from tests.support.examples import examples
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.operations import demands
from user_layers.net.net import Net, NetTensorInfo
from user_layers.net.nodes import LayerNode
from user_layers.net.ops import OpInfo
from user_layers.report.roofline import PEAKS, READ, WRITTEN, Demand, Kind, roofline

_ONE = st.integers(1, 300)
_SHAPES = st.tuples(st.integers(1, 9), _ONE, _ONE, _ONE)
_LARGE = (4, 64, 64, 64)


@examples(200)
@given(
    shape=_SHAPES, channels=_ONE, kernel=st.tuples(st.integers(1, 9), st.integers(1, 9)), bias=st.booleans()
)
def test_no_command_is_faster_than_its_peak(
    shape: tuple[int, int, int, int], channels: int, kernel: tuple[int, int], bias: bool
) -> None:
    results, taps = math.prod(shape), math.prod(kernel)
    for kind, count, cycles in (
        (
            Kind.PRODUCT,
            results * taps * channels,
            timing.convolution(shape, 0, channels, kernel, 1, bias=bias),
        ),
        (
            Kind.PRODUCT8,
            results * taps * channels,
            timing.convolution_fixed(shape, 0, channels, kernel, bias=bias),
        ),
        (
            Kind.PRODUCT,
            shape[0] * shape[1] * shape[3] * channels,
            timing.matrix_product(shape[0], 0, (shape[1], shape[3]), channels, bias=bias),
        ),
        (Kind.DEPTHWISE, results * taps, timing.depthwise(shape, 0, kernel, 1, bias=bias)),
        (Kind.POOL, results, timing.adder_tree(shape, 0, adder_tree.INPUTS)),
        (Kind.ELEMENTWISE, results, timing.elementwise(shape, 0, 1)),
        (Kind.COPY, results, timing.elementwise(shape, 0, BY_EU[Eu.COPY].factor)),
        (Kind.FUNCTION, results, timing.elementwise(shape, 0, 24)),
    ):
        assert count / PEAKS[kind] <= cycles.chip * (1 + 1e-9), kind


def test_large_commands_come_near_the_peaks() -> None:
    results = math.prod(_LARGE)
    for kind, count, cycles in (
        (Kind.PRODUCT, results * 9 * 1024, timing.convolution(_LARGE, 0, 1024, (3, 3), 1, bias=False)),
        (Kind.PRODUCT8, results * 9 * 1024, timing.convolution_fixed(_LARGE, 0, 1024, (3, 3), bias=False)),
        (Kind.DEPTHWISE, results * 400, timing.depthwise(_LARGE, 0, (20, 20), 1, bias=False)),
        (Kind.POOL, results, timing.adder_tree(_LARGE, 0, adder_tree.INPUTS)),
        (Kind.ELEMENTWISE, results, timing.elementwise(_LARGE, 0, 1)),
    ):
        assert count / PEAKS[kind] >= 0.98 * cycles.chip, kind


def test_bytes_take_the_fitted_bandwidth() -> None:
    assert timing.FITTED.read_burst / 64 == 1 / READ
    assert timing.FITTED.write_burst / 64 == 1 / WRITTEN


def _matmul(dtype: DType, op_type: int) -> Demand:
    tensors = {
        name: NetTensorInfo(name, shape, dtype, data=data)
        for name, shape, data in (("a", (3, 4), None), ("b", (4, 5), b""), ("c", (3, 5), None))
    }
    op = OpInfo("TPU_MATMUL", op_type, 0, 0, has_local=False)
    node = LayerNode("m", op, b"", ("a", "b"), ("c",), None, None, "")
    described = SimpleNamespace(
        net=Net("net", tensors, (node,), ("a",), ("c",)), attrs=[SimpleNamespace(just_reshape=False)]
    )
    return demands(cast(DescribedNet, described), [0])[0]


def test_products_of_bytes_have_a_class_of_their_own() -> None:
    for dtype, kind in (
        (DType.INT8, Kind.PRODUCT8),
        (DType.UINT8, Kind.PRODUCT8),
        (DType.FP32, Kind.PRODUCT),
    ):
        size = dtype.itemsize
        assert _matmul(dtype, BUILTIN_OP_BASE) == Demand(kind, 60, 32 * size, 15 * size)


def test_nothing_is_known_of_layers_of_the_users() -> None:
    assert _matmul(DType.FP32, 1) == Demand(Kind.COPY, 15, 4 * 27, 4 * 15)


def test_classes_follow_one_another_and_each_takes_the_longer_time() -> None:
    copies = Demand(Kind.COPY, 512 * 100)
    passes = Demand(Kind.ELEMENTWISE, 1024 * 10, read=50 * 7, written=0)
    more = Demand(Kind.ELEMENTWISE, 1024 * 10, read=50 * 30, written=0)
    assert copies.cycles == 100 and passes.cycles == 10 and more.cycles == 30
    assert roofline([copies, passes]) == 110
    assert (
        roofline([copies, passes, more]) == 100 + 37
    )  # one class: its bytes take longer than its operations
    assert roofline([]) == 0
    assert (Demand(Kind.PRODUCT, 5).macs, Demand(Kind.DEPTHWISE, 6).macs, copies.macs) == (5, 6, 0)
