"""Programs in C and C++ against libbmcompiler.so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.paths import SOURCES
from tests.support.bmcompiler_cases import Net, nets
from tests.support.firmware_harness import compilers
from tests.support.workspaces import built_workspace, environment
from user_layers.bmcompiler import create_bmcompiler_dir, finish_bmcompiler
from user_layers.bmcompiler.c_source import headers
from user_layers.bmcompiler.calls import (
    FLOAT,
    FUNCTIONS,
    HANDLE,
    TEXT,
    Floats,
    Ints,
    Parameter,
    Shapes,
    Texts,
    Unread,
)
from user_layers.toolchain.host_flags import host_files
from user_layers.workspace import Workspace

PROGRAMS = SOURCES / "bmcompiler_programs"
NETS = nets()
CPP = "zig c++"
COMPILERS = {**compilers(), CPP: [sys.executable, "-m", "ziglang", "c++"]}


def build(folder: Path, source: Path, *words: str, compiler: str | None = None) -> Path:
    """The program of one source. words: more for the compiler."""
    program = folder / "program"
    files = host_files(None)
    command = [*COMPILERS[compiler or next(iter(COMPILERS))], "-Wall", "-Werror", "-o", program, source]
    command += [f"-I{PROGRAMS}", *files.compile_flags, *words, *files.link_flags]
    subprocess.run([*map(str, command)], check=True, timeout=600)  # zig makes its C++ library first
    return program


def run(program: Path, folder: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder that is in no workspace."""
    return subprocess.run(
        [program],
        cwd=folder,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# ---- every function: the same calls give the same files ----


def array(kind: str, parts: Iterable[str]) -> str:
    return f"({kind}[]){{{', '.join(parts)}}}"


def literal(parameter: Parameter, value: Any) -> str:
    """An argument in C."""
    kind = parameter.kind
    if value is None or isinstance(kind, Unread):
        return "NULL"
    if kind == TEXT:
        return json.dumps(value)
    if kind == FLOAT:
        return f"{float(np.float32(value)).hex()}f"
    if isinstance(kind, Floats):
        numbers = np.ravel(value).astype(np.float32)
        return array("float", (f"{float(v).hex()}f" for v in numbers))
    if isinstance(kind, Ints):
        return array("int", map(str, value))
    if isinstance(kind, Texts):
        return array("const char *", map(json.dumps, value))
    if isinstance(kind, Shapes):
        return array("const int *", (array("int", map(str, shape)) for shape in value))
    return str(int(value))


def statements(net: Net) -> list[str]:
    lines = []
    for name, arguments in net.calls:
        parameters = [p for p in FUNCTIONS[name].parameters if p.kind != HANDLE]
        text = ", ".join(literal(p, v) for p, v in zip(parameters, arguments, strict=True))
        lines.append(f"    {name}(p, {text});")
    return [*lines, f'    __bmcompile_opt(p, "{net.name}", 1);']


@pytest.mark.slow
def test_the_same_calls_give_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for net in NETS for line in statements(net)]
    source = tmp_path / "all.c"
    head = [
        '#include "check.h"',
        "int main(void) {",
        '    void *p = create_bmcompiler_dir("BM1684", "from_c");',
    ]
    tail = ["    finish_bmcompiler(p);", "    return bmcompiler_errors();", "}", ""]
    source.write_text("\n".join([*head, *lines, *tail]))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # bmodels say when they were made
    done = run(build(tmp_path, source), tmp_path)
    assert done.returncode == 0 and "bmcompiler" not in done.stderr, done.stderr
    monkeypatch.chdir(tmp_path)
    p = create_bmcompiler_dir("BM1684", "from_python")
    for net in NETS:
        for name, arguments in net.calls:
            FUNCTIONS[name].call(p, *arguments)
        p.compile(net.name, dynamic=False, opt=1)
    finish_bmcompiler(p)
    for name in ("compilation.bmodel", "input_ref_data.dat", "output_ref_data.dat"):
        made = [(tmp_path / of / name).read_bytes() for of in ("from_c", "from_python")]
        assert made[0] == made[1], name


# Parameters of a few functions in the vendor's headers: i int, f float, capitals pointers to const, S text,
# P p_bmcpl, * several of them.
PROTOTYPES = {
    "add_conv_layer": "P I i S I i S S F F i i i i i i i i i i i i",
    "add_pooling_layer": "P I i S i I* I S* i i i i i i i i i i i i S F",
    "add_fc_layer": "P I i S I i S S i i F F i i",
    "add_scale_layer": "P i I* I S* I i S S F F i i i",
    "add_binary_layer_v2": "P S I i i F S I i i F S i",
    "add_const_binary_layer": "P S I i f S i i",
    "add_expand_dims_layer": "P S I i i S",
    "add_topk_layer": "P I i S i i I* I S*",
    "add_batch_matmul_layer": "P S I i i F S I i i F S",
    "add_select_layer": "P S S i f S i f S I i",
    "add_stride_slice_layer_v2": "P S I i S I I I i i i i i i",
    "add_lrn_layer": "P I i S I i S f i f f",
    "finish_bmcompiler": "P",
    "__bmcompile_opt": "P S i",
}


def test_prototypes() -> None:
    codes = {"void *": "P", "int ": "i", "float ": "f", "const char *": "S", "const int *": "I"}
    codes |= {"const float *": "F", "const char *const *": "S*", "const int *const *": "I*"}
    text = " ".join(headers("")["bmcompiler_if.h"].split())
    for name, wanted in PROTOTYPES.items():
        found = re.search(rf"void {name}\(([^)]*)\);", text)
        assert found is not None, name
        kinds = [re.sub(r"\w+$", "", parameter) for parameter in found[1].split(", ")]
        assert " ".join(codes[kind] for kind in kinds) == wanted, name


