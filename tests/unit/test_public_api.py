"""`import tpulayer`: which names there are, that they cost nothing before they are used, that they work."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpulayer
from tests.paths import ROOT
from tests.support.doc_blocks import blocks_of
from tests.support.onnx_models import make_model
from tests.support.workspaces import built_copy, environment
from user_layers.graph import BINARY_ADD

NAMES = [
    "BINARY_ADD",
    "BINARY_DIV",
    "BINARY_MAX",
    "BINARY_MIN",
    "BINARY_MUL",
    "BINARY_SUB",
    "BModelRuntime",
    "BuildError",
    "CheckError",
    "CompileError",
    "CompiledNet",
    "DType",
    "Device",
    "DeviceCrash",
    "DeviceError",
    "Finding",
    "FirmwareError",
    "FirmwareImage",
    "Graph",
    "KernelResult",
    "MappedNode",
    "MissingError",
    "ModelError",
    "NetworkInfo",
    "Output",
    "Profile",
    "SourceError",
    "Stepper",
    "TType",
    "Toolkit",
    "TpulayerError",
    "UsageError",
    "Workspace",
    "compile_file",
    "compile_onnx",
    "compile_stages",
    "firmware_image",
    "kernel_firmware",
    "load_bmodel",
    "profiled",
    "run_kernel",
    "traced",
]
PAGE = ROOT / "docs" / "python.md"


def python(code: str, *, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=840,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- the names ----


def test_the_names() -> None:
    assert tpulayer.__all__ == NAMES
    assert {name for name in dir(tpulayer) if not name.startswith("_")} == set(NAMES)
    assert "__version__" in dir(tpulayer)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there(name: str) -> None:
    """By itself, in the order in which a program would ask: no name depends on another's import."""
    loaded = json.loads(
        python(f"import json, sys, tpulayer; tpulayer.{name}; print(json.dumps(sorted(sys.modules)))")
    )
    assert "typer" not in loaded and "onnx" not in loaded
    if name.endswith("Error"):
        assert "numpy" not in loaded or name == "FirmwareError"  # that one is beside the device


def test_star_import() -> None:
    shown = python("from tpulayer import *; print(*sorted(n for n in dir() if not n.startswith('_')))")
    assert shown.split() == sorted(NAMES)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"^module 'tpulayer' has no attribute 'Grahp'$"):
        _ = tpulayer.Grahp  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Grahp'"):
        exec("from tpulayer import Grahp")


def test_checkers_see_what_runs() -> None:
    """The imports under TYPE_CHECKING and the table of `__getattr__` are the same."""
    tree = ast.parse(Path(tpulayer.__file__).read_text())
    typed = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == vars(tpulayer)["_MODULE"]
    assert sorted(typed) == NAMES


def test_importing_loads_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import tpulayer; print(*sorted(set(sys.modules) - before))"
    loaded = python(code).split()
    assert {name for name in loaded if name.startswith(("user_layers", "firmware_sim"))} == {"user_layers"}
    assert not {"numpy", "llvmlite", "typer", "onnx", "cffi"} & set(loaded)


def test_the_version() -> None:
    import user_layers

    assert tpulayer.__version__ == user_layers.__version__
    done = subprocess.run(
        [sys.executable, "-m", "tpulayer", "--version"], env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"tpulayer {tpulayer.__version__}\n")
    bad = subprocess.run(
        [sys.executable, "-m", "tpulayer", "compil"], env=environment(), capture_output=True, text=True
    )
    assert bad.returncode == 2
    assert bad.stderr.startswith("error: unknown command compil; did you mean compile?\n")


