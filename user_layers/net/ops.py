"""Layer types, and what a descriptor says of one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from firmware_sim.wire import BUILTIN_OP_BASE, DType, Format, TType


class Descriptor(Protocol):
    """A LayerDescriptor bound to one node: the virtual methods of the C++ class."""

    @property
    def name(self) -> str:
        """What get_name() gives: the log and reports show it as TPU(NAME)."""

    def ask(self, calls: Sequence[tuple[str, Sequence[int]]], /) -> None:
        """Call methods by name, each with its arguments, at once; their answers are known then."""

    def must_dynamic_run(self) -> bool:
        """True: the layer runs dynamically, in a subnet of its own."""

    def output_shape_is_dynamic(self) -> bool:
        """True: the layer and all that follows run dynamically: the output's shape depends on data."""

    def force_use_global_layer(self) -> bool:
        """True: the layer is never part of a group."""

    def can_split_local_h_w(self) -> bool:
        """False: tiles are cut along n only."""

    def can_inplace(self, dtype: DType, /) -> bool:
        """True: the output's tile may take the memory of the input's tile, for elements of this type."""

    def can_h_w_dynamic(self) -> bool:
        """False: height and width of a dynamic net's inputs must be those that were compiled."""

    def just_reshape(self) -> bool:
        """True: same bytes, other shape; nothing runs in a static net."""

    def is_share_mem_layer(self) -> bool:
        """True: the output lies in the first input's memory in DDR; the kernel still runs."""

    def is_concat_layer(self) -> bool:
        """True: the output is the inputs' bytes in a row; where they can be made there, nothing runs."""

    def get_global_buffer_size(self) -> int:
        """Bytes of DDR that the global function works in."""

    def input_type(self, in_idx: int, /) -> TType:
        """Layout of an input; NEURON_SHAPE: a constant that the kernel reads through host_data."""

    def takes(self, in_idx: int, /) -> Format:
        """Type and store mode in which the functions take an input (without a scale)."""

    def get_local_buffer_size(self, split_shape: Sequence[int], /) -> int:
        """Bytes of scratch per NPU for the local function, for an output tile of four extents."""

    def should_input_on_l2mem(self, in_idx: int, /) -> bool:
        """True: the input is put in L2, and the local function copies from there."""

    def prepared(self, in_idx: int, /) -> tuple[tuple[int, ...], DType] | None:
        """Shape and type in which the kernel gets a constant input; None: those of the graph."""

    def prepared_with(self, in_idx: int, /) -> int:
        """The prepared constant input that holds this one's elements too; in_idx itself: none."""

    def prepare(self, in_idx: int, constants: Mapping[int, bytes], nbytes: int, /) -> bytes:
        """The `nbytes` bytes of a prepared constant, from the graph's constants by input number."""

    def backward_hslice(self, out_hslice: int, /) -> int:
        """How many input rows that many output rows need, not cut at the tensor's edges."""

    def backward_wslice(self, out_wslice: int, /) -> int:
        """How many input columns that many output columns need, not cut at the tensor's edges."""

    def backward_hidx(self, out_hidx: int, /) -> int:
        """The first input row that an output row needs; negative where it lies in the padding."""

    def backward_widx(self, out_widx: int, /) -> int:
        """The first input column that an output column needs; negative where it lies in the padding."""

    def backward_kh(self, out_kh: int, /) -> int:
        """Rows of the input's window for an output's window of out_kh rows."""

    def backward_stride_h(self, out_stride_h: int, /) -> int:
        """Input rows from one window to the next, for a step of out_stride_h output rows."""

    def backward_up_pad_h(self, out_up_pad_h: int, /) -> int:
        """Rows of padding above the input, for out_up_pad_h above the output."""

    def backward_down_pad_h(self, out_down_pad_h: int, /) -> int:
        """Rows of padding below the input, for out_down_pad_h below the output."""

    def forward_height(self, in_height: int, /) -> int:
        """Rows of the output for in_height rows of the first input; compared with the shape function."""

    def is_backslice_optimize_support_layer(self) -> bool:
        """True: the local function works on larger tiles than it needs, and finds its window in them."""

    def accepts_larger_tiles(self) -> bool:
        """The same, for layers whose windows no kernel, stride and padding describe."""

    def each_row_alone(self) -> bool:
        """True: each row depends on the same row of the inputs alone, and rows may come as batches."""


@dataclass(frozen=True)
class OpInfo:
    """One layer type: name ("TPU_CROP"), op_type, parameter struct (bytes, and hash of its fields)."""

    op: str
    op_type: int
    param_size: int
    param_hash: int
    has_local: bool

    @property
    def is_builtin(self) -> bool:
        """Whether the layer comes with the toolkit: by its op_type, 0x10000 and above."""
        return self.op_type >= BUILTIN_OP_BASE

    @property
    def param_check(self) -> int:
        """What a program's steps carry of param_hash (wire.Step)."""
        return self.param_hash & 0xFFFF_FFFF

    @property
    def short(self) -> str:
        """The op without its prefix: "CROP"."""
        return self.op.removeprefix("TPU_")
