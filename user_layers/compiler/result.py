"""What a compile produces: everything that a bmodel stores about one net.

The compiler fills these types, user_layers.bmodel writes and reads them, the runtime launches them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firmware_sim.wire import CommandGroup, DType, StoreMode

if TYPE_CHECKING:
    from user_layers.compiler.report import StageReport


@dataclass(frozen=True)
class NetTensor:
    """An input or output of a net. Static: addr is its compile-time DDR address and shape is exact;
    dynamic: shape is the compiled maximum and addr is 0 (the runtime allocates)."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    store_mode: StoreMode = StoreMode.N1
    addr: int = 0

    @property
    def nbytes(self) -> int:
        n = self.dtype.itemsize
        for s in self.shape:
            n *= s
        return n


@dataclass(frozen=True)
class LayerUse:
    """One user op that the net needs in the firmware: checked by the runtime before it runs."""

    op: str
    op_type: int
    param_bytes: int
    param_hash: int


@dataclass(frozen=True)
class StaticBody:
    """Ready command streams for fixed addresses: groups run one after the other."""

    groups: tuple[CommandGroup, ...]


@dataclass(frozen=True)
class DynamicBody:
    """A program (firmware_sim.wire.Program, encoded) that the firmware interprets; it allocates from
    arena_bytes at arena_addr, which lie in the stage's context."""

    program: bytes
    arena_addr: int
    arena_bytes: int


@dataclass(frozen=True)
class CpuBody:
    """A serialized ONNX model for onnxruntime: its inputs and outputs stand in the order of the subnet's."""

    model: bytes


@dataclass(frozen=True)
class Subnet:
    """What runs in one go. Every tensor has an address in the stage's context or constants; in a dynamic
    stage the net's own inputs and outputs have none (0)."""

    inputs: tuple[NetTensor, ...]
    outputs: tuple[NetTensor, ...]
    body: StaticBody | DynamicBody | CpuBody


@dataclass(frozen=True)
class Stage:
    """One set of input shapes of a net: subnets that run one after the other.

    is_dynamic: inputs may be smaller than compiled: n_dynamic the first dimension, h_w_dynamic the third
    and later ones (every layer's can_h_w_dynamic). ctx: inputs, outputs and all between the subnets.
    """

    inputs: tuple[NetTensor, ...]
    outputs: tuple[NetTensor, ...]
    subnets: tuple[Subnet, ...]
    ctx_addr: int
    ctx_bytes: int
    coeff_addr: int
    coeff: bytes
    is_dynamic: bool = False
    n_dynamic: bool = False
    h_w_dynamic: bool = False


@dataclass(frozen=True)
class CompiledNet:
    """A compiled net: one or more stages of the same graph. report: one for each stage if it was
    asked for, else none."""

    name: str
    stages: tuple[Stage, ...]
    layers: tuple[LayerUse, ...] = ()
    log: tuple[str, ...] = field(default=(), compare=False)
    report: tuple[StageReport, ...] = field(default=(), compare=False)
