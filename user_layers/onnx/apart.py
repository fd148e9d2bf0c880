"""What the packages onnx and onnxruntime compute while a model is compiled, each in a process of its own.

Both crash on some models that are not valid (an assertion in a shape inference, a division by zero); here
that is an error that says so. A process starts when it is first needed and ends with this one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firmware_sim.errors import CompileError, DeviceError, TpulayerError
from firmware_sim.processes.process import Child, Crash
from user_layers.onnx.model import Array
from user_layers.runtime import onnx_process
from user_layers.runtime.cpu import CpuModel
from user_layers.runtime.onnx_limits import RUN_S, memory_bytes, seconds

_LIMIT_S = 60.0  # for a check or an inference of shapes

_lock = threading.Lock()
_child: Child | None = None


def check_model(proto: bytes, *, standard: bool) -> bytes:
    """A serialized model with inferred shapes; standard: it has only ONNX's own operations, and is checked.

    Errors: ModelError for a model that is not valid.
    """
    return _request({"op": "check", "standard": standard}, proto)


def infer_model(proto: bytes, *, strict: bool = False) -> bytes:
    """A serialized model with inferred shapes; strict: what contradicts itself is an error, and not left
    unknown. Errors: ModelError."""
    return _request({"op": "infer", "strict": strict}, proto)


def inline_functions(proto: bytes) -> bytes:
    """A serialized model with its own functions written out. Errors: ModelError."""
    return _request({"op": "inline"}, proto)


def expand_function(proto: bytes, domain: str, op: str) -> bytes:
    """A serialized model, with an operation replaced by those that define it. Errors: ModelError."""
    return _request({"op": "expand", "function": [domain, op]}, proto)


def run_model(
    model: bytes | Path,
    feeds: Mapping[str, Array],
    limit_s: float = RUN_S,
    most: int = 0,
    plain: bool = False,
) -> list[Any]:
    """The outputs of a model, or of a file, from onnxruntime: arrays, or what else it gives. limit_s: seconds
    that it may take, where the environment says nothing else; most: bytes that it may make, 0 for any.
    plain: without its optimizer, by which quantized models become others.

    Errors: MissingError without onnxruntime, or when it may not have the memory that it needs; ModelError
    with its words; CompileError when it crashes or comes to no end.
    """
    with _compiling():
        return onnx_process.run_model(model, feeds, limit_s, most, plain)


def check_part(model: bytes, what: str) -> None:
    """Whether onnxruntime takes the model of a part of a net. Errors: as run_model."""
    with _compiling():
        CpuModel(model, what)


@contextmanager
def _compiling() -> Iterator[None]:
    try:
        yield
    except DeviceError as error:
        raise CompileError(error.message, hint=error.hint) from None


def _request(header: dict[str, object], payload: bytes) -> bytes:
    global _child
    with _lock:
        if _child is None or not _child.alive:
            _child = Child(
                "user_layers.onnx.apart_main",
                [str(memory_bytes())],
                limit=max(_LIMIT_S, seconds(_LIMIT_S)),
                name="onnx",
                crashed=_crashed,
                on_output=lambda _: None,
            )
        _, data = _child.request(header, payload)
    return data


def _crashed(crash: Crash) -> TpulayerError:
    error = onnx_process.crash_error(crash)
    return CompileError(error.message, hint=error.hint) if isinstance(error, DeviceError) else error
