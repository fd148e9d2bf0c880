"""Bmodels on both sides: ours on the vendor's functional model and runtime, the vendor's here; the same bits.

What is not here is skipped with the reason; `python -m tests.oracle.toolchain` installs the vendor's tools,
and `python -m tests.vendor_models` compares more models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firmware_sim.device.api import DeviceApi
from tests.oracle import streams
from tests.oracle.client import Oracle, Unavailable
from tests.oracle.toolchain import Toolchain
from tests.support.workspaces import built_workspace
from tests.vendor_models import CHAIN, TOKENS, compare, different, made_here, random_inputs, run_here, write
from tpulayer import Graph
from user_layers.bmodel import read
from user_layers.bmodel.combine import combine, extract
from user_layers.graph import BINARY_MUL
from user_layers.toolkit import Toolkit

CUSTOM = "custom"  # two layers of the user's among built-in ones


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        opened = Oracle(streams.DDR_BYTES)
    except Unavailable as error:
        pytest.skip(str(error))
    with opened:
        yield opened


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    try:
        return Toolchain()
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    """A built workspace with the layers crop and double."""
    with Toolkit(built_workspace(tmp_path_factory)) as toolkit:
        yield toolkit


@pytest.fixture(scope="module")
def device(kit: Toolkit) -> DeviceApi:
    return kit.device


Ours = Callable[..., Path]


@pytest.fixture(scope="module")
def ours(kit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Ours:
    """Compiles one of tests/vendor_models.py, or CUSTOM, with this project; the bmodel."""
    folder = tmp_path_factory.mktemp("ours")

    def compiled(name: str, opt: int = 2, batch: int = 1) -> Path:
        target = folder / f"{name}_{opt}_{batch}"
        if name == CUSTOM:
            graph = Graph("BM1684", name="custom", toolkit=kit)
            graph.add_input("x", (64, 40, 40))
            graph.add_tpu_layer("TPU_CROP", ["x"], {"before": (8, 4, 2), "after": (8, 4, 6)}, ["cropped"])
            graph.add_expand_dims_layer("cropped", 0, "expanded")
            graph.add_const_binary_layer("expanded", 1.5, "scaled", BINARY_MUL)
            graph.add_tpu_layer("TPU_DOUBLE", ["scaled"], None, ["y"])
        else:
            graph = Graph.from_onnx(write(name, folder, batch)[0], toolkit=kit)
        graph.compile(opt=opt, directory=str(target))
        return target / "compilation.bmodel"

    return compiled


@pytest.mark.parametrize("opt", [0, 2])
@pytest.mark.parametrize("name", [CUSTOM, CHAIN, "softmax_channels", "lrn", "conv_groups", "matmul"])
def test_ours_on_the_functional_model(
    name: str, opt: int, oracle: Oracle, ours: Ours, device: DeviceApi
) -> None:
    bmodel = ours(name, opt)
    (net,) = read(bmodel).nets
    given = random_inputs([net])
    theirs = {net.name: streams.run(oracle, net.stages[0], given[net.name])}
    assert different(run_here(device, bmodel, given), theirs) is None


@pytest.mark.parametrize("name", [CHAIN, TOKENS, "conv_groups", "conv_depthwise", "conv_transpose", "gemm"])
def test_ours_in_8_bits_on_the_functional_model(
    name: str, oracle: Oracle, kit: Toolkit, device: DeviceApi, tmp_path: Path
) -> None:
    bmodel = made_here(write(name, tmp_path)[0], tmp_path / "ours", kit, int8=True)
    (net,) = read(bmodel).nets
    given = random_inputs([net])
    theirs = {net.name: streams.run(oracle, net.stages[0], given[net.name])}
    assert different(run_here(device, bmodel, given), theirs) is None


def test_ours_on_the_vendors_runtime(
    toolchain: Toolchain, ours: Ours, device: DeviceApi, tmp_path: Path
) -> None:
    both = tmp_path / "both.bmodel"
    combine([ours(CUSTOM), ours(CHAIN), ours("gemm")], both)
    assert compare(toolchain, device, both) is None


def test_stages_on_the_vendors_runtime(
    toolchain: Toolchain, ours: Ours, device: DeviceApi, tmp_path: Path
) -> None:
    stages = tmp_path / "stages.bmodel"
    # the vendor's runner makes room for the first stage, and crashes where another is larger
    paths = [ours(CHAIN, batch=3), ours(CHAIN)]
    combine(paths, stages)
    for path in paths:
        given = random_inputs(read(path).nets)
        want = run_here(device, path, given)
        assert different(run_here(device, stages, given), want) is None
        assert different(toolchain.run(stages, given), want) is None


def test_the_vendors_tool_reads_takes_apart_and_combines_ours(
    toolchain: Toolchain, ours: Ours, device: DeviceApi, tmp_path: Path
) -> None:
    for name in (CUSTOM, CHAIN):
        (tmp_path / f"{name}.bmodel").write_bytes(ours(name).read_bytes())
    said = toolchain.tool(["--info", "custom.bmodel"], tmp_path)
    assert "bmodel version: B.2.2" in said and "net 0: [custom]  static" in said
    assert "input: x, [64, 40, 40], float32" in said and "output: y, [1, 48, 32, 32], float32" in said
    toolchain.tool(["--combine", "custom.bmodel", "chain.bmodel", "-o", "both.bmodel"], tmp_path)
    assert [net.name for net in read(tmp_path / "both.bmodel").nets] == ["custom", "chain"]
    toolchain.tool(["--extract", "both.bmodel"], tmp_path)
    for i, name in enumerate((CUSTOM, CHAIN)):
        mine, theirs = ours(name), tmp_path / f"bm_net{i}_stage0.bmodel"
        given = random_inputs(read(mine).nets)
        assert different(run_here(device, theirs, given), run_here(device, mine, given)) is None


@pytest.mark.parametrize(
    ("name", "batch", "quantize", "options"),
    [
        (CHAIN, 1, "F32", ""),
        (CHAIN, 5, "INT8", "--quant_input --quant_output"),  # inputs and outputs in 4N
        (CHAIN, 1, "F32", "--addr_mode io_alone"),  # inputs and outputs in memory of their own
        ("lrn", 1, "F32", ""),
        ("softmax_channels", 1, "F32", ""),
    ],
)
def test_the_vendors_run_here(
    name: str,
    batch: int,
    quantize: str,
    options: str,
    toolchain: Toolchain,
    device: DeviceApi,
    tmp_path: Path,
) -> None:
    path, shapes = write(name, tmp_path, batch)
    bmodel = toolchain.compile(path, shapes, quantize=quantize, options=options)
    assert compare(toolchain, device, bmodel) is None


def test_the_vendors_taken_apart_and_combined_here(
    toolchain: Toolchain, device: DeviceApi, tmp_path: Path
) -> None:
    files = [toolchain.compile(*write(name, tmp_path)) for name in (CHAIN, "lrn")]
    combine(files, tmp_path / "both.bmodel")
    assert compare(toolchain, device, tmp_path / "both.bmodel") is None
    made = extract(tmp_path / "both.bmodel", tmp_path)
    assert "net 0: [net_lrn]  static" in toolchain.tool(["--info", made[1].name], tmp_path)
    assert compare(toolchain, device, made[1]) is None
