"""`tpulayer pack` and `compare` with this project's own libraries: right nets, and a wrong one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import ModelError, UsageError
from tests.support.card import run_sh, with_system_compiler
from tests.support.workspaces import built_workspace, layers_toolkit, tpulayer
from tpulayer import BINARY_MUL, Graph
from user_layers.bmodel.read import read as read_bmodel
from user_layers.card.explain import as_json, as_text, explain
from user_layers.card.pack import pack, write_sums
from user_layers.card.result import read_result
from user_layers.layer_nets import mark_layers
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.toolchain.compilers import choose
from user_layers.toolchain.host_flags import host_files
from user_layers.toolkit import Toolkit
from user_layers.workspace import Workspace

MACHINE = os.uname().machine
pytestmark = pytest.mark.skipif(MACHINE not in ("x86_64", "aarch64"), reason=f"no programs for {MACHINE}")


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return built_workspace(tmp_path_factory)


@pytest.fixture(scope="module")
def kit(ws: Workspace) -> Iterator[Toolkit]:
    with Toolkit(ws) as toolkit, pytest.MonkeyPatch.context() as patch:
        with_system_compiler(patch)
        yield toolkit


def compile_net(folder: Path, kit: Toolkit, *, dynamic: bool = False, layers: bool = True) -> Path:
    """x -> double (a user's layer) -> y, x 1.5 -> z; and a constant added to it."""
    graph = Graph("BM1684", name="net", toolkit=kit)
    graph.add_input("x", (4, 70, 5, 6))
    graph.add_const("half", np.full((1, 70, 1, 1), 0.5, np.float32))
    graph.add_tpu_layer("TPU_DOUBLE", ["x"], None, ["y"])
    graph.add_const_binary_layer("y", 1.5, "z", BINARY_MUL)
    graph.add_tpu_layer("TPU_BINARY", ["z", "half"], {}, ["w"], name="sum")
    graph.compile(dynamic, directory=folder, layers=layers)
    return folder


@pytest.fixture(scope="module")
def net(kit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The net, static, with its layers; for reading only."""
    return compile_net(tmp_path_factory.mktemp("compiled") / "net", kit)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_net_is_equal(dynamic: bool, ws: Workspace, kit: Toolkit, net: Path, tmp_path: Path) -> None:
    net = compile_net(tmp_path / "net", kit, dynamic=True) if dynamic else net
    said = pack(net, tmp_path / "out", machines=[MACHINE], toolkit=kit)
    assert said[0].startswith(f"{tmp_path / 'out'}: {6 if dynamic else 5} runs, 3 of them of single layers")
    libraries = ws.install_dir / "lib"
    if dynamic:
        assert "no firmware but the pack's" in said[1]
        run_sh(tmp_path / "out", libraries=libraries, TPULAYER_WORKSPACE=str(ws.root))
        assert "dynamic nets were left out" in explain(read_result(tmp_path / "out")).verdict
    words = ["--load-firmware"] if dynamic else []
    run_sh(tmp_path / "out", *words, libraries=libraries, TPULAYER_WORKSPACE=str(ws.root))
    found = explain(read_result(tmp_path / "out"))
    assert found.good, as_text(found)
    titles = [run.title for run in read_result(tmp_path / "out").runs.values()]
    assert titles[:4] == [
        "000 double_0 (TPU_DOUBLE)",
        "001 const_binary_0 (TPU_CONST_BINARY)",
        "002 sum (TPU_BINARY)",
        "whole net",
    ]
    assert titles[4:] == (["net", "net, smaller inputs"] if dynamic else ["net"])


def test_the_pack(ws: Workspace, kit: Toolkit, net: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    pack(net, out, machines=[MACHINE], toolkit=kit)
    files = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    sums = dict(line.split("  ")[::-1] for line in (out / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == files - {"SHA256SUMS"}
    for name, known in sums.items():
        assert known == hashlib.sha256((out / name).read_bytes()).hexdigest()
    assert (out / "models/1.bmodel").read_bytes() == (net / "compilation.bmodel").read_bytes()
    for name in ("firmware_tcm.bin", "firmware_ddr.bin"):
        assert (out / "firmware" / name).read_bytes() == (ws.firmware.parent / name).read_bytes()
    assert os.access(out / "run.sh", os.X_OK) and os.access(out / "bin" / MACHINE / "check", os.X_OK)
    pack(net, tmp_path / "again", machines=[MACHINE], toolkit=kit)
    again = {
        str(p.relative_to(out)): (tmp_path / "again" / p.relative_to(out)).read_bytes()
        for p in out.rglob("*")
        if p.is_file()
    }
    assert again == {name: (out / name).read_bytes() for name in again}
    assert (out.stat().st_mode & 0o777) == 0o777 & ~_umask()


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


@pytest.mark.slow
def test_the_programs_build_from_the_pack(ws: Workspace, kit: Toolkit, net: Path, tmp_path: Path) -> None:
    """With the headers beside them and any compiler, as someone without our programs does."""
    pack(net, tmp_path / "out", machines=[MACHINE], toolkit=kit)
    built = tmp_path / "out" / "bin" / MACHINE / "check"
    built.unlink()
    sources = sorted(map(str, (tmp_path / "out" / "sources").glob("check*.c")))
    library = ws.install_dir / "lib"
    words = [
        "-std=gnu11",
        f"-I{tmp_path / 'out' / 'sources' / 'include'}",
        *sources,
        f"-L{library}",
        "-lbmrt",
        "-lbmlib",
    ]
    subprocess.run([*choose().c.argv, *words, "-ldl", "-lm", "-o", str(built)], check=True, timeout=120)
    run_sh(tmp_path / "out", libraries=library, TPULAYER_WORKSPACE=str(ws.root))
    assert explain(read_result(tmp_path / "out")).good


def test_a_wrong_layer_is_named(ws: Workspace, kit: Toolkit, net: Path, tmp_path: Path) -> None:
    """The card has another result than the emulator: here, because the data say so."""
    out = tmp_path / "out"
    pack(net, out, machines=[MACHINE], toolkit=kit)
    lines = (out / "plan.txt").read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("run\tlayer\t002 sum"))
    word = next(line for line in lines[at:] if line.startswith("out\t")).split("\t")
    with (out / "data.bin").open("r+b") as file:
        for n, c in ((0, 3), (2, 67)):  # both in lane 3
            file.seek(int(word[7]) + 4 * ((n * 70 + c) * 30 + 11))
            file.write(np.float32(1e3).tobytes())
    write_sums(out)
    run_sh(out, libraries=ws.install_dir / "lib", code=1, TPULAYER_WORKSPACE=str(ws.root))
    done = tpulayer("compare", str(out), cwd=tmp_path, code=1)
    assert "the first layer that differs: 002 sum (TPU_BINARY)" in done.stdout
    assert "2 of 8400 elements differ" in done.stdout and "lanes: 3 of 64" in done.stdout
    assert "at [0, 3, 1, 5]: expected 1000 (0x447a0000)" in done.stdout
    assert "n: 2 of 4 (0, 2); c: 2 of 70 (3, 67); h: 1 of 5 (1); w: 1 of 6 (5)" in done.stdout
    found = json.loads(as_json(explain(read_result(out / "result"))))
    assert [d["run"] for d in found["differences"]] == ["002 sum (TPU_BINARY)", "whole net", "net"]
    assert found["differences"][0]["outputs"][0]["lanes"] == [3]
    (tmp_path / "other").mkdir()
    (out / "result" / "result.json").rename(tmp_path / "other" / "result.json")
    assert as_text(explain(read_result(tmp_path / "other"))) + "\n" == done.stdout


def test_a_device_that_computes_otherwise(ws: Workspace, kit: Toolkit, net: Path, tmp_path: Path) -> None:
    """As if its multiplication were less exact: the factor in the layers' commands is the next number."""
    out = tmp_path / "out"
    pack(net, out, machines=[MACHINE], toolkit=kit)
    model = out / "models" / "0.bmodel"
    factor, other = np.float32(1.5), np.nextafter(np.float32(1.5), np.float32(2))
    data = model.read_bytes()
    assert data.count(factor.tobytes()) in (2, 4)  # in the layer, and in the whole net
    model.write_bytes(data.replace(factor.tobytes(), other.tobytes()))
    done = run_sh(out, libraries=ws.install_dir / "lib", code=3, TPULAYER_WORKSPACE=str(ws.root))
    assert f"{model} is not as it was packed; the pack is damaged: copy it again" in done.stderr
    write_sums(out)
    run_sh(out, libraries=ws.install_dir / "lib", code=1, TPULAYER_WORKSPACE=str(ws.root))
    found = explain(read_result(out))
    assert found.verdict == "the first layer that differs: 001 const_binary_0 (TPU_CONST_BINARY)"
    assert [difference["run"] for difference in found.differences][1:] == ["whole net"]
    assert re.search("how: rounding, at most [12] ulp", as_text(found))


def test_nets_without_layers_and_older_ones(kit: Toolkit, tmp_path: Path) -> None:
    net = compile_net(tmp_path / "net", kit)
    compile_net(net, kit, layers=False, dynamic=True)
    said = pack(net, tmp_path / "out", machines=[MACHINE], toolkit=kit)
    assert "0 of them of single layers" in said[0]
    assert any("was made with another compilation.bmodel" in line for line in said)
    mark_layers(net)
    assert "3 of them" in pack(net, tmp_path / "out2", machines=[MACHINE], toolkit=kit)[0]


def test_a_bmodel_file_and_other_reference_data(kit: Toolkit, tmp_path: Path) -> None:
    net = compile_net(tmp_path / "net", kit, layers=False)
    data = bytearray((net / "output_ref_data.dat").read_bytes())
    data[5] ^= 1
    (net / "output_ref_data.dat").write_bytes(data)
    said = pack(net, tmp_path / "out", machines=[MACHINE], toolkit=kit)
    assert any("has other bits than the emulator" in line for line in said)
    (net / "compilation.bmodel").rename(tmp_path / "alone.bmodel")
    said = pack(tmp_path / "alone.bmodel", tmp_path / "alone", machines=[MACHINE], toolkit=kit)
    assert any("the inputs are random numbers" in line for line in said)


def test_targets(kit: Toolkit, tmp_path: Path) -> None:
    net = compile_net(tmp_path / "net", kit, layers=False)
    out = tmp_path / "deep" / "out"
    pack(net, out, machines=[MACHINE], toolkit=kit)
    (out / "result").mkdir()
    with pytest.raises(UsageError, match="is a pack already"):
        pack(net, out, machines=[MACHINE], toolkit=kit)
    assert (out / "result").exists()
    pack(net, out, machines=[MACHINE], toolkit=kit, force=True)
    assert not (out / "result").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    for path, said in (
        (tmp_path / "mine", "is not empty, and no pack"),
        (tmp_path / "mine" / "file", "is not a folder"),
    ):
        with pytest.raises(UsageError, match=said):
            pack(net, path, machines=[MACHINE], toolkit=kit, force=True)
    with pytest.raises(UsageError, match="--machine mips"):
        pack(net, tmp_path / "new", machines=["mips"], toolkit=kit)
    with pytest.raises(UsageError, match="is a model, not a compiled net"):
        pack(tmp_path / "x.onnx", tmp_path / "new", machines=[MACHINE], toolkit=kit)
    with pytest.raises(UsageError, match="is not there"):
        pack(tmp_path / "absent", tmp_path / "new", machines=[MACHINE], toolkit=kit)
    (net / "compilation.bmodel").write_bytes(b"nonsense")
    with pytest.raises(ModelError):
        pack(net, tmp_path / "new", machines=[MACHINE], toolkit=kit)
    assert not (tmp_path / "new").exists() and len(list((tmp_path / "deep").iterdir())) == 1


def test_odd_names(ws: Workspace, kit: Toolkit, tmp_path: Path) -> None:
    name = '网络 %s é"\\'
    graph = Graph("BM1684", name=name, toolkit=kit)
    graph.add_input("in %d", (1, 1))
    graph.add_const_binary_layer("in %d", 1.5, "$y", BINARY_MUL)
    graph.compile(directory=tmp_path / "net")
    pack(tmp_path / "net", tmp_path / "out", machines=[MACHINE], toolkit=kit)
    assert f"  {name}: the net as it was compiled; inputs in %d [1, 1]" in (
        tmp_path / "out/README.txt"
    ).read_text("utf-8")
    run_sh(tmp_path / "out", libraries=ws.install_dir / "lib", TPULAYER_WORKSPACE=str(ws.root))
    assert (
        name
        in json.loads((tmp_path / "out/result/result.json").read_bytes().decode("utf-8"))["records"][1][
            "title"
        ]
    )
    (run,) = read_result(tmp_path / "out").runs.values()
    assert run.good and run.title == name and run.outputs[0].name == "$y"


def test_what_fails_leaves_no_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class Own:
        device = None

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr("user_layers.card.pack.Toolkit", Own)
    with pytest.raises(UsageError, match="absent"):
        pack(tmp_path / "absent", tmp_path / "out")
    assert len(closed) == 1 and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_built_in_part_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of any workspace: images without user layers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TPULAYER_WORKSPACE", raising=False)
    with_system_compiler(monkeypatch)
    with Toolkit() as kit:
        assert kit.workspace is None
        graph = Graph("BM1684", name="net", toolkit=kit)
        graph.add_input("x", (2, 3))
        graph.add_const_binary_layer("x", 1.5, "y", BINARY_MUL)
        graph.compile(directory="net", layers=True)
        pack(Path("net"), Path("out"), machines=[MACHINE], toolkit=kit)
    built = builtin_artifacts().directory
    assert (tmp_path / "out/firmware/firmware_tcm.bin").read_bytes() == (
        built / "firmware_tcm.bin"
    ).read_bytes()
    run_sh(tmp_path / "out", libraries=host_files(None).libraries)
    assert explain(read_result(tmp_path / "out")).verdict == "equal: all bits of 3 runs"


@pytest.fixture(scope="module")
def varying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    with (
        layers_toolkit(tmp_path_factory, "varying_layers") as toolkit,
        pytest.MonkeyPatch.context() as patch,
    ):
        with_system_compiler(patch)
        yield toolkit


@pytest.mark.parametrize("kept", [0, 7])
def test_a_static_net_with_a_dynamic_part_needs_the_firmware_of_the_pack(
    kept: int, varying: Toolkit, tmp_path: Path
) -> None:
    """Its output's rows are known only when it has run; there is memory for the most."""
    graph = Graph(name="net", toolkit=varying)
    graph.add_input("x", (30, 5))
    graph.add_const_binary_layer("x", 2.0, "doubled", BINARY_MUL)
    graph.add_tpu_layer("TPU_NONZERO", ["doubled"], {"row_for_none": 1}, ["rows"])
    x = np.zeros((30, 5), np.float32)
    x[:kept] = 3
    graph.compile(directory=tmp_path / "net", ref_inputs={"x": x})
    assert not read_bmodel(tmp_path / "net" / "compilation.bmodel").nets[0].is_dynamic
    said = pack(tmp_path / "net", tmp_path / "out", machines=[MACHINE], toolkit=varying)
    assert any("no firmware but the pack's" in line for line in said)
    assert "--load-firmware" in (tmp_path / "out" / "README.txt").read_text()
    plan = [line.split("\t") for line in (tmp_path / "out" / "plan.txt").read_text().splitlines()]
    assert [words[2] for words in plan if words[0] == "model"] == ["1"]
    (output,) = (words for words in plan if words[0] == "out")
    assert output[3] == f"{max(kept, 1)}x5" and output[5] == str(30 * 5 * 4)
    ws = varying.workspace
    assert ws is not None
    libraries, root = ws.install_dir / "lib", str(ws.root)
    run_sh(tmp_path / "out", libraries=libraries, TPULAYER_WORKSPACE=root)
    assert read_result(tmp_path / "out").skipped == {0: "models/0.bmodel"}
    run_sh(tmp_path / "out", "--load-firmware", libraries=libraries, TPULAYER_WORKSPACE=root)
    found = explain(read_result(tmp_path / "out"))
    assert found.good, as_text(found)
