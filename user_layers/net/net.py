"""The graph once every shape is known: what the passes after shape inference work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from firmware_sim.shown import brief
from firmware_sim.wire import DType, Format, StoreMode, TensorRecord, TType
from user_layers.net.nodes import LayerNode


@dataclass(frozen=True)
class NetTensorInfo:
    """A tensor of the net. data: the bytes of a constant, else None. plain: the graph's constant that this
    one is prepared from (prepare.py; until that pass has run, data are still those of plain). holds: other
    constants of the graph that it is prepared from too, by their numbers among the graph's inputs of the
    node that alone reads it."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    ttype: TType = TType.NEURON
    data: bytes | None = None
    plain: NetTensorInfo | None = None
    holds: Mapping[int, NetTensorInfo] = field(default_factory=dict, hash=False)
    store_mode: StoreMode = StoreMode.N1
    scale: float = 0.0

    __repr__ = brief

    @cached_property
    def format(self) -> Format:
        """How its elements are stored."""
        return Format(self.dtype, self.store_mode, self.scale)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor, continuous."""
        return self.record().nbytes

    @cached_property
    def nchw(self) -> tuple[int, int, int, int]:
        """The shape as local memory sees it: missing dimensions are 1 at the end. At most 4 dimensions."""
        n, c, h, w = (*self.shape, 1, 1, 1, 1)[:4]
        return n, c, h, w

    def record(self) -> TensorRecord:
        """The tensor without an address."""
        return self._record

    @cached_property
    def _record(self) -> TensorRecord:
        return TensorRecord(self.shape, self.dtype, self.ttype, self.store_mode, scale=self.scale)


@dataclass(frozen=True)
class Net:
    """Nodes in the order in which they run; inputs and outputs of the net in their order."""

    name: str
    tensors: dict[str, NetTensorInfo]
    nodes: tuple[LayerNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @cached_property
    def producer(self) -> dict[str, int]:
        """Index of the node that makes a tensor; inputs and constants are absent."""
        return {name: i for i, node in enumerate(self.nodes) for name in node.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[int, ...]]:
        """Indices of the nodes that read a tensor, ascending."""
        found: dict[str, list[int]] = {name: [] for name in self.tensors}
        for i, node in enumerate(self.nodes):
            for name in dict.fromkeys(node.inputs):
                found[name].append(i)
        return {name: tuple(where) for name, where in found.items()}
