"""Which nets can run here: the firmware's layers, and what this runtime knows of the format."""

from __future__ import annotations

from firmware_sim.chip import DDR_BYTES
from firmware_sim.errors import ModelError
from firmware_sim.firmware.image import FirmwareInfo
from firmware_sim.wire import BUILTIN_OP_BASE, PROGRAM_MAGIC
from user_layers.bmodel.model import (
    SUBNET_CPU,
    SUBNET_MODES,
    SUBNET_TPU,
    Net,
    Stage,
    SubNet,
    Tensor,
    dtype_name,
)
from user_layers.layer_identity import difference
from user_layers.runtime.network import dtype_of
from user_layers.runtime.store_mode import stored_bytes

# 0 and 1: inputs and outputs lie in the context, or in memory of their own. 2: each may have memory of its
# own, named in the streams; the compiler for the BM1684 writes plain addresses in the context there too.
# 5: as 0, with inputs that are overwritten while the net runs.
RUNNABLE_ADDR_MODES = (0, 1, 2, 5)
_OTHER_LAYERS = "compile the model again, or rebuild the firmware (build_layers) it was compiled with"


def check_firmware(net: Net, info: FirmwareInfo) -> None:
    """Refuse a net that uses a user layer which the firmware does not have as it was compiled.

    Layers that the net does not use may come, go and change. ModelError names the layer.
    """
    for stage in net.stages:
        for use in stage.manifest.layers if stage.manifest is not None else ():
            if use.op_type < BUILTIN_OP_BASE and (found := difference(use, info, known="then")):
                raise ModelError(
                    f"net {net.name!r} uses the layer {use.op} (op_type {use.op_type}){found}",
                    hint=_OTHER_LAYERS,
                )


def check_runnable(net: Net) -> None:
    """Refuse what this runtime does not run. ModelError says which part of the net."""
    where = f"net {net.name!r}"
    if net.cascade:
        raise ModelError(f"{where} is one part of a net for several devices; one BM1684 runs whole nets")
    if net.addr_mode not in RUNNABLE_ADDR_MODES:
        known = ", ".join(map(str, RUNNABLE_ADDR_MODES))
        raise ModelError(f"{where} has the address mode {net.addr_mode}; those that run here are {known}")
    for i, stage in enumerate(net.stages):
        here = f"{where} stage {i}"
        if stage.core_num != 1:
            raise ModelError(f"{here} is for {stage.core_num} cores; a BM1684 has one")
        for what, size in (("context", stage.ctx_size), ("input and output memory", stage.io_size)):
            if size > DDR_BYTES:
                raise ModelError(f"{here}: {what} of {size} bytes; a BM1684 has {DDR_BYTES} bytes of DDR")
        for k, subnet in enumerate(stage.subnets):
            _check_kind(subnet, f"{here}: subnet {k}")
            if stage.is_dynamic and subnet.mode == SUBNET_TPU and not subnet.is_dynamic:
                raise ModelError(f"{here}: subnet {k} is static in a dynamic net")
        _check_programs(stage, here)
        _check_tensors(net, stage, here)


def _check_tensors(net: Net, stage: Stage, here: str) -> None:
    """What enters and leaves the net and its subnets, and that all of them mean the same by a name.

    Other compilers' streams are taken as they are where their types and sizes agree with the net's.
    """
    ours = stage.manifest is not None
    known: dict[str, tuple[Tensor, str]] = {}
    for t, what in (*((t, "input") for t in stage.inputs), *((t, "output") for t in stage.outputs)):
        _check_tensor(net, t, here)
        _check_same(t, f"the net's {what}", known, f"{here}: the net", ours=ours)
    made = {t.name for t in stage.inputs}
    for k, subnet in enumerate(stage.subnets):
        streams = not subnet.is_dynamic and subnet.mode == SUBNET_TPU
        for t in (*subnet.inputs, *subnet.outputs):
            if ours or not streams:
                _check_tensor(net, t, f"{here} subnet {k}")
            _check_same(t, f"that of subnet {k}", known, f"{here}: subnet {k}", ours=ours)
        if ours and (unmade := [t.name for t in subnet.inputs if t.name not in made]):
            raise ModelError(
                f"damaged bmodel: {here}: subnet {k} reads {unmade[0]}, which is no input of the net and "
                "which no subnet before it makes"
            )
        made |= {t.name for t in subnet.outputs}
    if ours and (unmade := [t.name for t in stage.outputs if t.name not in made]):
        raise ModelError(f"damaged bmodel: {here}: no subnet makes the output {unmade[0]}")


