"""bmnetu as the vendor's users call it: its options and spellings, what it writes, and that this runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.caffe_nets import input_text, layer_text
from tpulayer.caffe import CaffeLayer, caffe_layer
from user_layers.api import Graph
from user_layers.bmodel import read as read_bmodel
from user_layers.caffe import own
from user_layers.caffe.weights import write_caffemodel
from user_layers.cli.adapter import with_two_dashes
from user_layers.cli.main import run
from user_layers.toolkit import Toolkit

pytest.importorskip("onnxruntime", reason="needs onnxruntime")
CONV = {"num_output": 4, "kernel_size": 3, "pad": 1}
NET = (
    'name: "little"\n'
    + input_text("data", (2, 3, 8, 8))
    + layer_text("Convolution", "conv", ["data"], ["conv"], CONV)
    + layer_text("ReLU", "relu", ["conv"], ["conv"], {})
    + layer_text("Pooling", "pool", ["conv"], ["pool"], {"kernel_size": 2, "stride": 2})
)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A net in an otherwise empty folder."""
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    rng = np.random.default_rng(0)
    blobs = [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 3, 3, 3), (4,))]
    write_caffemodel(Path("net.caffemodel"), "little", [("conv", "Convolution", blobs)])


@pytest.fixture
def own_type(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A type of layers of one's own: sums of channels, by a layer of the toolkit."""
    monkeypatch.setattr(own, "_registered", {})
    token = own._TARGET.set(own._registered)

    @caffe_layer("OwnScale")
    def scaled(graph: Any, layer: CaffeLayer) -> None:
        ones = graph.add_const(f"{layer.name}/scale", np.full(4, layer.number("by"), np.float32))
        zeros = graph.add_const(f"{layer.name}/shift", np.zeros(4, np.float32))
        graph.add_tpu_layer(
            "TPU_SCALE_SHIFT", [*layer.bottoms, ones, zeros], {"axis": 1, "relu": 0}, layer.tops
        )

    yield "OwnScale"
    own._TARGET.reset(token)


def bmnetu(*words: str) -> int:
    return run(["bmnetu", *words])


def test_what_it_writes_runs(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--model",
        "net.prototxt",
        "--weight",
        "net.caffemodel",
        "--target=BM1684",
        "--net_name",
        "mine",
        "--outdir",
        "out",
    ]
    assert bmnetu(*words) == 0
    assert "pool equals onnxruntime's within" in capsys.readouterr().out
    (net,) = read_bmodel(Path("out/compilation.bmodel")).nets
    assert net.name == "mine" and [t.name for t in net.stages[0].outputs] == ["pool"]
    assert Path("out/input_ref_data.dat").stat().st_size == 4 * 2 * 3 * 8 * 8
    assert Path("out/output_ref_data.dat").stat().st_size == 4 * 2 * 4 * 4 * 4
    assert run(["bmrt_test", "--context_dir", "out"]) == 0
    assert run(["bmrt_test", "--bmodel", "out/compilation.bmodel"]) == 0


def test_in_8_bit_integers(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.random.default_rng(1).standard_normal((12, 3, 8, 8)).astype(np.float32))
    net = ["net.prototxt", "--weight", "net.caffemodel"]
    assert run(["calibrate", *net, "--data", "x.npy", "-o", "table.json"]) == 0
    words = ["--model", *net, "--prec", "INT8", "--table", "table.json", "--outdir", "out"]
    assert bmnetu(*words) == 0
    told = capsys.readouterr().out
    assert "8 bits: 2 of 2 layers" in told
    decibels = re.search(r"([\d.]+) dB", told)
    assert decibels is not None and float(decibels[1]) > 25, told
    assert run(["bmrt_test", "--context_dir", "out"]) == 0
    assert run(["evaluate", "out", "--data", "x.npy"]) == 0
    assert "dB" in capsys.readouterr().out


def test_the_manuals_spellings_mean_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["–model", "net.prototxt", "–weight", "net.caffemodel", "–target=BM1684", "–v=4"]
    assert bmnetu(*words, "-cmp=false") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith('layer_id 0 "CONV" conv/Conv: [2, 3, 8, 8], ')
    assert [line.split()[1] for line in told if line.startswith("layer_id")] == ["0", "1", "2"]
    assert Path("compilation/compilation.bmodel").is_file()
    assert not any("onnxruntime" in line for line in told)


def test_dashes_of_all_kinds() -> None:
    words = ["-model=a", "--dyn", "true", "-v=4", "\u2014opt", "2", "-1", "-", "--", "-h", "-v4"]
    assert with_two_dashes(words) == (
        ["--model=a", "--dyn", "true", "--v=4", "--opt", "2", "-1", "-", "--", "-h", "--v4"]
    )


def test_a_layer_of_ones_own_is_called_so_in_the_log(
    own_type: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'layer {{ name: "mine" type: "{own_type}" bottom: "pool" top: "mine" by: 2.5 }}\n'
    Path("net.prototxt").write_text(NET + text)
    assert bmnetu("--model", "net.prototxt", "--v", "4") == 0
    told = capsys.readouterr().out
    assert '"SCALE_SHIFT" ' in told and "mine equals onnxruntime's" in told
    assert bmnetu("--model", "net.prototxt", "--mode", "summary", "--json") == 0
    last = json.loads(capsys.readouterr().out)["layers"][-1]
    assert last == {
        "id": 3,
        "name": "mine",
        "type": own_type,
        "bottoms": [[2, 4, 4, 4]],
        "tops": [[2, 4, 4, 4]],
        "weights": None,
        "macs": None,
    }


def test_shapes_are_those_of_the_inputs_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert bmnetu("--model", "net.prototxt", "--shapes", "[1,3,12,10]", "--outdir", "out") == 0
    assert read_bmodel(Path("out/compilation.bmodel")).nets[0].stages[0].outputs[0].shape == (1, 4, 6, 5)
    assert bmnetu("--model", "net.prototxt", "--shapes", "[1,3,12,10],[2]") == 2
    assert "2 shapes are given; net.prototxt has the inputs data" in capsys.readouterr().err


def test_a_dynamic_net_takes_batches_up_to_max_n(capsys: pytest.CaptureFixture[str]) -> None:
    assert bmnetu("--model", "net.prototxt", "--dyn=true", "--max_n", "3", "--outdir", "out") == 0
    stage = read_bmodel(Path("out/compilation.bmodel")).nets[0].stages[0]
    assert stage.inputs[0].shape == (3, 3, 8, 8) and stage.n_dynamic
    assert run(["bmrt_test", "--bmodel", "out/compilation.bmodel", "--shapes", "[1,3,8,8]"]) == 0


def test_check_and_summary_write_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert bmnetu("--model", "net.prototxt", "--mode", "check") == 0
    assert capsys.readouterr().out == "net.prototxt can be compiled: 3 layers\n"
    assert bmnetu("--model", "net.prototxt", "--mode=summary", "--shapes", "[1,3,8,8]") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "net little" and lines[-1] == "3 layers, 112 weights, 6,912 MACs"
    assert bmnetu("--model", "net.prototxt", "--mode=summary", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outputs"] == {"pool": [2, 4, 4, 4]} and found["macs"] == 2 * 6912
    assert sorted(path.name for path in Path().iterdir()) == ["net.caffemodel", "net.prototxt"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--target", "BM1682"], 2, "--target BM1682: the only chip here is the BM1684"),
        (["--prec=FP16"], 2, "--prec FP16: nets are compiled with one of FP32, INT8"),
        (["--prec=INT8"], 2, "--prec INT8 needs --table"),
        (["--table", "t.json"], 2, "--table is for --prec INT8"),
        (["--prec=INT8", "--table", "no.json"], 2, "no.json"),
        (["--mode", "compil"], 2, "--mode compil is none of compile, check, summary; did you mean compile?"),
        (["--dyn", "maybe"], 2, "--dyn maybe: expected true or false"),
        (["--max_n", "4"], 2, "--max_n is the largest batch of a dynamic net"),
        (["--json"], 2, "--json is for --mode summary"),
        (["--opt", "3"], 2, "Invalid value for '--opt'"),
        (["--shapes", "1,3"], 2, "--shapes '1,3' is not a list of shapes"),
        (["-modle=x"], 2, "unknown option"),
        (["--weight", "x.int8umodel"], 2, "x.int8umodel is a umodel"),
        (["--weight", "no.caffemodel"], 2, "no.caffemodel cannot be read"),
        (["--model", "net.caffemodel"], 2, "bmnetu compiles Caffe's nets, a .prototxt"),
        (["--model", "net.fp32umodel"], 2, "net.fp32umodel is a umodel"),
        (["--model", "no.prototxt"], 2, "no.prototxt cannot be read"),
        (["--model", "bad.prototxt"], 1, "bad.prototxt:1:1: layer 'a' (Fancy)"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.prototxt").write_text('layer { name: "a" type: "Fancy" top: "a" }')
    assert bmnetu("--model", "net.prototxt", *words) == code
    error = capsys.readouterr().err
    assert said in error and "internal" not in error
    assert not Path("compilation").exists()


def test_from_caffe_gives_a_graph_that_runs(toolkit: Toolkit) -> None:
    graph = Graph.from_caffe("net.prototxt", "net.caffemodel", shapes={"data": (1, 3, 8, 8)}, toolkit=toolkit)
    assert graph.inputs == ("data",) and graph.outputs == ("pool",)
    graph.compile()
    (pool,) = graph.run({"data": np.ones((1, 3, 8, 8), np.float32)})
    assert pool.shape == (1, 4, 4, 4) and float(pool.min()) >= 0


def test_compile_takes_a_prototxt_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("net.caffemodel").rename("weights.caffemodel")
    words = ["compile", "net.prototxt", "--weight", "weights.caffemodel", "-o", "out"]
    assert run([*words, "--shapes", "data=1x3x8x8", "--stage", "data=4x3x6x6"]) == 0
    shapes = [stage.outputs[0].shape for stage in read_bmodel(Path("out/compilation.bmodel")).nets[0].stages]
    assert shapes == [(1, 4, 4, 4), (4, 4, 3, 3)]
    assert capsys.readouterr().out.count("equals onnxruntime's") == 2
    assert run(["compile", "net.prototxt", "-o", "out2"]) == 2
    assert "no file with weights is given" in capsys.readouterr().err
    Path("net.onnx").write_bytes(b"x")
    assert run(["compile", "net.onnx", "--weight", "weights.caffemodel", "-o", "out2"]) == 2
    assert "one file too many" in capsys.readouterr().err
