"""The bmcompiler spelling: the same nets through module-level functions."""

from __future__ import annotations

import inspect
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError, UsageError
from firmware_sim.wire import BUILTIN_OP_BASE
from tests.support.compiler_fakes import FakeLayer, FakeToolkit, local_layer
from user_layers.bmcompiler import (
    BINARY_ADD,
    BINARY_DIV,
    BINARY_MAX,
    BINARY_MIN,
    BINARY_MUL,
    BINARY_SUB,
    BMCompiler,
    __compile_ir_with_result_check,
    __compile_with_result_check,
    add_const_binary_layer,
    add_expand_dims_layer,
    add_layer_name,
    add_tpu_layer,
    create_bmcompiler,
    create_bmcompiler_dir,
    finish_bmcompiler,
    get_max_layer_id,
)
from user_layers.bmcompiler.calls import FUNCTIONS
from user_layers.bmodel import read

SHAPE = (1, 3, 4, 5)
X = np.arange(60, dtype=np.float32).reshape(SHAPE)
LAYERS = (
    local_layer("TPU_DOUBLE", 0),
    FakeLayer("TPU_EXPAND_DIMS", BUILTIN_OP_BASE),
    FakeLayer("TPU_CONST_BINARY", BUILTIN_OP_BASE + 1),
)


def compiler(directory: Path) -> BMCompiler:
    return create_bmcompiler_dir("BM1684", directory, toolkit=FakeToolkit(*LAYERS))


def double(p: BMCompiler, source: str, target: str, **changes: Any) -> None:
    args: dict[str, Any] = {
        "input_num": 1,
        "input_names": [source],
        "input_shapes": [SHAPE],
        "input_dims": [4],
        "input_dtypes": [0],
        "output_num": 1,
        "output_names": [target],
        "output_shapes": [SHAPE],
        "output_dims": [4],
        "output_dtypes": [0],
        "op_type": 0,
        "layer_param": bytes(4),
        "param_size": 4,
    }
    add_tpu_layer(p, **{**args, **changes})


def test_the_vendors_codes() -> None:
    codes = (BINARY_ADD, BINARY_SUB, BINARY_MUL, BINARY_DIV, BINARY_MAX, BINARY_MIN)
    assert codes == (0, 1, 2, 3, 4, 10000)


def test_two_nets_in_one_directory(tmp_path: Path) -> None:
    p = compiler(tmp_path)
    add_expand_dims_layer(p, "x", SHAPE, 4, 0, "e")
    double(p, "e", "y")
    __compile_with_result_check(p, {"x": X}, {"y": X * 2}, "fixed")
    add_const_binary_layer(p, "x", SHAPE, 4, 3.0, "y", BINARY_MUL, 0)
    __compile_ir_with_result_check(p, {"x": X}, {"y": X * 3}, "free")
    finish_bmcompiler(p)
    model = read(tmp_path / "compilation.bmodel")
    assert [(net.name, net.is_dynamic) for net in model.nets] == [("fixed", False), ("free", True)]
    assert (tmp_path / "input_ref_data.dat").read_bytes() == X.tobytes() * 2
    assert (tmp_path / "output_ref_data.dat").read_bytes() == (X * 2).tobytes() + (X * 3).tobytes()


def test_tensors_that_nothing_makes_are_inputs_and_unused_ones_outputs(tmp_path: Path) -> None:
    p = compiler(tmp_path)
    double(p, "a", "b")
    double(p, "b", "c")
    double(p, "d", "e")
    assert p.graph.inputs == ("a", "d")
    assert p.graph.outputs == ("c", "e")


def test_the_log_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    p = compiler(tmp_path)
    double(p, "x", "y")
    __compile_with_result_check(p, {"x": X}, {"y": X}, "net")
    assert capsys.readouterr().err.startswith("TPU(DOUBLE) double_0: ")