def _check_same(t: Tensor, what: str, known: dict[str, tuple[Tensor, str]], who: str, *, ours: bool) -> None:
    """Refuse a tensor that contradicts one of the same name. what: how messages call this one."""
    other, first = known.setdefault(t.name, (t, what))
    same = (t.dtype, t.elem_num) == (other.dtype, other.elem_num)
    if ours:
        same = same and (t.shape, t.store_mode, t.addr) == (other.shape, other.store_mode, other.addr)
        same = same and t.size <= other.size
    if not same:
        raise ModelError(
            f"damaged bmodel: {who} has another {t.name} than the rest: {_described(t)}; {first} is "
            f"{_described(other)}"
        )


def _described(t: Tensor) -> str:
    mode = f", mode {t.store_mode}" if t.store_mode else ""
    return f"{list(t.shape)} {dtype_name(t.dtype)}{mode}, {t.size} bytes at {t.addr:#x}"


def _check_tensor(net: Net, tensor: Tensor, here: str) -> None:
    dtype_of(net.name, tensor)
    try:
        needed = stored_bytes(tensor)
    except ModelError as error:
        raise ModelError(f"{here}: {error.message}") from None
    if tensor.size < needed:
        raise ModelError(f"{here}: {tensor.name} needs {needed} bytes, the bmodel gives it {tensor.size}")


def _check_kind(subnet: SubNet, here: str) -> None:
    if subnet.mode not in (SUBNET_TPU, SUBNET_CPU):
        known = 0 <= subnet.mode < len(SUBNET_MODES)
        kind = SUBNET_MODES[subnet.mode] if known else f"unknown ({subnet.mode})"
        raise ModelError(f"{here} is of the kind {kind}; only TPU and CPU subnets run here")
    if subnet.mode == SUBNET_CPU and (subnet.cpu is None or subnet.cpu.onnx is None):
        number = None if subnet.cpu is None else subnet.cpu.op_type
        raise ModelError(f"{here} runs layer {number} of the vendor's CPU library, which is not here")


def _check_programs(stage: Stage, here: str) -> None:
    """The programs of dynamic subnets are ours, as long as the manifest says, and allocate in the context."""
    dynamic = [(k, subnet) for k, subnet in enumerate(stage.subnets) if subnet.is_dynamic]
    programs = stage.manifest.programs if stage.manifest is not None else ()
    for i, (k, subnet) in enumerate(dynamic):
        start = subnet.ir_offset
        if stage.manifest is None or stage.ir[start : start + 4] != PROGRAM_MAGIC.to_bytes(4, "little"):
            raise ModelError(
                f"{here} is a dynamic net of another compiler: only that compiler's firmware reads its "
                "layers",
                hint="compile it with tpulayer, or compile it static",
            )
        if len(programs) != len(dynamic):
            raise ModelError(
                f"damaged bmodel: {here}: {len(dynamic)} dynamic subnets, and {len(programs)} programs in "
                "its manifest"
            )
        size = programs[i].nbytes
        if start % 4 or not 4 * subnet.ir_len - 4 < size <= 4 * subnet.ir_len:
            raise ModelError(
                f"damaged bmodel: {here}: program of {size} bytes in subnet {k}, stored are {subnet.ir_len} "
                f"words at byte {start}"
            )
