"""Small commands of both engines on single words of lane 0 and DDR, for tests of their order."""

from __future__ import annotations

import numpy as np

from firmware_sim import chip
from firmware_sim.isa.codes import Direction, Eu, Special, Task
from firmware_sim.isa.layout import BD, GDMA, U32

NONE: U32 = np.zeros((0, 32), np.uint32)
ONE, TWO = 0x3F80_0000, 0x4000_0000
_LOCAL = chip.LOCAL_BASE


def stream(*descriptors: bytes) -> U32:
    return np.frombuffer(b"".join(descriptors), np.uint32).reshape(-1, 32)


def add(number: int, wait: int, to: int, source: int) -> bytes:
    """BD: the word at lane 0 +to becomes that at +source, + 1.0."""
    fields = {"tsk_typ": Task.ARITHMETIC, "tsk_eu_typ": Eu.ADD, "opt_opd1_const": 1, "opd1_addr": ONE}
    place = {"res0_addr": _LOCAL + to, "opd0_addr": _LOCAL + source}
    return BD.encode(**{**BD.defaults, **fields, **place, "cmd_id_tpu": number, "cmd_id_gdma": wait})


def fill(number: int, wait: int, to: int, bits: int) -> bytes:
    """GDMA: the word at lane 0 +to becomes `bits`."""
    fields = {"special_func": Special.CONSTANT, "direction": Direction.L2L, "stride_enable": 1}
    sizes = {f"dst_{a}size": 1 for a in "nchw"}
    place = {"constant_value": bits, "dst_start_addr_l32": _LOCAL + to}
    return GDMA.encode(
        **{**GDMA.defaults, **fields, **sizes, **place, "cmd_id": number, "eng0_sync_id": wait}
    )


def store(number: int, wait: int, source: int, to: int, words: int = 1) -> bytes:
    """GDMA: words from lane 0 +source to DDR +to."""
    sizes = {f"{side}_{a}size": 1 for a in "nch" for side in ("src", "dst")}
    more = {"src_wsize": words, "dst_wsize": words, "direction": Direction.L2S, "stride_enable": 1}
    strides = {f"{side}_{a}stride": words for a in "nch" for side in ("src", "dst")}
    ddr = chip.DDR_BASE + to
    place = {"src_start_addr_l32": _LOCAL + source, "dst_start_addr_l32": ddr & 0xFFFF_FFFF}
    high = {"dst_start_addr_h8": ddr >> 32}
    ids = {"cmd_id": number, "eng0_sync_id": wait}
    wide = {"src_wstride": 1, "dst_wstride": 1}
    return GDMA.encode(**{**GDMA.defaults, **sizes, **more, **strides, **wide, **place, **high, **ids})
