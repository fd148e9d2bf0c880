"""The process behind onnx_process.py: holds onnxruntime's sessions."""

from __future__ import annotations

import pickle
from typing import Any, cast

from firmware_sim.errors import MissingError, ModelError
from firmware_sim.processes.process_child import Handler, Link
from user_layers.runtime.onnx_session import (
    first_line,
    limit_memory,
    memory_error,
    open_session,
    out_of_memory,
)


def start(args: list[str], fds: list[int], link: Link) -> Handler:
    """The handler of requests; see onnx_process.py for what they are. args: bytes that it may allocate."""
    limit = int(args[0])
    limit_memory(limit)
    sessions: dict[int, Any] = {}

    def handle(header: dict[str, object], payload: bytes) -> tuple[dict[str, object], bytes]:
        for number in cast("list[int]", header["dropped"]):
            sessions.pop(number, None)
        what, number = str(header["what"]), cast(int, header["session"])
        link.activity = f"{what}: onnxruntime" if what else "onnxruntime"
        try:
            if header["op"] == "run":
                return {}, _run(sessions[number], pickle.loads(payload), cast(int, header["most"]))
            session = sessions[number] = open_session(
                str(header["path"]) if "path" in header else payload, bool(header.get("plain"))
            )
        except ModelError:
            raise
        except ImportError:
            raise MissingError(
                f"{what or 'this'} runs on the host, and the package onnxruntime is not installed",
                hint="pip install 'tpulayer[onnx]'",
            ) from None
        except Exception as error:  # onnxruntime raises many kinds
            if out_of_memory(error):
                raise memory_error(link.activity, limit) from None
            raise ModelError(first_line(error)) from None
        return {
            "inputs": [(v.name, v.type, v.shape) for v in session.get_inputs()],
            "outputs": [(v.name, v.type, v.shape) for v in session.get_outputs()],
        }, b""

    return handle


def _run(session: Any, feeds: dict[str, Any], most: int) -> bytes:
    made = session.run(None, feeds)
    size = sum(getattr(array, "nbytes", 0) for array in made)
    if most and size > most:
        raise ModelError(f"it makes {size} bytes")
    return pickle.dumps(made, protocol=5)