def test_parameters_may_be_longer_than_their_size_and_given_by_name(tmp_path: Path) -> None:
    p = compiler(tmp_path)
    double(p, "x", "a", layer_param=b"\1\2\3\4\5\6", param_size=4)
    double(p, "a", "b", layer_param={"v": 9}, op_type="TPU_DOUBLE")
    assert [n.param for n in p.graph.nodes] == [b"\1\2\3\4", b"\x09\0\0\0"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input_num": 2}, "input_num is 2 but input_names has 1"),
        ({"output_dims": []}, r"output_num is 1, but output_dims \[\] has only 0 numbers"),
        ({"input_dims": [5]}, r"input_dims\[0\] is 5, but input_shapes\[0\] .* has only 4 numbers"),
        ({"param_size": 8}, "4 bytes, param_size is 8"),
        ({"layer_param": {}, "param_size": 8}, "param_size is 8, the parameter struct of TPU_DOUBLE has 4"),
        ({"op_type": 55}, "unknown layer 55"),
        ({"input_dtypes": [99]}, "code 99"),
    ],
)
def test_bad_layers(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    p = compiler(tmp_path)
    with pytest.raises(UsageError, match=words):
        double(p, "x", "y", **changes)


OUTPUTS = ("output_shapes", "output_dims", "output_dtypes")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("left_out", list(itertools.product((False, True), repeat=3)))
def test_what_is_left_out_of_outputs_is_inferred(
    tmp_path: Path, left_out: tuple[bool, ...], dynamic: bool
) -> None:
    p = compiler(tmp_path)
    changes = {name: None for name, out in zip(OUTPUTS, left_out, strict=True) if out}
    double(p, "x", "y", **changes)
    double(p, "y", "z", **changes)
    p.compile("net", dynamic=dynamic, inputs={"x": X}, outputs={"z": X})
    finish_bmcompiler(p)
    (net,) = read(tmp_path / "compilation.bmodel").nets
    (output,) = net.stages[0].outputs
    assert (output.name, output.shape, output.dtype) == ("z", SHAPE, 0) and net.is_dynamic is dynamic


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("left_out", list(itertools.product((False, True), repeat=3)))
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("output_shapes", [(1, 3, 4, 6)], r"the shape \[1, 3, 4, 6\], .* says \[1, 3, 4, 5\]"),
        ("output_dims", [3], r"3 dimensions, the layer's shape function says 4, \[1, 3, 4, 5\],"),
        ("output_dtypes", [2], r"the type int8, .* says float32"),
    ],
)
def test_what_contradicts_the_shape_function(
    tmp_path: Path, name: str, value: Any, says: str, left_out: tuple[bool, ...], dynamic: bool
) -> None:
    p = compiler(tmp_path)
    changes: dict[str, Any] = {n: None for n, out in zip(OUTPUTS, left_out, strict=True) if out}
    double(p, "x", "y", **{**changes, name: value})
    words = rf"double_0 .*: {name}\[0\]: output 'y' is given {says}"
    with pytest.raises(CompileError, match=words) as caught:
        p.compile("net", dynamic=dynamic)
    assert f"correct {name}, or leave it out" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output_shapes": None, "output_dims": []}, r"output_num is 1, but output_dims \[\] has only 0"),
        ({"output_shapes": [], "output_dims": None}, "output_num is 1 but output_shapes has 0 entries"),
        ({"output_shapes": [None], "output_dims": None}, r"output_shapes\[0\] is missing"),
        ({"output_shapes": [(0, 3)], "output_dims": None}, "extent below 1"),
        ({"input_dims": None}, "input_dims is missing"),
        ({"input_shapes": None}, "input_shapes is missing"),
    ],
)
def test_outputs_that_make_no_sense(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=f"^add_tpu_layer: .*{words}"):
        double(compiler(tmp_path), "x", "y", **changes)


def test_one_input_has_one_shape(tmp_path: Path) -> None:
    p = compiler(tmp_path)
    double(p, "x", "y")
    with pytest.raises(UsageError, match=r"'x' is \[1, 3, 4, 5\] float32 .* \[60\] float32 here"):
        add_const_binary_layer(p, "x", [60], 1, 1.0, "z", BINARY_ADD, 0)


