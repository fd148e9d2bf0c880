"""Making, listing and removing layers and workspaces, as functions that say which files they touched."""

from user_layers.scaffold.layers import Listing, add_layer, check_name, del_layer, layer_files, list_layers
from user_layers.scaffold.made import Made
from user_layers.scaffold.workspace import environment_scripts, init, tool_scripts

__all__ = [
    "Listing",
    "Made",
    "add_layer",
    "check_name",
    "del_layer",
    "environment_scripts",
    "init",
    "layer_files",
    "list_layers",
    "tool_scripts",
]
