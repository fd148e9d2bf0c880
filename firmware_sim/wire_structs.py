"""The structs that pass between host and firmware, once: wire.py packs by them, wire_c.py writes them in C.

Everything is little endian with fixed widths and explicit padding, so the 64-bit host and the 32-bit
controller see the same bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from firmware_sim.chip import MAX_SHAPE_DIMS

NAME_BYTES = 64
OPERANDS = 2  # numbers of a step that its opcode gives a meaning

_CODES = {"u64": "Q", "u32": "I", "i32": "i", "u8": "B", "f32": "f", "char": "s", "pad": "x"}


@dataclass(frozen=True)
class Member:
    """One member of a struct. kind: u64, u32, i32, u8, f32, char (text), pad (bytes without a value), or the
    name of another struct, which then ends this one; count: its elements; size: how C writes the count."""

    name: str
    kind: str
    count: int = 1
    size: str = ""
    note: str = ""


@dataclass(frozen=True)
class Record:
    """A struct, in the order of its members. form: how Python packs it, without a struct at its end."""

    name: str
    members: tuple[Member, ...]
    note: str = ""

    @property
    def form(self) -> struct.Struct:
        """The members as a format of the struct module."""
        return struct.Struct("<" + "".join(_format(m) for m in self.members if m.kind in _CODES))


def _format(m: Member) -> str:
    return f"{m.count if m.count > 1 or m.kind in ('char', 'pad') else ''}{_CODES[m.kind]}"


def _dims(name: str) -> Member:
    return Member(name, "i32", MAX_SHAPE_DIMS, "FW_DIMS")


RECORDS = (
    Record(
        "fw_request",
        (
            Member("op", "u32"),
            Member("bytes", "u32", note="of the payload that follows this header"),
            Member("flags", "u32", note="FW_FLAG_*"),
            Member("reserved", "u32"),
        ),
    ),
    Record(
        "fw_reply",
        (
            Member(
                "status",
                "i32",
                note=">= 0 ok; negative: BM_LAYER_* or FW_STATUS_*, and the payload is a message text",
            ),
            Member("bytes", "u32", note="of the payload that follows"),
        ),
    ),
    Record(
        "fw_tensor",
        (
            Member("addr", "u64"),
            Member("dims", "u32"),
            Member("elem_num", "i32"),
            _dims("shape"),
            _dims("slice_pad"),
            _dims("slice_shape"),
            _dims("processed"),
            Member("host_offset", "u32", note="of host_data in the bytes it comes with, or FW_NONE"),
            Member("ttype", "u8"),
            Member("dtype", "u8"),
            Member("store_mode", "u8"),
            Member("reserved", "u8"),
            Member("scale", "f32", note="value = scale x integer; 0: the elements are the values"),
            Member("reserved2", "u32"),
        ),
    ),
    Record(
        "fw_info",
        (
            Member("abi_version", "u32"),
            Member("layer_count", "u32", note="user layers in this image, one fw_layer_info each"),
            Member("kernel_count", "u32"),
            Member("reserved", "u32"),
        ),
    ),
    Record(
        "fw_layer_info",
        (
            Member("op_type", "i32"),
            Member("param_bytes", "u32", note="of the parameter struct"),
            Member("param_hash", "u64", note="of its field names, types and offsets"),
            Member(
                "name",
                "char",
                NAME_BYTES + 8,
                "FW_NAME_BYTES + 8",
                '"TPU_CROP", NUL-terminated; 8 keeps the next one aligned',
            ),
        ),
    ),
    Record(
        "fw_launch",
        (
            Member("name", "char", NAME_BYTES + 1, "FW_NAME_BYTES + 1"),
            Member("reserved", "pad", 3),
            Member("arg_bytes", "u32"),
        ),
    ),
    Record(
        "fw_layer_call",
        (
            Member("op_type", "i32"),
            Member("param_bytes", "u32"),
            Member("in_num", "u32"),
            Member("out_num", "u32"),
            Member("host_bytes", "u32"),
            Member("scale_num", "u32", note="0, or out_num: floats behind the host data, see FW_OP_SHAPE"),
        ),
    ),
    Record(
        "fw_run",
        (
            Member("mode", "u32", note="FW_MODE_*"),
            Member("in_num", "u32"),
            Member("out_num", "u32"),
            Member("program_bytes", "u32"),
            Member("program_addr", "u64", note="in DDR; 0: the program follows the tensors in this message"),
            Member("neuron_addr", "u64", note="DDR that the firmware may allocate from"),
            Member("neuron_bytes", "u64"),
            Member("coeff_addr", "u64", note="where the constants were loaded"),
        ),
    ),
    Record("fw_streams", (Member("group_count", "u32"), Member("reserved", "u32"))),
    Record(
        "fw_group",
        (
            Member("bd_addr", "u64"),
            Member("gdma_addr", "u64"),
            Member("bd_num", "u32"),
            Member("gdma_num", "u32"),
        ),
    ),
    Record(
        "fw_program_tensor",
        (
            Member("kind", "u32", note="FW_TENSOR_*"),
            Member("index", "u32"),
            Member("last_step", "u32", note="dynamic: the last step that reads it, FW_NONE for outputs"),
            Member(
                "alias_of",
                "u32",
                note="dynamic: tensor whose memory this shares, or that it is a tile or copy of; or FW_NONE",
            ),
            Member("max_bytes", "u64", note="capacity: the compiled maximum"),
            Member("tensor", "fw_tensor", note="dynamic: shape holds the compiled maximum"),
        ),
    ),
    Record(
        "fw_step",
        (
            Member("opcode", "u32", note="FW_STEP_*"),
            Member("op_type", "i32", note="of the layer"),
            Member("name_offset", "u32", note="NUL-terminated name in the data section, for messages"),
            Member("param_offset", "u32", note="in the data section"),
            Member("param_bytes", "u32"),
            Member("in_offset", "u32", note="u32 tensor indices in the data section"),
            Member("in_num", "u32"),
            Member("out_offset", "u32"),
            Member("out_num", "u32"),
            Member(
                "param_check",
                "u32",
                note="of user layers: low half of the param_hash that param was made for",
            ),
            Member(
                "operands", "u64", OPERANDS, "FW_OPERANDS", "what they are depends on the opcode: FW_*(step)"
            ),
        ),
    ),
    Record(
        "fw_program",
        (
            Member("magic", "u32"),
            Member("version", "u32"),
            Member("tensor_count", "u32"),
            Member("step_count", "u32"),
            Member("tensor_offset", "u32", note="offsets count from this header, multiples of 8"),
            Member("step_offset", "u32"),
            Member("data_offset", "u32"),
            Member("data_bytes", "u32"),
            Member("in_num", "u32"),
            Member("out_num", "u32"),
            Member("reserved64", "u64"),
        ),
    ),
)
BY_NAME = {record.name: record for record in RECORDS}
