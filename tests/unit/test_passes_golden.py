"""What every pass makes of one small model: texts in tests/golden/passes (--update-golden writes them again).

The model has what the passes deal with: a shape that folds, a normalization that fuses, weights that are
prepared, branches, a concatenation, a flattening, and an operation without a layer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.wire import Program
from tests.paths import GOLDEN
from user_layers.compiler.aliases import find_aliases
from user_layers.compiler.attributes import DescribedNet, gather_attributes
from user_layers.compiler.fitting import Group, fit_counts
from user_layers.compiler.grouping import Alone, Segment
from user_layers.compiler.mode import Kind, choose_mode
from user_layers.compiler.order import order_nodes
from user_layers.compiler.partition import partition
from user_layers.compiler.pipeline import plan_net
from user_layers.compiler.prepare import prepare_constants
from user_layers.compiler.stacked import stack_rows
from user_layers.graph import GraphBuilder
from user_layers.graph.shapes import infer_shapes
from user_layers.toolkit import Toolkit

onnx = pytest.importorskip("onnx", reason="the model is an ONNX model")
pytest.importorskip("onnxruntime", reason="folding constants runs on onnxruntime")

from tests.support.onnx_models import make_model  # noqa: E402
from user_layers.onnx.build import build  # noqa: E402
from user_layers.onnx.fold import fold_constants  # noqa: E402
from user_layers.onnx.fuse import fuse_affine  # noqa: E402
from user_layers.onnx.load import load_model  # noqa: E402
from user_layers.onnx.model import Model  # noqa: E402

Golden = Callable[[str, str], None]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    node = onnx.helper.make_node
    rng = np.random.default_rng(7)
    channels = [rng.random(64).astype(np.float32) + np.float32(0.5) for _ in range(4)]
    proto = make_model(
        [
            node("Conv", ["x", "w0"], ["c0"], name="conv0", pads=[1, 1, 1, 1]),
            node("BatchNormalization", ["c0", "s", "b", "m", "v"], ["n0"], name="norm"),
            node("Relu", ["n0"], ["r0"], name="relu"),
            node("Conv", ["r0", "w1"], ["left"], name="conv1", pads=[1, 1, 1, 1]),
            node("Conv", ["r0", "w2"], ["right"], name="conv2"),
            node("Concat", ["left", "right"], ["both"], name="concat", axis=1),
            node("MaxPool", ["both"], ["pool"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
            node("Acos", ["pool"], ["angle"], name="acos"),
            node("Shape", ["x"], ["shape"], name="shape", start=0, end=1),
            node("Concat", ["shape", "rest"], ["flat_shape"], name="shapes", axis=0),
            node("Reshape", ["angle", "flat_shape"], ["flat"], name="flatten"),
            node("Gemm", ["flat", "w3"], ["y"], name="gemm"),
        ],
        {"x": [2, 3, 24, 24]},
        ["y"],
        {
            "w0": rng.standard_normal((64, 3, 3, 3)).astype(np.float32),
            "w1": rng.standard_normal((64, 64, 3, 3)).astype(np.float32),
            "w2": rng.standard_normal((64, 64, 1, 1)).astype(np.float32),
            "w3": rng.standard_normal((128 * 12 * 12, 10)).astype(np.float32),
            "rest": np.array([-1], np.int64),
            **dict(zip("sbmv", channels, strict=True)),
        },
    )
    path = tmp_path_factory.mktemp("model") / "passes.onnx"
    onnx.save(proto, str(path))
    return load_model(path)


@pytest.fixture(scope="module")
def described(model: Model, toolkit: Toolkit) -> DescribedNet:
    return gather_attributes(infer_shapes(build(model, "net", toolkit=toolkit).graph), toolkit)


@pytest.fixture(scope="module")
def prepared(described: DescribedNet) -> DescribedNet:
    return prepare_constants(described)


def text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def model_text(model: Model) -> str:
    """Nodes, and constants with their shapes."""
    nodes = [f"{n.op} {n.name}: {', '.join(n.inputs)} -> {', '.join(n.outputs)}" for n in model.nodes]
    used = {name for n in model.nodes for name in n.inputs}
    constants = [
        f"constant {name}: {list(a.shape)} {a.dtype}" for name, a in model.constants.items() if name in used
    ]
    return text(nodes + sorted(constants))


def net_text(described: DescribedNet) -> str:
    """Nodes with what their descriptors say, and tensors with a hash of constants."""
    net = described.net
    lines = []
    for f in described.attrs:
        kinds = ", ".join(t.name for t in f.input_types)
        says = [n for n in ("has_local", "force_global", "can_split_h_w", "just_reshape") if getattr(f, n)]
        lines.append(
            f"{f.label} {f.node.name}: {', '.join(f.node.inputs)} -> {', '.join(f.node.outputs)}; {kinds}; "
            f"{' '.join(says) or '-'}; {f.global_buffer} bytes"
        )
    for t in net.tensors.values():
        data = "" if t.data is None else f" constant {hashlib.sha256(t.data).hexdigest()[:12]}"
        lines.append(f"tensor {t.name}: {list(t.shape)} {t.dtype.numpy_name}{data}")
    return text(lines)


def segments_text(described: DescribedNet, segments: Iterable[Segment]) -> str:
    nodes = described.net.nodes
    lines = []
    for s in segments:
        if isinstance(s, Group):
            cut = f"{len(s.tiling.n)} x {len(s.tiling.h)} x {len(s.tiling.w)} tiles"
            lines.append(f"group, {cut}: {', '.join(nodes[k].name for k in s.nodes)}")
        else:
            kind = f"alone ({s.reason})" if isinstance(s, Alone) else "elided"
            lines.append(f"{kind}: {nodes[s.node].name}")
    return text(lines)


def program_text(program: Program) -> str:
    lines = []
    for i, t in enumerate(program.tensors):
        r = t.tensor
        tile = f" tile {list(r.processed)} of {list(r.slice_shape)}" if r.processed else ""
        lines.append(f"{i}: {t.kind.name} {list(r.shape)} {r.ttype.name} at {r.addr:#x}{tile}")
    for s in program.steps:
        lines.append(f"{s.opcode.name} {s.name} {list(s.inputs)} -> {list(s.outputs)}")
    return text(lines)


def test_onnx_passes(model: Model, toolkit: Toolkit, golden: Golden) -> None:
    folded = fold_constants(model)
    golden("passes/onnx_load.txt", model_text(model))
    golden("passes/onnx_fold.txt", model_text(folded))
    golden("passes/onnx_fuse.txt", model_text(fuse_affine(folded)))
    built = build(model, "net", toolkit=toolkit)
    parts = [
        f"{'CPU' if p.on_cpu else 'TPU'}: {', '.join(n.name for n in p.nodes)}; takes {', '.join(p.inputs)}; "
        f"gives {', '.join(p.outputs)}"
        for p in built.parts
    ]
    golden("passes/onnx_partition.txt", text(parts + built.on_cpu))


def test_shapes_attributes_and_prepared_constants(
    described: DescribedNet, prepared: DescribedNet, golden: Golden
) -> None:
    golden("passes/shapes_attributes.txt", net_text(described))
    golden("passes/prepare.txt", net_text(prepared))


def test_mode_order_partition_and_aliases(prepared: DescribedNet, golden: Golden) -> None:
    mode = choose_mode(prepared, False)
    order = order_nodes(prepared.net)
    ordered, parts = partition(prepared, mode.kinds)
    nodes = ordered.net.nodes
    static = [k for p in parts if p.kind == Kind.STATIC for k in p.nodes]
    aliases = find_aliases(ordered, dynamic=False, nodes=static)
    golden(
        "passes/partition.txt",
        text(
            [
                *(f"{kind.value}: {n.name}" for n, kind in zip(prepared.net.nodes, mode.kinds, strict=True)),
                f"order: {', '.join(prepared.net.nodes[k].name for k in order)}",
                *(
                    f"{p.kind.value} subnet: {', '.join(nodes[k].name for k in p.nodes)}; takes "
                    f"{', '.join(p.inputs)}; gives {', '.join(p.outputs)}"
                    for p in parts
                ),
                *(f"{child} lies in {parent}" for child, parent in aliases.parent.items()),
                *(f"{name} is made in {whole} at byte {at}" for name, (whole, at) in aliases.part.items()),
                *(f"{nodes[k].name} runs no code" for k in sorted(aliases.elided)),
            ]
        ),
    )


def test_rows_as_channels(toolkit: Toolkit, golden: Golden) -> None:
    """Of two convolutions the one with few output channels."""
    graph = GraphBuilder(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 16, 95, 200))
    window = {
        f"{what}_{axis}": one
        for what, one in (("kernel", 3), ("stride", 1), ("dilation", 1))
        for axis in "hw"
    }
    window |= dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 1)
    for source, name, channels in (("x", "few", 12), ("f", "many", 64)):
        weights = np.ones((channels, {"x": 16, "f": 12}[source], 3, 3), np.float32)
        inputs = [source, graph.add_const(f"{name}:w", weights)]
        graph.add_tpu_layer("TPU_CONV", inputs, {"groups": 1, **window}, [name])
        if name == "few":
            graph.add_tpu_layer("TPU_UNARY", ["few"], None, ["f"])
    stacked = stack_rows(graph, infer_shapes(graph))
    assert stacked is not None
    golden("passes/stacked.txt", net_text(gather_attributes(infer_shapes(stacked), toolkit)))


@pytest.mark.parametrize("opt", [0, 1, 2])
def test_groups(prepared: DescribedNet, golden: Golden, opt: int) -> None:
    plan = plan_net(prepared, opt=opt)
    golden(f"passes/groups_opt{opt}.txt", segments_text(plan.described, plan.schedule.segments))


def test_slices_and_local_memory(prepared: DescribedNet, golden: Golden) -> None:
    """The first three nodes in two tiles over h: windows with halo, places, and the order of transfers."""
    plan = plan_net(prepared, opt=1)
    made = fit_counts(plan.described, (0, 1, 2), (1, 2, 1), None)
    assert isinstance(made, Group)
    names = [n.name for n in plan.described.net.nodes]
    lines = []
    for i, tile in enumerate(made.tiling.h):
        lines += [f"tile {i} makes {n}: rows {w.first} to {w.end}" for n, w in tile.made.items()]
        lines += [
            f"tile {i} of {names[k]} reads input {which}: rows {w.first} to {w.end}, {w.pad} above"
            for (k, which), w in tile.read.items()
        ]
    golden("passes/tiling.txt", text(lines))
    lines = [
        f"{v.tensor}: {v.ttype.name} {v.nbytes} bytes at {[hex(o) for o in v.offsets]}"
        f"{' loaded' * v.loaded}{' once' * v.once}{' stored' * v.stored}"
        for v in made.local.values
    ]
    lines += [f"{op.kind.value} {op.which} of tile {op.tile} after {op.after}" for op in made.local.ops]
    golden("passes/local_memory.txt", text(lines))


@pytest.mark.parametrize("dynamic", [False, True])
def test_addresses_and_programs(prepared: DescribedNet, golden: Golden, dynamic: bool) -> None:
    plan = plan_net(prepared, dynamic=dynamic, opt=1)
    ddr = plan.ddr
    kind = "dynamic" if dynamic else "static"
    places = sorted((address, name) for name, address in ddr.address.items())
    golden(
        f"passes/ddr_{kind}.txt",
        text(
            [
                f"constants at {ddr.coeff_addr:#x}, context of {ddr.ctx_bytes} bytes at {ddr.ctx_addr:#x}",
                *(f"{address:#x} {name}" for address, name in places),
                *(f"{at:#x} work buffer of {k}" for k, at in ddr.buffer.items()),
                *(f"{at:#x} arena of subnet {i}" for i, at in ddr.arena.items()),
            ]
        ),
    )
    programs = [f"subnet {i}\n{program_text(p)}" for i, p in enumerate(plan.programs) if p is not None]
    golden(f"passes/program_{kind}.txt", "".join(programs))


def test_the_golden_files_are_all_in_use() -> None:
    source = Path(__file__).read_text()
    for path in (GOLDEN / "passes").iterdir():
        stem = path.stem.removesuffix("_static").removesuffix("_dynamic")
        assert stem.rstrip("012") in source, f"no test makes {path.name}"
