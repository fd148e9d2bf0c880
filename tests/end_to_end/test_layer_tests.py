"""`tpulayer test`: what a new layer's test says, what a wrong kernel makes of it, and what is refused."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import MissingError, SourceError, UsageError
from tests.paths import ROOT
from tests.support.workspaces import environment, make_workspace, tpulayer
from user_layers.scaffold import add_layer
from user_layers.testing import Array, Case, Const, Input, Param, check_layer
from user_layers.testing.collect import find_tests, load_test
from user_layers.testing.compare import difference
from user_layers.testing.run import Result, open_toolkits, run_cases
from user_layers.toolchain.targets import build_layers
from user_layers.workspace import Workspace

# Two outputs from three inputs of different types: the second input, and the third.
PICK = """
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_PICK)
typedef struct {
    float factor;
    int list[3];
} tpu_pick_param_t;

__BM_SHAPE__(TPU_PICK)
int pick_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size;
    if (in_num != 3 || out_num != 2) return BM_LAYER_PARAM_INVALID;
    for (int i = 0; i < 2; i++) {
        out_tensors[i] = in_tensors[i + 1];
        out_tensors[i].ttype = BMNET_NEURON;
    }
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_PICK)
int pick_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size;
    okk_initialize();
    for (int i = 0; i < out_num; i++) {
        dim4 shape = {1, 1, 1, in_tensors[i + 1].elem_num};
        okk_gdma_32bit_cpy_S2S(out_tensors[i].addr, in_tensors[i + 1].addr, &shape, NULL, NULL);
    }
    okk_poll();
    return BM_LAYER_OK;
}
"""


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A built workspace with new layers: `scale` with a local function, `plain` without, and `pick`."""
    ws = make_workspace(tmp_path_factory.mktemp("layers"), layers=())
    add_layer(ws.root, "scale", True)
    add_layer(ws.root, "plain")
    add_layer(ws.root, "pick")
    (ws.device_dir / "bm_device_pick.c").write_text(PICK)
    (ws.tests_dir / "test_pick.py").write_text("X = 1\n")  # a file that is not a layer's test
    build_layers(ws)
    return ws


def run(
    ws: Workspace, name: str, golden: Any, cases: Sequence[Case], kinds: Sequence[str] = ("native",)
) -> list[Result]:
    with open_toolkits(ws) as toolkits:
        return list(run_cases(ws, {kind: toolkits[kind] for kind in kinds}, name, golden, cases))


def same(inputs: list[Array], param: Param) -> list[Array]:
    return inputs


# ---- new layers ----


def test_a_new_layer_comes_with_a_test_that_passes(ws: Workspace) -> None:
    done = tpulayer("test", cwd=ws.device_dir)
    lines = done.stdout.splitlines()
    cases = len(load_test(ws.tests_dir / "test_scale.py").cases)
    assert lines[-1] == f"test: all {2 * 2 * 4 * cases} are equal to golden"
    assert {line.split()[0] for line in lines[:-1]} == {"plain", "scale"}
    for kind in ("native", "arm"):  # a local function runs on every shape at opt 1, in tiles where it must
        whole = f"scale [2, 65, 5, 7]: opt 1, {kind}: 4550 elements equal (local, group 0, whole)"
        alone = f"plain [2, 65, 5, 7]: opt 1, {kind}: 4550 elements equal (global (no local function))"
        smaller = f"dynamic, {kind}: 11 elements equal (compiled for [7], also with [4])"
        assert {whole, alone, f"scale [7]: {smaller}"} <= set(lines)
    assert any("opt 2, native" in line and "slices: " in line for line in lines)
    assert "scale: 5 cases on native and arm" in done.stderr


