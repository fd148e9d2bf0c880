"""Runs a static program on regions instead of numbers, and fails where data would be wrong.

Local memory is a set of byte ranges with the tensor and region they hold. Every load, layer call and store
is checked: what it reads is there in the right place and layout and untouched since, and inside a
parallel section the two engines touch different bytes, or one has waited for the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from firmware_sim.chip import L2_BASE, LOCAL_BYTES
from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind, TType
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.concat import concat_channels
from user_layers.compiler.ddr import DdrPlan
from user_layers.compiler.tiles import tile_bytes
from user_layers.compiler.tiling import taken_whole

Region = tuple[tuple[int, int], ...]  # first and extent per dimension n, c, h, w
Area = tuple[int, int, tuple[int, int]]  # bytes from and to, in the lanes from and to
ALL_LANES = (0, 64)


@dataclass
class Touch:
    """Bytes that a step of a section reads or writes; waits: the step of the other engine it waits for."""

    engine: str
    start: int
    end: int
    mode: str
    step: int
    waits: int


@dataclass
class Checker:
    described: DescribedNet
    ddr: DdrPlan
    program: Program
    # bytes from and to -> tensor, region, layout, and the lanes of the bytes
    held: dict[tuple[int, int], tuple[str, Region, TType, list[Area]]] = field(default_factory=dict)
    in_ddr: dict[str, list[Region]] = field(default_factory=dict)
    section: list[Touch] | None = None
    at: int = 0  # the step that runs
    waits: dict[str, int] = field(default_factory=dict)  # by engine, the step up to which it waits
    sections: int = 0
    # parts that were copied into a concatenation: (its address, first channel) -> (it, part, region, where)
    moved: dict[tuple[int, int], tuple[int, str, Region, list[Area]]] = field(default_factory=dict)

    def run(self) -> None:
        net = self.described.net
        self.names = {node.name: k for k, node in enumerate(net.nodes)}
        self.runs = {s.name for s in self.program.steps if s.opcode in (StepOp.GLOBAL, StepOp.LOCAL)}
        for name, tensor in net.tensors.items():
            if name not in net.producer:
                self.in_ddr[name] = [whole(tensor.shape)]
        for at, step in enumerate(self.program.steps):
            self.at = at
            getattr(self, f"do_{step.opcode.name.lower()}")(step)
        assert self.section is None, "a parallel section stays open"
        for name in net.outputs:
            self.need_in_ddr(name)

    # ---- steps ----

    def do_parallel_start(self, step: Step) -> None:
        assert self.section is None
        self.section = []
        self.sections += 1
        self.waits = {"bd": self.at, "gdma": self.at}

    def do_wait(self, step: Step) -> None:
        assert self.section is not None
        assert max(step.bd_after, step.gdma_after) < self.at
        self.waits["bd"] = max(self.waits["bd"], step.bd_after)
        self.waits["gdma"] = max(self.waits["gdma"], step.gdma_after)

    def do_parallel_end(self, step: Step) -> None:
        assert self.section is not None
        for x, y in itertools.combinations(self.section, 2):
            if x.engine != y.engine and "w" in x.mode + y.mode and y.waits < x.step:
                assert x.end <= y.start or y.end <= x.start, f"engines meet in local memory: {x} and {y}"
        self.section = None

    def do_load(self, step: Step) -> None:
        source, target = self.tensors(step)
        name = self.ddr_name(source)
        region = region_of(target)
        self.need_in_ddr(name)
        self.put(target, name, region, "gdma")

    def do_store(self, step: Step) -> None:
        source, target = self.tensors(step)
        held = self.held.get(span(source))
        names = [n for n, a in self.ddr.address.items() if a == target.tensor.addr]
        concats = [n for n in names if self.is_concat(n) and self.shape(n) == target.tensor.shape]
        assert held is not None or concats, "a store of nothing"
        made = held is not None and self.shape(held[0]) == target.tensor.shape and held[0] in names
        name = held[0] if held is not None and (made or not concats) else concats[0]
        self.expect(source, name, "gdma")
        assert target.tensor.addr == self.ddr.address[name]
        self.write_ddr(name, region_of(source))

    def do_move(self, step: Step) -> None:
        part, whole = self.tensors(step)
        k, first = self.names[step.name], step.channel
        channels = concat_channels(self.described, k)
        assert channels is not None
        name = self.described.net.nodes[k].inputs[channels.index(first)]
        self.expect(part, name, "gdma")
        channels_of = (first, first + part.tensor.shape[1])
        areas = areas_of(whole, channels_of)
        for start, end, _ in areas:
            self.touch("gdma", start, end, "w")
        self.forget(areas)
        self.moved[whole.tensor.addr, first] = (k, name, region_of(part), areas)

    def do_copy(self, step: Step) -> None:
        source, target = self.tensors(step)
        assert self.section is None
        assert target.kind == TensorKind.L2 and target.tensor.addr >= L2_BASE + 0xA2000
        assert target.tensor.addr + target.tensor.nbytes <= L2_BASE + 0x300000
        name = self.ddr_name(source)
        self.need_in_ddr(name)
        self.l2 = {**getattr(self, "l2", {}), target.tensor.addr: name}

    def do_global(self, step: Step) -> None:
        node = self.described.net.nodes[self.names[step.name]]
        tensors = self.tensors(step)
        for name, t in zip(node.inputs, tensors, strict=False):
            assert t.tensor.addr == self.ddr.address[name]
            self.need_in_ddr(name)
        for name, t in zip(node.outputs, tensors[len(node.inputs) :], strict=True):
            assert t.tensor.addr == self.ddr.address[name]
            self.write_ddr(name, whole(t.tensor.shape))
        self.held.clear()  # a global function may use all local memory

    def do_local(self, step: Step) -> None:
        net = self.described.net
        k = self.names[step.name]
        node, attrs = net.nodes[k], self.described.attrs[k]
        tensors = self.tensors(step)
        ins, outs = tensors[: len(node.inputs)], tensors[len(node.inputs) :]
        made = region_of(outs[0])
        for i, (name, t) in enumerate(zip(node.inputs, ins, strict=True)):
            if attrs.on_l2[i]:
                assert self.section is None, "a layer that reads L2 is overlapped"
                assert t.kind == TensorKind.L2 and self.l2[t.tensor.addr] == self.owner(name)
            elif attrs.input_types[i] == TType.NEURON_SHAPE:
                assert t.tensor.host_data is not None
            else:
                self.expect(t, name, "bd")
                self.check_window(k, i, t, made, outs[0].tensor.shape)
        if step.buffer_bytes:
            assert step.buffer_bytes == attrs.local_buffer(
                tuple(e for _, e in made)[: len(outs[0].tensor.shape)]
            )
            self.touch("bd", step.buffer_addr, step.buffer_addr + step.buffer_bytes, "w")
            self.forget([(step.buffer_addr, step.buffer_addr + step.buffer_bytes, ALL_LANES)])
        for name, t in zip(node.outputs, outs, strict=True):
            assert t.tensor.ttype == TType.NEURON
            self.put(t, name, region_of(t), "bd")

    def check_window(
        self, k: int, i: int, t: ProgramTensor, made: Region, out_shape: tuple[int, ...]
    ) -> None:
        """The input's tile is the backward window of the output's tile, cut at the edges."""
        attrs = self.described.attrs[k]
        out = four(out_shape, 1)
        size = four(t.tensor.shape, 1)
        pads = four(t.tensor.slice_pad, 0)
        for axis, d in (("h", 2), ("w", 3)):
            got = region_of(t)[d]
            if taken_whole(attrs, i) or not attrs.can_split_h_w or (size[d] == 1 and out[d] > 1):
                assert got == (0, size[d]) and pads[d] == 0
                continue
            first, extent = (
                attrs.backward_h(*made[d], out[d], size[d]) if axis == "h" else attrs.backward_w(*made[d])
            )
            low, high = max(first, 0), min(first + extent, size[d])
            assert pads[d] == low - first
            if attrs.larger_tiles:
                assert got[0] <= low and high <= sum(got)
            else:
                assert got == (low, high - low)
        assert region_of(t)[1] == (0, size[1])
        if not taken_whole(attrs, i) and size[0] > 1:
            assert region_of(t)[0] == (made[0] if size[0] == out[0] else (0, size[0]))

    # ---- memory ----

    def tensors(self, step: Step) -> list[ProgramTensor]:
        return [self.program.tensors[i] for i in (*step.inputs, *step.outputs)]

    def ddr_name(self, t: ProgramTensor) -> str:
        """The tensor that was written to this address last."""
        roots = [n for n in self.in_ddr if self.ddr.address[n] == t.tensor.addr]
        if len(roots) > 1:  # a concatenation and its first part
            roots = [n for n in roots if self.shape(n) == t.tensor.shape]
        assert len(roots) == 1, f"{roots} lie at {t.tensor.addr:#x}"
        return roots[0]

    def owner(self, name: str) -> str:
        """What must have been written for `name` to be there: itself, or the input of a reshape that never
        runs."""
        net = self.described.net
        while name in net.producer and net.nodes[net.producer[name]].name not in self.runs:
            source = net.nodes[net.producer[name]].inputs[0]
            same = self.ddr.address.get(source) == self.ddr.address.get(name) is not None
            if self.is_concat(name) and (name in self.in_ddr or not same):
                break  # concatenated in local memory
            assert same
            name = source
        return name

    def write_ddr(self, name: str, region: Region) -> None:
        """Part of a tensor is written: whatever else lay there is gone."""
        start = self.ddr.address[name]
        end = start + self.described.net.tensors[name].nbytes
        producer = self.described.net.producer
        parts = self.parts(producer[name]) if self.is_concat(name) else set()
        parts |= {n for n in self.in_ddr if self.is_concat(n) and name in self.parts(producer[n])}
        for other in list(self.in_ddr):
            a = self.ddr.address[other]
            if (
                other != name
                and other not in parts
                and a < end
                and start < a + self.described.net.tensors[other].nbytes
            ):
                del self.in_ddr[other]
        self.in_ddr.setdefault(name, []).append(region)

    def need_in_ddr(self, name: str) -> None:
        root = self.owner(name)
        assert root in self.in_ddr, f"{name} is read but not in DDR"
        shape = self.described.net.tensors[root].shape
        assert covers(self.in_ddr[root], shape), f"{name} is read before it is complete"

    def shape(self, name: str) -> tuple[int, ...]:
        return self.described.net.tensors[name].shape

    def is_concat(self, name: str) -> bool:
        net = self.described.net
        return name in net.producer and concat_channels(self.described, net.producer[name]) is not None

    def parts(self, k: int) -> set[str]:
        """Everything that ends up in the result of concatenation k."""
        found = set(self.described.net.nodes[k].inputs)
        for name in list(found):
            if self.is_concat(name):
                found |= self.parts(self.described.net.producer[name])
        return found

    def put(self, t: ProgramTensor, name: str, region: Region, engine: str) -> None:
        start, end = span(t)
        self.touch(engine, start, end, "w")
        areas = areas_of(t)
        self.forget(areas)
        self.held[start, end] = (name, region, t.tensor.ttype, areas)

    def expect(self, t: ProgramTensor, name: str, engine: str) -> None:
        start, end = span(t)
        self.touch(engine, start, end, "r")
        wanted = (self.owner(name), region_of(t), t.tensor.ttype)
        found = self.held.get((start, end))
        held = found[:3] if found is not None else None
        if held != wanted and self.is_concat(name):
            self.expect_parts(t, name, engine)
            return
        assert held == wanted, f"{start}..{end} should hold {name} {region_of(t)}, holds {held}"

    def expect_parts(self, t: ProgramTensor, name: str, engine: str) -> None:
        """All parts of a concatenation are where they belong: made there, or copied."""
        net = self.described.net
        k = net.producer[name]
        n, _, h, w = region_of(t)
        plane = tile_bytes(TType.NEURON, (1, 1, h[1], w[1]), t.tensor.dtype.itemsize)
        for part, channel in zip(net.nodes[k].inputs, concat_channels(self.described, k) or (), strict=True):
            region = (n, (0, self.shape(part)[1]), h, w)
            self.touch(engine, *span(t), "r")
            copied = self.moved.get((t.tensor.addr, channel))
            if copied is not None and copied[:3] == (k, part, region):
                continue
            assert channel % 64 == 0 and n[1] == 1, f"{part} is not in {name}"
            dims = len(t.tensor.shape)
            record = replace(
                t.tensor,
                shape=self.shape(part),
                addr=t.tensor.addr + channel // 64 * plane,
                slice_shape=tuple(x for _, x in region)[:dims],
            )
            self.expect(replace(t, tensor=record), part, engine)

    def forget(self, areas: Sequence[Area]) -> None:
        """What lies in any of these lanes and bytes is there no longer."""
        self.held = {key: v for key, v in self.held.items() if not overlap(v[3], areas)}
        self.moved = {key: m for key, m in self.moved.items() if not overlap(m[3], areas)}

    def touch(self, engine: str, start: int, end: int, mode: str) -> None:
        assert 0 <= start <= end <= LOCAL_BYTES and start % 128 == 0
        if self.section is not None:
            self.section.append(Touch(engine, start, end, mode, self.at, self.waits[engine]))


def four(values: tuple[int, ...], fill: int) -> tuple[int, int, int, int]:
    n, c, h, w = (*values, fill, fill, fill, fill)[:4]
    return n, c, h, w


def whole(shape: tuple[int, ...]) -> Region:
    return tuple((0, s) for s in (*shape, 1, 1, 1, 1)[: max(4, len(shape))])


def region_of(t: ProgramTensor) -> Region:
    return tuple(zip(four(t.tensor.processed, 0), four(t.tensor.slice_shape, 1), strict=True))


def span(t: ProgramTensor) -> tuple[int, int]:
    assert t.kind == TensorKind.LOCAL
    size = tile_bytes(t.tensor.ttype, four(t.tensor.slice_shape, 1), t.tensor.dtype.itemsize)
    return t.tensor.addr, t.tensor.addr + size


def areas_of(t: ProgramTensor, channels: tuple[int, int] | None = None) -> list[Area]:
    """Where a tile lies; channels: only these of it, (first, end)."""
    record = t.tensor
    if record.ttype != TType.NEURON:
        return [(*span(t), ALL_LANES)]
    n, c, h, w = four(record.slice_shape, 1)
    first, end = channels or (0, c)
    plane = tile_bytes(TType.NEURON, (1, 1, h, w), record.dtype.itemsize)
    slots = -(-c // 64)
    return [
        (at, at + plane, (max(first - 64 * slot, 0), min(end - 64 * slot, 64)))
        for batch in range(n)
        for slot in range(first // 64, -(-end // 64))
        for at in [record.addr + (batch * slots + slot) * plane]
    ]


def overlap(some: Sequence[Area], others: Sequence[Area]) -> bool:
    """Whether two places share a byte of a lane."""
    return any(
        a[0] < b[1] and b[0] < a[1] and a[2][0] < b[2][1] and b[2][0] < a[2][1] for a in some for b in others
    )


def covers(regions: list[Region], shape: tuple[int, ...]) -> bool:
    """Whether the regions, a grid of tiles, cover the whole tensor."""
    import numpy as np

    seen = np.zeros((*shape, 1, 1, 1, 1)[: max(4, len(shape))], bool)
    for region in regions:
        seen[tuple(slice(first, first + extent) for first, extent in region)] = True
    return bool(seen.all())


def volume(region: Region) -> int:
    n = 1
    for _, extent in region:
        n *= extent
    return n
