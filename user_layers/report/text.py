"""A report as text, at most 110 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap

from firmware_sim.chip import CLOCK_HZ, LOCAL_BYTES
from firmware_sim.isa import timing
from firmware_sim.shown import count
from user_layers.report.model import (
    GroupReport,
    NetReport,
    NodeReport,
    PartReport,
    Runs,
    StageReport,
    TensorReport,
    Traffic,
    Work,
    cycles_text,
    launch_cycles,
    megabytes,
    total,
)
from user_layers.report.names import CUT, distinct, middle_cut, start_cut
from user_layers.report.totals import Total, by_name, by_operation

WIDTH = 110
_INDENT = "  "
_NAME = 40  # letters of a name in the head
_MOST = 5  # how many names of layers that cost most the head has

_COLUMNS = (
    # title, width; text to the left, numbers to the right
    ("#", 4),
    ("layer", -20),
    ("type", -13),
    ("output", -17),
    ("local", 6),
    ("BD", 8),
    ("GDMA", 8),
    ("in", 7),
    ("out", 7),
    ("const", 7),
    ("eff", 3),
)
_TOTALS = (
    ("layers", -35),
    ("number", 6),
    ("BD", 9),
    ("", 6),
    ("GDMA", 9),
    ("", 6),
    ("M MACs", 9),
    ("DDR MB", 8),
    ("least", 9),
    ("eff", 4),
)
_EXPLANATION = """\
Columns: local: KiB of local memory per lane that the layer has to do with. BD, GDMA: thousands of cycles that
the tensor unit and the DMA engine are busy with it. in, out, const: KiB of activations read from and written
to DDR, and of constants read. eff: the least time by the roofline in per cent of the layer's; in a group of
that of its busier engine. Cycles are modelled, those of the recorded commands."""


def report_text(nets: Sequence[NetReport]) -> str:
    """All nets of a bmodel, one after the other; ends with a line end."""
    lines = []
    for net in nets:
        for number, stage in enumerate(net.stages):
            which = f", stage {number} of {len(net.stages)}" if len(net.stages) > 1 else ""
            lines += [*_stage(f"net {middle_cut(net.name, _NAME)}{which}", stage), ""]
    used = [node for net in nets for stage in net.stages for node in stage.nodes]
    if any(node.work is not None for node in used):
        lines += _EXPLANATION.splitlines()
    if any(CUT in line for line in lines):
        lines.append(f"Names and shapes cut with {CUT} are whole in the JSON file.")
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _stage(title: str, stage: StageReport) -> Iterator[str]:
    kinds = {part.kind for part in stage.parts}
    kind = "dynamic" if stage.dynamic else "static"
    kind += ", partly dynamic" if not stage.dynamic and "dynamic" in kinds else ""
    kind += ", partly on the host" if "cpu" in kinds else ""
    yield from _title(f"{title}: {kind}")
    for name, tensors in (("inputs", stage.inputs), ("outputs", stage.outputs)):
        told = distinct((tensor.name for tensor in tensors), _NAME)
        for i, tensor in enumerate(tensors):
            text = f"{told[tensor.name]} {_shape(tensor)} {tensor.dtype}"
            yield from _line(name if i == 0 else "", text)
    yield from _line("layers", stage.layers)
    hosted = sum(node.runs is Runs.HOST for node in stage.nodes)
    if stage.recorded:
        yield from _totals(stage)
    elif hosted == len(stage.nodes):
        yield from _line("time", "not known here: nothing of this net runs on the TPU")
    else:
        yield from _line("time", "not known here: the firmware issues the commands when the net runs")
    if hosted:
        yield from _line("host", f"{count(hosted, 'part')} on the host; {_host_time(stage)}")
    constants, context = megabytes(stage.constants_bytes), megabytes(stage.context_bytes)
    memory = f"{constants} MB of DDR for constants, {context} MB for inputs, outputs and everything between"
    yield from _line("memory", memory)
    for note in (*stage.reasons, *stage.notes):
        yield from _line("note", note)
    yield from _costs(stage)
    number, names = 0, distinct((node.name for node in stage.nodes), -_COLUMNS[1][1])
    for part in stage.parts:
        yield ""
        if len(stage.parts) > 1 or part.kind != "static":
            yield from _title(_part_title(part))
        if part.kind == "cpu":
            yield from _rows(list(enumerate(part.nodes, number)), names)
        else:
            yield from _part(part, number, names)
        number += len(part.nodes)


def _host_time(stage: StageReport) -> str:
    times = [part.host_s for part in stage.parts if part.kind == "cpu"]
    if any(taken is None for taken in times):
        return "how long onnxruntime takes is known when the net runs"
    whole = sum(taken for taken in times if taken is not None)
    return f"onnxruntime took {_micros(whole)} in its first run, on the machine that compiled the net"


def _micros(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} us"


def _totals(stage: StageReport) -> Iterator[str]:
    work = total(stage.recorded)
    where = "" if stage.complete else ", and that of the other subnets, which is not known here"
    rate = f"at {CLOCK_HZ // 1_000_000} MHz, {timing.modelled()}"
    yield from _line("time", f"{cycles_text(work.cycles)} {rate}{where}")
    yield from _line("launch", f"{cycles_text(launch_cycles(stage))} more for each run")
    yield from _line("busy", _busy(work))
    commands = f"{work.bd_commands:,} of the tensor unit, {work.gdma_commands:,} of the DMA engine"
    yield from _line("commands", commands)
    yield from _line("DDR", _traffic(work.traffic))
    if stage.efficiency is not None:
        least = f"{cycles_text(stage.roofline)} at least, {stage.efficiency:.1%} of the time"
        yield from _line("roofline", f"{least}; {stage.macs / 1e6:,.3f} million multiplications")


def _costs(stage: StageReport) -> Iterator[str]:
    """What the time goes into, by operation and by name."""
    operations, names = by_operation(stage), by_name(stage)
    if len(operations) < 2:
        return
    whole = total(stage.recorded)
    yield ""
    yield "By operation: thousands of cycles, and their share of what each engine does:"
    yield _row(["operation", *(title for title, _ in _TOTALS[1:])], _TOTALS)
    yield from _cost_rows(operations, whole)
    if len(names) > _MOST:
        yield f"What costs most, by names (* stands for numbers), {_MOST} of {len(names)}:"
        yield from _cost_rows(names[:_MOST], whole)


def _cost_rows(found: Sequence[Total], whole: Work) -> Iterator[str]:
    # Names of one net begin alike.
    told = distinct((one.name for one in found), -_TOTALS[0][1], start_cut)
    yield from (_cost(one, told[one.name], whole) for one in found)


def _cost(one: Total, name: str, whole: Work) -> str:
    def share(cycles: float, of: float) -> list[str]:
        return [_number(cycles / 1000, 9), f"{cycles / of:.1%}" if of else ""]

    cells = [name, str(one.layers)]
    cells += share(one.work.bd_cycles, whole.bd_cycles) + share(one.work.gdma_cycles, whole.gdma_cycles)
    cells += [f"{one.macs / 1e6:,.3f}" if one.macs else ""]
    cells += [megabytes(one.work.traffic.read + one.work.traffic.written)]
    cells += [_number(one.roofline / 1000, 9) if one.roofline else "", _percent(one.efficiency)]
    return _row(cells, _TOTALS)


def _part_title(part: PartReport) -> str:
    if part.kind == "static":
        assert part.work is not None
        return f"subnet {part.index}, static: {cycles_text(part.work.cycles)}"
    if part.kind == "cpu":
        taken = "" if part.host_s is None else f" ({_micros(part.host_s)})"
        reason = part.nodes[0].reason or "no reason given"
        return f"subnet {part.index}, on the host with onnxruntime{taken}: {reason}"
    text = f"subnet {part.index}, dynamic: the firmware runs it with the shapes it gets"
    return f"{text}; it allocates at most {megabytes(part.arena_bytes)} MB" if part.arena_bytes else text


def _part(part: PartReport, first: int, told: Mapping[str, str]) -> Iterator[str]:
    """Groups with a title each, and runs of other nodes that have the same title. first: the number of the
    part's first node; told: what is shown of names."""
    place = {node.name: i for i, node in enumerate(part.nodes)}
    differ = part.work is not None or any(node.reason for node in part.nodes)

    def title(item: GroupReport | int) -> str:
        if isinstance(item, GroupReport):
            return _group_title(item, part)
        return _alone_title(part.nodes[item]) if differ else ""

    if part.work is not None or part.groups:
        yield _row([name for name, _ in _COLUMNS])
    for text, items in groupby(part.order, key=title):
        yield from _title(text)
        for item in items:
            names = item.nodes if isinstance(item, GroupReport) else (part.nodes[item].name,)
            yield from _rows([(first + place[name], part.nodes[place[name]]) for name in names], told)


