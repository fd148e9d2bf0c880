"""Pass 7: where tensors lie in DDR.

As the vendor's runtime expects it: constants first, from the start of a static net's memory, then the
context (inputs, outputs, everything between); the runtime tells them apart by address when it relocates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from firmware_sim.chip import DDR_BASE, DDR_BYTES, STATIC_CONTEXT_OFFSET
from firmware_sim.errors import CompileError
from user_layers.compiler.aliases import Aliases
from user_layers.compiler.allocate import Request, place
from user_layers.compiler.facts import DescribedNet
from user_layers.compiler.grouping import Alone, Group, Schedule
from user_layers.compiler.slicing import stored

DDR_ALIGN = 4096  # a page of the device: what the vendor's runtime allocates in
COEFF_ALIGN = 128
_FOREVER = 1 << 60


@dataclass(frozen=True)
class Coefficients:
    """The constants in one piece; offsets by name."""

    data: bytes
    offsets: dict[str, int]


@dataclass(frozen=True)
class DdrPlan:
    """Absolute addresses. address: of every tensor that is in DDR at some time; buffer: of the work buffer of
    a node that runs alone."""

    address: dict[str, int]
    buffer: dict[int, int]
    coefficients: Coefficients
    coeff_addr: int
    ctx_addr: int
    ctx_bytes: int


def pack_constants(described: DescribedNet) -> Coefficients:
    """All constants, each at a multiple of 128 bytes."""
    data = bytearray()
    offsets = {}
    for name in described.const_names:
        data.extend(b"\0" * (-len(data) % COEFF_ALIGN))
        offsets[name] = len(data)
        data.extend(described.net.tensors[name].data or b"")
    return Coefficients(bytes(data), offsets)


def place_ddr(described: DescribedNet, aliases: Aliases, plan: Schedule) -> DdrPlan:
    """Give every tensor that is not only in local memory an address; those that are needed at different
    times share memory. Errors: CompileError when the net needs more than the DDR."""
    net = described.net
    coefficients = pack_constants(described)
    coeff_addr = DDR_BASE + STATIC_CONTEXT_OFFSET
    ctx_addr = -(-(coeff_addr + len(coefficients.data)) // DDR_ALIGN) * DDR_ALIGN
    lifetimes = _lifetimes(described, plan)
    requests: list[Request] = []
    owners: list[list[str]] = []
    for members in aliases.classes(net).values():
        present = [m for m in members if m in lifetimes]
        if not present or any(net.tensors[m].data is not None for m in members):
            continue
        size = max(net.tensors[m].nbytes for m in members)
        first, last = (f(lifetimes[m][i] for m in present) for i, f in ((0, min), (1, max)))
        requests.append(Request(_pages(size), first, last))
        owners.append(members)
    alone = {s.node: i for i, s in enumerate(plan.segments) if isinstance(s, Alone)}
    buffers = [k for k in alone if described.facts[k].global_buffer]
    requests += [Request(_pages(described.facts[k].global_buffer), alone[k], alone[k]) for k in buffers]
    placement = place(requests, align=DDR_ALIGN)
    if placement is None or ctx_addr + placement.used > DDR_BASE + DDR_BYTES:
        raise CompileError(
            f"net {net.name!r} needs more than the {DDR_BYTES >> 30} GB of DDR",
            hint="use smaller shapes, or a smaller get_global_buffer_size",
        )
    address = {name: coeff_addr + offset for name, offset in coefficients.offsets.items()}
    for members, offset in zip(owners, placement.offsets, strict=False):
        address.update((m, ctx_addr + offset) for m in members)
    for name in net.tensors:  # reshaped constants
        root = aliases.root(name)
        if root in coefficients.offsets:
            address[name] = address[root]
    return DdrPlan(
        address=address,
        buffer=dict(zip(buffers, (ctx_addr + o for o in placement.offsets[len(owners) :]), strict=True)),
        coefficients=coefficients,
        coeff_addr=coeff_addr,
        ctx_addr=ctx_addr,
        ctx_bytes=_pages(placement.used),
    )


def _lifetimes(described: DescribedNet, plan: Schedule) -> dict[str, tuple[int, int]]:
    """First and last segment in which a tensor must be in DDR; inputs and outputs of the net are there
    before and after."""
    net = described.net
    found = dict.fromkeys((*net.inputs, *net.outputs), (-1, _FOREVER))

    def touch(names: Iterable[str], segment: int) -> None:
        for name in names:
            first, last = found.get(name, (segment, segment))
            found[name] = (min(first, segment), max(last, segment))

    for i, segment in enumerate(plan.segments):
        if isinstance(segment, Group):
            made = {out for k in segment.nodes for out in net.nodes[k].outputs}
            touch((n for k in segment.nodes for n in net.nodes[k].inputs if n not in made), i)
            touch(stored(described, segment.nodes), i)
        else:
            node = net.nodes[segment.node]
            touch((*node.inputs, *node.outputs), i)
    return found


def _pages(size: int) -> int:
    return -(-size // DDR_ALIGN) * DDR_ALIGN
