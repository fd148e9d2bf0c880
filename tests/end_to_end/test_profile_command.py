"""`tpulayer profile`: kernels, bmodels, models, layers' tests; its files, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from firmware_sim.chip import CLOCK_HZ
from firmware_sim.device.trace import traced
from tests.support.bmodel_samples import static_net
from tests.support.onnx_models import make_model
from tests.support.workspaces import built_demo, outside_of_workspaces
from tpulayer import BINARY_ADD, BINARY_MUL, Graph
from user_layers.bmodel import write
from user_layers.cli.main import run
from user_layers.profile.run import KernelWords, kernel, profiled
from user_layers.profile.trace import profile_of

KERNEL = """
#include "okk.h"
#include "size.h"
typedef struct { unsigned long long x, y; } __attribute__((packed)) args_t;

static void part(unsigned long long y, unsigned long long x) {
    const dim4 shape = {1, 64, 1, SIZE};
    okk_gdma_32bit_cpy_S2L(0, x, &shape, NULL, NULL);
    okk_bdc_exp(0x10000, 0, 0x20000, &shape);
    okk_gdma_32bit_cpy_L2S(y, 0x10000, &shape, NULL, NULL);
}

void slow(const void *args) {
    const args_t *p = args;
    okk_initialize();
    for (int i = 0; i < 3; i++) part(p->y + i * 256 * SIZE, p->x + i * 256 * SIZE);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(slow)
"""


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Outside of any workspace: slow.c, x.npy, and size.h in a folder of its own; the current folder."""
    found = tmp_path_factory.mktemp("profile")
    with outside_of_workspaces(found):
        (found / "slow.c").write_text(KERNEL)
        (found / "include").mkdir()
        (found / "include" / "size.h").write_text("#define SIZE 1024\n")
        np.save(found / "x.npy", np.linspace(-3, 3, 3 * 65536, dtype=np.float32))
        yield found


WORDS = ["--kernel", "slow.c", "--name", "slow", "--include", "include", "--in", "x=x.npy"]
WORDS += ["--out", "y=3x65536:float32:y.npy"]


def answer(words: list[str], capfd: pytest.CaptureFixture[str]) -> Any:
    assert run(["profile", *words, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def test_a_kernel(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", *WORDS]) == 0
    out = capfd.readouterr().out
    assert out.startswith("profile of kernel slow\n") and "1 request, 1 batch, " in out
    line = KERNEL.splitlines().index("    okk_bdc_exp(0x10000, 0, 0x20000, &shape);") + 1
    assert f"slow.c:{line} in part" in out and f"{line:5} |     okk_bdc_exp" in out
    assert np.load(folder / "y.npy").shape == (3, 65536)


def test_json_is_what_the_device_counted(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run_kernel", *WORDS, "--json"]) == 0
    counted = json.loads(capfd.readouterr().out)["cycles"]
    found = answer([*WORDS, "--commands"], capfd)
    assert found["cycles"] == pytest.approx(counted, abs=0.1) and found["chip"]["clock_hz"] == CLOCK_HZ
    assert len(found["columns"]["start"]) == sum(found["total"]["commands"].values())
    python = kernel(
        KernelWords([Path("slow.c")], "slow", (), ("x=x.npy",), ("y=3x65536",), None, (Path("include"),))
    )
    assert python.cycles == counted


def test_page_and_trace(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", *WORDS, "--html", "sub/k.html", "--no-annotate", "--top", "2"]) == 0
    assert (folder / "sub" / "k.html").read_text().startswith("<!DOCTYPE html>")
    out = capfd.readouterr().out
    assert " | " not in out and "more row" in out
    pytest.importorskip("perfetto", reason="the extra `profile` is not installed")
    assert run(["profile", *WORDS, "--perfetto", "k.pftrace"]) == 0
    assert (folder / "k.pftrace").stat().st_size > 1000


def test_the_difference_of_two(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = answer(WORDS, capfd)
    (folder / "before.json").write_text(json.dumps(before))
    text = KERNEL.replace(
        "    okk_gdma_32bit_cpy_L2S",
        "    okk_bdc_mul_C(0x10000, 0x10000, 2, &shape, NULL, NULL);\n    okk_gdma_32bit_cpy_L2S",
    )
    (folder / "other").mkdir()
    (folder / "other" / "slow.c").write_text(text)
    after = answer(["--kernel", "other/slow.c", *WORDS[2:]], capfd)
    (folder / "after.json").write_text(json.dumps(after))
    assert run(["profile", "--diff", "before.json", "after.json"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("before  kernel slow: ") and "new     slow.c in part: okk_bdc_mul_C(" in out
    assert run(["profile", "--diff", "before.json", "after.json", "--json"]) == 0
    diff = json.loads(capfd.readouterr().out)
    assert diff["after"]["cycles"] == after["cycles"] > diff["before"]["cycles"] == before["cycles"]


def test_a_bmodel_and_a_folder(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = folder / "net" / "compilation.bmodel"
    path.parent.mkdir()
    path.write_bytes(write([replace(static_net(2, 3, name="right"), layers=())]))
    both = answer(["net"], capfd)
    assert both["what"] == "net" and len(both["requests"]) == 2  # a stage each
    one = answer([str(path), "--stage", "1"], capfd)
    assert len(one["requests"]) == 1 and sum(one["total"]["commands"].values()) == 2


def test_a_models_file(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Sigmoid", ["a"], ["y"], name="second"),
    ]
    onnx.save(make_model(nodes, {"x": (1, 64, 40, 40)}, ["y"]), str(folder / "m.onnx"))
    found = answer(["m.onnx"], capfd)
    assert {one["name"] for one in found["nodes"]} >= {"first", "second"}
    assert sum(one["time"] for one in found["nodes"]) == pytest.approx(found["total"]["time"], abs=1)
    dynamic = answer(["m.onnx", "--dynamic", "--opt", "0"], capfd)
    assert {one["name"] for one in dynamic["nodes"]} >= {"first", "second"}
    assert dynamic["engines"]["gdma"]["stall_cycles"]["controller"] > 0


def test_layers_tests(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    ws = built_demo(tmp_path_factory, tmp_path / "demo")
    monkeypatch.chdir(ws.root)
    found = answer(["--test", "double"], capfd)
    assert {one["what"].rpartition(": ")[2] for one in found["requests"]} == {
        "opt 0",
        "opt 1",
        "opt 2",
        "dynamic",
    }
    assert any("bm_device_double.c" in one["file"] for one in found["lines"])
    assert {"TPU_DOUBLE"} <= {one["name"] for one in found["layers"]}
    assert run(["profile", "--test", "doubel"]) == 2
    assert "double" in capfd.readouterr().err
    golden = ws.tests_dir / "test_double.py"
    golden.write_text(
        "from user_layers.testing import Case\n\n"
        "def golden(inputs, param):\n    return [inputs[0]]\n\n"
        'CASES = [Case((1, 3, 2, 2), modes=("opt 0",))]\n'
    )
    assert run(["profile", "--test", "double"]) == 1
    out, err = capfd.readouterr()
    assert "DIFFERS in 12 of 12" in err and "profile of the tests" in out


def test_a_net_that_runs_on_the_host_alone(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    node = onnx.helper.make_node("Tan", ["x"], ["y"])
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "host", values[:1], values[1:])
    opset = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), str(folder / "host.onnx"))
    assert run(["profile", "host.onnx"]) == 2
    assert "nothing ran on a device" in capfd.readouterr().err


def test_what_another_command_runs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "--json", "--", "run_kernel", *WORDS]) == 0
    out, err = capfd.readouterr()
    found = json.loads(out)
    assert found["requests"][0]["what"] == "kernel slow" and "us at 550 MHz" in err
    assert run(["profile", "--json", "--", "run_kernel", "--kernel", "none.c", "--name", "slow"]) == 2
    out, err = capfd.readouterr()
    assert json.loads(out)["requests"] == [] and "run_kernel ended with exit code 2" in err
    (folder / "own.py").write_text(
        "import sys, numpy as np\nfrom tpulayer import Output, run_kernel\n"
        "x = np.zeros(3 * 65536, np.float32)\n"
        "run_kernel('slow.c', 'slow', {'x': x}, {'y': Output(x.shape)}, includes=['include'])\n"
        "sys.exit(len(sys.argv))\n"
    )
    assert run(["profile", "--", "own.py", "more"]) == 2
    assert "profile of own.py more\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "what is to be profiled?"),
        (["net.bmodel", "--test", "double"], "only one thing at a time"),
        (["--kernel", "slow.c"], "--kernel without --name"),
        (["--", "profile", "x"], "profile profile"),
        (["--", "none.py"], "there is no file none.py"),
        (["a.bmodel", "b.bmodel"], "only one thing at a time"),
        ([*WORDS, "--commands"], "--commands without --json"),
        ([*WORDS, "--stage", "0"], "--stage is for a net, which is not"),
        (["net.bmodel", "--shapes", "x=1"], "--shapes is for a model's file, which is not"),
        (["--diff", "a", "b", "--name", "slow"], "--name is for a kernel, which is not"),
        (["--diff", "none.json", "none.json"], "none.json cannot be read"),
        (["--diff", "x.npy", "x.npy"], "x.npy is no saved profile"),
        ([*WORDS, "--html", "slow.c/a.html"], "--html slow.c/a.html cannot be written"),
    ],
)
def test_what_is_refused(words: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", *words]) == 2
    err = capfd.readouterr().err
    assert err.startswith(f"error: {message}")


def test_a_file_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "none.bmodel"]) != 0
    assert "none.bmodel" in capfd.readouterr().err


@pytest.mark.parametrize("dynamic", [False, True])
def test_nets_take_what_the_device_counted(folder: Path, dynamic: bool) -> None:
    x = np.ones((2, 70, 60, 50), np.float32)
    with Graph("BM1684", name="net") as graph:
        graph.add_input("x", x.shape)
        graph.add_const_binary_layer("x", 2.0, "a", BINARY_MUL, name="double")
        graph.add_const_binary_layer("a", 1.0, "y", BINARY_ADD, name="more")
        graph.compile(dynamic=dynamic, opt=0)
        with traced() as trace:
            for _ in range(2):
                graph.run({"x": x})
    profile = profile_of(trace.requests)
    ran = [one for one in trace.requests if len(one)]
    assert len(profile.requests) == len(ran) >= 2
    for one, request in zip(profile.requests, ran, strict=True):
        assert one.cycles == pytest.approx(request.cycles, rel=1e-12)
    assert {one.node for one in profile.sites} >= {"double", "more"}


def test_whatever_runs_in_a_block() -> None:
    from firmware_sim.errors import UsageError
    from user_layers.kernels.run_kernel import Output, run_kernel

    x = np.zeros(3 * 65536, np.float32)
    with profiled("mine") as found:
        for _ in range(2):
            run_kernel("slow.c", "slow", {"x": x}, {"y": Output(x.shape)}, includes=["include"])
        with pytest.raises(UsageError, match="complete when"):
            _ = found.profile
    assert [one.what for one in found.profile.requests] == ["kernel slow"] * 2
    assert found.profile.what == "mine"
