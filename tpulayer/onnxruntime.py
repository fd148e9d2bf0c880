"""onnxruntime's names on the TPU: `import tpulayer.onnxruntime as ort`, and the rest of the program stays.

`InferenceSession` takes the arguments of onnxruntime's and has its methods `run`, `get_inputs`, `get_outputs`
and `get_providers`. What no layer computes runs on onnxruntime itself, as a part of the net.
"""

from user_layers.session import InferenceSession, NodeArg, get_available_providers, get_device

__all__ = ["InferenceSession", "NodeArg", "get_available_providers", "get_device"]
