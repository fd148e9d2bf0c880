"""Every program is followed once more before it is recorded or stored, on regions of tensors without
numbers: a static one, and what runs of a dynamic one with groups for the compiled shapes.

Local memory is a set of byte ranges in lanes with the tensor and region that each holds. What a load, a
layer call, a copy or a store reads must be there: the right region, in the right layout, untouched since.
In a parallel section what both engines do to the same bytes must be in order (verify_order.py). The passes
that planned this are asked nothing: steps, addresses and descriptors alone tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from firmware_sim.chip import L2_BASE, L2_USER_BYTES, L2_USER_OFFSET, LOCAL_BYTES, NPU_NUM
from firmware_sim.errors import CompileError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind, TType
from user_layers.compiler.at_compiled import at_compiled_shapes
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.concat import concat_channels
from user_layers.compiler.mode import Kind
from user_layers.compiler.partition import Part
from user_layers.compiler.plan import Plan
from user_layers.compiler.tiles import split_shape, tile_bytes
from user_layers.compiler.verify_memory import (
    ALL_LANES,
    Area,
    InDdr,
    LocalMemory,
    Region,
    Tile,
    areas_of,
    four,
    region_of,
)
from user_layers.compiler.verify_order import Section, WrongStep


def verify(plan: Plan) -> None:
    """Raise CompileError for a plan one of whose programs would read or leave wrong data."""
    ddr = _ddr_before(plan)
    for i, (planned, program) in enumerate(zip(plan.schedule.parts, plan.programs, strict=True)):
        part = planned.part
        if part.kind is Kind.STATIC and program is not None:
            _follow(plan.described, plan.ddr.address, program, ddr)
        else:
            if program is not None and planned.grouped:
                _follow_dynamic(plan, part, program)
            if planned.arena_bytes:
                ddr.scribble(plan.ddr.arena[i], planned.arena_bytes)
            for name in part.outputs:
                ddr.write(name)
        _require_complete(plan.described, part, plan.ddr.address, ddr)


def _follow_dynamic(plan: Plan, part: Part, program: Program) -> None:
    """For the compiled shapes; every tensor has memory of its own then."""
    described = plan.described
    fixed = at_compiled_shapes(program, plan.ddr, whole=True)
    calls = {step.name: step for step in program.steps if step.opcode is StepOp.GLOBAL}
    address: dict[str, int] = {}
    for k in part.nodes:
        node = described.net.nodes[k]
        tensors = (*calls[node.name].inputs, *calls[node.name].outputs)
        names = (*node.inputs, *node.outputs)
        address.update((n, fixed.tensors[t].tensor.addr) for n, t in zip(names, tensors, strict=True))
    ddr = InDdr(described, address, {node.name for node in described.net.nodes})
    for name in address:
        if name in part.inputs or described.net.tensors[name].data is not None:
            ddr.write(name)
    _follow(described, address, fixed, ddr)
    _require_complete(described, part, address, ddr)


def _require_complete(described: DescribedNet, part: Part, address: Mapping[str, int], ddr: InDdr) -> None:
    for name in part.outputs:
        if name in address and not ddr.complete(name):
            raise _wrong(described, f"{name} is not in DDR when its part of the net is done")


def _follow(described: DescribedNet, address: Mapping[str, int], program: Program, ddr: InDdr) -> None:
    verifier = _Verifier(described, address, program, ddr)
    for at, step in enumerate(program.steps):
        try:
            verifier.step(at, step)
        except WrongStep as wrong:
            raise _wrong(described, f"step {at} ({_said(step)}): {wrong}") from None
    if verifier.section is not None:
        raise _wrong(described, "a parallel section stays open")


def _said(step: Step) -> str:
    return f"{step.opcode.name.lower()} {step.name}".strip()


def _wrong(described: DescribedNet, what: str) -> CompileError:
    return CompileError(
        f"the compiler made a wrong program of net {described.net.name!r}: {what}",
        hint="this is a mistake of the toolkit; opt=0 makes a simpler program",
    )


def _ddr_before(plan: Plan) -> InDdr:
    """DDR with the net's inputs and constants."""
    net = plan.described.net
    runs = {
        step.name
        for program in plan.programs
        if program is not None
        for step in program.steps
        if step.opcode in (StepOp.GLOBAL, StepOp.LOCAL)
    }
    others = (p.part.nodes for p in plan.schedule.parts if p.part.kind is not Kind.STATIC)
    runs |= {net.nodes[k].name for nodes in others for k in nodes}
    ddr = InDdr(plan.described, plan.ddr.address, runs)
    for name, tensor in net.tensors.items():
        if name in plan.ddr.address and (name in net.inputs or tensor.data is not None):
            ddr.write(name)
    return ddr


