"""Is a layer in a firmware the one that a net or a graph means? By op_type, name, and parameter struct."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware_sim.firmware.image import FirmwareInfo

if TYPE_CHECKING:
    from user_layers.net.compiled import LayerUse


def difference(use: LayerUse, info: FirmwareInfo, *, firmware: str = "the firmware", known: str) -> str:
    """What a sentence that has named the layer goes on with where the firmware has not this one; else empty.

    known: where or when the layer was as `use` says.
    """
    found = next((layer for layer in info.layers if layer.op_type == use.op_type), None)
    if found is None:
        listed = ", ".join(f"{layer.op} (op_type {layer.op_type})" for layer in info.layers)
        return f", which {firmware} does not have; it has {listed or 'no user layers'}"
    if found.op != use.op:
        return f", but op_type {use.op_type} of {firmware} is {found.op}"
    if (found.param_bytes, found.param_hash) != (use.param_bytes, use.param_hash):
        return (
            f", whose parameter struct has changed since: {use.param_bytes} bytes with hash "
            f"{use.param_hash:#018x} {known}, {found.param_bytes} bytes with hash {found.param_hash:#018x} "
            f"in {firmware}"
        )
    return ""
