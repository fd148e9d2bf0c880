"""bmrt_test on a stand-in device: what it runs, prints, compares and refuses."""

from __future__ import annotations

import io
import math
import re
import resource
import zipfile
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.device.api import Array
from firmware_sim.errors import ModelError, UsageError
from firmware_sim.wire import TensorRecord
from tests.support.bmodel_samples import COEFF, dynamic_net, static_net
from tests.support.damaged_arrays import OPEN_HEADER
from tests.support.fake_device import FakeDevice
from user_layers.bmodel import save
from user_layers.bmrt.bmrt_test import FOREIGN_TEST_CASES, BmrtTestOptions, run
from user_layers.bmrt.reference_data import load_npz, parse_shapes, save_npz
from user_layers.runtime.bmruntime import BModelRuntime
from user_layers.runtime.compare import differences, report
from user_layers.runtime.loaded import Ran

CONSTANTS = np.frombuffer(COEFF, np.float32).reshape(2, 4)


def double(device: FakeDevice, inputs: list[TensorRecord], outputs: list[TensorRecord]) -> list[TensorRecord]:
    (x,), (y,) = inputs, outputs
    device.write(y.addr, device.read_array(x.addr, x.shape, np.float32) * np.float32(2))
    return [replace(y, shape=x.shape)]


