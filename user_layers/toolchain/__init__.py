"""Compiler choice, ninja file, firmware and plugin, and the cached built-in part."""

from user_layers.toolchain.builtin import Builtin, builtin_artifacts
from user_layers.toolchain.firmware import firmware_image

__all__ = ["Builtin", "builtin_artifacts", "firmware_image"]
