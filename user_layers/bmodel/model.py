"""A bmodel as Python objects: what read() returns.

Addresses are those of compile time. Sizes are in bytes. Everything here was checked by the reader:
shapes have 0 to 8 dimensions of at least 1, command groups have as many bytes as their counts say.
"""

from __future__ import annotations

from dataclasses import dataclass

from firmware_sim import shown
from firmware_sim.wire import CommandGroup
from user_layers.bmodel.manifest import Manifest

MAGIC = 0xFF55AAEE
HEADER_BYTES = 64
TYPE = "B"
VERSION = (2, 2)
CHIP = "BM1684"
SHA256_BYTES = 32

# data_type codes of the format; the first eight are firmware_sim.wire.DType.
DTYPE_NAMES = (
    "float32",
    "float16",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "bfloat16",
    "int4",
    "uint4",
)

SUBNET_TPU = 0
SUBNET_CPU = 1
SUBNET_MODES = ("TPU", "CPU", "merge", "switch")
CPU_USER_DEFINED = 3  # op_type of a CPU layer that is not of the vendor's library
ONNX_PARAM = b"tpulayer onnx 1\n"  # begins the parameter of ours; the model follows


def dtype_name(code: int) -> str:
    """The name of a data_type code, also of those that a BM1684 does not have."""
    return DTYPE_NAMES[code] if code < len(DTYPE_NAMES) else f"unknown type {code}"


@dataclass(frozen=True)
class Tensor:
    """An input or output. dtype and store_mode are codes (firmware_sim.wire.DType, StoreMode)."""

    name: str
    shape: tuple[int, ...]
    dtype: int
    store_mode: int
    addr: int
    size: int
    scale: float = 1.0
    zero_point: int = 0
    pad_h: int = 0
    mem_type: int = 1

    @property
    def elem_num(self) -> int:
        """Elements of the whole tensor; in a dynamic net of the compiled maximum."""
        n = 1
        for s in self.shape:
            n *= s
        return n

    @property
    def text(self) -> str:
        """`x [1, 3, 64, 64] float32`."""
        return shown.tensor(self.name, self.shape, dtype_name(self.dtype))

    __repr__ = shown.brief


@dataclass(frozen=True)
class Coeff:
    """The constants of a stage; `check_code` is the SHA-256 of `data`, or empty."""

    addr: int
    data: bytes
    check_code: bytes

    __repr__ = shown.brief


@dataclass(frozen=True)
class CpuLayer:
    """What a CPU subnet runs: a layer of the vendor's CPU library by its number, or an ONNX model of ours."""

    op_type: int
    param: bytes

    __repr__ = shown.brief

    @property
    def onnx(self) -> bytes | None:
        """The serialized ONNX model, or None for another kind of layer."""
        found = self.op_type == CPU_USER_DEFINED and self.param.startswith(ONNX_PARAM)
        return self.param[len(ONNX_PARAM) :] if found else None


@dataclass(frozen=True)
class SubNet:
    """A part of a stage that runs as one. ir_offset is in bytes, ir_len in 32-bit words.

    inputs, outputs: what it takes and makes; a file with one subnet may leave them out. cpu: of a CPU subnet.
    """

    mode: int
    groups: tuple[CommandGroup, ...]
    is_dynamic: bool
    ir_offset: int
    ir_len: int
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    cpu: CpuLayer | None = None
    host_const_sizes: tuple[tuple[bytes, int], ...] = ()  # (check code, size) of a CPU subnet's constants

    __repr__ = shown.brief


@dataclass(frozen=True)
class Stage:
    """One set of input shapes (NetParameter). ctx_sizes: the context's blocks, one behind the other."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    ctx_addr: int
    ctx_sizes: tuple[int, ...]
    coeff: Coeff | None
    is_dynamic: bool
    n_dynamic: bool
    c_dynamic: bool
    h_w_dynamic: bool
    subnets: tuple[SubNet, ...]
    ir: bytes
    cpu_mem_size: int
    core_num: int
    io_addr: int
    io_size: int
    manifest: Manifest | None

    @property
    def ctx_size(self) -> int:
        """Bytes of the context, all blocks together."""
        return sum(self.ctx_sizes)

    def varies(self, output: Tensor) -> bool:
        """Whether an output's shape is known only when the net has run; the stored one is the largest."""
        return self.manifest is not None and output.name in self.manifest.varying

    @property
    def mode(self) -> str:
        """`static` or `dynamic`, and in brackets the axes that may not vary."""
        return shown.mode(self.is_dynamic, self.n_dynamic, self.c_dynamic, self.h_w_dynamic)

    @property
    def edges(self) -> str:
        """What goes in and what comes out."""
        return shown.edges((t.text for t in self.inputs), (t.text for t in self.outputs))

    def __repr__(self) -> str:
        return f"<Stage, {self.mode}: {self.edges}; {shown.count(len(self.subnets), 'subnet')}>"


@dataclass(frozen=True)
class Net:
    """One net. cascade: it is a part of a net spread over several devices."""

    name: str
    stages: tuple[Stage, ...]
    addr_mode: int
    cascade: bool

    @property
    def is_dynamic(self) -> bool:
        """Whether the first stage is dynamic; `write` and `combine` refuse nets whose stages differ."""
        return self.stages[0].is_dynamic

    def __repr__(self) -> str:
        edges = shown.listed((stage.edges for stage in self.stages), " | ")
        return f"<Net {self.name!r}, {self.stages[0].mode}: {edges}>"


@dataclass(frozen=True)
class Module:
    """A firmware or CPU library that a bmodel carries along (never on BM1684 models of ours)."""

    file_name: str
    data: bytes

    __repr__ = shown.brief


@dataclass(frozen=True)
class BModel:
    """A whole file."""

    type: str
    version: str
    time: str
    chip: str
    nets: tuple[Net, ...]
    device_num: int
    kernel_module: Module | None
    cpuop_module: Module | None

    def __repr__(self) -> str:
        return f"<BModel for {self.chip} of {self.time}: {shown.listed(map(repr, self.nets))}>"
