"""Own Caffe layers in C++: libraries in their process, what they read and add, and how they fail."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from firmware_sim.errors import CompileError, UsageError
from tests.paths import SOURCES
from tests.support.layer_sources import compile_text
from user_layers.caffe import imp_child
from user_layers.caffe.imp import ImpLibraries
from user_layers.caffe.layer import CaffeLayer
from user_layers.graph import GraphBuilder
from user_layers.plugin import PLUGIN_PATH_VARIABLE, find_imp_libraries, find_plugins
from user_layers.toolchain.compilers import run_compiler, zig
from user_layers.workspace import IMP_LIBRARY, Workspace, machine_arch, sdk_dir

INCLUDE = f"-I{sdk_dir() / 'include'}"


def compiled(source: Path, target: Path, *flags: str) -> Path:
    words = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", INCLUDE, *flags]
    compile_text("c++", [*words, str(source), "-o", str(target)])
    return target


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(SOURCES / "caffe_layers" / "probe.cpp", tmp_path_factory.mktemp("imp") / IMP_LIBRARY)


@pytest.fixture(scope="module")
def libraries(library: Path) -> Iterator[ImpLibraries]:
    opened = ImpLibraries([library], limit=1.0)
    yield opened
    opened.close()


class Added:
    """What a graph is asked to add."""

    def __init__(self) -> None:
        self.consts: dict[str, Any] = {}
        self.layers: list[dict[str, Any]] = []

    def add_const(self, name: str, array: Any) -> None:
        self.consts[name] = array

    def add_tpu_layer(self, **arguments: Any) -> None:
        self.layers.append(arguments)


def layer(kind: str, fields: Mapping[str, Any], weights: Any = ()) -> CaffeLayer:
    return CaffeLayer(kind, "p", ["x"], ["y"], [(1, 3, 4, 5)], fields, weights, "net.prototxt:7")


def add(libraries: ImpLibraries, one: CaffeLayer) -> Added:
    graph = Added()
    (known,) = (known for known in libraries.types() if known.type == one.type)
    libraries.add(known, cast(GraphBuilder, graph), one)
    return graph


def refused(libraries: ImpLibraries, one: CaffeLayer) -> str:
    with pytest.raises(CompileError) as error:
        add(libraries, one)
    return str(error.value)


def test_types_and_places(libraries: ImpLibraries, library: Path) -> None:
    assert [(known.type, known.path) for known in libraries.types()] == [
        ("Probe", library.resolve()),
        ("Fail", library.resolve()),
    ]
    assert all("probe.cpp:" in known.place for known in libraries.types())
    assert ImpLibraries([]).types() == ()


def test_fields_of_all_kinds(libraries: ImpLibraries) -> None:
    param = {
        "top_k": 5,
        "kind": "MAX",
        "on": False,
        "scale": 2,
        "size": (3, -4),
        "label": "so \u00e4",
        "rule": ({"word": "a"}, {"word": "b"}),
        "ratio": 0.25,
    }
    weights = [np.ones((2, 3), np.float32), np.full((4,), 0.5, np.float32)]
    graph = add(libraries, layer("Probe", {"probe_param": param, "tag": ("u", "v")}, weights))
    first, second = graph.layers
    assert struct.unpack("<4if3i", first["layer_param"]) == (5, 0, 0, 2, 2.25, 3, -4, 0)
    assert first["inputs"] == ["x", "p/sums"] and first["output_names"] == ["p/so \u00e4/a/b+u+v"]
    assert first["op_type"] == 7 and first["output_shapes"] is None and first["output_dtypes"] is None
    assert graph.consts["p/sums"].tolist() == [6, 2]
    assert second == {
        "op_type": 8,
        "inputs": ["x"],
        "output_names": ["y"],
        "output_shapes": [[1, 3, 4, 5]],
        "output_dtypes": ["float32"],
        "layer_param": b"",
    }


def test_defaults(libraries: ImpLibraries) -> None:
    graph = add(libraries, layer("Probe", {"probe_param": {"top_k": 1}}))
    assert struct.unpack("<4if3i", graph.layers[0]["layer_param"]) == (1, 1, 1, 0, 0.5, 0, 0, 0)
    assert graph.layers[0]["output_names"] == ["p/none"] and not graph.consts


@pytest.mark.parametrize(
    ("param", "text"),
    [
        ({}, "probe_param.top_k is missing"),
        ({"top_k": 1.5}, "probe_param.top_k is 1.5; expected a whole number"),
        ({"top_k": 2**31}, "probe_param.top_k is 2147483648; expected from -2147483648 to 2147483647"),
        ({"top_k": (1, 2)}, "probe_param.top_k is there 2 times"),
        ({"top_k": 1, "kind": "MAXX"}, "which is none of MAX, MIN; did you mean MAX?"),
        ({"top_k": 1, "on": "maybe"}, "probe_param.on is 'maybe'; expected true or false"),
        ({"top_k": 1, "scale": "x"}, "probe_param.scale is 'x'; expected a number"),
        ({"top_k": 1, "size": (1, "b")}, "probe_param.size is 'b'; expected a whole number"),
        ({"top_k": 1, "label": 3}, "probe_param.label is 3; expected a text"),
        ({"top_k": 1, "rule": ({"word": "a"}, {"wrd": "b"})}, "probe_param.rule[1].word is missing"),
        ({"top_k": 1, "rule": {"word": "a", "more": 1}}, "probe_param.rule.more"),
        ({"top_k": 1, "scael": 2.0}, "did you mean scale?"),
        ({"top_k": 1, "refuse": 4, "tag": 1}, "refused: none 4"),
        ({"top_k": 1, "lie": 1}, "input 'x' is given as [2, 3, 4, 5]; it is [1, 3, 4, 5]"),
        ({"top_k": 1, "dtype": 6}, "input 'x' is given as int32"),
        ({"top_k": 1, "dtype": 99}, "99 is not a valid DType"),
    ],
)
def test_wrong_fields(libraries: ImpLibraries, param: Mapping[str, Any], text: str) -> None:
    told = refused(libraries, layer("Probe", {"probe_param": param}))
    assert told.startswith("net.prototxt:7: layer 'p' (Probe): ") and text in told


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("throw", "layer 'p' (Fail): thrown text"),
        ("throw int", "its add() throws what is no std::exception"),
        ("abort", "its add() crashed: SIGABRT"),
        ("null", "its add() crashed: SIGSEGV"),
        ("loop", "its add() ran for 1 s and was stopped"),
        ("exit", "its add() ended its process with exit code 3"),
        ("bottom", "it has no bottom 1, only 1"),
        ("blob", "it has no blob 0, only 0"),
        ("path", "'a..b' is not the path of a field"),
        ("index", "list[2].x: there is no list[2], only 0 of them"),
        ("missing", "mising is missing"),
        ("swallow", "how is 'swallow'; expected a whole number"),
        ("null param", "layer_param is null, or param_size is 8"),
        ("const", "add_const 'c': the shape [2, 0] has no elements"),
    ],
)
def test_failures_are_messages(libraries: ImpLibraries, how: str, text: str) -> None:
    told = refused(libraries, layer("Fail", {"how": how}))
    assert "net.prototxt:7: layer 'p' (Fail)" in told and text in told


def test_what_it_prints_comes_out_once_on_stderr(
    libraries: ImpLibraries, capsys: pytest.CaptureFixture[str]
) -> None:
    first = layer("Fail", {"how": "print"})
    add(libraries, first)
    assert capsys.readouterr() == ("", "printed for y\n")
    add(libraries, first.placed(first.bottoms, first.tops, first.shapes, again=True))
    assert capsys.readouterr() == ("", "")
    add(libraries, first)
    assert capsys.readouterr() == ("", "printed for y\n")


def test_weights_that_nobody_asks_for(libraries: ImpLibraries) -> None:
    told = refused(libraries, layer("Fail", {"how": "quietly"}, [np.zeros(3, np.float32)]))
    assert "does not read its 1 blob of weights" in told and "probe.cpp:" in told


@pytest.mark.slow
def test_with_zig(tmp_path: Path) -> None:
    """clang's warnings and its C++ library: compiled as a workspace without a system's compiler does it."""
    compiler, target = zig("c++", machine_arch()), tmp_path / IMP_LIBRARY
    words = ["-Wall", "-Wextra", "-Werror", INCLUDE, str(SOURCES / "caffe_layers" / "probe.cpp")]
    done = run_compiler(
        (*compiler.argv, *compiler.flags, *compiler.link_flags, *words, "-o", str(target)), limit=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    libraries = ImpLibraries([target])
    try:
        graph = add(libraries, layer("Probe", {"probe_param": {"top_k": 1}}))
        assert graph.layers[0]["output_names"] == ["p/none"]
        assert "thrown text" in refused(libraries, layer("Fail", {"how": "throw"}))
    finally:
        libraries.close()


def test_files_that_are_no_libraries(tmp_path: Path) -> None:
    def told(path: Path) -> str:
        with pytest.raises(UsageError) as error:
            ImpLibraries([path]).types()
        return str(error.value)

    (tmp_path / "a.so").write_text("text")
    assert "cannot be loaded" in told(tmp_path / "a.so")
    (tmp_path / "b.cpp").write_text("int other;\n")
    assert "no library of Caffe layers" in told(compiled(tmp_path / "b.cpp", tmp_path / "b.so"))
    (tmp_path / "c.cpp").write_text('extern "C" int imp_bmnetu_version() { return 9; }\n')
    text = told(compiled(tmp_path / "c.cpp", tmp_path / "c.so"))
    assert "c.so: made with version 9 of imp_bmnetu.h, this toolkit has version 1" in text
    assert "make install" in text


def test_two_libraries_have_layers_of_their_own(library: Path, tmp_path: Path) -> None:
    source = tmp_path / "other.cpp"
    source.write_text(
        '#include "imp_bmnetu.h"\nclass ProbeLayer : public imp_bmnetu::Layer {\n'
        '    void add() override { error("of the other library"); }\n};\n'
        'IMP_BMNETU_LAYER("Other", ProbeLayer)\n'
    )
    both = ImpLibraries([library, compiled(source, tmp_path / IMP_LIBRARY)])
    try:
        assert [known.type for known in both.types()] == ["Probe", "Fail", "Other"]
        assert "of the other library" in refused(both, layer("Other", {}))
        assert "top_k is missing" in refused(both, layer("Probe", {}))
    finally:
        both.close()


def test_the_structures_are_the_headers(tmp_path: Path) -> None:
    structures = {
        "tensor": imp_child.TensorC,
        "layer": imp_child.LayerC,
        "value": imp_child.ValueC,
        "call": imp_child.CallC,
        "host": imp_child.HostC,
    }
    lines = ['#include "imp_bmnetu.h"', "#include <cstddef>", "#include <cstdio>", "int main() {"]
    expected = []
    for name, structure in structures.items():
        lines.append(f'printf("%zu\\n", sizeof(imp_bmnetu_{name}));')
        expected.append(ctypes.sizeof(structure))
        for field in structure._fields_:
            lines.append(f'printf("%zu\\n", offsetof(imp_bmnetu_{name}, {field[0]}));')
            expected.append(getattr(structure, field[0]).offset)
    kinds = ("INT", "FLOAT", "BOOL", "STRING", "ENUM")
    for name in ("VERSION", "MAX_DIMS", *kinds):
        lines.append(f'printf("%d\\n", static_cast<int>(IMP_BMNETU_{name}));')
        expected.append(getattr(imp_child, name))
    (tmp_path / "m.cpp").write_text("\n".join([*lines, "return 0; }"]) + "\n")
    compile_text("c++", ["-std=c++17", INCLUDE, str(tmp_path / "m.cpp"), "-o", str(tmp_path / "m")])
    run = subprocess.run([tmp_path / "m"], capture_output=True, text=True, check=True, timeout=60)
    assert [int(x) for x in run.stdout.split()] == expected


def test_where_libraries_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PLUGIN_PATH_VARIABLE, raising=False)
    ws = Workspace(tmp_path / "ws")
    assert find_imp_libraries(None) == find_imp_libraries(ws) == []
    ws.imp_library.parent.mkdir(parents=True)
    ws.imp_library.write_bytes(b"one")
    assert find_imp_libraries(ws) == [ws.imp_library] and find_imp_libraries(None) == []

    other, copy = tmp_path / "other", tmp_path / "copy"
    for folder, data in ((other, b"two"), (copy, b"one")):
        folder.mkdir()
        (folder / IMP_LIBRARY).write_bytes(data)
    plugin = other / "libbmplugin_x.so"
    plugin.write_bytes(b"bmplugin_abi_version")
    monkeypatch.setenv(PLUGIN_PATH_VARIABLE, f"{plugin}:{copy / IMP_LIBRARY}:{ws.imp_library.parent}:")
    assert find_imp_libraries(ws) == [other / IMP_LIBRARY, copy / IMP_LIBRARY]
    assert find_plugins(ws) == [plugin]