def test_names_of_layers(tmp_path: Path) -> None:
    p = compiler(tmp_path)
    assert get_max_layer_id(p) == -1
    double(p, "x", "y")
    double(p, "y", "z")
    assert get_max_layer_id(p) == 1
    add_layer_name(p, 1, "second")
    add_layer_name(p, 1, "last")
    assert [node.name for node in p.graph.nodes] == ["double_0", "last"]
    for layer, name, words in (
        (2, "x", "layer_id is 2"),
        (-1, "x", "-1"),
        (0, "last", "another layer"),
        (0, "", ""),
    ):
        with pytest.raises(UsageError, match=f"^add_layer_name: .*{words}"):
            add_layer_name(p, layer, name)


def test_the_order_of_calls(tmp_path: Path) -> None:
    p = compiler(tmp_path / "none")
    with pytest.raises(UsageError, match="there is no net"):
        finish_bmcompiler(p)
    with pytest.raises(UsageError, match="finished"):
        double(p, "x", "y")
    p = compiler(tmp_path / "left")
    double(p, "x", "y")
    with pytest.raises(UsageError, match="1 layers were added after"):
        finish_bmcompiler(p)
    p = compiler(tmp_path / "twice")
    for _ in range(2):
        double(p, "x", "y")
        if not p.nets:
            __compile_with_result_check(p, {"x": X}, {"y": X}, "net")
    with pytest.raises(UsageError, match="'net' is compiled already"):
        __compile_with_result_check(p, {"x": X}, {"y": X}, "net")
    assert list(tmp_path.iterdir()) == []


def test_the_default_directory() -> None:
    assert create_bmcompiler("BM1684", toolkit=FakeToolkit()).directory == Path("compilation")
    with pytest.raises(UsageError, match="BM1684"):
        create_bmcompiler("BM1690", toolkit=FakeToolkit())


def test_every_compile_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The four short calls, with the mode and level that each stands for."""
    import user_layers.bmcompiler as module

    seen: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(BMCompiler, "compile", lambda self, name, **options: seen.append((name, options)))
    p = compiler(tmp_path)
    getattr(module, "__bmcompile")(p, "a")
    getattr(module, "__bmcompile_opt")(p, "b", 1)
    getattr(module, "__bmcompile_ir")(p, "c")
    getattr(module, "__bmcompile_ir_opt")(p, "d", 2)
    assert seen == [
        ("a", {"dynamic": False}),
        ("b", {"dynamic": False, "opt": 1}),
        ("c", {"dynamic": True}),
        ("d", {"dynamic": True, "opt": 2}),
    ]


def test_callers_give_the_fields_of_records_one_after_the_other(tmp_path: Path) -> None:
    import user_layers.bmcompiler as module

    for function in (module.add_conv_layer_v2, module.add_binary_layer, module.add_batch_matmul_layer):
        table = [parameter.name for parameter in FUNCTIONS[function.__name__].parameters]
        assert [*inspect.signature(function).parameters] == table
    names = [*inspect.signature(module.add_binary_layer).parameters]
    assert names[1:5] == ["input_A_name", "input_A_shape", "A_is_coeff", "A_data"]
    by_place, by_name = compiler(tmp_path), compiler(tmp_path)
    operands = ("a", SHAPE, 0, None, "b", SHAPE, 0, None, 4, "y", BINARY_ADD)
    for p, args, named in (
        (by_place, operands, {}),
        (by_name, (), dict(zip(names[1:], operands, strict=True))),
    ):
        with pytest.raises(UsageError, match=r"^add_binary_layer: .*unknown layer 'TPU_BINARY'"):
            module.add_binary_layer(p, *args, **named)  # type: ignore[arg-type]
        assert p.graph.inputs == ("a", "b")
    with pytest.raises(TypeError, match="missing a required argument: 'kh'"):
        module.add_conv_layer(by_name, SHAPE, 4, "x", SHAPE, 4, "y", None, X, None)  # type: ignore[call-arg]
