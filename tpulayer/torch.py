"""`import tpulayer.torch` makes `torch.compile(module, backend="tpulayer")` known where the package is not
installed; an installed one is known by itself."""

import torch

from user_layers.torch.dynamo import tpulayer

torch._dynamo.register_backend(tpulayer, name="tpulayer")

__all__ = ["tpulayer"]
