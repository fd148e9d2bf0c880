"""onnxruntime's names on the TPU: `import tpulayer.onnxruntime as ort`, and the rest of the program stays.

`InferenceSession` takes the arguments of onnxruntime's and has its methods that programs use. Options
are taken and not looked at. What no layer computes runs on onnxruntime itself, as a part of the net.
"""

from user_layers.session import VERSION as __version__
from user_layers.session import InferenceSession, get_all_providers, get_available_providers, get_device
from user_layers.session_values import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    IOBinding,
    ModelMetadata,
    NodeArg,
    OrtValue,
    RunOptions,
    SessionOptions,
    set_default_logger_severity,
    set_default_logger_verbosity,
)

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "__version__",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]
