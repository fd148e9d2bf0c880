"""gen_config: what the build needs of the configuration, as one file under generated/."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from user_layers.files import write_if_changed
from user_layers.toolchain.ninja_file import relative
from user_layers.workspace import Workspace, sdk_dir

CONFIG_NAME = "build_config.json"


@dataclass(frozen=True)
class BuildConfig:
    """Architectures, include paths in the order of their search, and the bmkernel project's sources.

    Paths inside the workspace are relative to it.
    """

    host_arch: str
    firmware_arch: str
    bmkernel: str | None
    bmkernel_sources: list[str]
    device_includes: list[str]
    host_includes: list[str]


def gen_config(ws: Workspace, *, dry_run: bool = False) -> tuple[BuildConfig, list[Path]]:
    """Write generated/build_config.json; the configuration, and the files that changed (or would)."""
    bmkernel = ws.bmkernel
    kernel_sources = c_sources(bmkernel / "device") if bmkernel is not None else []
    kernel_includes = [bmkernel / "include"] if bmkernel is not None else []
    common = [ws.include_dir, ws.generated_dir]
    config = BuildConfig(
        host_arch=ws.config.host_arch,
        firmware_arch=ws.config.firmware_arch,
        bmkernel=str(bmkernel) if bmkernel is not None else None,
        bmkernel_sources=[relative(path, ws.root) for path in kernel_sources],
        device_includes=[
            relative(path, ws.root)
            for path in (ws.device_dir, *common, *kernel_includes, sdk_dir() / "include")
        ],
        host_includes=[relative(path, ws.root) for path in (ws.host_dir, *common, sdk_dir() / "include")],
    )
    path = ws.generated_dir / CONFIG_NAME
    text = json.dumps(asdict(config), indent=2) + "\n"
    same = path.is_file() and path.read_text() == text
    if not same and not dry_run:
        write_if_changed(path, text)
    return config, [] if same else [path]


def c_sources(folder: Path) -> list[Path]:
    """The C files of a folder, by name; hidden files (editors' backups) are none."""
    return sorted(path for path in folder.glob("*.c") if not path.name.startswith("."))


def cxx_sources(folder: Path) -> list[Path]:
    """The C++ files of a folder, by name."""
    return sorted(path for path in folder.glob("*.cpp") if not path.name.startswith("."))
