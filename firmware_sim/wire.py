"""What passes between the runtime and the firmware, as Python objects: sdk/firmware/fw_message.h.

The numbers and the kinds of steps here, and the structs of wire_structs.py, are the only statement of the
format: wire_c.py makes the C of them.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from firmware_sim.chip import MAX_SHAPE_DIMS
from firmware_sim.errors import ModelError, UsageError
from firmware_sim.shown import brief, commands
from firmware_sim.wire_structs import BY_NAME, OPERANDS
from firmware_sim.wire_structs import NAME_BYTES as NAME_BYTES

ABI_VERSION = 5
PROGRAM_MAGIC = 0x52505446
PROGRAM_VERSION = 3  # 2: without groups in dynamic programs; 1: without scales of tensors
NONE = 0xFFFF_FFFF
BUILTIN_OP_BASE = 0x10000
FLAG_RECORD = 1
FLAG_CALLS = 2
MAX_ARGUMENTS = 11 << 20  # bytes of a kernel's arguments; the controller's memory for messages holds no more
NOTED_NOTHING, NOTED_BD, NOTED_GDMA = range(3)
"""The first of what the device process notes for the report of an end (Link.notes): the engine that works.
Then follow the command's place in its arena, and what code addresses of the native firmware count from."""
LARGER = 1  # in the index of a tile: its maker accepts larger tiles of its inputs than it needs
SLOT = 2  # times the channels on each NPU that lie before a tile in the one that it is part of, added to it
SHRINKS = 1  # op_type of a GROUP whose tiles may have fewer rows and columns than they are compiled for


class Op(enum.IntEnum):
    """What a request asks of the firmware, FW_OP_* of fw_message.h, which lists the payloads."""

    QUERY = 1
    LAUNCH = 2
    SHAPE = 3
    PROGRAM = 4
    STREAMS = 5


OP_NOTES: dict[enum.IntEnum, str] = {
    Op.QUERY: "-> fw_info, fw_layer_info[], kernel names: each NUL-terminated, ended by an empty one",
    Op.LAUNCH: "fw_launch, then the argument bytes",
    Op.SHAPE: "fw_layer_call, inputs, param bytes, host data, scales in which the net wants the outputs -> "
    "outputs, host data",
    Op.PROGRAM: "fw_run, inputs, outputs, [program] -> outputs",
    Op.STREAMS: "fw_streams, then fw_group[]",
}


class Status(enum.IntEnum):
    """How a request ended: from -100 down FW_STATUS_* of fw_message.h, above BM_LAYER_* of the layer API."""

    OK = 0
    NOT_SUPPORTED = -1
    PARAM_INVALID = -2
    RUNTIME_ERROR = -3
    BAD_MESSAGE = -100
    NO_KERNEL = -101
    ASSERT = -102
    NOT_RECORDABLE = -103
    NO_MEMORY = -104
    LAYER = -105
    SHAPE = -106


STATUS_NOTES = {
    Status.BAD_MESSAGE: "",
    Status.NO_KERNEL: "",
    Status.ASSERT: "OKKERNEL_ASSERT or a kernel API rule; text names file and line",
    Status.NOT_RECORDABLE: "",
    Status.NO_MEMORY: "",
    Status.LAYER: "a layer function returned an error; text names layer and code",
    Status.SHAPE: "over the compiled maximum, or slices that do not fit together",
}


class DType(enum.IntEnum):
    """The types of elements, by their codes: DATA_TYPE_T of the vendor's bmcompiler_defs.h."""

    FP32 = 0
    FP16 = 1
    INT8 = 2
    UINT8 = 3
    INT16 = 4
    UINT16 = 5
    INT32 = 6
    UINT32 = 7

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return (4, 2, 1, 1, 2, 2, 4, 4)[self]

    @property
    def numpy_name(self) -> str:
        """What numpy calls it: "float32"."""
        return ("float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32")[self]

    @classmethod
    def from_numpy(cls, name: str) -> DType:
        """The code for a numpy dtype's name; ValueError for one that the chip has no code for."""
        for d in cls:
            if d.numpy_name == name:
                return d
        raise ValueError(f"no BM1684 data type for numpy {name}")


class TType(enum.IntEnum):
    """What a tensor is to the net, by its code: TENSOR_TYPE_T of the vendor's bmcompiler_defs.h.

    NEURON: computed; COEFF: a constant of a layer; NEURON_SHAPE: int32 values that the firmware itself reads,
    such as sizes. The others exist for the vendor's programs.
    """

    NEURON = 0
    COEFF = 1
    COEFF_NEURON = 2
    COEFF_FC = 3
    COEFF_WINOGRAD = 4
    NEURON_FC = 5
    NEURON_CONST = 6
    NEURON_SHAPE = 7
    NEURON_CPU = 8
    NEURON_ARRAY = 9
    NEURON_FLOW = 10
    NEURON_3IC = 11


