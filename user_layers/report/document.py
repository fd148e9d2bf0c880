"""A report as JSON; docs/report.md describes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from firmware_sim.chip import BANK_BYTES, CLOCK_HZ, LOCAL_BYTES
from firmware_sim.isa import timing
from user_layers import __version__
from user_layers.report.model import (
    GroupReport,
    NetReport,
    NodeReport,
    PartReport,
    StageReport,
    TensorReport,
    Traffic,
    Work,
    launch_cycles,
    total,
)
from user_layers.report.totals import Total, by_name, by_operation

FORMAT = "tpulayer report"
VERSION = 1
"""Counted up when something changes its meaning or goes; new keys alone do not count."""


def report_json(nets: Sequence[NetReport]) -> str:
    """The JSON text; ends with a line end."""
    return json.dumps(report_document(nets), indent=1) + "\n"


def report_document(nets: Sequence[NetReport]) -> dict[str, Any]:
    """What the JSON text holds."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "tpulayer": __version__,
        "chip": {
            "name": "BM1684",
            "clock_hz": CLOCK_HZ,
            "local_bytes": LOCAL_BYTES,
            "bank_bytes": BANK_BYTES,
        },
        "median_error_percent": timing.MEDIAN_ERROR,
        "nets": [{"name": net.name, "stages": [_stage(stage) for stage in net.stages]} for net in nets],
    }


def _stage(stage: StageReport) -> dict[str, Any]:
    return {
        "inputs": _tensors(stage.inputs),
        "outputs": _tensors(stage.outputs),
        "dynamic": stage.dynamic,
        "reasons": list(stage.reasons),
        "notes": list(stage.notes),
        "constants_bytes": stage.constants_bytes,
        "context_bytes": stage.context_bytes,
        "complete": stage.complete,
        "work": _work(total(stage.recorded)) if stage.recorded else None,
        "launch_cycles": round(launch_cycles(stage), 1) if stage.recorded else None,
        "roofline": {
            "cycles": round(stage.roofline, 1),
            "efficiency": _share(stage.efficiency),
            "macs": stage.macs,
            "ddr_read": sum(demand.read for demand in stage.demands.values()),
            "ddr_written": sum(demand.written for demand in stage.demands.values()),
        }
        if stage.recorded
        else None,
        "operations": [_total(one) for one in by_operation(stage)],
        "names": [_total(one) for one in by_name(stage)],
        "subnets": [_part(part) for part in stage.parts],
    }


def _total(one: Total) -> dict[str, Any]:
    return {
        "name": one.name,
        "layers": one.layers,
        "busy_cycles": _busy(one.work),
        "ddr_bytes": _traffic(one.work.traffic),
        "macs": one.macs,
        "roofline_cycles": round(one.roofline, 1),
        "efficiency": _share(one.efficiency),
    }


def _part(part: PartReport) -> dict[str, Any]:
    return {
        "kind": part.kind,
        "inputs": list(part.inputs),
        "outputs": list(part.outputs),
        "arena_bytes": part.arena_bytes,
        "host_seconds": part.host_s,
        "work": _optional_work(part.work),
        "groups": [_group(group) for group in part.groups],
        "nodes": [_node(node) for node in part.nodes],
    }


def _group(group: GroupReport) -> dict[str, Any]:
    n, h, w = group.slices
    return {
        "group": group.index,
        "nodes": list(group.nodes),
        "slices": {"n": n, "h": h, "w": w},
        "overlapped": group.overlapped,
        "local_bytes": group.local_bytes,
        "l2_bytes": group.l2_bytes,
        "values": [
            {"name": v.name, "role": v.role.value, "bytes": v.nbytes, "offsets": list(v.offsets)}
            for v in group.values
        ],
        "work": _work(group.work),
        "roofline_cycles": round(group.roofline, 1),
        "efficiency": _share(group.efficiency),
    }


def _node(node: NodeReport) -> dict[str, Any]:
    return {
        "name": node.name,
        "op": node.op,
        "inputs": _tensors(node.inputs),
        "outputs": _tensors(node.outputs),
        "runs": node.runs.value,
        "reason": node.reason,
        "group": node.group,
        "local_bytes": node.local_bytes,
        "work": _optional_work(node.work),
        "operation": node.operation,
        "macs": node.demand.macs if node.demand is not None else None,
        "roofline_cycles": round(node.demand.cycles, 1) if node.demand is not None else None,
        "efficiency": _share(node.efficiency),
    }


def _share(share: float | None) -> float | None:
    return round(share, 4) if share is not None else None


def _optional_work(work: Work | None) -> dict[str, Any] | None:
    return _work(work) if work is not None else None


def _work(work: Work) -> dict[str, Any]:
    return {
        "commands": {"bd": work.bd_commands, "gdma": work.gdma_commands},
        "busy_cycles": _busy(work),
        "start": round(work.start, 1),
        "end": round(work.end, 1),
        "ddr_bytes": _traffic(work.traffic),
    }


def _busy(work: Work) -> dict[str, float]:
    return {"bd": round(work.bd_cycles, 1), "gdma": round(work.gdma_cycles, 1)}


def _traffic(traffic: Traffic) -> dict[str, Any]:
    return {
        "activations_read": traffic.activations_read,
        "activations_written": traffic.activations_written,
        "constants_read": traffic.constants_read,
        "buffers_read": traffic.buffers_read,
        "buffers_written": traffic.buffers_written,
    }


def _tensors(tensors: Sequence[TensorReport]) -> list[dict[str, Any]]:
    return [{"name": t.name, "shape": list(t.shape), "dtype": t.dtype} for t in tensors]
