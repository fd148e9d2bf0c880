"""Which plugin holds the user's layers."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.errors import MissingError, UsageError
from user_layers.workspace import IMP_LIBRARY

if TYPE_CHECKING:
    from user_layers.workspace import Workspace

PLUGIN_PATH_VARIABLE = "BMCOMPILER_PLUGIN_PATH"
_PATTERN = "libbmplugin_*.so"
_SYMBOL = b"bmplugin_abi_version"
_NAME = "libbmplugin_tpulayer.so"
_OTHER_NAMES = ("libbmplugin_tpu_layer.so", "libbmplugin_layer.so")  # what the vendor's texts also call it


def find_plugins(workspace: Workspace | None) -> list[Path]:
    """The user's plugin, as a list of one or none; the built-in layers' plugin is not among them.

    BMCOMPILER_PLUGIN_PATH, when set, names folders and plugin files, separated by ':'; otherwise it
    is the workspace's plugin, if that is built. In a folder every libbmplugin_*.so counts that is a
    TPU-layer plugin (other tools keep theirs there too). The vendor's other names for the plugin,
    libbmplugin_tpu_layer.so and libbmplugin_layer.so, name libbmplugin_tpulayer.so where they do not exist.

    Errors: UsageError for two different TPU-layer plugins; MissingError for a path that does not
    exist, a file that is not a TPU-layer plugin, or when no path holds one.
    """
    paths = [p for p in os.environ.get(PLUGIN_PATH_VARIABLE, "").split(os.pathsep) if p]
    if not paths:
        if workspace is None or not workspace.local_plugin.is_file():
            return []
        return [workspace.local_plugin]
    found: dict[str, Path] = {}
    for text in paths:
        for plugin in _plugins_at(Path(text).expanduser()):
            found.setdefault(hashlib.blake2b(plugin.read_bytes()).hexdigest(), plugin)
    plugins = list(found.values())
    if not plugins:
        raise MissingError(
            f"{PLUGIN_PATH_VARIABLE}={os.pathsep.join(paths)} holds no TPU-layer plugin ({_PATTERN})",
            hint=f"build one with `tpulayer build_layers`, or unset {PLUGIN_PATH_VARIABLE}",
        )
    if len(plugins) > 1:
        raise UsageError(
            f"{PLUGIN_PATH_VARIABLE} holds more than one TPU-layer plugin: {', '.join(map(str, plugins))}",
            hint="keep one: their layers have the same op_type numbers",
        )
    return plugins


def find_imp_libraries(workspace: Workspace | None) -> list[Path]:
    """The libraries of own Caffe layers in C++, in the folders of the plugins in use: those that
    BMCOMPILER_PLUGIN_PATH names or has files in, when set; otherwise the workspace's. Copies count once."""
    paths = [Path(p).expanduser() for p in os.environ.get(PLUGIN_PATH_VARIABLE, "").split(os.pathsep) if p]
    places = [path if path.is_dir() else path.parent for path in paths]
    if not paths and workspace is not None:
        places = [workspace.imp_library.parent]
    found: dict[str, Path] = {}
    for library in (place / IMP_LIBRARY for place in places):
        if library.is_file():
            found.setdefault(hashlib.blake2b(library.read_bytes()).hexdigest(), library)
    return list(found.values())


def _plugins_at(path: Path) -> list[Path]:
    if path.is_dir():
        return [p for p in sorted(path.glob(_PATTERN)) if _SYMBOL in p.read_bytes()]
    if path.name == IMP_LIBRARY and path.is_file():
        return []  # no plugin, and found by find_imp_libraries
    if path.name in _OTHER_NAMES and not path.exists() and path.with_name(_NAME).is_file():
        path = path.with_name(_NAME)
    if not path.is_file():
        raise MissingError(
            f"{PLUGIN_PATH_VARIABLE} names {path}, which does not exist",
            hint="it takes folders and plugin files, separated by ':'; `tpulayer build_layers` makes one in "
            "install/plugin",
        )
    if _SYMBOL not in path.read_bytes():
        raise MissingError(
            f"{PLUGIN_PATH_VARIABLE} names {path}, which is not a TPU-layer plugin",
            hint="`tpulayer build_layers` makes one: install/plugin/libbmplugin_tpulayer.so",
        )
    return [path]