# ---- help ----


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("BINARY_")])
def test_everything_has_help(name: str) -> None:
    value = getattr(tpulayer, name)
    assert value.__doc__ and not value.__doc__.startswith(f"{name}("), "a dataclass's own text"
    if not inspect.isclass(value):
        words = set(re.findall(r"\w+", value.__doc__))
        missing = [p for p in inspect.signature(value).parameters if p not in words]
        assert not missing, f"{name} says nothing about {missing}"
        assert re.search(r"Errors?\b|Raises", value.__doc__)
        return
    for member, what in vars(value).items():
        if member.startswith("_") or not (callable(what) or isinstance(what, (property, staticmethod))):
            continue
        assert inspect.getdoc(what), f"{name}.{member} has no docstring"


def test_the_page_lists_every_name() -> None:
    text = PAGE.read_text()
    assert set(re.findall(r"`([A-Za-z_]\w+)`", text)) >= set(NAMES)


# ---- compiling and running ----


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A built workspace with the layer double; the current folder."""
    ws = built_copy(tmp_path_factory, tmp_path_factory.mktemp("workspace"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ws.root)
        yield ws.root


def test_the_page_shows_what_its_example_prints(workspace: Path) -> None:
    example, shown = (block for block in blocks_of(PAGE) if block.language in ("python", "text"))
    assert python(example.text, cwd=workspace) == shown.text


def test_load_bmodel(workspace: Path, tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)
    with tpulayer.Graph(name="two") as graph:
        graph.add_input("x", x.shape)
        graph.add_tpu_layer("TPU_DOUBLE", ["x"], None, ["y"])
        graph.compile(directory=tmp_path)
    for source in (
        tmp_path,
        str(tmp_path / "compilation.bmodel"),
        (tmp_path / "compilation.bmodel").read_bytes(),
    ):
        with tpulayer.load_bmodel(source) as nets:
            assert np.array_equal(nets.launch("two", {"x": x})[0], 2 * x)
    assert "closed" in repr(nets)
    with tpulayer.Device(tpulayer.firmware_image(tpulayer.Workspace.find())) as device:
        with tpulayer.load_bmodel(tmp_path, device=device) as nets:
            assert np.array_equal(nets.launch("two", [x])[0], 2 * x)
        assert device.query().layers  # still open
        with pytest.raises(tpulayer.UsageError, match="the device given has its firmware"):
            tpulayer.load_bmodel(tmp_path, device=device, firmware="arm")
    with tpulayer.load_bmodel(tmp_path, workspace=workspace, firmware="arm") as nets:
        assert "arm firmware" in repr(nets)
        assert np.array_equal(nets.launch("two", [x])[0], 2 * x)


def test_a_bmodel_that_is_none_leaves_no_device(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tpulayer.Toolkit] = []
    begin = tpulayer.Toolkit.__init__

    def noticed(self: tpulayer.Toolkit, *given: Any, **named: Any) -> None:
        opened.append(self)
        begin(self, *given, **named)

    monkeypatch.setattr(tpulayer.Toolkit, "__init__", noticed)
    with pytest.raises(tpulayer.ModelError, match=r"cannot read the bmodel .*/compilation\.bmodel: No such"):
        tpulayer.load_bmodel(tmp_path)
    with pytest.raises(tpulayer.ModelError, match="not a bmodel: starts with"):
        tpulayer.load_bmodel(b"nothing")
    assert [toolkit.closed for toolkit in opened] == [True, True]


def relu(*shape: int | str) -> Any:
    from onnx import helper

    return make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, ["y"])


def test_compile_onnx_of_a_file_and_of_a_model(workspace: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    path.write_bytes(relu(2, 3).SerializeToString())
    lines: list[str] = []
    net = tpulayer.compile_onnx(path, tmp_path / "a", report=True, log=lines.append)
    assert net.name == "small"
    assert lines[0] == f"{path} -> {tmp_path / 'a' / 'compilation.bmodel'}: 1 layer"
    assert lines[-1] == "y equals onnxruntime's within 0.0e+00 of its largest value"
    assert {p.name for p in (tmp_path / "a").iterdir()} >= {"compilation.bmodel", "report.txt"}
    assert len(net.report) == 1
    model = relu(2, 3)
    before = model.SerializeToString()
    lines.clear()
    same = tpulayer.compile_onnx(model, str(tmp_path / "b"), name="small", log=lines.append)
    assert model.SerializeToString() == before
    assert same.stages == net.stages
    assert lines[-1] == "y equals onnxruntime's within 0.0e+00 of its largest value"  # compared, too
    x = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    with tpulayer.load_bmodel(tmp_path / "b") as nets:
        assert np.array_equal(nets.launch("small", [x])[0], np.maximum(x, 0))
    with tpulayer.Graph.from_onnx(model) as graph:
        assert graph.name == (model.graph.name or "net")


def test_compile_onnx_with_stages_and_dynamic(workspace: Path, tmp_path: Path) -> None:
    model = relu("n", 3)
    net = tpulayer.compile_onnx(model, tmp_path, shapes={"x": (1, 3)}, stages=[{"x": (4, 3)}], name="sizes")
    assert [stage.inputs[0].shape for stage in net.stages] == [(1, 3), (4, 3)]
    net = tpulayer.compile_onnx(model, tmp_path, shapes={"x": (4, 3)}, dynamic=True, opt=0, check=False)
    assert net.stages[0].is_dynamic


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (3, {}, "an ONNX model is wanted, not an object of type int"),
        (b"bytes", {}, "an ONNX model is wanted, not an object of type bytes"),
        ("nowhere.onnx", {}, "nowhere.onnx cannot be read: No such file or directory"),
        (relu("n", 3), {}, r"the model has free dimensions: x \['n', 3\]"),
        (
            relu("n", 3),
            {"shapes": {"x": "1x3"}},
            "input 'x': the shape '1x3' is not a sequence",
        ),
        (relu("n", 3), {"shapes": {"x": 3}}, "input 'x': the shape 3 is not a sequence of whole numbers"),
        (relu("n", 3), {"shapes": {"z": (1, 3)}}, "the model has no input 'z'"),
        (relu(1, 3), {"stages": [{"x": (1, 3, 1)}]}, "input 'x' has 2 dimensions, the shape given has 3"),
    ],
)
def test_what_compile_onnx_refuses(
    workspace: Path, tmp_path: Path, model: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(tpulayer.UsageError, match=message):
        tpulayer.compile_onnx(model, tmp_path / "net", **options)
    assert not (tmp_path / "net").exists()


def test_an_output_that_differs_is_an_error(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from user_layers.onnx import trial as module

    monkeypatch.setattr(module, "reference", lambda *_, **__: [np.full((2, 3), 7, np.float32)])
    with pytest.raises(tpulayer.CompileError, match=r"^the model: y DIFFERS from onnxruntime's") as caught:
        tpulayer.compile_onnx(relu(2, 3), tmp_path / "net")
    assert caught.value.hint == "check=False writes the net all the same"
    assert not (tmp_path / "net").exists()
    tpulayer.compile_onnx(relu(2, 3), tmp_path / "net", check=False)
    assert (tmp_path / "net" / "compilation.bmodel").exists()


def test_a_function_for_a_node(workspace: Path, tmp_path: Path) -> None:
    def more(graph: tpulayer.Graph, node: tpulayer.MappedNode) -> None:
        assert node.inputs[0] is not None
        graph.add_const_binary_layer(node.inputs[0], 1.0, node.outputs[0], BINARY_ADD)

    tpulayer.compile_onnx(relu(2, 3), tmp_path, custom={"Relu": more}, name="more")
    with tpulayer.load_bmodel(tmp_path) as nets:
        assert np.array_equal(nets.launch("more", [np.zeros((2, 3), np.float32)])[0], np.ones((2, 3)))


def test_paths_may_be_texts(tmp_path: Path) -> None:
    with pytest.raises(tpulayer.UsageError, match=r"there is no file .*/nope\.c"):
        tpulayer.run_kernel("nope.c", "f")
    with pytest.raises(tpulayer.UsageError, match=r"there is no file .*/nope\.c"):
        tpulayer.kernel_firmware("nope.c")
