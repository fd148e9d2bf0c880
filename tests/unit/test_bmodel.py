"""Writing and reading bmodels; tpu_model --info."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firmware_sim.chip import STATIC_CONTEXT_START
from firmware_sim.errors import ModelError, UsageError
from firmware_sim.wire import CommandGroup, DType
from tests.support.bmodel_samples import (
    COEFF,
    CONTEXT,
    LAYER,
    START,
    bd_descriptor,
    dynamic_net,
    program_of,
    static_body,
    static_net,
    static_stage,
    with_groups,
)
from user_layers.bmodel import as_read, info, manifest, read, save, write
from user_layers.bmodel.manifest import Manifest, ProgramUse
from user_layers.net.compiled import CompiledNet, LayerUse, NetTensor

EPOCH = 1_700_000_000


def test_static_net_comes_back_whole() -> None:
    net = static_net(2, 3)
    model = read(write(net, created=EPOCH))
    assert (model.type, model.version, model.chip) == ("B", "2.2", "BM1684")
    assert model.time == "Tue Nov 14 22:13:20 2023"
    (got,) = model.nets
    assert got.name == "twice" and not got.is_dynamic and got.addr_mode == 0
    for stage, made in zip(net.stages, got.stages, strict=True):
        assert made.ctx_addr == stage.ctx_addr and made.ctx_size == stage.ctx_bytes
        assert made.subnets[0].groups == static_body(stage).groups
        assert made.subnets[0].inputs == made.inputs and made.subnets[0].outputs == made.outputs
        assert made.coeff is not None
        assert (made.coeff.addr, made.coeff.data) == (START, COEFF)
        assert made.coeff.check_code == hashlib.sha256(COEFF).digest()
        for tensor, stored in zip(
            (*stage.inputs, *stage.outputs), (*made.inputs, *made.outputs), strict=True
        ):
            assert (stored.name, stored.shape, stored.addr) == (tensor.name, tensor.shape, tensor.addr)
            assert (stored.dtype, stored.size, stored.scale) == (tensor.dtype, tensor.nbytes, 1.0)
        assert made.manifest is not None
        assert made.manifest.layers == (LAYER,)


def test_dynamic_net_comes_back_whole() -> None:
    net = dynamic_net(h_w_dynamic=False)
    (stage,) = read(write(net)).nets[0].stages
    assert stage.is_dynamic and stage.n_dynamic and stage.c_dynamic and not stage.h_w_dynamic
    assert stage.manifest is not None
    (use,) = stage.manifest.programs
    assert stage.ir[: use.nbytes] == program_of(net)
    assert (use.arena_addr, use.arena_bytes) == (CONTEXT, 4096)
    assert len(stage.ir) % 4 == 0 and stage.subnets[0].ir_len * 4 == len(stage.ir)
    assert stage.ctx_size == 4096 and stage.ctx_addr >= STATIC_CONTEXT_START + len(COEFF)
    (stage,) = read(write(dynamic_net(c_dynamic=False))).nets[0].stages
    assert stage.n_dynamic and not stage.c_dynamic and stage.h_w_dynamic


def test_several_nets_share_equal_constants() -> None:
    one, two = write([static_net()]), write([static_net(), static_net(name="other")])
    assert [net.name for net in read(two).nets] == ["twice", "other"]
    binary = [struct.unpack_from("<4I", data)[3] for data in (one, two)]
    assert binary[0] == binary[1]  # everything of the second net was there already


def test_groups_of_both_engines_and_empty_ones() -> None:
    stage = static_stage()
    groups = (
        CommandGroup(bd_descriptor() * 3, static_body(stage).groups[0].gdma),
        CommandGroup(bd_descriptor(), b""),
    )
    net = CompiledNet("n", (with_groups(stage, *groups),))
    assert read(write(net)).nets[0].stages[0].subnets[0].groups == groups


def test_net_without_constants_stores_none() -> None:
    stage = static_stage()
    net = CompiledNet("n", (replace(stage, coeff=b""),))
    assert read(write(net)).nets[0].stages[0].coeff is None


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_net_as_it_is_read_without_the_file(dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the net's own constants, which may be large."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    nets = [dynamic_net()] if dynamic else [static_net(2, 3), static_net(name="other")]
    made = as_read(nets)
    assert made == read(write(nets))
    stages = [(net.stages[0], one.stages[0]) for net, one in zip(nets, made.nets, strict=True)]
    assert all(one.coeff is not None and one.coeff.data is stage.coeff for stage, one in stages)


def test_same_input_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    assert write(static_net()) == write(static_net()) == write(static_net(), created=EPOCH)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH is 'today'"):
        write(static_net())


def test_save_replaces_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "compilation.bmodel"
    save(path, static_net(), created=EPOCH)
    before = path.read_bytes()
    with pytest.raises(ModelError):
        save(path, [])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def _moved(**changes: Any) -> CompiledNet:
    return CompiledNet("n", (replace(static_stage(), **changes),))


@pytest.mark.parametrize(
    ("nets", "message"),
    [
        ([], "at least one net"),
        ([static_net(), static_net()], "two nets are named 'twice'"),
        ([static_net(name="")], "a net has no name"),
        ([CompiledNet("n", ())], "net 'n' has no stage"),
        ([static_net(2, 2)], "stage 1 has the same input shapes as stage 0"),
        ([_moved(ctx_addr=0x1_0000_0000)], "it cannot start below 0x105100000"),
        ([_moved(coeff_addr=CONTEXT)], "must lie between 0x105100000 and the context"),
        ([_moved(ctx_bytes=40)], "y at 0x.* with 64 bytes is outside the context"),
        (
            [CompiledNet("n", (static_stage(2), dynamic_net().stages[0]))],
            "stage 1 is dynamic, stage 0 is not",
        ),
        (
            [
                CompiledNet(
                    "n",
                    (
                        static_stage(2),
                        replace(static_stage(3), inputs=(NetTensor("z", (3, 4), DType.FP32, addr=CONTEXT),)),
                    ),
                )
            ],
            "stage 1 has the inputs .*'z'",
        ),
    ],
)
def test_what_cannot_be_stored(nets: list[CompiledNet], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        write(nets)


def test_manifest_is_ours_or_ignored() -> None:
    mine = Manifest("tpulayer 1", (LayerUse("TPU_X", 3, 4, 2**64 - 1),), (ProgramUse(7, 1 << 32, 64),))
    for noted in (mine, replace(mine, varying=("y",), c_fixed=True)):
        assert manifest.decode(noted.encode(), "here") == noted
    assert manifest.decode(b"statistics of another tool", "here") is None
    assert manifest.decode(b"", "here") is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"tpulayer_manifest":1}', "manifest version 1; this tpulayer knows version 2"),
        (b'{"tpulayer_manifest":', "not JSON"),
        (b'{"tpulayer_manifest":' + b"[" * 100_000, "not JSON"),
        (b'{"tpulayer_manifest":2}', "KeyError\\('tool'\\)"),
        (b'{"tpulayer_manifest":2,"tool":1}', "is not a string"),
        (b'{"tpulayer_manifest":2,"tool":"t","layers":5}', "is not a list"),
        (
            b'{"tpulayer_manifest":2,"tool":"t","layers":[],"programs":[{"bytes":-1}]}',
            "-1 is not a number",
        ),
        (b'{"tpulayer_manifest":2,"tool":"t","layers":[3]}', "TypeError"),
        (b'{"tpulayer_manifest":2,"tool":"t","layers":[],"programs":[],"c_fixed":1}', "not true or false"),
        (b'{"tpulayer_manifest":2,"x":"' + b"x" * (1 << 20) + b'"}', "manifest of 1048"),
    ],
)
def test_damaged_manifest(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        manifest.decode(data, "net_stat")


def test_info_text(tmp_path: Path) -> None:
    path = tmp_path / "a.bmodel"
    save(path, [static_net(2, 3), dynamic_net()], created=EPOCH)
    model = read(path)
    tool = model.nets[0].stages[0].manifest
    assert tool is not None
    program_words = model.nets[1].stages[0].subnets[0].ir_len
    layers = ["compiled by: " + tool.tool, "layers: TPU_TWICE (op_type 0)"]
    instruct, runtime = 2 * 2 * 128 + 4 * program_words, 4096 + 4 * 60
    expected = [
        "bmodel version: B.2.2",
        "chip: BM1684",
        "create time: Tue Nov 14 22:13:20 2023",
        "==========================================",
        "net 0: [twice]  static",
        "------------",
        "stage 0:",
        "subnet number: 1",
        "input: x, [2, 4], float32, scale: 1",
        "output: y, [4, 4], float32, scale: 1",
        *layers,
        "------------",
        "stage 1:",
        "subnet number: 1",
        "input: x, [3, 4], float32, scale: 1",
        "output: y, [5, 4], float32, scale: 1",
        *layers,
        "==========================================",
        "net 1: [grow]  dynamic",
        "------------",
        "stage 0:",
        "subnet number: 1",
        "input: x, [max:4, max:3, max:5], float32, scale: 1",
        "output: y, [4, 3, 5], float32, scale: 1",
        *layers,
        "",
        f"device mem size: {32 + instruct + runtime} (coeff: 32, instruct: {instruct}, runtime: {runtime})",
        "host mem size: 0 (coeff: 0, runtime: 0)",
    ]
    assert info.run(path).splitlines() == expected


def test_info_json(tmp_path: Path) -> None:
    path = tmp_path / "a.bmodel"
    save(path, static_net(), created=EPOCH)
    found = json.loads(info.run(path, as_json=True))
    (net,) = found["nets"]
    assert net["stages"][0]["inputs"][0] == {
        "name": "x",
        "shape": [2, 4],
        "dtype": "float32",
        "scale": 1.0,
        "zero_point": 0,
        "size": 32,
    }
    assert net["stages"][0]["layers"][0]["op"] == "TPU_TWICE"
    assert found["memory"]["coeff"] == 32


def test_info_of_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read the bmodel .*nothing\.bmodel: No such file"):
        info.run(tmp_path / "nothing.bmodel")
