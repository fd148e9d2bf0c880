"""Outputs whose shapes are known only when a net has run: compiled, stored, run, compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from firmware_sim.errors import DeviceError, ModelError, UsageError
from tests.support.workspaces import layers_toolkit
from tpulayer import Graph, load_bmodel
from user_layers.bmodel.combine import combine_dirs
from user_layers.bmodel.directory import BMODEL, OUTPUT_REFERENCE, OUTPUT_SHAPES
from user_layers.bmodel.tool import TpuModelOptions
from user_layers.bmodel.tool import run as tpu_model
from user_layers.bmrt.bmrt_test import BmrtTestOptions
from user_layers.bmrt.bmrt_test import run as bmrt_test
from user_layers.graph import BINARY_MUL
from user_layers.net.compiled import DynamicBody, StaticBody
from user_layers.product import compile_stages
from user_layers.toolkit import Toolkit

Array = NDArray[np.float32]
SHAPE = (2, 30, 5)
NONE = np.full((1, 5), -1, np.float32)


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    with layers_toolkit(tmp_path_factory, "varying_layers") as toolkit:
        yield toolkit


def sample(shape: tuple[int, ...] = SHAPE, kept: float = 0.3) -> Array:
    """Rows whose first element is 0 but for the part `kept`."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal(shape).astype(np.float32)
    x[..., 0] *= rng.random(shape[:-1]) < kept
    return x


def graph(
    toolkit: Toolkit, shape: tuple[int, ...] = SHAPE, *, name: str = "net", behind: bool = False, **param: int
) -> Graph:
    """Twice the input (which is recorded), the rows to keep, and three times them."""
    g = Graph(name=name, toolkit=toolkit)
    g.add_input("x", shape)
    g.add_const_binary_layer("x", 2.0, "doubled", BINARY_MUL)
    outputs = ["rows", "numbers"] if param.get("numbers") else ["rows"]
    g.add_tpu_layer("TPU_NONZERO", ["doubled"], {"row_for_none": 1, **param}, outputs)
    if behind:
        g.add_const_binary_layer("rows", 1.5, "y", BINARY_MUL)
    return g


def expected(x: Array) -> tuple[Array, NDArray[np.int32]]:
    rows = 2 * x.reshape(-1, x.shape[-1])
    kept = np.flatnonzero(rows[:, 0]).astype(np.int32)
    return (rows[kept], kept) if kept.size else (NONE, np.array([-1], np.int32))


def check(toolkit: Toolkit, folder: Path, code: int = 0, **options: object) -> str:
    """What bmrt_test says of a folder."""
    lines: list[str] = []
    device = toolkit.device
    chosen = BmrtTestOptions(context_dir=folder, **options)  # type: ignore[arg-type]
    assert bmrt_test(chosen, device=lambda *_: nullcontext(device), say=lines.append) == code, lines
    return "\n".join(lines)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kept", [0.0, 0.3, 1.0], ids=["none", "some", "all"])
def test_two_outputs_of_a_run(toolkit: Toolkit, tmp_path: Path, kept: float, dynamic: bool) -> None:
    x = sample(kept=kept)
    g = graph(toolkit, numbers=1)
    net = g.compile(directory=tmp_path, dynamic=dynamic, ref_inputs={"x": x})
    (stage,) = net.stages
    bodies = [DynamicBody] if dynamic else [StaticBody, DynamicBody]
    assert [type(subnet.body) for subnet in stage.subnets] == bodies
    assert [(t.varies, t.shape) for t in stage.outputs] == [(True, (60, 5)), (True, (60,))]
    rows, numbers = expected(x)
    for got, want in zip(g.run({"x": x}), (rows, numbers), strict=True):
        assert got.dtype == want.dtype and np.array_equal(got, want)
    data = (tmp_path / OUTPUT_REFERENCE).read_bytes()
    assert data == rows.tobytes() + numbers.tobytes()
    said = check(toolkit, tmp_path)
    assert f"output data #0 shape: [{len(rows)} 5 ]" in said and "cmp success" in said


def test_another_number_of_rows_is_a_difference(toolkit: Toolkit, tmp_path: Path) -> None:
    """The same bytes in all, in other shapes, too."""
    x = sample(kept=0.3)
    g = graph(toolkit, numbers=1)
    rows, numbers = expected(x)
    fewer = {"rows": rows[:-1], "numbers": np.append(numbers, np.zeros(5, np.int32))}
    g.compile(directory=tmp_path, ref_inputs={"x": x}, ref_outputs=fewer)
    said = check(toolkit, tmp_path, 1)
    assert f"output rows: expected the shape [{len(rows) - 1}, 5], got [{len(rows)}, 5]" in said
    assert f"output numbers: expected the shape [{len(rows) + 5}], got [{len(rows)}]" in said
    assert "cmp failed" in said
    wrong = {"rows": rows + np.float32(1), "numbers": numbers}
    g.compile(directory=tmp_path, ref_inputs={"x": x}, ref_outputs=wrong)
    assert "output rows: index 0: expected" in check(toolkit, tmp_path, 1)
    with pytest.raises(UsageError, match=r"'rows' is \[61, 5\] float32; the net has at most \[60, 5\]"):
        g.compile(directory=tmp_path, ref_outputs={"rows": np.zeros((61, 5), np.float32)})


def test_a_layer_behind_runs_on_dynamically(toolkit: Toolkit, tmp_path: Path) -> None:
    g = graph(toolkit, behind=True)
    net = g.compile(directory=tmp_path, report=True)
    assert any("takes what nonzero_0 makes, whose shape varies" in line for line in net.log)
    assert [t.varies for t in net.stages[0].outputs] == [True]
    for kept in (0.5, 0.0, 1.0):
        x = sample(kept=kept)
        (y,) = g.run({"x": x})
        assert np.array_equal(y, np.float32(1.5) * expected(x)[0])
    check(toolkit, tmp_path, calculate_times=2)
    assert "whose shape varies" in (tmp_path / "report.txt").read_text()


