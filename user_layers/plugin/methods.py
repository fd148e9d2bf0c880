"""The virtual methods of LayerDescriptor, once: the generated C++ entry and the Python client both
come from this table. Numbers and order are those of sdk/include/bmplugin_abi.h; get_name is apart.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """One virtual method.

    arg: "" none, "dtype" DATA_TYPE_T, "index" an input's index, "extent" an int in elements,
    "shape" the four extents of a tile. result: "bool", "int", "bytes" or "ttype".
    """

    name: str
    number: int
    arg: str
    result: str

    @property
    def constant(self) -> str:
        """Its name in bmplugin_abi.h."""
        return f"BMPLUGIN_{self.name.upper()}"


_ROWS = (
    ("must_dynamic_run", "", "bool"),
    ("output_shape_is_dynamic", "", "bool"),
    ("force_use_global_layer", "", "bool"),
    ("can_split_local_h_w", "", "bool"),
    ("can_inplace", "dtype", "bool"),
    ("can_h_w_dynamic", "", "bool"),
    ("just_reshape", "", "bool"),
    ("is_share_mem_layer", "", "bool"),
    ("get_global_buffer_size", "", "bytes"),
    ("input_type", "index", "ttype"),
    ("get_local_buffer_size", "shape", "bytes"),
    ("should_input_on_l2mem", "index", "bool"),
    ("is_backslice_optimize_support_layer", "", "bool"),
    ("backward_hslice", "extent", "int"),
    ("backward_wslice", "extent", "int"),
    ("backward_hidx", "extent", "int"),
    ("backward_widx", "extent", "int"),
    ("backward_kh", "extent", "int"),
    ("backward_stride_h", "extent", "int"),
    ("backward_up_pad_h", "extent", "int"),
    ("backward_down_pad_h", "extent", "int"),
    ("forward_height", "extent", "int"),
    ("is_concat_layer", "", "bool"),
    ("accepts_larger_tiles", "", "bool"),
    ("prepared_with", "index", "int"),
    ("input_dtype", "index", "int"),
    ("input_store_mode", "index", "int"),
    ("each_row_alone", "", "bool"),
)
METHODS = tuple(Method(name, i, arg, result) for i, (name, arg, result) in enumerate(_ROWS, 1))
BY_NAME = {m.name: m for m in METHODS}
