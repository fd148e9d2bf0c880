"""LiteRT with the TPU: its compiler plugin and dispatch library, models compiled ahead, models run."""

from __future__ import annotations

from pathlib import Path

from user_layers.delegates.build import Library, delegate_dir, framework_libraries
from user_layers.toolchain.config import c_sources
from user_layers.toolchain.report import Reporter

PLUGIN = "libLiteRtCompilerPlugin_TpuLayer.so"
DISPATCH = "libLiteRtDispatch_TpuLayer.so"
MANUFACTURER, SOC_MODEL = "TpuLayer", "BM1684"  # of the plugin, plugin.c


def litert_libraries(report: Reporter | None = None) -> Path:
    """The folder with the compiler plugin and the dispatch library, built if they are not there. BuildError."""
    folder = delegate_dir() / "litert"
    libraries = [
        Library(name, c_sources(folder / part), headers=(folder / "include",))
        for name, part in ((PLUGIN, "compiler"), (DISPATCH, "dispatch"))
    ]
    return framework_libraries("litert", libraries, report=report)