@pytest.mark.slow
def test_the_same_file_under_pytest(ws: Workspace, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(ws.tests_dir / "test_plain.py")],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_without_pytest(ws: Workspace) -> None:
    code = (
        "import sys; sys.modules['pytest'] = None; "
        "from user_layers.cli.main import main; main(['test', 'plain'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ws.root,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_json(ws: Workspace) -> None:
    done = tpulayer("test", "plain", "--json", cwd=ws.root)
    answer = json.loads(done.stdout)
    assert answer["ok"] and list(answer["tests"]) == ["plain"]
    first = answer["tests"]["plain"][0]
    assert (first["case"], first["mode"], first["firmware"]) == ("[1, 3, 17, 23]", "opt 0", "native")
    assert first["ok"] and first["elements"] == 1173 and first["difference"] is None
    assert "plain [7]: " in done.stderr  # progress


# ---- wrong kernels ----


@pytest.fixture
def broken(tmp_path: Path) -> Workspace:
    """A new layer whose local function copies a row too few, so that only groups show it."""
    ws = make_workspace(tmp_path / "w", layers=())
    add_layer(ws.root, "scale", True)
    source = ws.device_dir / "bm_device_scale.c"
    text = source.read_text()
    wrong = text.replace(
        "const dim4 shape = {tile[0], tile[1], tile[2], tile[3]};", "const dim4 shape = {1, 1, 1, 1};"
    )
    assert wrong != text
    source.write_text(wrong)
    return ws


def test_a_wrong_kernel(broken: Workspace) -> None:
    assert "is not built" in tpulayer("test", "scale", cwd=broken.root, code=3).stderr
    build_layers(broken)
    done = tpulayer("test", "scale", cwd=broken.root, code=1)
    lines = done.stdout.splitlines()
    found = [line for line in lines if "DIFFERS" in line]
    test = load_test(broken.tests_dir / "test_scale.py")
    x = test.cases[0].arrays(salt=2)[0]
    start = "scale [1, 3, 17, 23]: opt 1, native: DIFFERS in 1172 of 1173 elements, first at [0, 0, 0, 1]: "
    assert any(line.startswith(start) and f", numpy {x[0, 0, 0, 1]!s} (local, " in line for line in found)
    for kind in ("native", "arm"):
        assert f"scale [2, 65, 5, 7]: opt 0, {kind}: 4550 elements equal (global (opt=0))" in lines
    assert all(": opt 1, " in line or ": opt 2, " in line for line in found)
    assert lines[-1] == f"test: {len(found)} of 40 are not equal to golden"
    answer = json.loads(tpulayer("test", "scale", "--json", cwd=broken.root, code=1).stdout)
    wrong = [r for r in answer["tests"]["scale"] if not r["ok"]]
    assert not answer["ok"] and len(wrong) == len(found)
    assert wrong[0]["difference"] | {"got": ""} == {
        "index": [0, 0, 0, 1],
        "got": "",
        "golden": str(x[0, 0, 0, 1]),
        "count": 1172,
        "elements": 1173,
    }
    with pytest.raises(AssertionError, match=r"scale: 2 of 2 are not equal\n.*opt 1, native: DIFFERS in"):
        check_layer("scale", test.golden, [Case((1, 3, 17, 23), modes=["opt 1"])])

    source = broken.device_dir / "bm_device_scale.c"
    source.write_text(source.read_text() + "/* mended */\n")
    done = tpulayer("test", cwd=broken.root, code=3)  # never the old build for the new source
    assert f"{source} has changed since the last build" in done.stderr and "build_layers" in done.stderr


def test_what_a_case_finds(ws: Workspace) -> None:
    """Everything that is not equal is said, and does not end the run."""

    def offset(inputs: list[Array], param: Param) -> list[Array]:
        return [inputs[0] + np.float32(1e-3)]

    def broken(inputs: list[Array], param: Param) -> list[Array]:
        return [inputs[0][param["nothing"]]]

    def wider(inputs: list[Array], param: Param) -> list[Array]:
        return [x.astype(np.float64) for x in inputs]

    def shorter(inputs: list[Array], param: Param) -> list[Array]:
        return [x[:2] for x in inputs]

    one: Any = {"modes": ["opt 0"]}
    for golden, case, message in (
        (offset, Case((3,), **one), "DIFFERS in 3 of 3 elements, first at \\[0\\]: "),
        (offset, Case((3,), **one, atol=1e-2), ""),
        (wider, Case((3,), **one), r"FAILED: the layer gives \[3\] float32, golden \[3\] float64"),
        (shorter, Case((3,), **one), r"gives \[3\] float32, golden \[2\] float32"),
        (lambda inputs, param: inputs[0], Case((3,), **one), "golden returned an array; it returns a list"),
        (broken, Case((3,), **one), r"golden failed at test_layer_tests.py:\d+: KeyError: 'nothing'"),
        (same, Case((3,), **one, param={"reservd": 1}), "reservd: unknown field; the struct has none"),
        (same, Case((3,), (3,), **one), "its shape function failed.*BM_LAYER_PARAM_INVALID"),
        (same, Case((4, 3), smaller=[(2, 4)], modes=["dynamic"]), r"with \[2, 4\]: .*Case\(\.\.\., smaller="),
    ):  # fmt: skip
        (result,) = run(ws, "plain", golden, [case])
        assert result.ok == (not message)
        if message:
            assert re.search(message, str(result)), str(result)


def test_several_inputs_constants_integers_and_parameters(ws: Workspace) -> None:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    seen: list[Any] = []

    def golden(inputs: list[Array], param: Param) -> list[Array]:
        seen.append(dict(param))
        inputs[0][...] = 0  # golden may use its inputs up
        return inputs[1:]

    cases = [
        Case(
            (2, 3),
            Input((5, 7), "int32", -3, 3),
            Const(table),
            param={"factor": 0.1, "list": [1]},
            smaller=[[(1, 3), (2, 7)]],
        ),
        Case(
            (2, 3),
            Const(Input((4,), "uint32")),
            np.array([[-0.0, math.nan]], np.float32),
            modes=["opt 1", "dynamic"],
        ),
    ]
    results = run(ws, "pick", golden, cases, ("native", "arm"))
    assert [r.problem for r in results] == [""] * 12
    assert results[0].case == ("[2, 3], [5, 7] int32, const [3, 4], {'factor': 0.1, 'list': [1]}")
    assert [r.elements for r in results[:4]] == [47, 47, 47, 47 + 14 + 12]
    assert seen[0] == {"factor": float(np.float32(0.1)), "list": [1, 0, 0]}


# ---- cases ----


def test_numbers_are_the_same_every_time() -> None:
    case = Case(
        (4, 5), Input((100,), "int8"), Input((50,), "uint16", 3, 4), Const((3,)), np.ones(2, np.int32)
    )
    a, b = case.arrays(), case.arrays()
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert [x.dtype.name for x in a] == ["float32", "int8", "uint16", "float32", "int32"]
    assert a[1].min() >= -100 and a[1].max() <= 100 and set(a[2]) == {3, 4}
    assert not np.array_equal(case.arrays(salt=1)[0], a[0])
    c = case.arrays(((2, 2), (1,), (1,)))
    assert c[1][0] != a[1][0]  # a smaller input is not part of the larger one
    assert [x.shape for x in c] == [(2, 2), (1,), (1,), (3,), (2,)]
    assert np.array_equal(a[3], c[3])  # the net's constant does not change with the inputs
    low = Input((1,), low=2, high=5).draw(np.random.default_rng(0), (1000,))
    assert low.dtype == np.float32 and 2 <= low.min() < 2.1 and 4.9 < low.max() <= 5


def test_smaller_shapes() -> None:
    assert Case((5, 1), (4,)).halved(lambda axis: True) == (((3, 1), (2,)),)
    assert Case((5, 8)).halved(lambda axis: axis == 0) == (((3, 8),),)
    assert Case((1, 1)).halved(lambda axis: True) == ()
    assert Case((5, 8), Const((5,))).halved(lambda axis: True) == ()
    assert Case((5, 8), smaller=[(1, 2), [(3, 4)]]).smaller == (((1, 2),), ((3, 4),))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Case(), "without inputs"),
        (lambda: Case((0, 3)), "is not a shape"),
        (lambda: Case(()), "is not a shape"),
        (
            lambda: Case(3),  # type: ignore[arg-type]
            "3 is not a shape",
        ),
        (lambda: Case((1,), dtype="bfloat"), "is not a data type"),
        (lambda: Case((1,), dtype="complex64"), "is not a data type"),
        (lambda: Case((1,), modes=["opt 3"]), "'opt 3' is not a mode"),
        (lambda: Case((1,), (2,), smaller=[(1,)]), "1 shapes for 2 inputs"),
    ],
)
def test_cases_that_mean_nothing(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_difference() -> None:
    x = np.array([[0.0, 1.0], [math.nan, math.inf]], np.float32)
    assert difference(x, x.copy()) is None
    y = x.copy()
    y[0, 0] = -0.0
    found = difference(y, x)
    assert found is not None and (found.index, found.count, found.elements) == ((0, 0), 1, 4)
    assert str(found) == "DIFFERS in 1 of 4 elements, first at [0, 0]: -0.0, numpy 0.0"
    assert difference(y, x, atol=0) is None
    y[0, 1], y[1, 1] = 1.01, -math.inf
    found = difference(y, x, rtol=0.1)
    assert found is not None and (found.index, found.count) == ((1, 1), 1)
    i = np.array([0, 255, 7], np.uint8)
    assert difference(i, i + np.uint8(1), atol=1) is not None  # 255 and 0 are not neighbours
    assert difference(i[::2], np.array([1, 7], np.uint8), atol=1) is None


# ---- which tests ----


@pytest.mark.slow
def test_after_a_failed_build_nothing_is_tested(broken: Workspace) -> None:
    """Wherever the mistake is, what is installed is older than the sources."""
    tpulayer("build_layers", cwd=broken.root)
    host = broken.host_dir / "bm_host_scale.cpp"
    text = host.read_text()
    host.write_text(text + "this is no C++\n")
    tpulayer("build_layers", cwd=broken.root, code=1)
    done = tpulayer("test", "scale", cwd=broken.root, code=3)
    assert "the last build of" in done.stderr and "did not come to its end" in done.stderr
    host.write_text(text)
    tpulayer("build_layers", cwd=broken.root)
    assert "DIFFERS" in tpulayer("test", "scale", cwd=broken.root, code=1).stdout


@pytest.mark.slow
def test_a_copied_workspace_is_built(ws: Workspace, tmp_path: Path) -> None:
    copy = Workspace(Path(shutil.copytree(ws.root, tmp_path / "copy", symlinks=True)))
    kernel = copy.device_dir / "bm_device_plain.c"
    text = kernel.read_text()
    assert text.count("int left = in_tensors[0].elem_num;") == 1
    kernel.write_text(
        text.replace("int left = in_tensors[0].elem_num;", "int left = in_tensors[0].elem_num - 1;")
    )
    done = tpulayer("build_layers", cwd=copy.root)
    assert "nothing" not in done.stdout and "skipped everything" not in done.stderr
    assert "DIFFERS" in tpulayer("test", "plain", cwd=copy.root, code=1).stdout
    tpulayer("test", "plain", cwd=ws.root)


def test_a_test_that_is_no_layers_is_never_overwritten(ws: Workspace) -> None:
    other = ws.tests_dir / "test_other.py"
    other.write_text("X = 1\n")
    for force in ((), ("--force",)):
        done = tpulayer("add_layer", "other", *force, cwd=ws.root, code=2)
        assert "tests/test_other.py is there already, and is not a test of a layer" in done.stderr
    assert other.read_text() == "X = 1\n" and not (ws.device_dir / "bm_device_other.c").exists()


def test_what_is_refused(ws: Workspace, tmp_path: Path) -> None:
    done = tpulayer("test", "scal", cwd=ws.root, code=2)
    assert "there is no layer scal and no test of it; did you mean scale?" in done.stderr
    (ws.device_dir / "bm_device_untested.c").write_text("")
    try:
        assert "has no test" in tpulayer("test", "untested", cwd=ws.root, code=2).stderr
    finally:
        (ws.device_dir / "bm_device_untested.c").unlink()
    assert "there is no function golden" in tpulayer("test", "pick", cwd=ws.root, code=1).stderr
    empty = make_workspace(tmp_path / "w")
    assert "holds no test of a layer" in tpulayer("test", cwd=empty.root, code=2).stderr
    with pytest.raises(MissingError, match="is not built"):
        empty.tests_dir.mkdir()
        (empty.tests_dir / "test_double.py").write_text((ROOT / "tests" / "test_double.py").read_text())
        check_layer("double", load_test(empty.tests_dir / "test_double.py").golden, [Case((1,))])
    with pytest.raises(UsageError, match=r"has no layer plan; did you mean plain\?"):
        run(ws, "plan", same, [Case((1,))])
    (ws.device_dir / "bm_device_fresh.c").write_text("")
    try:
        with pytest.raises(MissingError, match="was built without the layer fresh"):
            run(ws, "fresh", same, [Case((1,))])
    finally:
        (ws.device_dir / "bm_device_fresh.c").unlink()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def golden(:\n", r"test_x\.py:1: SyntaxError"),
        ("\nimport nothing_of_this_name\n", r"test_x\.py:2: ModuleNotFoundError"),
        (
            "from user_layers.testing import Case\n\nCASES = [Case((0,))]\n",
            r"test_x\.py:3: Case: \(0,\) is not a shape",
        ),
        ("CASES = []\n", "no function golden"),
        ("def golden(inputs, param):\n    return inputs\n\n\nCASES = [3]\n", r"CASES is not a list of Case"),
        ("def golden(inputs, param):\n    return inputs\n\n\nCASES = []\n", r"CASES is not a list of Case"),
    ],
)
def test_files_that_are_no_tests(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "test_x.py"
    path.write_text(text)
    with pytest.raises(SourceError, match=message):
        load_test(path)


def test_what_belongs_to_the_layers_of_this_repository() -> None:
    assert [path.name for path in find_tests(Workspace(ROOT), [])] == ["test_crop.py", "test_double.py"]
