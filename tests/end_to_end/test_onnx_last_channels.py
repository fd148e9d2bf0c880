"""Windows cut out of pictures whose channels come second, and put back: the same numbers, and what is
moved."""

from __future__ import annotations

from typing import Any

import pytest

from tests.end_to_end.test_onnx_row_orders import Net, moves
from tests.support.onnx_models import equals_onnxruntime
from tpulayer import Graph
from user_layers.onnx.last_channels import channels_by_themselves
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit

CHANNELS = 32


def picture(batch: int = 1) -> Net:
    """A convolution of a picture [N, C, 8, 12]."""
    net = Net(batch, 8, 12, CHANNELS)
    net.x = (batch, 3, 8, 12)
    net.now = net.add("Conv", "x", net.numbers(CHANNELS, 3, 3, 3), pads=[1] * 4)
    return net


def attend(net: Net, *, grid: bool = False, whole: bool = False) -> None:
    """Attention of windows of 4 x 4 pixels, or of pixels that lie 4 apart; whole: the batch keeps its
    dimension."""
    n, h, w, c = net.shape
    cut = (4, h // 4, 4, w // 4) if grid else (h // 4, 4, w // 4, 4)
    to = [0, 3, 5, 2, 4, 1] if grid else [0, 2, 4, 3, 5, 1]
    back = [0, 5, 3, 1, 4, 2] if grid else [0, 5, 1, 3, 2, 4]
    x = net.add("Transpose", net.reshape(net.now, n, c, *cut), perm=to)
    lead = (n, -1) if whole else (-1,)
    x = net.reshape(x, *lead, 16, c)
    y = net.norm(x)
    if whole:
        y = net.reshape(y, -1, 16, c)
    y = net.attention(y, 16)
    x = net.add("Add", x, net.reshape(y, *lead, 16, c) if whole else y)
    windows = (h // 4, w // 4, 4, 4)
    y = net.add("Transpose", net.reshape(x, n, *windows, c), perm=back)
    net.now = net.reshape(y, n, c, h, w)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_windows_and_grids(toolkit: Toolkit, batch: int, whole: bool) -> None:
    net = picture(batch)
    attend(net, whole=whole)
    attend(net, grid=True, whole=whole)
    net.now = net.add("Conv", net.now, net.numbers(5, CHANNELS, 1, 1))
    proto = net.proto()
    found = moves(toolkit, proto)
    assert sum(found.values()) == 3, found
    kinds = [node.op.short for node in Graph.from_onnx(proto, toolkit=toolkit).nodes]
    assert kinds.count("TURN") == 2  # to rows and back, once
    equals_onnxruntime(toolkit, proto, net.given())


def test_a_picture_between_is_read(toolkit: Toolkit) -> None:
    net = picture()
    attend(net)
    between = net.now
    attend(net)
    equals_onnxruntime(toolkit, net.proto([between]), net.given())


OTHERS: dict[str, tuple[tuple[int, ...], list[int]]] = {
    "channels stay": ((1, CHANNELS, 2, 4, 3, 4), [0, 1, 2, 4, 3, 5]),
    "batches are moved": ((1, CHANNELS, 2, 4, 3, 4), [2, 0, 4, 3, 5, 1]),
    "no rows and columns": ((1, CHANNELS, 3, 4, 2, 4), [0, 2, 4, 3, 5, 1]),
    "channels are cut": ((1, 4, 8, 8, 12), [0, 2, 3, 4, 1]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_transposes_stay(toolkit: Toolkit, name: str) -> None:
    shape, order = OTHERS[name]
    net = picture()
    net.now = net.add("Transpose", net.reshape(net.now, *shape), perm=order)
    proto: Any = net.proto()
    model = load_model(proto)
    assert channels_by_themselves(model) is model
    equals_onnxruntime(toolkit, proto, net.given())
