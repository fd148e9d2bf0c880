"""ExecuTorch with the BM1684: `TpuLayerPartitioner` for lowering, `load_backend` for running.

`load_backend()` registers the runtime backend into this process; `runtime()` is ExecuTorch's Runtime with it,
`counters()` what the devices did. Needs the package executorch: `pip install "tpulayer[executorch]"`.
"""

from user_layers.executorch.runtime import backend_library, counters, load_backend, runner, runtime, wheel

wheel()  # says what is missing, before an import fails

from user_layers.executorch.backend import TpuLayerBackend  # noqa: E402
from user_layers.executorch.partitioner import TpuLayerPartitioner  # noqa: E402

__all__ = [
    "TpuLayerBackend",
    "TpuLayerPartitioner",
    "backend_library",
    "counters",
    "load_backend",
    "runner",
    "runtime",
]
