"""Every TFLite operation as ONNX says it, against LiteRT's own kernels, with random shapes and attributes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from tests.litert.cases import CASES
from tests.support.tflite_models import Net, to_bytes
from user_layers.spelling.foreign import Array
from user_layers.spelling.spell import spell
from user_layers.tflite.read import read_tflite
from user_layers.tflite.spellings import TFLITE

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
litert: Any = pytest.importorskip(
    "ai_edge_litert.interpreter", reason="needs LiteRT: pip install 'ai-edge-litert==2.3.*'"
)
TRIED = int(os.environ.get("TPULAYER_LITERT_EXAMPLES", "20"))


def run_litert(
    data: bytes, feeds: list[Array] | None = None, seed: int = 0
) -> tuple[Any, list[Array], list[Array]]:
    """The interpreter, its inputs (random ones where none are given) and its outputs."""
    plain = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    runner = litert.Interpreter(model_content=data, experimental_op_resolver_type=plain)
    runner.allocate_tensors()
    rng = np.random.default_rng(seed)
    fed = []
    for i, detail in enumerate(runner.get_input_details()):
        given = rng.uniform(-2, 2, detail["shape"]).astype(detail["dtype"]) if feeds is None else feeds[i]
        runner.set_tensor(detail["index"], given)
        fed.append(given)
    runner.invoke()
    return runner, fed, [runner.get_tensor(detail["index"]) for detail in runner.get_output_details()]


def with_shapes(net: Net, runner: Any) -> bytes:
    """The model with the shapes that the interpreter found."""
    for detail in runner.get_tensor_details():
        if detail["index"] < len(net.tensors):
            net.tensors[detail["index"]].shape = tuple(int(n) for n in detail["shape"])
    return to_bytes(net)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("free", [False, True])
def test_an_operation_means_what_litert_computes(kind: str, free: bool) -> None:
    tried = 0
    for seed in range(TRIED):
        net = CASES[kind](np.random.default_rng(seed))
        try:
            runner, fed, want = run_litert(to_bytes(net))
        except (RuntimeError, ValueError):  # LiteRT refuses these attributes
            continue
        tried += 1
        model = read_tflite(with_shapes(net, runner))
        spelled = spell(model, TFLITE, free_borders=free)
        session = onnxruntime.InferenceSession(spelled.proto.SerializeToString())
        feeds = {b.name: x.transpose(b.order) for b, x in zip(spelled.inputs, fed, strict=True)}
        got = session.run(None, feeds)
        for border, array, expected in zip(spelled.outputs, got, want, strict=True):
            back = array.transpose(np.argsort(border.order))
            assert back.shape == expected.shape and back.dtype == expected.dtype, (seed, net)
            np.testing.assert_allclose(
                back, expected, rtol=1e-4, atol=2e-5, err_msg=f"seed {seed}: {net.ops}"
            )
    assert tried >= TRIED // 2


def test_every_operation_that_is_spelled_is_tried() -> None:
    assert set(TFLITE) - set(CASES) == {"DEQUANTIZE", "QUANTIZE"}
