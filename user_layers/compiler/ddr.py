"""Where tensors lie in DDR.

As the vendor's runtime expects it: constants first, from the start of a static net's memory, then the
context (inputs, outputs, everything between); the runtime tells them apart by address when it relocates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

from firmware_sim.chip import DDR_BASE, DDR_BYTES, STATIC_CONTEXT_OFFSET
from firmware_sim.errors import CompileError
from user_layers.compiler.aliases import Aliases
from user_layers.compiler.allocate import Request, place
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.grouping import Alone, Group
from user_layers.compiler.mode import Kind
from user_layers.compiler.schedule import Schedule
from user_layers.compiler.tiling import stored

DDR_ALIGN = 4096  # a page of the device: what the vendor's runtime allocates in
COEFF_ALIGN = 128
_FOREVER = 1 << 60


@dataclass(frozen=True)
class Coefficients:
    """The constants in one tile; offsets by name."""

    data: bytes
    offsets: dict[str, int]


@dataclass(frozen=True)
class DdrPlan:
    """Absolute addresses. address: of every tensor that is in DDR at some time; buffer: of the work buffer of
    a node that runs alone; arena: of what the firmware allocates in a part, by the part's number."""

    address: dict[str, int]
    buffer: dict[int, int]
    arena: dict[int, int]
    coefficients: Coefficients
    coeff_addr: int
    ctx_addr: int
    ctx_bytes: int


def pack_constants(described: DescribedNet) -> Coefficients:
    """All constants, each at a multiple of 128 bytes. Those of the net become parts of them, one after the
    other, in place: weights are large."""
    tensors = described.net.tensors
    whole = BytesIO()
    places: dict[str, tuple[int, int]] = {}
    for name in described.const_names:
        data = tensors[name].data or b""
        start = -(-whole.tell() // COEFF_ALIGN) * COEFF_ALIGN
        whole.write(bytes(start - whole.tell()))
        whole.write(data)
        places[name] = start, len(data)
        tensors[name] = replace(tensors[name], data=b"")
        del data
    packed = whole.getvalue()  # no copy
    for name, (start, size) in places.items():
        view: Any = memoryview(packed)[start : start + size]  # serves as bytes do
        tensors[name] = replace(tensors[name], data=view)
    return Coefficients(packed, {name: start for name, (start, _) in places.items()})


def place_ddr(
    described: DescribedNet, aliases: Aliases, plan: Schedule, coefficients: Coefficients
) -> DdrPlan:
    """Give every tensor that is not only in local memory an address; those that are needed at different
    times share memory. Errors: CompileError when the net needs more than the DDR."""
    net = described.net
    coeff_addr = DDR_BASE + STATIC_CONTEXT_OFFSET
    ctx_addr = -(-(coeff_addr + len(coefficients.data)) // DDR_ALIGN) * DDR_ALIGN
    times = _Times(described, plan)
    requests: list[Request] = []
    owners: list[list[str]] = []
    for members in aliases.classes(net).values():
        present = [m for m in members if m in times.of]
        if not present or any(net.tensors[m].data is not None for m in members):
            continue
        size = max(net.tensors[m].nbytes for m in members)
        first, last = (f(times.of[m][i] for m in present) for i, f in ((0, min), (1, max)))
        requests.append(Request(_pages(size), first, last))
        owners.append(members)
    buffers = [k for k in times.alone if described.attrs[k].global_buffer]
    requests += [
        Request(_pages(described.attrs[k].global_buffer), times.alone[k], times.alone[k]) for k in buffers
    ]
    arenas = [i for i, part in enumerate(plan.parts) if part.arena_bytes]
    requests += [Request(_pages(plan.parts[i].arena_bytes), *times.part[i]) for i in arenas]
    placement = place(requests, align=DDR_ALIGN)
    if placement is None or ctx_addr + placement.used > DDR_BASE + DDR_BYTES:
        raise CompileError(
            f"net {net.name!r} needs more than the {DDR_BYTES >> 30} GB of DDR",
            hint="use smaller shapes, or a smaller get_global_buffer_size",
        )
    address = {name: coeff_addr + offset for name, offset in coefficients.offsets.items()}
    for members, offset in zip(owners, placement.offsets, strict=False):
        address.update((m, ctx_addr + offset + aliases.place(m)[1]) for m in members)
    for name in net.tensors:  # reshaped constants
        root = aliases.root(name)
        if root in coefficients.offsets:
            address[name] = address[root]
    rest = iter(placement.offsets[len(owners) :])
    return DdrPlan(
        address=address,
        buffer={k: ctx_addr + next(rest) for k in buffers},
        arena={i: ctx_addr + next(rest) for i in arenas},
        coefficients=coefficients,
        coeff_addr=coeff_addr,
        ctx_addr=ctx_addr,
        ctx_bytes=_pages(placement.used),
    )


class _Times:
    """When memory is needed, counted in segments; a part that has none takes one step.

    of: first and last step of a tensor that is in DDR; alone: the step of a node that runs by itself; part:
    first and last step of each part. Inputs and outputs of a static net are there before and after; those
    of a dynamic one lie elsewhere.
    """

    def __init__(self, described: DescribedNet, plan: Schedule) -> None:
        net = described.net
        ends = (*net.inputs, *net.outputs)
        self.of: dict[str, tuple[int, int]] = {} if plan.dynamic else dict.fromkeys(ends, (-1, _FOREVER))
        self.alone: dict[int, int] = {}
        self.part: list[tuple[int, int]] = []
        self._elsewhere = frozenset(ends) if plan.dynamic else frozenset()
        step = 0
        for part in plan.parts:
            start = step
            if part.part.kind is not Kind.STATIC:
                self._touch((*part.part.inputs, *part.part.outputs), step)
                self.part.append((start, step))
                step += 1
                continue
            for segment in part.segments:
                if isinstance(segment, Group):
                    made = {out for k in segment.nodes for out in net.nodes[k].outputs}
                    read = (n for k in segment.nodes for n in net.nodes[k].inputs if n not in made)
                    self._touch((*read, *stored(described, segment.nodes)), step)
                else:
                    node = net.nodes[segment.node]
                    self._touch((*node.inputs, *node.outputs), step)
                if isinstance(segment, Alone):
                    self.alone[segment.node] = step
                step += 1
            self.part.append((start, step - 1))

    def _touch(self, names: Iterable[str], step: int) -> None:
        for name in names:
            if name not in self._elsewhere:
                first, last = self.of.get(name, (step, step))
                self.of[name] = (min(first, step), max(last, step))


def _pages(size: int) -> int:
    return -(-size // DDR_ALIGN) * DDR_ALIGN