class StoreMode(enum.IntEnum):
    """How many batches share a 32-bit word: 1, 2 of 16 bits, 4 of 8 bits; STORE_MODE_T of the layer API."""

    N1 = 0
    N2 = 1
    N4 = 2

    @property
    def together(self) -> int:
        """How many batches share a word."""
        return (1, 2, 4)[self]

    @property
    def text(self) -> str:
        """As the vendor's documents call it: "4N"."""
        return f"{self.together}N"


@dataclass(frozen=True)
class Format:
    """How the elements of a tensor are stored, and what they mean.

    scale: of a quantised tensor, whose values are scale x integer (zero point 0; whether there are negative
    ones dtype says). 0: the elements are the values themselves.
    """

    dtype: DType = DType.FP32
    store_mode: StoreMode = StoreMode.N1
    scale: float = 0.0

    @classmethod
    def of_codes(cls, dtype: int, store_mode: int) -> Format | None:
        """By the codes of files and of C, without a scale; None for codes that are none, or not together."""
        if dtype not in tuple(DType) or store_mode not in tuple(StoreMode):
            return None
        found = cls(DType(dtype), StoreMode(store_mode))
        return found if found.is_possible else None

    @property
    def quantised(self) -> bool:
        """Whether the elements are multiples of a scale."""
        return self.scale != 0.0

    @cached_property
    def together(self) -> int:
        """How many batches are interleaved."""
        return self.store_mode.together

    @cached_property
    def word_bytes(self) -> int:
        """Bytes of an element with those of other batches that it is interleaved with."""
        return self.dtype.itemsize * self.together

    @property
    def is_possible(self) -> bool:
        """Whether the type has this store mode (2N 16 bits, 4N 8 bits) and may have a scale."""
        fits = self.together == 1 or self.word_bytes == 4
        return fits and not (self.quantised and self.dtype not in QUANTISED)

    def nbytes(self, shape: Sequence[int]) -> int:
        """Bytes of a whole tensor as it lies in DDR, with what fills up the last words in 2N and 4N."""
        return self.word_bytes * math.prod(self.words(shape))

    def words(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape in words of DDR: the first extent is that of whole words where batches share them."""
        return tuple(extent if d else -(-extent // self.together) for d, extent in enumerate(shape))

    @property
    def text(self) -> str:
        """`float32`, `int8 4N`, `int8 4N x 0.05`."""
        mode = f" {self.store_mode.text}" if self.together > 1 else ""
        return f"{self.dtype.numpy_name}{mode}{f' x {self.scale:.6g}' if self.quantised else ''}"


QUANTISED = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)
"""The types that a quantised tensor may have."""


class TensorKind(enum.IntEnum):
    """Where a tensor of a program lies, FW_TENSOR_* of fw_message.h."""

    INPUT = 0
    OUTPUT = 1
    NEURON = 2
    COEFF = 3
    LOCAL = 4
    L2 = 5


TENSOR_KIND_NOTES: dict[enum.IntEnum, str] = {
    TensorKind.INPUT: "index: which input of the net",
    TensorKind.OUTPUT: "index: which output of the net",
    TensorKind.NEURON: "DDR; dynamic: allocated when produced, released after its last use",
    TensorKind.COEFF: "DDR; dynamic: tensor.addr counts from coeff_addr",
    TensorKind.LOCAL: "a tile in local memory, tensor.addr = offset; index: FW_LARGER or 0, dynamic: "
    "plus FW_SLOT for each slot before it, of alias_of",
    TensorKind.L2: "L2, absolute address; dynamic: a copy of alias_of",
}


class StepOp(enum.IntEnum):
    """What a step of a program does, FW_STEP_* of fw_message.h, which says what its operands are."""

    GLOBAL = 1
    LOCAL = 2
    LOAD = 3
    STORE = 4
    COPY = 5
    PARALLEL_START = 6
    PARALLEL_END = 7
    WAIT = 8
    MOVE = 9
    GROUP = 10


@dataclass(frozen=True)
class StepKind:
    """What a step of this opcode takes. layer: it calls one; moves: one tensor to one other; local_in,
    local_out: its inputs, its outputs, are tiles in local memory; dynamic: it stands in dynamic programs
    too; grouped: among the steps of a group of these; operands: the names, as fields of Step, of its
    numbers."""

    opcode: StepOp
    note: str
    layer: bool = False
    moves: bool = False
    local_in: bool = False
    local_out: bool = False
    dynamic: bool = False
    grouped: bool = False
    operands: tuple[str, ...] = ()


_BUFFER = ("buffer_addr", "buffer_bytes")
STEP_KINDS = (
    StepKind(
        StepOp.GLOBAL,
        "layer call on DDR data (dynamic: shape entry and allocation first); buffer: absolute (dynamic: 0, "
        "allocated)",
        layer=True,
        dynamic=True,
        operands=_BUFFER,
    ),
    StepKind(
        StepOp.LOCAL,
        "layer call on tiles in local memory; buffer: offset",
        layer=True,
        local_in=True,
        local_out=True,
        grouped=True,
        operands=_BUFFER,
    ),
    StepKind(
        StepOp.LOAD,
        "in[0] (DDR or L2) -> out[0] (tile): region processed, slice_shape",
        moves=True,
        local_out=True,
        grouped=True,
    ),
    StepKind(StepOp.STORE, "in[0] (tile) -> out[0] (DDR)", moves=True, local_in=True, grouped=True),
    StepKind(
        StepOp.COPY,
        "in[0] -> out[0], both in system memory, continuous",
        moves=True,
        dynamic=True,
        grouped=True,
    ),
    StepKind(StepOp.PARALLEL_START, "", grouped=True),
    StepKind(StepOp.PARALLEL_END, "", grouped=True),
    StepKind(
        StepOp.WAIT,
        "inside a parallel section: from here on the tensor unit also waits for the DMA commands up to the "
        "end of step bd_after, and the DMA for the tensor unit's up to the end of step gdma_after; both are "
        "earlier steps",
        grouped=True,
        operands=("bd_after", "gdma_after"),
    ),
    StepKind(
        StepOp.MOVE,
        "in[0] (tile) -> the channels from `channel` on of out[0] (tile)",
        moves=True,
        local_in=True,
        local_out=True,
        grouped=True,
        operands=("channel",),
    ),
    StepKind(
        StepOp.GROUP,
        "of dynamic programs: layers run on tiles by the next `local_steps` steps, which are for the "
        "compiled shapes and smaller batches, with op_type FW_SHRINKS also for smaller heights and widths, "
        "or, where the shapes do not allow it, on DDR data by the `global_steps` steps behind these",
        dynamic=True,
        operands=("local_steps", "global_steps"),
    ),
)
_OPERANDS = {kind.opcode: kind.operands for kind in STEP_KINDS}


class RunMode(enum.IntEnum):
    """FIXED: shapes and addresses are given, for recording; DYNAMIC: the firmware finds them."""

    FIXED = 0
    DYNAMIC = 1


RUN_MODE_NOTES: dict[enum.IntEnum, str] = {
    RunMode.FIXED: "every tensor has its shape and absolute address (static, for recording)",
    RunMode.DYNAMIC: "shapes inferred and neurons allocated here",
}

REQUEST = BY_NAME["fw_request"].form
REPLY = BY_NAME["fw_reply"].form
TENSOR = BY_NAME["fw_tensor"].form
INFO = BY_NAME["fw_info"].form
LAYER_INFO = BY_NAME["fw_layer_info"].form
LAUNCH = BY_NAME["fw_launch"].form
LAYER_CALL = BY_NAME["fw_layer_call"].form
RUN = BY_NAME["fw_run"].form
STREAMS = BY_NAME["fw_streams"].form
GROUP = BY_NAME["fw_group"].form
PROGRAM = BY_NAME["fw_program"].form
PROGRAM_TENSOR = BY_NAME["fw_program_tensor"].form  # followed by TENSOR
STEP = BY_NAME["fw_step"].form
RECORDED_STEP = struct.Struct("<II")  # from the device process: an entry of Recorded.steps


def packed(form: struct.Struct | str, *values: int | float | bytes) -> bytes:
    """The bytes of a record. UsageError for a number that it has no room for."""
    try:
        return (form if isinstance(form, struct.Struct) else struct.Struct(form)).pack(*values)
    except struct.error as error:
        numbers = ", ".join(str(v) for v in values if isinstance(v, int))
        raise UsageError(f"a number of a request is out of range ({error}): {numbers}") from None


def with_flag(request: bytes, flag: int) -> bytes:
    """A request, its header and payload, with one more of FLAG_*."""
    op, nbytes, flags, reserved = REQUEST.unpack_from(request)
    return REQUEST.pack(op, nbytes, flags | flag, reserved) + request[REQUEST.size :]


def _pad(values: Sequence[int], fill: int) -> tuple[int, ...]:
    if len(values) > MAX_SHAPE_DIMS:
        raise UsageError(f"{len(values)} dimensions; at most {MAX_SHAPE_DIMS}")
    return (*values, *([fill] * (MAX_SHAPE_DIMS - len(values))))


@dataclass(frozen=True)
class TensorRecord:
    """One fw_tensor: shape in elements, addr in bytes (absolute, or the offset in local memory).

    slice_pad, slice_shape and processed have as many entries as shape; empty means "the whole
    tensor": pads and first indices 0, extents equal to shape. host_data are the int32 values of a
    NEURON_SHAPE tensor. scale: see Format.
    """

    shape: tuple[int, ...]
    dtype: DType = DType.FP32
    ttype: TType = TType.NEURON
    store_mode: StoreMode = StoreMode.N1
    addr: int = 0
    slice_pad: tuple[int, ...] = ()
    slice_shape: tuple[int, ...] = ()
    processed: tuple[int, ...] = ()
    host_data: tuple[int, ...] | None = None
    scale: float = 0.0

    __repr__ = brief

    @cached_property
    def format(self) -> Format:
        """How its elements are stored."""
        return Format(self.dtype, self.store_mode, self.scale)

    @property
    def elem_num(self) -> int:
        """Elements of the whole tensor; 1 for a scalar, which has no dimensions."""
        n = 1
        for s in self.shape:
            n *= s
        return n

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor, continuous."""
        return self.format.nbytes(self.shape)

    def at(self, addr: int) -> TensorRecord:
        """The same tensor at another address, in bytes."""
        return replace(self, addr=addr)

    def encode(self, host_offset: int = NONE) -> bytes:
        """The 160 bytes of the fw_tensor.

        host_offset: where its host_data begin in the bytes they come with, NONE without any.
        Raises UsageError for more than 8 dimensions and numbers that the struct has no room for.
        """
        return packed(
            TENSOR,
            self.addr,
            len(self.shape),
            self.elem_num,
            *_pad(self.shape, 1),
            *_pad(self.slice_pad, 0),
            *_pad(self.slice_shape or self.shape, 1),
            *_pad(self.processed, 0),
            host_offset,
            self.ttype,
            self.dtype,
            self.store_mode,
            0,
            self.scale,
            0,
        )

    @classmethod
    def decode(cls, data: bytes, offset: int = 0, host: bytes = b"") -> TensorRecord:
        """Read one fw_tensor; `host` holds the host data that host_offset points into."""
        v = TENSOR.unpack_from(data, offset)
        dims = v[1]
        if not 0 <= dims <= MAX_SHAPE_DIMS:
            raise ModelError(f"tensor record with {dims} dimensions; at most {MAX_SHAPE_DIMS}")
        cut = [tuple(v[3 + 8 * i : 3 + 8 * i + dims]) for i in range(4)]
        if min(cut[0], default=0) < 0:
            raise ModelError(f"tensor record with the shape {list(cut[0])}")
        host_offset, ttype, dtype, mode = v[35:39]
        for what, value, known in (
            ("type", ttype, TType),
            ("data type", dtype, DType),
            ("store mode", mode, StoreMode),
        ):
            if value not in known.__members__.values():
                raise ModelError(f"tensor record with the unknown {what} {value}")
        values: tuple[int, ...] | None = None
        if host_offset != NONE:
            count = v[2]
            end = host_offset + 4 * count
            if count < 0 or end > len(host):
                raise ModelError(f"host data of a tensor ends at byte {end} of {len(host)}")
            values = struct.unpack_from(f"<{count}i", host, host_offset)
        return cls(
            shape=cut[0],
            slice_pad=cut[1],
            slice_shape=cut[2],
            processed=cut[3],
            addr=v[0],
            ttype=TType(ttype),
            dtype=DType(dtype),
            store_mode=StoreMode(mode),
            host_data=values,
            scale=v[40],
        )


@dataclass(frozen=True)
class ProgramTensor:
    """One fw_program_tensor; index: which input or output of the net it is.

    Of dynamic programs: last_step reads it last (NONE: an output), alias_of: tensor whose memory it shares,
    or of which it is a tile or a copy, or NONE; max_bytes: of the compiled maximum, which `tensor` then has
    as its shape.
    """

    kind: TensorKind
    tensor: TensorRecord
    index: int = 0
    last_step: int = NONE
    alias_of: int = NONE
    max_bytes: int = 0


@dataclass(frozen=True)
class Step:
    """One fw_step; inputs and outputs are indices into the program's tensors.

    param_check: the low 32 bits of the hash of the parameter struct that `param` was made for. Of layers:
    buffer_addr and buffer_bytes, their work buffer. Of WAIT: bd_after and gdma_after, the steps for whose
    commands on the other engine these engines wait. Of MOVE: channel, the first one that is written. Of
    GROUP: local_steps and global_steps, how many steps follow for each of both ways to run it; its op_type is
    SHRINKS or -1.
    """

    opcode: StepOp
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    op_type: int = -1
    name: str = ""
    param: bytes = b""
    buffer_addr: int = 0
    buffer_bytes: int = 0
    param_check: int = 0
    bd_after: int = 0
    gdma_after: int = 0
    channel: int = 0
    local_steps: int = 0
    global_steps: int = 0

    __repr__ = brief

    @property
    def operands(self) -> tuple[int, ...]:
        """The numbers of fw_step.operands, as its opcode has them."""
        given = tuple(int(getattr(self, name)) for name in _OPERANDS[self.opcode])
        return (*given, *([0] * (OPERANDS - len(given))))


@dataclass
class Program:
    """A program for the firmware: FW_OP_PROGRAM, or the binary_ir of a dynamic bmodel."""

    tensors: list[ProgramTensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    in_num: int = 0
    out_num: int = 0

    __repr__ = brief

    def add(self, tensor: ProgramTensor) -> int:
        """Append a tensor and return its index."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def encode(self) -> bytes:
        """The bytes of the fw_program: header, tensors, steps, data section.

        Raises UsageError for numbers that the structs have no room for.
        """
        data = bytearray()

        def put(blob: bytes) -> int:
            data.extend(b"\0" * (-len(data) % 8))
            start = len(data)
            data.extend(blob)
            return start

        tensors = bytearray()
        for t in self.tensors:
            values = t.tensor.host_data
            host = NONE if values is None else put(packed(f"<{len(values)}i", *values))
            tensors += packed(PROGRAM_TENSOR, t.kind, t.index, t.last_step, t.alias_of, t.max_bytes)
            tensors += t.tensor.encode(host)
        steps = bytearray()
        for s in self.steps:
            ins = put(packed(f"<{len(s.inputs)}I", *s.inputs))
            outs = put(packed(f"<{len(s.outputs)}I", *s.outputs))
            steps += packed(
                STEP,
                s.opcode,
                s.op_type,
                put(s.name.encode() + b"\0"),
                put(s.param),
                len(s.param),
                ins,
                len(s.inputs),
                outs,
                len(s.outputs),
                s.param_check,
                *s.operands,
            )
        tensor_offset = PROGRAM.size
        step_offset = tensor_offset + len(tensors)
        data_offset = step_offset + len(steps)
        head = packed(
            PROGRAM,
            PROGRAM_MAGIC,
            PROGRAM_VERSION,
            len(self.tensors),
            len(self.steps),
            tensor_offset,
            step_offset,
            data_offset,
            len(data),
            self.in_num,
            self.out_num,
            0,
        )
        return head + bytes(tensors) + bytes(steps) + bytes(data)


@dataclass(frozen=True)
class CommandGroup:
    """One pair of descriptor streams whose ids count from 1 (a bmodel's CmdGroup).

    bd and gdma hold 128 bytes per descriptor.
    """

    bd: bytes
    gdma: bytes

    def __repr__(self) -> str:
        return f"<CommandGroup: {commands([self])}>"

    @property
    def bd_num(self) -> int:
        """Descriptors of the tensor unit."""
        return len(self.bd) // 128

    @property
    def gdma_num(self) -> int:
        """Descriptors of the DMA engine."""
        return len(self.gdma) // 128


SITE_BYTES = 4


@dataclass(frozen=True)
class RecordedSites:
    """Which code issued recorded commands.

    chains: distinct chains of code addresses as the image's debug information counts them, each from the
    innermost address outwards; the first is empty: nobody knows. bd, gdma: for each command of an engine,
    over all groups, its chain's place in there: uint32, little endian.
    """

    chains: tuple[tuple[int, ...], ...]
    bd: bytes
    gdma: bytes

    __repr__ = brief


@dataclass(frozen=True)
class Recorded:
    """What recording a program gave.

    steps: after each step of the program, how many BD and how many GDMA descriptors there were by then, over
    all groups. sites: which code issued them.
    """

    groups: tuple[CommandGroup, ...]
    steps: tuple[tuple[int, int], ...] = ()
    sites: RecordedSites | None = field(default=None, compare=False)

    __repr__ = brief