class _Verifier:
    """The state while a program is followed step by step. section: of the parallel section that is open."""

    def __init__(
        self, described: DescribedNet, address: Mapping[str, int], program: Program, ddr: InDdr
    ) -> None:
        self.section: Section | None = None
        self._described, self._net = described, described.net
        self._address, self._program, self._ddr = address, program, ddr
        self._nodes = {node.name: k for k, node in enumerate(described.net.nodes)}
        self._local = LocalMemory()
        self._l2: dict[int, str] = {}

    def step(self, at: int, step: Step) -> None:
        """Follow one step. Raises WrongStep."""
        match step.opcode:
            case StepOp.PARALLEL_START:
                _require(self.section is None, "a parallel section begins in another one")
                self.section = Section(at)
            case StepOp.WAIT:
                _require(self.section is not None, "a wait outside of parallel sections")
                assert self.section is not None
                self.section.wait(at, {Engine.BD: step.bd_after, Engine.GDMA: step.gdma_after})
            case StepOp.PARALLEL_END:
                _require(self.section is not None, "no parallel section is open")
                assert self.section is not None
                self.section.end()
                self.section = None
            case StepOp.GLOBAL:
                self._global(step)
            case StepOp.COPY:
                self._copy(step)
            case _:
                computes = step.opcode is StepOp.LOCAL and not self._by_dma(step)
                engine = Engine.BD if computes else Engine.GDMA
                reads, writes = self._within(step)
                for start, end, _ in (*reads, *writes):
                    _require(0 <= start <= end <= LOCAL_BYTES, f"bytes {start} to {end} of local memory")
                if self.section is not None:
                    self.section.add(at, engine, reads, writes)

    def _by_dma(self, step: Step) -> bool:
        attrs = self._described.attrs[self._nodes[step.name]]
        return attrs.gathers or attrs.turns

    def _within(self, step: Step) -> tuple[list[Area], list[Area]]:
        """What a step that uses local memory reads and writes of it."""
        match step.opcode:
            case StepOp.LOAD:
                return [], self._load(step)
            case StepOp.STORE:
                return self._store(step), []
            case StepOp.MOVE:
                return self._move(step)
            case _:
                return self._call(step)

    # ---- transfers ----

    def _load(self, step: Step) -> list[Area]:
        source, target = self._tensors(step)
        known = [name for name in self._named(source) if self._ddr.complete(name)]
        _require(bool(known), f"no complete tensor {list(source.tensor.shape)} is at {source.tensor.addr:#x}")
        areas = areas_of(target)
        # A part of a concatenation and a slice of it may be the same bytes.
        owners = dict.fromkeys(self._owner(name) for name in known)
        self._local.put([_tile(target, name) for name in owners], areas)
        return areas

    def _store(self, step: Step) -> list[Area]:
        source, target = self._tensors(step)
        held = [name for name in self._named(target) if self._holds(source, name)]
        _require(bool(held), f"none of {self._named(target)} is in local memory at {source.tensor.addr:#x}")
        self._ddr.write(held[0], region_of(source))
        return areas_of(source)

    def _move(self, step: Step) -> tuple[list[Area], list[Area]]:
        part, target = self._tensors(step)
        k = self._nodes[step.name]
        channels = concat_channels(self._described, k) or ()
        _require(step.channel in channels, f"no part begins at channel {step.channel}")
        name = self._net.nodes[k].inputs[channels.index(step.channel)]
        self._expect(part, name)
        written = areas_of(target, (step.channel, step.channel + part.tensor.shape[1]))
        self._local.moved(target.tensor.addr, step.channel, (k, name, region_of(part)), written)
        return areas_of(part), written

    def _copy(self, step: Step) -> None:
        source, target = self._tensors(step)
        start = target.tensor.addr - L2_BASE - L2_USER_OFFSET
        _require(self.section is None, "a copy to L2 is overlapped")
        _require(
            target.kind is TensorKind.L2 and 0 <= start <= L2_USER_BYTES - target.tensor.nbytes,
            f"a copy to {target.tensor.addr:#x}",
        )
        known = [name for name in self._named(source) if self._ddr.complete(name)]
        _require(bool(known), f"no complete tensor is at {source.tensor.addr:#x}")
        self._l2[target.tensor.addr] = self._owner(known[0])

    # ---- layers ----

    def _global(self, step: Step) -> None:
        _require(self.section is None, "a global layer is overlapped")
        k = self._nodes[step.name]
        node, tensors = self._net.nodes[k], self._tensors(step)
        self._ddr.scribble(step.buffer_addr, step.buffer_bytes)
        for name, t in zip(node.inputs, tensors, strict=False):
            _require(t.tensor.addr == self._address[name], f"{name} is at another address")
            _require(self._ddr.complete(name), f"{name} is not in DDR")
        for name, t in zip(node.outputs, tensors[len(node.inputs) :], strict=True):
            _require(t.tensor.addr == self._address[name], f"{name} is at another address")
            shared = [n for n in node.inputs if self._ddr.overlap(n, name)]
            _require(
                self._described.attrs[k].share_mem or not shared,
                f"{', '.join(shared)} and {name} share memory",
            )
            self._ddr.write(name)
        self._local.clear()  # a global function may use all of it

    def _call(self, step: Step) -> tuple[list[Area], list[Area]]:
        k = self._nodes[step.name]
        node, attrs = self._net.nodes[k], self._described.attrs[k]
        tensors = self._tensors(step)
        ins, outs = tensors[: len(node.inputs)], tensors[len(node.inputs) :]
        made, shape = region_of(outs[0]), outs[0].tensor.shape
        reads: list[Area] = []
        for i, (name, t) in enumerate(zip(node.inputs, ins, strict=True)):
            if attrs.gathers:
                _require(t.tensor.addr == self._address[name], f"{name} is at another address")
                _require(self._ddr.complete(name), f"{name} is not in DDR")
            elif attrs.on_l2[i]:
                _require(self.section is None or not attrs.alone, "a layer that copies from L2 is overlapped")
                _require(self._l2.get(t.tensor.addr) == self._owner(name), f"{name} is not in L2")
            elif attrs.input_types[i] == TType.NEURON_SHAPE:
                _require(t.tensor.host_data is not None, f"{name} has no values")
            else:
                self._expect(t, name)
                self._window(k, i, t, made, shape)
                reads += areas_of(t)
        writes: list[Area] = []
        n, _, h, w = (extent for _, extent in made)
        wanted = attrs.local_buffer(split_shape(self._described, k, (n, h, w)))
        _require(step.buffer_bytes == wanted, f"a work buffer of {step.buffer_bytes} bytes, not {wanted}")
        if step.buffer_bytes:
            end = step.buffer_addr + step.buffer_bytes
            writes.append((step.buffer_addr, end, ALL_LANES))
            self._local.forget(writes)
        for name, t in zip(node.outputs, outs, strict=True):
            _require(t.tensor.ttype == TType.NEURON, f"{name} is not aligned")
            if attrs.scatters and t.kind is not TensorKind.LOCAL:
                _require(t.tensor.addr == self._address[name], f"{name} is at another address")
                self._ddr.write(name, made)
                continue
            writes += areas_of(t)
            self._local.put([_tile(t, name)], areas_of(t))
        return reads, writes

    def _window(self, k: int, i: int, t: ProgramTensor, made: Region, shape: tuple[int, ...]) -> None:
        """The input's tile is the backward window of the output's tile, cut at the edges."""
        attrs, got = self._described.attrs[k], region_of(t)
        out, size, pads = four(shape, 1), four(t.tensor.shape, 1), four(t.tensor.slice_pad, 0)
        alone = attrs.taken_whole[i]
        for axis, d in (("h", 2), ("w", 3)):
            if alone or (size[d] == 1 and out[d] > 1 and len(attrs.node.inputs) > 1):  # broadcast
                _require(got[d] == (0, size[d]) and pads[d] == 0, f"input {i} is cut along {axis}")
                continue
            backward = (out[d], size[d]) if axis == "h" else ()
            first, extent = getattr(attrs, f"backward_{axis}")(*made[d], *backward)
            low, high = max(first, 0), min(first + extent, size[d])
            if not attrs.can_split_h_w:
                right = got[d] == (0, size[d])
            else:
                inside = got[d][0] <= low and high <= sum(got[d])
                right = got[d] == (low, high - low) or (attrs.larger_tiles and inside)
            _require(
                right and pads[d] == low - first,
                f"input {i} has {got[d]} along {axis}, padding {pads[d]}; the window is {first}, {extent}",
            )
        _require(got[1] == (0, size[1]), f"input {i} has not all channels")
        if not alone and size[0] > 1:
            wanted = made[0] if size[0] == out[0] else (0, size[0])
            _require(got[0] == wanted, f"input {i} has batches {got[0]} instead of {wanted}")

    # ---- tensors ----

    def _tensors(self, step: Step) -> list[ProgramTensor]:
        return [self._program.tensors[i] for i in (*step.inputs, *step.outputs)]

    def _named(self, t: ProgramTensor) -> list[str]:
        """Tensors of the net that this one in DDR may be."""
        return [n for n in self._ddr.at(t.tensor.addr) if self._net.tensors[n].shape == t.tensor.shape]

    def _owner(self, name: str) -> str:
        return self._ddr.owner(name)

    def _expect(self, t: ProgramTensor, name: str) -> None:
        _require(
            self._holds(t, name),
            f"{name} {region_of(t)} is not in local memory at {t.tensor.addr:#x}; "
            f"there is {self._local.at(areas_of(t))}",
        )

    def _holds(self, t: ProgramTensor, name: str) -> bool:
        """Whether this tile of the tensor is where it is looked for, whole or as a concatenation's parts."""
        if self._local.holds(_tile(t, self._owner(name)), areas_of(t)):
            return True
        k = self._net.producer.get(name)
        channels = concat_channels(self._described, k) if k is not None else None
        if k is None or channels is None:
            return False
        parts = zip(self._net.nodes[k].inputs, channels, strict=True)
        return all(self._has_part(t, k, part, channel) for part, channel in parts)

    def _has_part(self, t: ProgramTensor, k: int, part: str, channel: int) -> bool:
        """A part of concatenation k is in its place: made there, or copied."""
        n, _, h, w = region_of(t)
        shape = self._net.tensors[part].shape
        region = (n, (0, shape[1]), h, w)
        if self._local.copied(t.tensor.addr, channel) == (k, part, region):
            return True
        if channel % NPU_NUM or n[1] > t.tensor.format.together:
            return False
        plane = tile_bytes(TType.NEURON, (1, 1, h[1], w[1]), t.tensor.format)
        dims = len(t.tensor.shape)
        record = replace(
            t.tensor,
            shape=shape,
            addr=t.tensor.addr + channel // NPU_NUM * plane,
            slice_shape=tuple(extent for _, extent in region)[:dims],
        )
        return self._holds(replace(t, tensor=record), part)


def _tile(t: ProgramTensor, name: str) -> Tile:
    return name, region_of(t), t.tensor.ttype


def _require(right: bool, what: str) -> None:
    if not right:
        raise WrongStep(what)
