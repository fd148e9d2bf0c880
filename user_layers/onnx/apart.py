"""What the packages onnx and onnxruntime compute while a model is compiled, in a process of its own.

Both crash on some models that are not valid (an assertion in a shape inference, a division by zero); here
that is an error that says so. The process starts when it is first needed and ends with this one.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firmware_sim.errors import CompileError, TpulayerError
from firmware_sim.processes.process import Child, Crash
from user_layers.onnx.model import Array

LIMIT_S = 600.0  # a loop in a model may have no end

_lock = threading.Lock()
_child: Child | None = None


def check_model(proto: bytes, *, standard: bool) -> bytes:
    """A serialized model with inferred shapes; standard: it has only ONNX's own operations, and is checked.

    Errors: ModelError for a model that is not valid.
    """
    return _request({"op": "check", "standard": standard}, proto)


def infer_model(proto: bytes) -> bytes:
    """A serialized model with inferred shapes. Errors: ModelError."""
    return _request({"op": "infer"}, proto)


def inline_functions(proto: bytes) -> bytes:
    """A serialized model with its own functions written out. Errors: ModelError."""
    return _request({"op": "inline"}, proto)


def expand_function(proto: bytes, domain: str, op: str) -> bytes:
    """A serialized model, with an operation replaced by those that define it. Errors: ModelError."""
    return _request({"op": "expand", "function": [domain, op]}, proto)


def run_model(model: bytes | Path, feeds: Mapping[str, Array]) -> list[Any]:
    """The outputs of a model, or of a file, from onnxruntime: arrays, or what else it gives.

    Errors: MissingError without onnxruntime, ModelError with its words.
    """
    header: dict[str, object] = {"op": "run"}
    if isinstance(model, Path):
        header["path"] = str(model)
    found: list[Any] = pickle.loads(_request(header, pickle.dumps((model, dict(feeds)), protocol=5)))
    return found


def check_part(model: bytes, what: str) -> None:
    """Whether onnxruntime takes the model of a part of a net. Errors: MissingError, ModelError."""
    _request({"op": "part", "what": what}, model)


def _request(header: dict[str, object], payload: bytes) -> bytes:
    global _child
    with _lock:
        if _child is None or not _child.alive:
            _child = Child(
                "user_layers.onnx.apart_main",
                limit=LIMIT_S,
                name="onnx",
                crashed=_crashed,
                on_output=lambda _: None,  # onnxruntime prints what it raises as well
            )
        _, data = _child.request(header, payload)
    return data


def _crashed(crash: Crash) -> TpulayerError:
    lines = [line for line in crash.output.strip().splitlines() if line.strip()]
    wrote = f"; it wrote: {lines[-1][:200]}" if lines else ""
    return CompileError(
        f"{crash.activity or 'reading the model'} {crash.what}{wrote}",
        hint="the model is probably not valid; onnx.checker may say more",
    )
