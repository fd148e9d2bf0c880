"""The TPU as a target of LiteRT's Python interface for compiling ahead (`ai_edge_litert.aot`)."""

from __future__ import annotations

import os
import sys
from typing import Any

from user_layers.delegates.litert import MANUFACTURER, SOC_MODEL, litert_libraries

BACKEND = "tpulayer"


def litert_target() -> Any:
    """A target for `aot_compile(..., target=...)`; its backend is registered with the first one.

    Errors: ImportError without ai_edge_litert's `aot`; BuildError for the libraries.
    """
    from ai_edge_litert.aot.core import aot_types
    from ai_edge_litert.aot.vendors import import_vendor

    os.environ.setdefault("TPULAYER_PYTHON", sys.executable)  # of the compiler's process
    libraries = str(litert_libraries())

    class Target(aot_types.Target):  # type: ignore[misc]
        """A BM1684."""

        def __hash__(self) -> int:
            return hash((MANUFACTURER, SOC_MODEL))

        def __eq__(self, other: object) -> bool:
            return type(other).__name__ == "Target" and repr(other) == repr(self)

        def __repr__(self) -> str:
            return f"{MANUFACTURER}_{SOC_MODEL}"

        @classmethod
        def backend_id(cls) -> str:
            return BACKEND

        def flatten(self) -> dict[str, Any]:
            return {"backend_id": BACKEND, "soc_manufacturer": MANUFACTURER, "soc_model": SOC_MODEL}

    class Backend(aot_types.Backend):  # type: ignore[misc]
        """Passes models to the compiler plugin; nothing is transformed before."""

        @classmethod
        def create(cls, config: Any) -> Any:
            return cls(config)

        @classmethod
        def id(cls) -> str:
            return BACKEND

        @property
        def target(self) -> Any:
            return Target()

        @property
        def target_id(self) -> str:
            return SOC_MODEL

        @property
        def shared_pass_names(self) -> list[str]:
            return []

        def call_component(self, given: Any, made: Any, component: Any) -> Any:
            if component.component_name == "apply_plugin":
                return component(given, made, MANUFACTURER, SOC_MODEL, libs=libraries)
            if component.component_name == "mlir_transforms":
                return component(given, made, [])
            raise NotImplementedError(f"TPU: there is no step {component.component_name}")

    import_vendor.register_backend(Backend)
    return Target()
