"""Quantized models beside LiteRT's own integer kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.end_to_end.test_tflite_quantised import NETS, compiled
from tests.litert.running import since
from tests.support.tflite_quantised import (
    images,
    in_integers,
    in_numbers,
    quantised,
    up_to_scores,
    without_optimizer,
)
from user_layers.delegates.litert import LiteRtModel, counters, left_on_cpu
from user_layers.formats import in_onnx
from user_layers.quantize.quality import compared
from user_layers.runtime.references import load_net
from user_layers.spelling.foreign import Array
from user_layers.spelling.spell import spell
from user_layers.tflite.spellings import TFLITE
from user_layers.toolkit import Toolkit

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install 'ai-edge-litert==2.3.*'")
pytest.importorskip("onnxruntime", reason="needs onnxruntime")


@pytest.mark.parametrize("edges", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("kind", NETS)
def test_a_model_beside_litert(kind: str, edges: bool, tmp_path: Path, toolkit: Toolkit) -> None:
    """In ONNX's words it is what LiteRT computes; the chip's grids are not the file's, and its integers lose
    about as much of the float model as LiteRT's. Inside LiteRT it is one partition, of the same bits as the
    bmodel."""
    model = up_to_scores(NETS[kind]())
    data = quantised(model, images(model, 4), edges=edges)
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    proto, whole = in_onnx(path)[0], spell(model, TFLITE).proto
    found: dict[str, list[Array]] = {"float": [], "litert": [], "words": [], "chip": [], "plugin": []}
    assert not left_on_cpu(path, toolkit)
    before = counters()
    with (
        LiteRtModel(path, tpu=False) as runner,
        LiteRtModel(path) as plugin,
        load_net(compiled(path, toolkit).net, toolkit) as runtime,
    ):
        for given in images(model, 4, 9):
            fed = in_integers(data, given)
            found["float"] += without_optimizer(whole, given)
            found["litert"] += in_numbers(data, list(runner.run(fed).values()))
            found["words"] += in_numbers(data, without_optimizer(proto, fed))
            found["plugin"] += in_numbers(data, list(plugin.run(fed).values()))
            found["chip"] += in_numbers(data, runtime.launch("net", fed))
    all_of = {name: np.concatenate([one.reshape(-1) for one in arrays]) for name, arrays in found.items()}
    assert since(before).runs == 4
    np.testing.assert_array_equal(all_of["plugin"], all_of["chip"])
    assert compared(all_of["litert"], all_of["words"]).sqnr > 35
    assert (
        compared(all_of["float"], all_of["chip"]).sqnr > compared(all_of["float"], all_of["litert"]).sqnr - 6
    )