def _group_title(group: GroupReport, part: PartReport) -> str:
    n, h, w = group.slices
    cut = " x ".join(f"{slices} over {axis}" for slices, axis in ((n, "n"), (h, "h"), (w, "w")) if slices > 1)
    text = f"group {group.index}: " + (f"slices {cut}" if cut else "one slice")
    text += ", overlapped" if group.overlapped else ""
    text += f"; {_kib(group.local_bytes)} of {LOCAL_BYTES >> 10} KiB local memory"
    text += f", {_kib(group.l2_bytes)} KiB of L2" if group.l2_bytes else ""
    of = part.work.cycles if part.work is not None else 0
    share = f" ({group.work.cycles / of:.1%})" if of else ""
    largest = "" if part.work is not None else " for the largest shapes"
    text += f"; {round(group.work.cycles):,} cycles{share}{largest}"
    return text + (f", efficiency {group.efficiency:.1%}" if group.efficiency is not None else "")


def _alone_title(node: NodeReport) -> str:
    return {
        Runs.ALONE: f"alone, on DDR ({node.reason}):",
        Runs.SHARES: f"not run, {node.reason}:",
        Runs.FIRMWARE: f"by the firmware{f', {node.reason}' if node.reason else ''}:",
    }.get(node.runs, "")


def _rows(nodes: Sequence[tuple[int, NodeReport]], told: Mapping[str, str]) -> Iterator[str]:
    for i, node in nodes:
        cells = [str(i), told[node.name], node.label, "x".join(map(str, node.outputs[0].shape))]
        if node.local_bytes is not None:
            cells.append(_kib(node.local_bytes))
        if node.work is not None:
            w, t = node.work, node.work.traffic
            cells += [_number(cycles / 1000, 8) for cycles in (w.bd_cycles, w.gdma_cycles)]
            sizes = (t.activations_read, t.activations_written, t.constants_read)
            cells += [_number(size / 1024, 7) if size else "" for size in sizes]
            cells.append(_percent(node.efficiency))
        yield _row(cells)
        if node.work is not None and node.work.traffic.buffers_read + node.work.traffic.buffers_written:
            t = node.work.traffic
            read, written = _kib(t.buffers_read), _kib(t.buffers_written)
            yield f"{_INDENT * 4}its work buffer in DDR: {read} KiB read, {written} KiB written"


