"""Packs on the vendor's own libraries over its functional model: the same program, no card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from tests.oracle.client import RUNTIME, Unavailable, fetch
from tests.support.card import records, run_sh, with_system_compiler
from tests.support.workspaces import built_workspace
from tests.vendor_models import CHAIN, write
from tpulayer import BINARY_MUL, Graph
from user_layers.card.explain import as_text, explain
from user_layers.card.pack import pack
from user_layers.card.programs import CALLS
from user_layers.card.result import read_result
from user_layers.product import compile_stages
from user_layers.toolkit import Toolkit

MODEL = "libcmodel_bm1684.so"
STEP_LIMIT = ("--step-limit", "300", "--repeat", "2")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By the names that the vendor's packages install; the runtime loads the model as libcmodel.so."""
    try:
        cache = fetch((*RUNTIME, MODEL))
    except Unavailable as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("vendor")
    for name in RUNTIME:
        (folder / name).symlink_to(cache / name)
    (folder / "libcmodel.so").symlink_to(cache / MODEL)
    return folder


def test_the_vendors_libraries_have_what_is_called(libraries: Path) -> None:
    for library, file in zip(("bmlib", "bmrt"), RUNTIME, strict=True):
        with (libraries / file).open("rb") as stream:
            symbols = ELFFile(stream).get_section_by_name(".dynsym").iter_symbols()
            exported = {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"}
        assert set(CALLS[library]) <= exported


def checked(net: Path, kit: Toolkit, libraries: Path) -> Path:
    """The pack of a compiled folder, after a run in which all bits are equal."""
    out = net.with_name(f"{net.name}_pack")
    with pytest.MonkeyPatch.context() as patch:
        with_system_compiler(patch)
        pack(net, out, machines=["x86_64"], toolkit=kit)
    run_sh(out, *STEP_LIMIT, libraries=libraries)
    found = explain(read_result(out))
    assert found.verdict.startswith("equal: all bits of "), as_text(found)
    assert records(out / "result", "library")[1]["path"].endswith("libbmrt.so.1.0")
    return out


def test_layers_of_the_user(
    libraries: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The static nets run; a dynamic one is left out, for the vendor's firmware does not know its program."""
    with Toolkit(built_workspace(tmp_path_factory)) as kit:
        for dynamic in (False, True):
            graph = Graph("BM1684", name="custom", toolkit=kit)
            graph.add_input("x", (64, 20, 20))
            graph.add_tpu_layer("TPU_CROP", ["x"], {"before": (8, 4, 2), "after": (8, 4, 6)}, ["cropped"])
            graph.add_expand_dims_layer("cropped", 0, "expanded")
            graph.add_const_binary_layer("expanded", 1.5, "scaled", BINARY_MUL)
            graph.add_tpu_layer("TPU_DOUBLE", ["scaled"], None, ["y"])
            net = tmp_path / f"net{dynamic}"
            graph.compile(dynamic, directory=net, layers=True)
            out = checked(net, kit, libraries)
            assert len(read_result(out).runs) == (5 if dynamic else 6)
            assert bool(read_result(out).skipped) == dynamic


def test_a_chain_of_convolutions(
    libraries: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Toolkit(built_workspace(tmp_path_factory)) as kit:
        graph = Graph.from_onnx(write(CHAIN, tmp_path, 1)[0], toolkit=kit)
        graph.compile(directory=tmp_path / "chain", layers=True)
        checked(tmp_path / "chain", kit, libraries)


def test_stages_and_types(libraries: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with Toolkit(built_workspace(tmp_path_factory)) as kit:
        graphs = []
        for rows in (3, 5):
            graph = Graph("BM1684", name="staged", toolkit=kit)
            graph.add_input("x", (rows, 7), np.int8)
            graph.add_tpu_layer("TPU_CAST", ["x"], {"to": 0}, ["y"])
            graphs.append(graph)
        compile_stages(graphs, directory=tmp_path / "staged")
        out = checked(tmp_path / "staged", kit, libraries)
        assert [run.title for run in read_result(out).runs.values()] == ["staged, stage 0", "staged, stage 1"]