def test_smaller_inputs_of_a_dynamic_net(toolkit: Toolkit, tmp_path: Path) -> None:
    g = graph(toolkit, (4, 7, 9), behind=True)
    g.compile(dynamic=True, directory=tmp_path)
    for shape in ((4, 7, 9), (1, 7, 9), (2, 7, 3), (1, 7, 1)):
        x = sample(shape)
        (y,) = g.run({"x": x})
        assert np.array_equal(y, np.float32(1.5) * expected(x)[0])
    x = sample((2, 7, 9))
    (tmp_path / "input_ref_data.dat").write_bytes(x.tobytes())
    (tmp_path / OUTPUT_REFERENCE).write_bytes((np.float32(1.5) * expected(x)[0]).tobytes())
    check(toolkit, tmp_path, shapes="[2,7,9]")


def test_several_stages_and_nets_in_a_folder(toolkit: Toolkit, tmp_path: Path) -> None:
    sizes = [graph(toolkit, (n, 30, 5), name="a") for n in (1, 3)]
    compile_stages(sizes, directory=tmp_path / "a")
    graph(toolkit, numbers=1, name="b").compile(directory=tmp_path / "b", ref_inputs={"x": sample()})
    check(toolkit, tmp_path / "a")
    check(toolkit, tmp_path / "a", stage_idx=1)
    combine_dirs([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert "net[b] stage[0]" in check(toolkit, tmp_path / "both", subnet_time=True)
    check(toolkit, tmp_path / "both", net_idx=1)
    (tmp_path / "both" / OUTPUT_SHAPES).unlink()
    with pytest.raises(ModelError, match=f"{OUTPUT_SHAPES} is missing: the shapes of some outputs"):
        check(toolkit, tmp_path / "both")
    (tmp_path / "b" / OUTPUT_SHAPES).unlink()
    with pytest.raises(ModelError, match=f"{OUTPUT_SHAPES} is missing"):
        combine_dirs([tmp_path / "a", tmp_path / "b"], tmp_path / "again")
    combined = graph(toolkit, name="c").compile(directory=tmp_path / "a")  # what was there is replaced
    assert combined.name == "c" and check(toolkit, tmp_path / "a")


def test_reference_data_of_others_need_no_shapes(toolkit: Toolkit, tmp_path: Path) -> None:
    """The shapes that come out are then those of the only run."""
    x = sample()
    graph(toolkit, numbers=1).compile(directory=tmp_path, ref_inputs={"x": x})
    shapes = tmp_path / OUTPUT_SHAPES
    stored = shapes.read_text()
    shapes.unlink()
    assert "cmp success" in check(toolkit, tmp_path)
    data = (tmp_path / OUTPUT_REFERENCE).read_bytes()
    (tmp_path / OUTPUT_REFERENCE).write_bytes(data + b"more")
    with pytest.raises(ModelError, match=rf"has {len(data) + 4} bytes; a run that gives these outputs needs"):
        check(toolkit, tmp_path)
    for text, message in (
        ("[[[1, 5]]]", r"has shapes of 1 stages with 1 outputs; the nets .* have 1 stages with 2"),
        ("[[[1, 5], [-1]]]", r"does not hold shapes: \[-1\] is not a shape"),
        ("[[[61, 5], [3]]]", r"an output of the shape \[61, 5\], compiled was \[60, 5\] at most"),
        (stored[:-3], "does not hold shapes"),
        ("3", "does not hold shapes: 3 is not a list"),
    ):
        shapes.write_text(text)
        with pytest.raises(ModelError, match=message):
            check(toolkit, tmp_path)


def test_a_net_without_them_leaves_no_shapes(toolkit: Toolkit, tmp_path: Path) -> None:
    graph(toolkit).compile(directory=tmp_path)
    assert (tmp_path / OUTPUT_SHAPES).exists()
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", SHAPE)
    g.add_const_binary_layer("x", 2.0, "y", BINARY_MUL)
    g.compile(directory=tmp_path)
    assert not (tmp_path / OUTPUT_SHAPES).exists()
    check(toolkit, tmp_path)


def test_what_they_look_like(toolkit: Toolkit, tmp_path: Path) -> None:
    g = graph(toolkit)
    assert "rows at most [60, 5] float32" in repr(g.compile(directory=tmp_path))
    with load_bmodel(tmp_path, device=toolkit.device) as nets:
        assert repr(nets.network("net")).startswith(
            "<NetworkInfo 'net', static: x [2, 30, 5] float32 -> rows at most"
        )
        (y,) = nets.launch("net", {"x": sample()})
        assert y.shape == expected(sample())[0].shape
    assert "output: rows, [max:60, max:5], float32" in tpu_model(TpuModelOptions(info=tmp_path / BMODEL))


def test_layers_that_make_no_rows_or_too_many(toolkit: Toolkit) -> None:
    """A tensor has elements: a layer that finds nothing says so in a row."""
    nothing = graph(toolkit, row_for_none=0)
    nothing.compile()
    with pytest.raises(
        DeviceError, match=r"TPU_NONZERO.* gave output 0 the shape \[0, 5\]; extents are at least 1"
    ):
        nothing.run({"x": sample(kept=0)})
    (y,) = nothing.run({"x": sample(kept=1)})
    assert y.shape == (60, 5)
    more = graph(toolkit, too_many=1)
    more.compile()
    with pytest.raises(DeviceError, match="made output 0 larger than its shape function said"):
        more.run({"x": sample()})
