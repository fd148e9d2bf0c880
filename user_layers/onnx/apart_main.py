"""The process behind apart.py: runs the package onnx."""

from __future__ import annotations

from typing import cast

from firmware_sim.errors import ModelError
from firmware_sim.processes.process_child import Handler, Link
from user_layers.runtime.onnx_session import (
    first_line,
    limit_memory,
    open_session,
)


def start(args: list[str], fds: list[int], link: Link) -> Handler:
    """The handler of requests; see apart.py for what they are. args: bytes that it may allocate."""
    limit = int(args[0])
    limit_memory(limit)

    def handle(header: dict[str, object], payload: bytes) -> tuple[dict[str, object], bytes]:
        op = header["op"]
        if op == "check":
            link.activity = "the package onnx, checking the model,"
            return {}, _check(payload, bool(header["standard"]))
        if op == "infer":
            link.activity = "the package onnx, inferring shapes,"
            return {}, _infer(payload, strict=bool(header["strict"]))
        if op == "inline":
            link.activity = "the package onnx, writing out functions,"
            return {}, _inline(payload)
        assert op == "expand"
        link.activity = "the package onnx, writing out a function,"
        domain, name = cast("list[str]", header["function"])
        return {}, _expand(payload, domain, name)

    return handle


def _check(data: bytes, standard: bool) -> bytes:
    import onnx.checker

    inferred = _infer(data, strict=False)
    if not standard:
        return inferred
    try:
        onnx.checker.check_model(inferred)
    except Exception as error:
        _infer(data, strict=True)  # names the node that leaves an output without a shape
        raise ModelError(first_line(error)) from None
    try:
        return _infer(data, strict=True)
    except ModelError as error:
        strict = error
    try:
        open_session(data)
    except Exception:  # it is not there, or refuses the model too
        raise strict from None
    return inferred  # the inference of the package onnx fails where onnxruntime's does not


def _infer(data: bytes, strict: bool) -> bytes:
    import onnx.shape_inference

    try:
        made = onnx.shape_inference.infer_shapes(data, check_type=strict, strict_mode=strict, data_prop=True)
        found: bytes = made.SerializeToString()
    except Exception as error:
        raise ModelError(first_line(error)) from None
    return found


def _inline(data: bytes) -> bytes:
    import onnx.inliner

    try:
        found: bytes = onnx.inliner.inline_local_functions(onnx.load_from_string(data)).SerializeToString()
    except Exception as error:
        raise ModelError(f"its functions cannot be written out: {first_line(error)}") from None
    return found


def _expand(data: bytes, domain: str, name: str) -> bytes:
    import onnx.inliner

    try:
        model = onnx.load_from_string(data)
        made = onnx.inliner.inline_selected_functions(model, [(domain, name)], inline_schema_functions=True)
        found: bytes = made.SerializeToString()
    except Exception as error:
        raise ModelError(f"{name} cannot be written out: {first_line(error)}") from None
    return found
