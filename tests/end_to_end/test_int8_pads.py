"""Pads in 8 bits that are filled with numbers beyond their input's range, as ones beside small values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from user_layers.onnx.build import build
from user_layers.onnx.load import from_proto
from user_layers.product import compile_net
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.rewrite import Int8
from user_layers.runtime.references import load_net
from user_layers.toolkit import Toolkit

C, SIZE = 16, 10


def model(fill: float) -> onnx.ModelProto:
    rng = np.random.default_rng(0)

    def weights(out: int, size: float) -> Any:
        return (rng.standard_normal((out, C, 1, 1)) * size / C**0.5).astype(np.float32)

    constants: dict[str, Any] = {
        "a": weights(C, 0.02),
        "pads": np.array([0, 0, 0, 0, 0, 1, 0, 0]),
        "fill": np.float32(fill),
        "b": np.concatenate([weights(C, 1.0), np.full((C, 1, 1, 1), 0.003, np.float32)], axis=1),
        "c": weights(C, 1.0),
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["small"]),
        helper.make_node("Pad", ["small", "pads", "fill"], ["padded"]),
        helper.make_node("Conv", ["small", "c"], ["beside"]),
        helper.make_node("Conv", ["padded", "b"], ["whole"]),
    ]
    return make_model(nodes, {"x": (1, C, SIZE, SIZE)}, ["beside", "whole"], constants, opset=13)


@pytest.mark.parametrize("fill", [1.0, -2.0, 0.01])
def test_what_is_before_them_keeps_its_bits(toolkit: Toolkit, fill: float) -> None:
    read = from_proto(model(fill))
    x = {"x": np.random.default_rng(1).standard_normal((1, C, SIZE, SIZE)).astype(np.float32)}
    plain = build(read, "net", toolkit=toolkit, integers=False).graph
    done = build(read, "net", toolkit=toolkit, int8=Int8(calibrate(plain, [x]))).quantised
    assert done is not None and done.share == 1.0
    results = []
    for graph in (plain, done.graph):
        with load_net(compile_net(graph), toolkit) as runtime:
            results.append(runtime.launch("net", x))
    assert compared(results[0][0], results[1][0]).sqnr > 30  # what reads the small numbers themselves
