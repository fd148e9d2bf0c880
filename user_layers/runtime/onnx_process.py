"""onnxruntime in a process of its own, with limits on its time and memory.

The process starts when it is first needed and ends with this one. A model that crashes it, or is stopped, is
an error that says so; the next request gets a new process.
"""

from __future__ import annotations

import itertools
import pickle
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firmware_sim.device.api import Array
from firmware_sim.errors import DeviceError, TpulayerError
from firmware_sim.processes.process import Child, Crash
from user_layers.runtime import onnx_limits
from user_layers.runtime.onnx_session import OUT_OF_MEMORY, memory_error

_OPEN_S = 60.0  # to import onnxruntime, and to optimize a model

_lock = threading.Lock()
_child: Child | None = None
_numbers = itertools.count()
_dropped: list[int] = []  # sessions that nobody here holds any more


class Session:
    """A model, or a file, that onnxruntime has taken; what: how messages call it; plain: without its
    optimizer.

    Errors: MissingError without onnxruntime, or when it may not have the memory that it needs; ModelError
    with its words for a model that it does not take; DeviceError when it crashes or comes to no end.
    """

    def __init__(self, model: bytes | Path, what: str, plain: bool = False) -> None:
        self._model = model
        self._plain = plain
        self._what = what
        self._number = next(_numbers)
        self._home: Child | None = None
        with _lock:
            header = self._open()
        self.inputs: list[tuple[str, str, list[int | str | None]]] = header["inputs"]
        """Name, onnxruntime's name of the type, and shape."""
        self.outputs: list[tuple[str, str, list[int | str | None]]] = header["outputs"]
        weakref.finalize(self, _dropped.append, self._number)

    def run(self, feeds: Mapping[str, Array], limit_s: float, most: int = 0) -> list[Any]:
        """The outputs: arrays, or what else the model gives. limit_s: if the environment says nothing else.

        most: bytes of the arrays together, 0 for any. Errors: as the constructor's.
        """
        payload = pickle.dumps(dict(feeds), protocol=5)
        with _lock:
            if self._home is None or not self._home.alive:
                self._open()
            assert self._home is not None
            limit, more = onnx_limits.seconds(limit_s), {"most": most}
            _, data = _request(self._home, "run", self._number, self._what, payload, limit, more)
        found: list[Any] = pickle.loads(data)
        return found

    def _open(self) -> dict[str, Any]:
        self._home = _process()
        more: dict[str, object] = {"plain": self._plain}
        data = b""
        if isinstance(self._model, Path):
            more["path"] = str(self._model)
        else:
            data = self._model
        limit = max(_OPEN_S, onnx_limits.seconds(_OPEN_S))
        return _request(self._home, "open", self._number, self._what, data, limit, more)[0]


def run_model(
    model: bytes | Path, feeds: Mapping[str, Array], limit_s: float, most: int = 0, plain: bool = False
) -> list[Any]:
    """One run of a model; see Session, which has the errors too."""
    return Session(model, "", plain).run(feeds, limit_s, most)


def _process() -> Child:
    global _child
    if _child is None or not _child.alive:
        _dropped.clear()
        _child = Child(
            "user_layers.runtime.onnx_process_main",
            [str(onnx_limits.memory_bytes())],
            limit=_OPEN_S,
            name="onnxruntime",
            crashed=crash_error,
            on_output=lambda _: None,  # onnxruntime prints what it raises as well
        )
    return _child


def _request(
    child: Child, op: str, number: int, what: str, data: bytes, limit_s: float, more: Mapping[str, object]
) -> tuple[dict[str, Any], bytes]:
    gone = [_dropped.pop() for _ in range(len(_dropped))]
    header = {"op": op, "session": number, "what": what, "dropped": gone, **more}
    return child.request(header, data, limit=limit_s)


def crash_error(crash: Crash) -> TpulayerError:
    """How such a process ended: DeviceError, or MissingError where it had not the memory."""
    doing = crash.activity or "onnxruntime"
    if crash.timeout is not None:
        return DeviceError(
            f"{doing} came to no end in {crash.timeout:g} s and was stopped", hint=onnx_limits.MORE_TIME
        )
    if any(text in crash.output for text in OUT_OF_MEMORY):
        return memory_error(doing, onnx_limits.memory_bytes())
    lines = [line for line in crash.output.strip().splitlines() if line.strip()]
    wrote = f"; it wrote: {lines[-1][:200]}" if lines else ""
    return DeviceError(
        f"{doing} {crash.what}{wrote}",
        hint="the model is probably not valid; onnx.checker may say more",
    )
