"""Static nets: every command is known by its layer, node, tile and lines of C, also in a later process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmware_sim.checks.error import CheckError
from firmware_sim.device.client import Device
from firmware_sim.firmware.image import KINDS, Kind
from tpulayer import Graph
from user_layers.bmodel import read
from user_layers.bmodel.directory import BMODEL, SITES
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.net.command_map import CommandMap, command_maps, decoded, encoded
from user_layers.net.compiled import CompiledNet, StaticBody
from user_layers.runtime.attribution import Attribution
from user_layers.runtime.loaded import LoadedStage
from user_layers.runtime.memory import Memory
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.toolkit import Toolkit

TILED = (8, 130, 150, 40)


def graph(toolkit: Toolkit, shape: tuple[int, ...] = (1, 70, 4, 4)) -> Graph:
    """A group of layers; of TILED in several tiles."""
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", shape)
    g.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
    g.add_tpu_layer("TPU_BINARY", ["a", "x"], {"binary_op": BINARY_ADD}, ["y"])
    return g


@pytest.fixture(scope="module")
def compiled(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> tuple[CompiledNet, Path]:
    folder = tmp_path_factory.mktemp("net")
    return graph(toolkit).compile(directory=folder), folder


def the_map(folder: Path) -> CommandMap:
    (found,) = decoded((folder / SITES).read_bytes())
    return found


def test_every_command_is_known(toolkit: Toolkit) -> None:
    net = graph(toolkit, TILED).compile()
    body = net.stages[0].subnets[0].body
    assert isinstance(body, StaticBody)
    (found,) = decoded(encoded(command_maps(net)))
    nodes, moved, layers = set(), set(), set()
    for g, group in enumerate(body.groups, 1):
        for engine_is_bd, count in ((True, group.bd_num), (False, group.gdma_num)):
            assert found.issued(g, engine_is_bd, count) is None
            for i in range(count):
                issuer = found.issued(g, engine_is_bd, i)
                assert issuer is not None
                nodes.add(issuer.node)
                if issuer.frames:
                    layers |= {Path(frame.file).name for frame in issuer.frames}
                    assert all(frame.line > 0 and frame.function for frame in issuer.frames)
                else:  # a transfer that the compiler planned
                    assert not engine_is_bd
                    moved.add(issuer.tile.partition("(")[2].rstrip(")"))
                assert " of " in issuer.tile
    assert nodes == {node for _, node, _ in found.steps} - {""}
    assert len(nodes) == 2
    assert moved == {"x", "y"}
    assert layers == {"bm_device_binary.c", "bm_device_const_binary.c"}


def test_the_file_is_what_the_compile_knows(compiled: tuple[CompiledNet, Path]) -> None:
    net, folder = compiled
    (here,), there = command_maps(net), the_map(folder)
    assert (here.streams, here.groups, here.steps, here.ends) == (
        there.streams,
        there.groups,
        there.steps,
        there.ends,
    )
    assert here.frames == there.frames
    assert all(np.array_equal(a, b) for a, b in zip(here.chains, there.chains, strict=True))


def test_a_net_without_static_parts_has_no_file(toolkit: Toolkit, tmp_path: Path) -> None:
    graph(toolkit).compile(directory=tmp_path)
    assert (tmp_path / SITES).exists()
    graph(toolkit).compile(dynamic=True, directory=tmp_path)
    assert not (tmp_path / SITES).exists()


def test_findings_of_a_later_process_name_the_layer(compiled: tuple[CompiledNet, Path]) -> None:
    """Here: the net runs, and nobody gave it its input."""
    _, folder = compiled
    (net,) = read(folder / BMODEL).nets
    with Device(builtin_artifacts().firmware, check="init") as device:
        memory = Memory(device)
        context = memory.alloc(net.stages[0].ctx_size)
        stage = LoadedStage(memory, "net", net.stages[0], context, Attribution(folder / BMODEL))
        with pytest.raises(CheckError) as caught:
            stage.calculate()
            stage.outputs()
        by = [finding.by for finding in caught.value.findings]
        known = {(step.layer, step.node) for step in the_map(folder).steps} - {("", "")}
        assert by
        assert {(one.layer, one.node) for one in by if one is not None} <= known


@pytest.mark.parametrize("kind", KINDS)
def test_both_firmwares_record_the_same(
    kind: Kind, compiled: tuple[CompiledNet, Path], own_folder: Path
) -> None:
    """Lines, layers and tiles; what the compilers inline may differ."""
    with Toolkit(firmware=kind) as toolkit:
        (found,) = command_maps(graph(toolkit).compile())
    known = the_map(compiled[1])
    assert (found.streams, found.groups, found.steps, found.ends) == (
        known.streams,
        known.groups,
        known.steps,
        known.ends,
    )
    ours, theirs = ([one.frames[int(n)][:1] for n in one.chains[0]] for one in (found, known))
    assert ours == theirs
