"""What a compile produces: everything that a bmodel stores about one net.

The compiler fills these types, user_layers.bmodel writes and reads them, the runtime launches them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from firmware_sim import shown
from firmware_sim.wire import CommandGroup, DType, Format, StoreMode

if TYPE_CHECKING:
    from user_layers.net.command_map import RecordedCommands
    from user_layers.report import StageReport


@dataclass(frozen=True)
class NetTensor:
    """An input or output of a net. Static: addr is its compile-time DDR address and shape is exact;
    dynamic: shape is the compiled maximum and addr is 0 (the runtime allocates). varies: an output whose
    shape is known only when the net has run, in a static net too; shape is the largest one. scale: see
    firmware_sim.wire.Format."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    store_mode: StoreMode = StoreMode.N1
    addr: int = 0
    varies: bool = False
    scale: float = 0.0

    @property
    def format(self) -> Format:
        """How its elements are stored."""
        return Format(self.dtype, self.store_mode, self.scale)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor, continuous; where its shape may be smaller, of the compiled maximum."""
        return self.format.nbytes(self.shape)

    @property
    def text(self) -> str:
        """`x [1, 3, 64, 64] float32`."""
        return shown.tensor(self.name, self.shape, self.format.text, varies=self.varies)

    def __repr__(self) -> str:
        return f"<NetTensor {self.text}{f' at {self.addr:#x}' if self.addr else ''}>"


@dataclass(frozen=True)
class LayerUse:
    """One user op that the net needs in the firmware: checked by the runtime before it runs."""

    op: str
    op_type: int
    param_bytes: int
    param_hash: int


@dataclass(frozen=True)
class StaticBody:
    """Ready command streams for fixed addresses: groups run one after the other. commands: who issued them,
    where that was recorded."""

    groups: tuple[CommandGroup, ...]
    commands: RecordedCommands | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "static"

    @property
    def size(self) -> str:
        """For messages: `120 BD and 34 GDMA commands`, over all groups."""
        return shown.commands(self.groups)

    def __repr__(self) -> str:
        return f"<StaticBody: {self.size} in {shown.count(len(self.groups), 'group')}>"


@dataclass(frozen=True)
class DynamicBody:
    """A program (firmware_sim.wire.Program, encoded) that the firmware interprets; it allocates from
    arena_bytes at arena_addr, which lie in the stage's context."""

    program: bytes
    arena_addr: int
    arena_bytes: int

    kind: ClassVar[str] = "dynamic"
    __repr__ = shown.brief

    @property
    def size(self) -> str:
        """For messages: the encoded program's bytes."""
        return f"a program of {len(self.program)} bytes"


@dataclass(frozen=True)
class CpuBody:
    """A serialized ONNX model for onnxruntime: its inputs and outputs stand in the order of the subnet's."""

    model: bytes

    kind: ClassVar[str] = "host"
    __repr__ = shown.brief

    @property
    def size(self) -> str:
        """For messages: the serialized model's bytes."""
        return f"a model of {len(self.model)} bytes"


@dataclass(frozen=True)
class Subnet:
    """What runs in one go. Every tensor has an address in the stage's context or constants; in a dynamic
    stage the net's own inputs and outputs have none (0). nodes: how many of the graph's layers it does."""

    inputs: tuple[NetTensor, ...]
    outputs: tuple[NetTensor, ...]
    body: StaticBody | DynamicBody | CpuBody
    nodes: int = 0

    def __repr__(self) -> str:
        edges = shown.edges((t.text for t in self.inputs), (t.text for t in self.outputs))
        return f"<Subnet, {self.body.kind}: {edges}; {shown.count(self.nodes, 'layer')}, {self.body.size}>"


@dataclass(frozen=True)
class Stage:
    """One set of input shapes of a net: subnets that run one after the other.

    is_dynamic: inputs may be smaller than compiled: n_dynamic the first dimension, c_dynamic the second,
    h_w_dynamic the third and later ones (every layer's can_h_w_dynamic).
    ctx: inputs, outputs and all between the subnets.
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
    c_dynamic: bool = False
    h_w_dynamic: bool = False

    def may_change(self, axis: int) -> bool:
        """Whether inputs may be smaller than compiled along a dimension."""
        return (self.n_dynamic, self.c_dynamic, self.h_w_dynamic)[min(axis, 2)]

    @property
    def mode(self) -> str:
        """`static` or `dynamic`, and in brackets the axes that may not vary."""
        return shown.mode(self.is_dynamic, self.n_dynamic, self.c_dynamic, self.h_w_dynamic)

    @property
    def text(self) -> str:
        """Inputs, outputs, and what lies between."""
        edges = shown.edges((t.text for t in self.inputs), (t.text for t in self.outputs))
        layers = shown.count(sum(subnet.nodes for subnet in self.subnets), "layer")
        if len(self.subnets) > 1:
            layers += f" in {len(self.subnets)} subnets"
        bodies = shown.listed(subnet.body.size for subnet in self.subnets)
        constants = f"; {len(self.coeff)} bytes of constants" if self.coeff else ""
        return f"{edges}; {layers}: {bodies}{constants}"

    def __repr__(self) -> str:
        return f"<Stage, {self.mode}: {self.text}>"


@dataclass(frozen=True)
class CompiledNet:
    """A compiled net: one or more stages of the same graph. report: one for each stage if it was
    asked for, else none."""

    name: str
    stages: tuple[Stage, ...]
    layers: tuple[LayerUse, ...] = ()
    log: tuple[str, ...] = field(default=(), compare=False)
    report: tuple[StageReport, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        modes = " or ".join(dict.fromkeys(stage.mode for stage in self.stages)) or "without stages"
        stages = f", {len(self.stages)} stages" if len(self.stages) > 1 else ""
        uses = f"; with {shown.listed(use.op for use in self.layers)}" if self.layers else ""
        texts = shown.listed((stage.text for stage in self.stages), " | ")
        return f"<CompiledNet {self.name!r}, {modes}{stages}: {texts}{uses}>"

    def _repr_html_(self) -> str | None:
        """What notebooks show of a net that was compiled with a report: its text and its picture."""
        if not self.report:
            return None
        from user_layers.report.html import report_html

        return report_html(self.name, self.report)
