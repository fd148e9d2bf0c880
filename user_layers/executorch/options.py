"""What a partition is compiled with, as ExecuTorch's compile specs carry it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from firmware_sim.errors import UsageError
from user_layers.spelling.foreign import ForeignModel
from user_layers.torch.program import Free

_KEY = "tpulayer"
_DEVICE_KEY = "device"  # read by the runtime backend


@dataclass(frozen=True)
class Options:
    """opt: as of `Graph.compile`. dynamic: whether nets take smaller shapes; None: where the program's do.
    device: the number of the device on which partitions run. workspace: whose layers there are; "" for that
    around the current folder. custom: layers that stand for operators, {"mylib::scale": "TPU_SCALE"}."""

    opt: int = 2
    dynamic: bool | None = None
    device: int = 0
    workspace: str = ""
    custom: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.opt not in (0, 1, 2):
            raise UsageError(f"opt={self.opt!r} is none of 0, 1 and 2")
        if not isinstance(self.device, int) or self.device < 0:
            raise UsageError(f"device={self.device!r} is no number of a device")

    def is_dynamic(self, model: ForeignModel) -> bool:
        """Whether the net of a partition takes smaller shapes."""
        if self.dynamic is not None:
            return self.dynamic
        return any(isinstance(extent, Free) for name in model.inputs for extent in model.tensors[name].shape)

    def specs(self) -> list[Any]:
        """As a list of CompileSpec."""
        from executorch.exir.backend.compile_spec_schema import CompileSpec

        told = {
            "opt": self.opt,
            "dynamic": self.dynamic,
            "workspace": self.workspace,
            "custom": dict(self.custom),
        }
        return [
            CompileSpec(_KEY, json.dumps(told).encode()),
            CompileSpec(_DEVICE_KEY, str(self.device).encode()),
        ]

    @classmethod
    def of(cls, specs: Iterable[Any]) -> Options:
        """Of compile specs; what they do not say is as usual. A spec of another key is a UsageError."""
        told: dict[str, Any] = {}
        for spec in specs:
            text = bytes(spec.value).decode()
            if spec.key == _KEY:
                told.update(json.loads(text))
            elif spec.key == _DEVICE_KEY:
                told["device"] = int(text)
            else:
                raise UsageError(
                    f"TpuLayerBackend knows no compile spec {spec.key!r}",
                    hint="give options to TpuLayerPartitioner, which writes the specs",
                )
        return cls(**told)