def _row(cells: Sequence[str], columns: Sequence[tuple[str, int]] = _COLUMNS) -> str:
    parts = []
    for cell, (_, width) in zip(cells, columns, strict=False):
        text = middle_cut(cell, -width) if width < 0 else cell
        parts.append(f"{text:<{-width}}" if width < 0 else f"{text:>{width}}")
    return " ".join(parts)


def _busy(work: Work) -> str:
    if not work.cycles:
        return "nothing"
    bd, gdma = work.bd_cycles / work.cycles, work.gdma_cycles / work.cycles
    return f"tensor unit {bd:.1%}, DMA engine {gdma:.1%} of the time"


def _traffic(t: Traffic) -> str:
    parts = [f"activations {megabytes(t.activations_read)}", f"constants {megabytes(t.constants_read)}"]
    parts += [f"work buffers {megabytes(t.buffers_read)}"] if t.buffers_read else []
    text = f"{megabytes(t.read)} MB read ({', '.join(parts)}), {megabytes(t.written)} MB written"
    return text + (f" (work buffers {megabytes(t.buffers_written)})" if t.buffers_written else "")


def _line(name: str, text: str) -> list[str]:
    head = f"{_INDENT}{name:<9} "
    return wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))


def _title(text: str) -> list[str]:
    return wrap(text, WIDTH, subsequent_indent=_INDENT * 4)


def _number(value: float, width: int) -> str:
    """With one decimal where there is room for it."""
    text = f"{value:,.1f}"
    return text if len(text) <= width else f"{value:,.0f}"


def _percent(share: float | None) -> str:
    return f"{100 * share:.0f}" if share is not None else ""


def _kib(nbytes: int) -> str:
    return f"{nbytes / 1024:,.1f}"


def _shape(tensor: TensorReport) -> str:
    return "x".join(map(str, tensor.shape))
