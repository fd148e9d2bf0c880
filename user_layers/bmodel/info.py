"""tpu_model --info: what a bmodel holds, in the vendor tool's lines, or as JSON.

The memory sizes are counted as the vendor counts them: constants with equal hashes once; 128 bytes per
descriptor; at run time the largest context of a net plus the largest input or output, in 4-byte elements.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from firmware_sim.chip import DESCRIPTOR_BYTES
from user_layers.bmodel.model import SUBNET_TPU, BModel, Stage, SubNet, Tensor, dtype_name
from user_layers.bmodel.read import read


@dataclass(frozen=True)
class MemorySizes:
    """Bytes that a bmodel needs on the device and on the host."""

    coeff: int
    instruct: int
    runtime: int
    host_coeff: int
    host_runtime: int


def run(path: Path, *, as_json: bool = False) -> str:
    """The description in the vendor's lines or as JSON. ModelError for a damaged or foreign file."""
    model = read(path)
    return json.dumps(describe(model), indent=2) if as_json else text(model)


def memory_sizes(model: BModel) -> MemorySizes:
    """Count the memory of all nets of the file."""
    coeff: dict[bytes, int] = {}
    host_coeff: dict[bytes, int] = {}
    instruct = host_runtime = buffer = shared = own = 0
    for net in model.nets:
        context = max(stage.ctx_size for stage in net.stages)
        # Nets that are cut into subnets keep their context to themselves; the others share one.
        if any(len(stage.subnets) > 1 for stage in net.stages):
            own += context
        else:
            shared = max(shared, context)
        for stage in net.stages:
            if stage.coeff is not None:
                coeff[stage.coeff.check_code or stage.coeff.data] = len(stage.coeff.data)
            for subnet in stage.subnets:
                instruct += _instruct(subnet)
                host_coeff |= dict(subnet.host_const_sizes)
            host_runtime += 4 * stage.cpu_mem_size
            buffer = max(buffer, *(4 * t.elem_num for t in (*stage.inputs, *stage.outputs)), 0)
    return MemorySizes(
        coeff=sum(coeff.values()),
        instruct=instruct,
        runtime=own + shared + buffer,
        host_coeff=sum(host_coeff.values()),
        host_runtime=host_runtime,
    )


def _instruct(subnet: SubNet) -> int:
    if subnet.mode != SUBNET_TPU:
        return 0
    if subnet.is_dynamic:
        return 4 * subnet.ir_len
    return sum((g.bd_num + g.gdma_num) * DESCRIPTOR_BYTES for g in subnet.groups)


def text(model: BModel) -> str:
    """The lines of tpu_model --info."""
    lines = [
        f"bmodel version: {model.type}.{model.version}",
        f"chip: {model.chip}",
        f"create time: {model.time}",
    ]
    for module, name in ((model.kernel_module, "kernel_module"), (model.cpuop_module, "cpuop_module")):
        if module is not None:
            lines.append(f"{name}: {module.file_name}, {len(module.data)} bytes")
    for index, net in enumerate(model.nets):
        lines += ["=" * 42, f"net {index}: [{net.name}]  {'dynamic' if net.is_dynamic else 'static'}"]
        if net.addr_mode:
            lines.append(f"addr mode: {net.addr_mode}")
        for number, stage in enumerate(net.stages):
            lines += ["-" * 12, f"stage {number}:", f"subnet number: {len(stage.subnets)}"]
            largest = stage.is_dynamic and (stage.n_dynamic or stage.c_dynamic or stage.h_w_dynamic)
            lines += [f"input: {_tensor(t, largest)}" for t in stage.inputs]
            lines += [f"output: {_tensor(t, stage.varies(t))}" for t in stage.outputs]
            lines += _manifest(stage)
    m = memory_sizes(model)
    total, host = m.coeff + m.instruct + m.runtime, m.host_coeff + m.host_runtime
    lines += [
        "",
        f"device mem size: {total} (coeff: {m.coeff}, instruct: {m.instruct}, runtime: {m.runtime})",
        f"host mem size: {host} (coeff: {m.host_coeff}, runtime: {m.host_runtime})",
    ]
    return "\n".join(lines)


def _tensor(tensor: Tensor, largest: bool) -> str:
    shape = ", ".join(f"{'max:' if largest else ''}{n}" for n in tensor.shape)
    line = f"{tensor.name}, [{shape}], {dtype_name(tensor.dtype)}, scale: {tensor.scale:g}"
    return f"{line}, zero point: {tensor.zero_point}" if tensor.zero_point else line


def _manifest(stage: Stage) -> list[str]:
    if stage.manifest is None:
        return []
    layers = ", ".join(f"{use.op} (op_type {use.op_type})" for use in stage.manifest.layers)
    return [f"compiled by: {stage.manifest.tool}", f"layers: {layers or 'none of the user'}"]


def describe(model: BModel) -> dict[str, object]:
    """The same as one JSON object; sizes in bytes."""
    return {
        "type": model.type,
        "version": model.version,
        "chip": model.chip,
        "time": model.time,
        "nets": [
            {
                "name": net.name,
                "is_dynamic": net.is_dynamic,
                "stages": [_stage(stage) for stage in net.stages],
            }
            for net in model.nets
        ],
        "memory": asdict(memory_sizes(model)),
    }


def _stage(stage: Stage) -> dict[str, object]:
    manifest = stage.manifest
    return {
        "inputs": [_tensor_object(t) for t in stage.inputs],
        "outputs": [{**_tensor_object(t), "varies": stage.varies(t)} for t in stage.outputs],
        "n_dynamic": stage.n_dynamic,
        "c_dynamic": stage.c_dynamic,
        "h_w_dynamic": stage.h_w_dynamic,
        "subnets": len(stage.subnets),
        "command_groups": [
            {"bd_num": g.bd_num, "gdma_num": g.gdma_num} for subnet in stage.subnets for g in subnet.groups
        ],
        "ctx_size": stage.ctx_size,
        "coeff_size": len(stage.coeff.data) if stage.coeff is not None else 0,
        "program_size": len(stage.ir),
        "tool": manifest.tool if manifest is not None else None,
        "layers": [asdict(use) for use in manifest.layers] if manifest is not None else None,
    }


def _tensor_object(tensor: Tensor) -> dict[str, object]:
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": dtype_name(tensor.dtype),
        "scale": tensor.scale,
        "zero_point": tensor.zero_point,
        "size": tensor.size,
    }