class Tool:
    """Runs bmrt_test and keeps what it printed."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.device = FakeDevice(double)
        self.devids: list[int] = []

    def __call__(self, options: BmrtTestOptions) -> int:
        def open_device(devid: int, firmware: str | None) -> FakeDevice:
            self.devids.append(devid)
            return self.device

        self.lines.clear()
        return run(options, device=open_device, say=self.lines.append)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def tool() -> Tool:
    return Tool()


def numbers(*shape: int) -> Array:
    return (np.arange(np.prod(shape)) / 7).astype(np.float32).reshape(shape)


def context(folder: Path, *, wrong: int | None = None) -> Path:
    """Two static stages and a dynamic net with their references; `wrong` spoils that output element."""
    save(folder / "compilation.bmodel", [static_net(2, 3), dynamic_net()], created=0)
    inputs = [numbers(2, 4), numbers(3, 4), numbers(4, 3, 5)]
    outputs = [np.concatenate([x, CONSTANTS]) for x in inputs[:2]] + [inputs[2] * 2]
    data = np.concatenate([y.reshape(-1) for y in outputs])
    if wrong is not None:
        data[wrong] += 1
    (folder / "input_ref_data.dat").write_bytes(b"".join(x.tobytes() for x in inputs))
    (folder / "output_ref_data.dat").write_bytes(data.tobytes())
    return folder


def test_context_dir_runs_and_compares_everything(tool: Tool, tmp_path: Path) -> None:
    assert tool(BmrtTestOptions(context_dir=context(tmp_path))) == 0
    for net, name, stage in ((0, "twice", 0), (0, "twice", 1), (1, "grow", 0)):
        assert f"[BMRT][bmrt_test] INFO:==> running network #{net}, name: {name}, loop: 0" in tool.lines
        assert f"[BMRT][bmrt_test] INFO:+++ The network[{name}] stage[{stage}] cmp success +++" in tool.lines
        time = (
            rf"INFO:net\[{name}\] stage\[{stage}\], launch total time is \d+ us \(npu \d+ us, cpu \d+ us\)$"
        )
        assert re.search(time, tool.text, re.MULTILINE)
        assert f"net[{name}] stage[{stage}], the controller ran 1000 instructions per launch" in tool.text
    for label in ("load input time(s)", "calculate  time(s)", "get output time(s)", "compare    time(s)"):
        assert len(re.findall(re.escape(label) + r": \d+\.\d{6}$", tool.text, re.MULTILINE)) == 3
    assert tool.device.launches == 3 and tool.devids == [0]


def test_outputs_are_shown(tool: Tool, tmp_path: Path) -> None:
    tool(BmrtTestOptions(context_dir=context(tmp_path), net_idx=0, stage_idx=0))
    assert "INFO:output data #0 shape: [4 4 ] < 0 0.142857 0.285714 0.428571 " in tool.text
    tool(BmrtTestOptions(context_dir=tmp_path, net_idx=1))
    (line,) = [line for line in tool.lines if "output data #0" in line]
    assert line.endswith("... > len=60") and line.count(" ", line.index("<")) == 19


def test_difference_ends_with_1_and_says_where(tool: Tool, tmp_path: Path) -> None:
    assert tool(BmrtTestOptions(context_dir=context(tmp_path, wrong=17))) == 1  # element 1 of stage 1
    assert "WRONG:output y: index 1: expected 1.1428572, got 0.14285715" in tool.text
    assert "WRONG:output y: 1 of 20 elements differ" in tool.text
    assert "WRONG:+++ The network[twice] stage[1] cmp failed +++" in tool.text
    assert "stage[0] cmp success" in tool.text and "network[grow] stage[0] cmp success" in tool.text
    assert tool(BmrtTestOptions(context_dir=tmp_path, accuracy_f=9)) == 0
    assert tool(BmrtTestOptions(context_dir=tmp_path, net_idx=0, stage_idx=0)) == 0
    assert tool(BmrtTestOptions(context_dir=tmp_path, compare=False)) == 0
    assert "cmp" not in tool.text


def test_loops_times_threads(tool: Tool, tmp_path: Path) -> None:
    folder = context(tmp_path)
    assert tool(BmrtTestOptions(context_dir=folder, loopnum=2, calculate_times=3, thread_num=4)) == 0
    assert tool.device.launches == 3 * 2 * 3 * 4
    assert "Loop num: 2" in tool.text and "loop: 1" in tool.text


def test_times_are_means_of_the_launches(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """npu: what the subnets take, without those on the host."""
    calls = count(1)

    def timed(*args: Any) -> Ran:
        number = next(calls)
        return replace(ran(*args), calculate_s=3e-3 * number, subnets_s=(1e-3 * number, 5e-4), host_s=2e-4)

    ran = BModelRuntime.run
    monkeypatch.setattr(BModelRuntime, "run", timed)
    options = BmrtTestOptions(context_dir=context(tmp_path), net_idx=1, calculate_times=3, subnet_time=True)
    assert tool(options) == 0
    assert "launch total time is 6000 us (npu 2300 us, cpu 3700 us)" in tool.text
    assert "subnet[0] time is 2000 us" in tool.text and "subnet[1] time is 500 us" in tool.text


@pytest.mark.parametrize(
    ("case", "launches"),
    [
        ("bmrt_load_context", 1),
        ("bmrt_load_bmodel_data", 1),
        ("bmrt_launch_data", 1),
        ("bmrt_multi_thread", 2),
    ],
)
def test_test_cases(tool: Tool, tmp_path: Path, case: str, launches: int) -> None:
    assert tool(BmrtTestOptions(context_dir=context(tmp_path), test_case=case)) == 0
    assert tool.device.launches == 3 * launches


def test_launches_must_agree(tmp_path: Path) -> None:
    """calculate_times on a net whose second result has other bits."""
    calls = 0

    def drifting(d: FakeDevice, ins: list[TensorRecord], outs: list[TensorRecord]) -> list[TensorRecord]:
        nonlocal calls
        calls += 1
        d.write(outs[0].addr, numbers(4, 3, 5) + np.float32(calls * 1e-6))
        return outs

    save(tmp_path / "a.bmodel", dynamic_net())
    lines: list[str] = []
    options = BmrtTestOptions(bmodel=tmp_path / "a.bmodel", calculate_times=2)
    assert run(options, device=lambda _, __: FakeDevice(drifting), say=lines.append) == 1
    assert "[BMRT][bmrt_test] WRONG:output y: launch 1 gives other bits than launch 0" in lines


def test_bmodel_alone_runs_on_the_same_random_data(tool: Tool, tmp_path: Path) -> None:
    save(tmp_path / "a.bmodel", static_net())
    results = []
    for name in ("one.npz", "two.npz"):
        assert tool(BmrtTestOptions(bmodel=tmp_path / "a.bmodel", output=tmp_path / name, devid=3)) == 0
        results.append(load_npz(tmp_path / name, len)["y"])
    assert np.array_equal(results[0], results[1]) and len(np.unique(results[0][:2])) == 8
    assert "cmp" not in tool.text and tool.devids == [3, 3]


def test_npz_in_and_out(tool: Tool, tmp_path: Path) -> None:
    save(tmp_path / "a.bmodel", [static_net(), dynamic_net()])
    x = numbers(2, 1, 5)
    save_npz(tmp_path / "in.npz", {"x": x})
    options = BmrtTestOptions(
        bmodel=tmp_path / "a.bmodel", net_idx=1, input=tmp_path / "in.npz", output=tmp_path / "out.npz"
    )
    assert tool(options) == 0
    with np.load(tmp_path / "out.npz") as found:
        assert found.files == ["y"] and np.array_equal(found["y"], x * 2)


def test_shapes_choose_a_stage_or_a_smaller_size(tool: Tool, tmp_path: Path) -> None:
    folder = context(tmp_path)
    options = BmrtTestOptions(context_dir=folder, compare=False, net_idx=0, shapes="[3,4]")
    assert tool(options) == 0 and "net[twice] stage[1]" in tool.text
    options = replace(options, net_idx=1, shapes="[2, 3,1]", output_shapes="[2,3,1]")
    assert tool(options) == 0
    assert tool(replace(options, output_shapes="[2,3,5]")) == 1
    assert "the outputs have the shapes [2, 3, 1], --output_shapes is [2,3,5]" in tool.text


def test_reference_data_for_given_shapes(tool: Tool, tmp_path: Path) -> None:
    x = numbers(2, 3, 1)
    save(tmp_path / "compilation.bmodel", dynamic_net())
    (tmp_path / "input_ref_data.dat").write_bytes(x.tobytes())
    (tmp_path / "output_ref_data.dat").write_bytes((x * 2).tobytes())
    assert tool(BmrtTestOptions(context_dir=tmp_path, shapes="[2,3,1]")) == 0
    assert "cmp success" in tool.text
    with pytest.raises(
        ModelError, match=r"input_ref_data\.dat has 24 bytes; a run with the shapes of --shapes needs 36"
    ):
        tool(BmrtTestOptions(context_dir=tmp_path, shapes="[3,3,1]"))
    with pytest.raises(ModelError, match=r"input_ref_data\.dat has 24 bytes; the nets .* need 240"):
        tool(BmrtTestOptions(context_dir=tmp_path))


def test_missing_reference_data(tool: Tool, tmp_path: Path) -> None:
    save(tmp_path / "compilation.bmodel", static_net())
    with pytest.raises(ModelError, match=r"cannot read .*input_ref_data\.dat: No such file") as caught:
        tool(BmrtTestOptions(context_dir=tmp_path))
    assert "--compare 0" in caught.value.hint
    assert tool(BmrtTestOptions(context_dir=tmp_path, compare=False)) == 0


def test_subnet_time_and_debug_output(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = context(tmp_path / "context")
    assert tool(BmrtTestOptions(context_dir=folder, subnet_time=True, debug_output=True)) == 0
    assert re.search(r"net\[twice\] stage\[1\], subnet\[0\] time is \d+ us", tool.text)
    made = sorted(p.name for p in tmp_path.glob("*.dat"))
    assert made == [
        f"{k}_{r}_0.dat" for k in ("output", "ref") for r in ("net0_stage0", "net0_stage1", "net1_stage0")
    ]
    shown = np.loadtxt("output_net1_stage0_0.dat", dtype=np.float32)
    assert np.array_equal(shown, numbers(4, 3, 5).reshape(-1) * 2)
    assert Path("ref_net1_stage0_0.dat").read_bytes() == Path("output_net1_stage0_0.dat").read_bytes()


A = Path("a.bmodel")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of --context_dir and --bmodel"),
        ({"bmodel": A, "context_dir": A}, "one of --context_dir and --bmodel"),
        ({"bmodel": A, "loopnum": 0}, "--loopnum 0: at least 1"),
        ({"bmodel": A, "thread_num": -1}, "--thread_num -1: at least 1"),
        ({"bmodel": A, "net_idx": -1}, "--net_idx -1: at least 0"),
        ({"bmodel": A, "accuracy_f": float("nan")}, "--accuracy_f nan: at least 0"),
        ({"bmodel": A, "profile": True}, "no profile counters"),
        (
            {"bmodel": A, "test_case": "bmcpp_reshape"},
            "a C or C\\+\\+ interface; this command runs nets in Python",
        ),
        ({"bmodel": A, "test_case": "all"}, "--test_case all: known are bmrt_load_context"),
        ({"bmodel": A, "compare": True}, "--compare 1 with --bmodel: there is no reference data"),
        ({"context_dir": A, "compare": True, "input": A}, "--compare 1 with --input"),
        ({"bmodel": A, "input": A, "shapes": "[1]"}, "--shapes with --input"),
        ({"bmodel": A, "output_shapes": "[1]"}, "--output_shapes needs the shapes"),
    ],
)
def test_options_that_do_not_go_together(tool: Tool, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tool(BmrtTestOptions(**options))
    assert tool.devids == []


def test_a_folder_is_no_bmodel_and_a_file_no_context(tool: Tool, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder") as caught:
        tool(BmrtTestOptions(bmodel=tmp_path))
    assert f"--context_dir {tmp_path} " in caught.value.hint
    (tmp_path / "a.bmodel").touch()
    with pytest.raises(UsageError, match="is a file") as caught:
        tool(BmrtTestOptions(context_dir=tmp_path / "a.bmodel"))
    assert f"--bmodel {tmp_path / 'a.bmodel'} " in caught.value.hint
    assert tool.devids == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"net_idx": 2}, "--net_idx 2: the bmodel has 2 nets"),
        ({"net_idx": 1, "stage_idx": 1}, "net 'grow' has 1 stages"),
        ({"stage_idx": 1}, "net 'grow' has 1 stages"),
        ({"shapes": "[2,4]"}, "--shapes is for one net, the bmodel has 2"),
        ({"net_idx": 0, "shapes": "[2,4],[1]"}, "--shapes gives 2, net 'twice' has 1 inputs"),
        ({"net_idx": 0, "shapes": "[7,4]"}, r"stage 0: input 'x' has the shape \[7, 4\]"),
        ({"net_idx": 0, "shapes": "7,4"}, "--shapes '7,4' is not a list of shapes"),
        ({"output": Path("out.npz")}, "--output is for one run, these are 3"),
    ],
)
def test_options_that_do_not_fit_the_bmodel(
    tool: Tool, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    save(tmp_path / "compilation.bmodel", [static_net(2, 3), dynamic_net()])
    with pytest.raises(UsageError, match=message):
        tool(BmrtTestOptions(context_dir=tmp_path, compare=False, **options))
    assert tool.device.launches == 0


def test_every_foreign_test_case_is_refused(tool: Tool) -> None:
    for case in FOREIGN_TEST_CASES:
        with pytest.raises(UsageError, match="runs nets in Python"):
            tool(BmrtTestOptions(bmodel=A, test_case=case))


@pytest.mark.parametrize(
    ("data", "message"),
    [(data, "is not a .npz file") for data in (b"no zip", b"", b"PK\x03\x04 cut")],
)
def test_input_files_that_are_no_npz(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "in.npz").write_bytes(data)
    with pytest.raises(UsageError, match=message):
        load_npz(tmp_path / "in.npz", len)


def test_input_file_whose_array_has_no_header(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("x.npy", OPEN_HEADER)
    with pytest.raises(UsageError, match=r"is not a \.npz file"):
        load_npz(tmp_path / "in.npz", len)


def test_input_file_with_one_array(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", numbers(3))
    with pytest.raises(UsageError, match="holds one unnamed array"):
        load_npz(tmp_path / "in.npy", len)
    with pytest.raises(UsageError, match=r"cannot read .*none"):
        load_npz(tmp_path / "none", len)


def _bomb(path: Path, name: str, shape: tuple[int, ...], *, claims: tuple[int, ...] | None = None) -> None:
    """An .npz with one array of float32 zeros, some thousand times smaller than what it unpacks to."""
    header = io.BytesIO()
    said = {"descr": "<f4", "fortran_order": False, "shape": shape if claims is None else claims}
    np.lib.format.write_array_header_1_0(header, said)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(4 * math.prod(shape) >> 20):
            member.write(bytes(1 << 20))


@pytest.mark.parametrize(
    ("name", "shape", "claims", "message"),
    [
        ("x", (1 << 26,), None, r"input 'x' has the shape \[67108864\]"),
        ("other", (1 << 26,), None, "has no input 'other'"),
        ("x", (1 << 20,), (1 << 40,), r"an array \[1099511627776\] of float32 has 4398046511104 bytes"),
        ("x", (1 << 20,), (1 << 40, 1 << 40), "array is too big|has 4[0-9]+ bytes, stored are 4194304"),
    ],
)
def test_input_is_refused_by_its_header(
    tool: Tool,
    tmp_path: Path,
    name: str,
    shape: tuple[int, ...],
    claims: tuple[int, ...] | None,
    message: str,
) -> None:
    """Before any of the array is unpacked: none of its memory is ever taken."""
    save(tmp_path / "a.bmodel", [static_net(), dynamic_net()])
    _bomb(tmp_path / "in.npz", name, shape, claims=claims)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UsageError, match=message):
        tool(BmrtTestOptions(bmodel=tmp_path / "a.bmodel", net_idx=1, input=tmp_path / "in.npz"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_npz_of_any_tensor_name(tmp_path: Path) -> None:
    arrays = {"file": numbers(2), "block/conv:0": np.arange(3, dtype=np.int8)}
    save_npz(tmp_path / "a.npz", arrays)
    found = load_npz(tmp_path / "a.npz", len)
    assert found.keys() == arrays.keys()
    assert all(np.array_equal(found[k], v) and found[k].dtype == v.dtype for k, v in arrays.items())


def test_parse_shapes() -> None:
    assert parse_shapes("[1,3,224,224],[1, 10]", "--shapes") == ((1, 3, 224, 224), (1, 10))
    assert parse_shapes(" [5] [6] ", "--shapes") == ((5,), (6,))
    for text in ("", "[]", "[1,]", "[a]", "[1],x", "[1", "[-1]"):
        with pytest.raises(UsageError, match="is not a list of shapes"):
            parse_shapes(text, "--shapes")
    for text in ("[1,0]", "[1,1,1,1,1,1,1,1,1]"):
        with pytest.raises(UsageError, match="is not a shape: 1 to 8 sizes"):
            parse_shapes(text, "--shapes")


# ---- comparing ----

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        (0.5, 0.505, True),
        (0.5, 0.52, False),
        (100.0, 100.9, True),
        (100.0, 102.0, False),
        (0.995, 1.004, True),
        (1e30, 1e-30, False),
        (INF, INF, True),
        (INF, 3.0, False),
        (3.0, -INF, False),
        (INF, -INF, False),
        (NAN, NAN, True),
        (NAN, 0.0, False),
        (0.0, NAN, False),
    ],
)
def test_floating_point_rules(want: float, got: float, same: bool) -> None:
    for kind in (np.float32, np.float16):
        with np.errstate(over="ignore"):
            pair = np.array([[want], [got]]).astype(kind)
        if kind is np.float16 and 1e30 in (want, got):
            continue
        assert (len(differences(pair[0], pair[1], 0.01, 0)) == 0) is same


@given(
    st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=20),
    st.sampled_from([0.0, 0.01, 1.0]),
)
def test_floating_point_rules_element_by_element(pairs: list[tuple[float, float]], accuracy: float) -> None:
    """Against the rule written for one pair."""

    def differ(e: float, g: float) -> bool:
        if e == g or (e != e and g != g):
            return False
        if not (np.isfinite(e) and np.isfinite(g)):
            return True
        if max(abs(e), abs(g)) > 1:
            smaller = min(abs(e), abs(g))
            return smaller < 1e-20 or abs(e - g) > accuracy * smaller
        return abs(e - g) > accuracy

    want, got = (np.array(v, np.float32) for v in zip(*pairs, strict=True))
    expected = [i for i, (e, g) in enumerate(pairs) if differ(e, g)]
    assert differences(want, got, accuracy, 0).tolist() == expected


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_integers(dtype: Any) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    want, got = np.array([5, low, 7], dtype), np.array([6, high, 7], dtype)
    assert differences(want, got, 9.0, 0).tolist() == [0, 1]
    assert differences(want, got, 9.0, 1).tolist() == [1]
    assert report("y", want, got, differences(want, got, 0, 1)) == [
        f"y: index 1: expected {low}, got {high}",
        "y: 1 of 3 elements differ",
    ]


def test_report_is_short() -> None:
    want, got = np.zeros(100, np.int32), np.ones(100, np.int32)
    lines = report("y", want, got, differences(want, got, 0, 0))
    assert len(lines) == 9 and lines[-1] == "y: 100 of 100 elements differ"
