"""Markers in C and C++ sources -> a table of layers, every item with its place in the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from user_layers.scan.model import (
    LayerInfo,
    LayerTable,
    Location,
    ParamStruct,
    Problem,
    ScanError,
    Symbol,
)
from user_layers.scan.run import ScanResult, scan

__all__ = [
    "LayerInfo",
    "LayerTable",
    "Location",
    "ParamStruct",
    "Problem",
    "ScanError",
    "ScanResult",
    "Symbol",
    "scan",
    "scan_layers",
]


def scan_layers(
    device_dir: Path,
    host_dir: Path,
    include_dirs: Sequence[Path],
    *,
    cache_dir: Path,
    op_lock: Path,
    op_base: int = 0,
    defines: Mapping[str, str] | None = None,
    write_lock: bool = True,
) -> LayerTable:
    """All layers of device_dir/*.c and host_dir/*.{h,hpp,cpp}, sorted by op_type.

    include_dirs: where headers are looked for, the toolkit's sdk/include among them. op_lock keeps
    the numbers; new layers get the next ones (not written when write_lock is false). Raises
    ScanError (a SourceError) with every problem found, SourceError for a damaged lock file.
    """
    result = scan(
        device_dir,
        host_dir,
        include_dirs,
        cache_dir=cache_dir,
        op_lock=op_lock,
        op_base=op_base,
        defines=defines,
        write_lock=write_lock,
    )
    if result.problems:
        raise ScanError(result.problems)
    return result.table
