"""The onnx package's own node tests through the compiler: how many run entirely as layers.

    python -m tests.onnx_nodes

Counted are the tests with float32 among their inputs and outputs, and int32, int64 or bool beside it. Prints
how many passed (within 1e-4), how many have no layer, with the reasons, and the names of those that differ.
"""

from __future__ import annotations

import collections
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

from firmware_sim.errors import TpulayerError
from user_layers.onnx import graph_from_onnx
from user_layers.onnx.check import TOLERANCE
from user_layers.toolkit import Toolkit

_TYPES = {onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.BOOL}


def counts(model: Any) -> bool:
    """Whether a test is one of those that are counted."""
    values = (*model.graph.input, *model.graph.output)
    if any(value.type.WhichOneof("value") != "tensor_type" for value in values):
        return False
    kinds = {value.type.tensor_type.elem_type for value in values}
    return onnx.TensorProto.FLOAT in kinds and kinds <= _TYPES


def agrees(case: Any, path: Path, toolkit: Toolkit) -> bool:
    """Compile, run and compare one test. Raises TpulayerError where a node has no layer."""
    onnx.save(case.model, str(path))
    given, wanted = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    graph = graph_from_onnx(path, toolkit=toolkit)
    graph.compile(opt=0)
    got = graph.run({name: np.asarray(value) for name, value in zip(names, given, strict=True)})
    for mine, theirs in zip(got, map(np.asarray, wanted), strict=True):
        if mine.shape != theirs.shape:
            return False
        a, b = mine.astype(np.float64), theirs.astype(np.float64)
        scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0)) or 1.0
        if not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
            return False
    return True


def main() -> None:
    found: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    different = []
    with tempfile.TemporaryDirectory() as folder, Toolkit() as toolkit:
        for case in collect_testcases(None):
            if case.model is None or not counts(case.model):
                found["of other types"] += 1
                continue
            try:
                same = agrees(case, Path(folder) / "model.onnx", toolkit)
            except TpulayerError as error:
                found["without a layer"] += 1
                reasons[error.message.rpartition(": ")[2][:60]] += 1
                continue
            found["passed" if same else "different"] += 1
            if not same:
                different.append(case.name)
    print(", ".join(f"{count} {what}" for what, count in found.most_common()))
    print("different:", ", ".join(different) or "none")
    for reason, count in reasons.most_common(20):
        print(f"{count:5}  {reason}")


if __name__ == "__main__":
    main()
