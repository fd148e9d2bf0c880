"""What the processes that hold the packages onnx and onnxruntime share."""

from __future__ import annotations

import re
import resource
from typing import Any

from firmware_sim.errors import MissingError
from user_layers.runtime.onnx_limits import MORE_MEMORY

OUT_OF_MEMORY = ("bad_alloc", "Failed to allocate memory")  # what onnxruntime raises or writes then


def limit_memory(nbytes: int) -> None:
    """Let this process allocate so many bytes at most; 0 for any. Address space that libraries only reserve
    does not count."""
    if nbytes:
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        nbytes = nbytes if most == resource.RLIM_INFINITY else min(nbytes, most)
        resource.setrlimit(resource.RLIMIT_DATA, (nbytes, nbytes))


def memory_error(doing: str, limit: int) -> MissingError:
    """What to say when a process may not have the memory that it asks for; doing: begins the sentence."""
    most = f"the {limit / (1 << 30):.1f} GiB that it may have" if limit else "this machine has"
    return MissingError(f"{doing} needs more memory than {most}", hint=MORE_MEMORY)


def out_of_memory(error: BaseException) -> bool:
    """Whether that is what an error of onnx or onnxruntime says."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in OUT_OF_MEMORY)


def open_session(model: bytes | str, plain: bool = False) -> Any:
    """An onnxruntime.InferenceSession of a model or a file, on one thread, that says nothing. plain: without
    its optimizer, which computes quantized models in integers where they are written in float.

    Raises what onnxruntime raises. Its optimizer fails on some models that it can run: then without it.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # Its product of uint8 and int8 saturates between on x86 without VNNI; this takes one that does not.
    options.add_session_config_entry("session.x64quantprecision", "1")
    providers = ["CPUExecutionProvider"]
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model, options, providers=providers)
    except Exception as error:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            return onnxruntime.InferenceSession(model, options, providers=providers)
        except Exception:
            raise error from None


def first_line(error: BaseException) -> str:
    """An error of onnx or onnxruntime on one line, without the places in their sources."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:3]) or type(error).__name__
    head, mark, tail = text.partition("[ONNXRuntimeError] : ")
    if mark:
        text = head + tail.partition(" : ")[2]
    text = re.sub(r"\S*/onnxruntime_src/\S+ .*?\) (?=[A-Z])", "", text)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 400 else f"{text[:397]}..."
