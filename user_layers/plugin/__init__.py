"""Descriptors of layers: C++ classes in plugins, asked from Python through a child process."""

from user_layers.plugin.client import DescriptorHandle, PluginHost, PluginLayer, PluginNode, PluginTensor
from user_layers.plugin.find import PLUGIN_PATH_VARIABLE, find_imp_libraries, find_plugins

__all__ = [
    "PLUGIN_PATH_VARIABLE",
    "DescriptorHandle",
    "PluginHost",
    "PluginLayer",
    "PluginNode",
    "PluginTensor",
    "find_imp_libraries",
    "find_plugins",
]
