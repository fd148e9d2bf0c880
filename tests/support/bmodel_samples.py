"""Small compiled nets for the tests of the file format and the runtime.

The static net "twice" copies its constants and its input with GDMA S2S copies: output = input, followed
by the constants. No compiler and no firmware is needed to know what it should do.
"""

from __future__ import annotations

from dataclasses import replace

from firmware_sim.chip import DDR_BASE, STATIC_CONTEXT_OFFSET
from firmware_sim.isa.layout import BD, GDMA
from firmware_sim.wire import CommandGroup, DType, Program
from user_layers.net.compiled import (
    CompiledNet,
    DynamicBody,
    LayerUse,
    NetTensor,
    Stage,
    StaticBody,
    Subnet,
)

START = DDR_BASE + STATIC_CONTEXT_OFFSET
CONTEXT = START + 0x1000
COEFF = bytes(range(32))  # 8 words
LAYER = LayerUse("TPU_TWICE", 0, 8, 0xFEDC_BA98_7654_3210)


def copy_words(source: int, target: int, words: int, cmd_id: int) -> bytes:
    """A GDMA descriptor that copies `words` 32-bit words in system memory (S2S)."""
    sizes = {f"{side}_{axis}size": 1 for side in ("src", "dst") for axis in "nch"}
    return GDMA.encode(
        **{
            **GDMA.defaults,
            **sizes,
            "direction": 2,
            "stride_enable": 1,
            "cmd_id": cmd_id,
            "src_wsize": words,
            "dst_wsize": words,
            "src_wstride": 1,
            "dst_wstride": 1,
            "src_start_addr_l32": source & 0xFFFF_FFFF,
            "src_start_addr_h8": source >> 32,
            "dst_start_addr_l32": target & 0xFFFF_FFFF,
            "dst_start_addr_h8": target >> 32,
        }
    )


def static_stage(rows: int = 2, split: bool = False) -> Stage:
    """x [rows, 4] -> y [rows + 2, 4]; `split` puts the second copy into a command group of its own."""
    words = 4 * rows
    x, y = CONTEXT, CONTEXT + 4 * words
    copies = [copy_words(x, y, words, 1), copy_words(START, y + 4 * words, 8, 1 if split else 2)]
    parts = [[c] for c in copies] if split else [copies]
    ins = (NetTensor("x", (rows, 4), DType.FP32, addr=x),)
    outs = (NetTensor("y", (rows + 2, 4), DType.FP32, addr=y),)
    body = StaticBody(tuple(CommandGroup(b"", b"".join(p)) for p in parts))
    return Stage(ins, outs, (Subnet(ins, outs, body),), CONTEXT, 8 * words + 32, START, COEFF)


def static_body(stage: Stage) -> StaticBody:
    """What the one subnet of a static stage runs."""
    (subnet,) = stage.subnets
    assert isinstance(subnet.body, StaticBody)
    return subnet.body


def with_groups(stage: Stage, *groups: CommandGroup) -> Stage:
    """The stage with other command groups."""
    (subnet,) = stage.subnets
    return replace(stage, subnets=(replace(subnet, body=StaticBody(groups)),))


def program_of(net: CompiledNet) -> bytes:
    """The program of a dynamic net with one subnet."""
    (subnet,) = net.stages[0].subnets
    assert isinstance(subnet.body, DynamicBody)
    return subnet.body.program


def static_net(*rows: int, name: str = "twice") -> CompiledNet:
    """One stage per entry of rows."""
    stages = tuple(static_stage(n) for n in rows or (2,))
    return CompiledNet(name, stages, (LAYER,))


def unwritten_net(name: str = "broken") -> CompiledNet:
    """x [2, 4] -> y [4, 4], which is what lies in the context where nothing wrote."""
    stage = replace(static_stage(2), ctx_bytes=4096)
    output = stage.outputs[0]
    copy = copy_words(CONTEXT + 1024, output.addr, output.nbytes // 4, 1)
    return CompiledNet(name, (with_groups(stage, CommandGroup(b"", copy)),), ())


def dynamic_net(
    name: str = "grow", *, n_dynamic: bool = True, c_dynamic: bool = True, h_w_dynamic: bool = True
) -> CompiledNet:
    """x [4, 3, 5] at most -> y of the same shape, with an empty program."""
    program = Program(in_num=1, out_num=1).encode() + b"\x01"  # not a multiple of 4
    x, y = (NetTensor(n, (4, 3, 5), DType.FP32) for n in "xy")
    part = Subnet((x,), (y,), DynamicBody(program, CONTEXT, 4096))
    may = (n_dynamic, c_dynamic, h_w_dynamic)
    stage = Stage((x,), (y,), (part,), CONTEXT, 4096, START, COEFF, True, *may)
    return CompiledNet(name, (stage,), (LAYER,))


def bd_descriptor() -> bytes:
    """Some BD descriptor."""
    return BD.encode(**BD.defaults)
