"""What a compile produces: everything that a bmodel stores about one net.

The compiler fills these types, user_layers.bmodel writes and reads them, the runtime launches them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from firmware_sim.wire import CommandGroup, DType, StoreMode


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
    ctx_addr: int  # DDR address of the first byte of inputs, outputs and neurons
    ctx_bytes: int
    coeff_addr: int
    coeff: bytes


@dataclass(frozen=True)
class DynamicBody:
    """A program (firmware_sim.wire.Program, encoded) that the firmware interprets."""

    program: bytes
    neuron_bytes: int  # upper bound of what the firmware allocates
    coeff: bytes
    n_dynamic: bool = True  # the first dimension may be smaller than compiled
    h_w_dynamic: bool = True  # so may the third and later ones (every layer's can_h_w_dynamic)


@dataclass(frozen=True)
class Stage:
    """One set of input shapes of a net."""

    inputs: tuple[NetTensor, ...]
    outputs: tuple[NetTensor, ...]
    body: StaticBody | DynamicBody

    @property
    def is_dynamic(self) -> bool:
        return isinstance(self.body, DynamicBody)


@dataclass(frozen=True)
class CompiledNet:
    """A compiled net: one or more stages of the same graph."""

    name: str
    stages: tuple[Stage, ...]
    layers: tuple[LayerUse, ...] = ()
    log: tuple[str, ...] = field(default=(), compare=False)