# ---- compiling and ending ----


def bmrt_test(folder: Path, *words: str, **changes: str) -> str:
    command = [sys.executable, "-m", "user_layers.cli.main", "bmrt_test", *words]
    env = environment(**changes)
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_compiling_and_ending(tmp_path: Path) -> None:
    done = run(build(tmp_path, PROGRAMS / "checked.c"), tmp_path)
    assert done.stdout == "ok 0\n", done.stderr
    assert {p.name for p in tmp_path.iterdir() if p.is_dir()} == {"compilation"}
    x = np.arange(60, dtype=np.float32)
    assert (tmp_path / "compilation" / "input_ref_data.dat").read_bytes() == x.tobytes() * 2
    assert (tmp_path / "compilation" / "output_ref_data.dat").read_bytes() == (2 * x).tobytes() * 2
    said = bmrt_test(tmp_path, "--context_dir", "compilation")
    assert "+++ The network[fixed] stage[0] cmp success +++" in said
    assert "+++ The network[free] stage[0] cmp success +++" in said
    bmrt_test(tmp_path, "--bmodel", "got.bmodel")


# ---- add_tpu_layer ----


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return built_workspace(tmp_path_factory)


def test_outputs_that_are_null_are_inferred(workspace: Workspace, tmp_path: Path) -> None:
    """All combinations, static and dynamic; what is given and contradicts the layer is told by its name."""
    header = f"-I{workspace.bmtpu_header.parent}"
    done = run(
        build(tmp_path, PROGRAMS / "nulls.c", header), tmp_path, TPULAYER_WORKSPACE=str(workspace.root)
    )
    assert done.stdout == "ok\n", done.stdout + done.stderr
    message = r"^bmcompiler: __bmcompile: .*: (output_\w+)\[0\]: output 'y' is given"
    found = re.findall(message, done.stderr, re.MULTILINE)
    assert found == 2 * ["output_shapes", "output_dims", "output_dtypes"]
    assert "add_tpu_layer: output_shapes[0] is missing (NULL)" in done.stderr
    assert "add_tpu_layer: output 'y': the shape [1, 3, 0, 5] has an extent below 1" in done.stderr
    assert not (tmp_path / "wrong").exists() and (tmp_path / "late" / "compilation.bmodel").is_file()
    said = bmrt_test(tmp_path, "--context_dir", "nulls", TPULAYER_WORKSPACE=str(workspace.root))
    assert said.count("cmp success") == 16


# ---- what is wrong ----


MESSAGES = (
    "create_bmcompiler: unknown chip 'BM1690'",
    "create_bmcompiler_dir: chip_name is missing (NULL)",
    "add_const_binary_layer: output_name is missing (NULL)",
    "add_identity_layer: input_shape is missing (NULL)",
    "add_identity_layer: input_dims is -4",
    "add_conv_layer: weight is missing (NULL)",
    "add_conv_layer: groups is 0",
    "add_conv_layer: output_shape has 1 numbers; number 1 is needed",
    "add_conv_layer: an array is too large",
    "add_active_layer: no layer computes active_type_id ACTIVE_SIN",
    "finish_bmcompiler: 1 layers were added after the last compile call",
    "add_const_binary_layer, call 3: layer 'const_binary_1' (TPU_CONST_BINARY): the name 'y' is taken by "
    "add_const_binary_layer, call 2: layer 'const_binary_0' (TPU_CONST_BINARY)",
    "__bmcompile: a net called 'net' is compiled already",
    "reference input 'y' is unknown",
    "compile_with_result_check: input_data is missing (NULL)",
    "add_const_binary_layer: this is not a p_bmcpl",
    "finish_bmcompiler: this is not a p_bmcpl",
    "finish_bmcompiler_data: there is no net",
)


def test_what_is_wrong_is_said_once_and_nothing_written(tmp_path: Path) -> None:
    done = run(build(tmp_path, PROGRAMS / "wrong.c"), tmp_path)
    assert done.stdout == "ok\n", done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("bmcompiler: ")]
    for message in MESSAGES:
        assert any(message in line for line in lines), f"{message!r} is not in\n{done.stderr}"
    told = [line for line in lines if "nothing is written" in line]
    assert "bmcompiler: finish_bmcompiler: nothing is written, because add_active_layer failed" in told
    assert not any("add_double" in line or "'z'" in line for line in lines)
    assert not (tmp_path / "wrong").exists()


# ---- the process ----


def test_a_compiler_that_hangs_is_ended(tmp_path: Path) -> None:
    done = run(build(tmp_path, PROGRAMS / "ended.c"), tmp_path)
    assert done.stdout == "ok\n", done.stdout + done.stderr
    assert "bmcompiler: the compiler gave no answer for 2 s and was stopped" in done.stderr
    assert "bmcompiler: the compiler is gone: its process has ended" in done.stderr


# ---- C++ ----


@pytest.mark.slow  # zig builds its C++ library first
def test_cpp(tmp_path: Path) -> None:
    done = run(build(tmp_path, PROGRAMS / "names.cpp", compiler=CPP), tmp_path)
    assert done.returncode == 0, done.stderr
    assert bmrt_test(tmp_path, "--context_dir", "cpp").count("cmp success") == 3


def test_what_is_generated_is_up_to_date() -> None:
    """What `python -m user_layers.bmcompiler.regenerate` writes is what is committed."""
    from user_layers.bmcompiler.regenerate import generated

    files = generated()
    in_c = {path for path in files if path.suffix in (".c", ".h")}
    assert set(next(iter(in_c)).parent.iterdir()) == in_c
    for path, text in files.items():
        assert path.read_text() == text, f"{path.name}: run python -m user_layers.bmcompiler.regenerate"
