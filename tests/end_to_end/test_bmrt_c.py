"""Programs in C and C++ against libbmrt.so: nets of bmodels by bmruntime's names."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.wire import (
    CommandGroup,
    DType,
    Program,
    ProgramTensor,
    Step,
    StepOp,
    StoreMode,
    TensorKind,
    TensorRecord,
)
from tests.support.bmodel_samples import COEFF, CONTEXT, START, copy_words, dynamic_net, static_net
from tests.support.host_programs import build, python_with_pid, run
from tests.support.workspaces import outside_of_workspaces
from tpulayer import Graph
from user_layers.bmodel import write
from user_layers.graph import BINARY_MUL
from user_layers.net.compiled import CompiledNet, DynamicBody, NetTensor, Stage, StaticBody, Subnet
from user_layers.toolchain.kernel import kernel_firmware


@pytest.fixture(scope="module", autouse=True)
def outside_of_any_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """So that the built-in layers alone are used, whether or not this repository is built."""
    with outside_of_workspaces(tmp_path_factory.mktemp("outside")):
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """stat.bmodel and dyn.bmodel: the net of that name, y = 1.5 * a, z = -2 * b, a is [4, 3, 5], b [2, 6].
    two.bmodel: the nets one (stages of 2 and 3 rows) and other (2 rows) of bmodel_samples. layer.bmodel: one
    with a user layer."""
    folder = tmp_path_factory.mktemp("models")
    for name, dynamic in (("stat", False), ("dyn", True)):
        with Graph("BM1684", name=name) as graph:
            graph.add_input("a", (4, 3, 5))
            graph.add_input("b", (2, 6))
            graph.add_const_binary_layer("a", 1.5, "y", BINARY_MUL)
            graph.add_const_binary_layer("b", -2.0, "z", BINARY_MUL)
            graph.compile(dynamic=dynamic, directory=folder / name, log=lambda _: None)
        (folder / name / "compilation.bmodel").rename(folder / f"{name}.bmodel")
    nets = [replace(static_net(*rows, name=n), layers=()) for n, rows in (("one", (2, 3)), ("other", (2,)))]
    (folder / "two.bmodel").write_bytes(write(nets))
    (folder / "layer.bmodel").write_bytes(write(static_net(2)))
    return folder


@pytest.mark.parametrize("language", ["c", "c++"])
def test_every_way_to_run_nets(language: str, models: Path, tmp_path: Path) -> None:
    program = build(tmp_path, Path("every_way.c"), language=language)
    done = run(program, *(models / f"{name}.bmodel" for name in ("stat", "dyn", "two")))
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stdout + done.stderr
    assert done.stderr == "bmrt: the net 'stat' is loaded already and stays as it is\n"
    assert "net 'dyn': dynamic, inputs 2, outputs 2, stages 1\n" in done.stdout
    assert "  stage 1\n    input 0) 'x' [3, 4] FLOAT32 scale 1 zero_point 0\n" in done.stdout


def test_the_classes(models: Path, tmp_path: Path) -> None:
    program = build(tmp_path, Path("classes.cpp"), language="c++")
    done = run(program, models / "stat.bmodel", models / "dyn.bmodel", tmp_path / "absent")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    for text in (
        "Network::Forward: input 'a' was not reshaped",
        "Tensor::Reshape: the shape is larger than the tensor's device memory",
        "Tensor::CopyTo or CopyFrom: more than the tensor has",
        "the net has no tensor 'c'",
        "no net named 'absent' is loaded",
        "devices are numbered 0 to 63",
    ):
        assert text in done.stderr


class FourTogether(NetTensor):
    """A tensor of bytes, [n, 2, 3], in 4N; the toolkit itself compiles none."""

    @property
    def nbytes(self) -> int:
        """With what fills up the last words."""
        return -(-self.shape[0] // 4) * 4 * 6


@pytest.mark.parametrize(("net_mode", "batches"), [(StoreMode.N1, 5), (StoreMode.N4, 5), (StoreMode.N4, 8)])
def test_store_modes(net_mode: StoreMode, batches: int, tmp_path: Path) -> None:
    """The net copies int8 [batches, 2, 3]; the caller's tensors lie in 1N and 4N, whatever the net's do."""
    stored = -(-batches // 4) * 4 if net_mode is StoreMode.N4 else batches
    words = -(-stored * 6 // 4)
    x, y = CONTEXT, CONTEXT + 4096
    body = StaticBody((CommandGroup(b"", copy_words(x, y, words, 1)),))
    tensor = FourTogether if net_mode is StoreMode.N4 else NetTensor
    ins = (tensor("x", (batches, 2, 3), DType.INT8, net_mode, x),)
    outs = (tensor("y", (batches, 2, 3), DType.INT8, net_mode, y),)
    stage = Stage(ins, outs, (Subnet(ins, outs, body),), CONTEXT, 8192, START, COEFF)
    (tmp_path / "net.bmodel").write_bytes(write([CompiledNet("net", (stage,), ())]))
    program = build(tmp_path, Path("store_modes.c"))
    done = run(program, tmp_path / "net.bmodel", str(batches))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    assert "output 'y' [5, 2, 3] has 48 bytes, its device memory 30" in done.stderr or batches != 5


def test_further_calls(models: Path, tmp_path: Path) -> None:
    """Other ways to load, nets by number, stages by shapes, threads, copies with strides."""
    program = build(tmp_path, Path("further.c"))
    done = run(program, *(models / f"{name}.bmodel" for name in ("stat", "dyn", "two")))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    for text in (
        "bmrt_get_bmodel_data_info: this is no bmodel",
        "bmrt_get_network_name: there is no net 9; loaded are 4, counted from 0",
        "net 'one': stage 0: input 'x' has the shape [7, 4], the net was compiled for [2, 4]",
        "bmrt_load_bmodel_with_mem: mem_info is NULL",
        "the function made nothing of it",
        "decrypt_lib cannot be loaded",
        "the elements of src_tensors[0] and dst_tensors[0] have other widths",
        "shapes[0] has 5 dimensions; 1 to 4 are possible",
    ):
        assert text in done.stderr, text + " is missing in\n" + done.stderr


def test_wrong_use(models: Path, tmp_path: Path) -> None:
    program = build(tmp_path, Path("wrong.c"))
    done = run(program, models / "stat.bmodel", models / "layer.bmodel")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    for text in (
        "bmrt_create: no handle that bm_dev_request gave",
        "bmrt_load_bmodel: p_bmrt is NULL",
        "bmrt_load_bmodel: this is not a p_bmrt that bmrt_create gave",
        "bmrt_load_bmodel: cannot read absent.bmodel: No such file or directory",
        "uses the layer TPU_TWICE (op_type 0), which the firmware does not have",
        "bmrt_get_network_info: no net named 'absent' is loaded",
        "bmrt_tensor_ex: there is no device 1; p_bmrt has 1, counted from 0",
        "bmrt_tensor_bytesize: tensor is NULL",
        "bmrt_tensor_device_size: tensor is NULL",
        "bmrt_tensor: num_dims is 9; 0 to 8 are possible",
        "bmrt_tensor: the tensor has 17179869184 bytes; bm_device_mem_t holds 4 GiB at most",
        "bmrt_tensor: the shape has no elements",
        "bmrt_shape: dims[1] is 0; sizes are 1 or more",
        "bmrt_tensor_with_device: the tensor has 240 bytes, its device memory has 48",
        "bmrt_launch_tensor: net 'stat' has 2 inputs, input_num is 1",
        "bmrt_launch_tensor: net 'stat' has 2 outputs, output_num is 3",
        "net 'stat': input 'a' is given as int8, the net takes float32",
        "net 'stat': input 'a' is given as unknown type 99, the net takes float32",
        "net 'stat': input 'a' has the store mode 4N; float32 lies in 1N, with 16 bits also in 2N",
        "net 'stat': input 'a' has the shape [3, 3, 5], the net was compiled for [4, 3, 5]",
        "net 'stat': input 'a' has the shape [-1, 3, 5]; sizes are 1 or more",
        "tensor 0 has 100 dimensions; 0 to 8 are possible",
        "net 'stat': input 'a' [1073741824, 3, 5] has 64424509440 bytes, its device memory 240",
        "240 bytes at 0x40 do not lie in DDR",
        "bmrt_launch_tensor: input_tensors[0]: the memory is not the device's",
        "net 'stat': output 'y' [4, 3, 5] has 240 bytes, its device memory 0",
        "net 'stat': output 'z' has the store mode 2N; float32 lies in 1N",
        "core_list[1] is 1 of 2; a BM1684 has core 0 alone",
        "net 'stat' has no stage 1; it has 1, counted from 0",
        "bmrt_launch_data: output_datas[0] is NULL",
        "bmrt_launch_data: input_datas[1] is NULL",
        "bmrt: bmrt_launch_tensor: this is not a handle that bm_dev_request gave and",
    ):
        assert text in done.stderr, text + " is missing in\n" + done.stderr
    assert "Traceback" not in done.stderr


def test_the_firmwares_own_memory(models: Path, tmp_path: Path) -> None:
    done = run(build(tmp_path, Path("firmware_memory.c")), models / "stat.bmodel")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    where = "lie where the firmware's own memory is, which programs may not write, up to 0x1050fffff"
    assert f"bmlib: 64 bytes at 0x100000000 {where}" in done.stderr
    assert f"bmrt: net 'stat': output 'z' [2, 6]: 48 bytes at 0x1050ffffc {where}" in done.stderr


def test_damaged_models(models: Path, tmp_path: Path) -> None:
    """What is wrong with which is test_bmodel_damage's; here: each is refused, and the next one loads."""
    good = (models / "two.bmodel").read_bytes()
    rng = np.random.default_rng(5)
    files = []
    for k in range(20):
        data = bytearray(good[: rng.integers(len(good))] if k % 2 else good)
        for at in rng.integers(len(data), size=30) if data else ():
            data[at] ^= 0xFF
        files.append(tmp_path / f"{k}.bmodel")
        files[-1].write_bytes(data)
    done = run(build(tmp_path, Path("load.c")), *files, models / "two.bmodel")
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stdout + done.stderr
    loads = done.stdout.split()[0]
    assert loads[-1] == "1" and loads.count("1") < 10
    assert done.stderr.count("bmrt: ") >= loads.count("0")
    assert done.stdout.split()[1] == "2"


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGKILL, "bmrt: device 0 is gone: its process has ended"),
        (signal.SIGSTOP, "bmrt: device 0 gave no answer for 2 s and was stopped"),
    ],
)
def test_a_device_that_is_gone_or_stuck(number: int, message: str, models: Path, tmp_path: Path) -> None:
    done = run(
        build(tmp_path, Path("device_gone.c")),
        models / "stat.bmodel",
        SIGNAL=str(int(number)),
        **python_with_pid(tmp_path),
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    assert message in done.stderr


KERNELS = """
#include "okk.h"
void crash(const void *args) { *(volatile int *)(args ? 8 : 16) = 1; }
OKKERNEL_FUNC_REGISTER(crash)
void endless(const void *args) { for (volatile int i = 0;; i = i + 1) (void)args; }
OKKERNEL_FUNC_REGISTER(endless)
"""


def test_errors_of_the_device(models: Path, tmp_path: Path) -> None:
    (tmp_path / "kernels.c").write_text(KERNELS)
    net = replace(dynamic_net(), layers=())
    (stage,) = net.stages
    (subnet,) = stage.subnets
    tensors = [ProgramTensor(kind, TensorRecord((4, 3, 5))) for kind in (TensorKind.INPUT, TensorKind.OUTPUT)]
    program = Program(tensors, [Step(StepOp.GLOBAL, (0,), (1,), 77, "strange_0")], 1, 1).encode()
    body = DynamicBody(program, stage.ctx_addr, 4096)
    stage = replace(stage, subnets=(replace(subnet, body=body),))
    (tmp_path / "bad.bmodel").write_bytes(write(replace(net, stages=(stage,))))
    firmware = kernel_firmware([tmp_path / "kernels.c"])
    done = run(
        build(tmp_path, Path("faults.c")),
        firmware,
        models / "stat.bmodel",
        tmp_path / "bad.bmodel",
        TPULAYER_TIME_LIMIT="2",
    )
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stdout + done.stderr
    for text in (
        "bmrt: layer strange_0: this firmware has no layer with op_type 77",
        "bmlib: kernel crash crashed: SIGSEGV",
        "bmlib: kernel endless ran for",
    ):
        assert text in done.stderr


def test_several_threads_and_devices(models: Path, tmp_path: Path) -> None:
    program = build(tmp_path, Path("threads.c"))
    done = run(program, models / "stat.bmodel", models / "dyn.bmodel")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    assert done.stderr.splitlines() == [
        "bmrt: runtime 2 on device 0, nets loaded: 0",
        "bmrt: bmrt_memcpy_d2s_parallel: there is no device 2; p_bmrt has 2, counted from 0",
    ]


def test_nothing_stays_allocated(models: Path, tmp_path: Path) -> None:
    """A run's memory, and a runtime's: far more of both than DDR holds at a time."""
    done = run(build(tmp_path, Path("memory.c")), models / "stat.bmodel")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr


def test_a_net_with_a_part_on_the_host(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="parts on the host are ONNX models")
    pytest.importorskip("onnxruntime", reason="parts on the host run on onnxruntime")
    tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * 3) for name in "io"]
    node = onnx.helper.make_node("Neg", ["i"], ["o"])
    part = onnx.helper.make_graph([node], "part", tensors[:1], tensors[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(part, opset_imports=opsets, ir_version=8).SerializeToString()
    with Graph("BM1684", name="mixed") as graph:
        graph.add_input("a", (4, 3, 5))
        graph.add_input("b", (2, 6))
        graph.add_const_binary_layer("a", -3.0, "c", BINARY_MUL)
        graph.add_cpu_layer(model, ["c"], ["d"], [(4, 3, 5)], ["float32"], reason="a test")
        graph.add_const_binary_layer("d", 0.5, "y", BINARY_MUL)
        graph.add_const_binary_layer("b", -2.0, "z", BINARY_MUL)
        graph.compile(directory=tmp_path, log=lambda _: None)
    done = run(build(tmp_path, Path("one.c")), tmp_path / "compilation.bmodel", "mixed")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


@pytest.mark.parametrize("language", ["c", "c++"])
def test_mapped_memory_and_older_names(language: str, models: Path, tmp_path: Path) -> None:
    (tmp_path / "compilation.bmodel").write_bytes((models / "stat.bmodel").read_bytes())
    done = run(build(tmp_path, Path("mapped.c"), language=language), tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    for text in (
        "create_bmrt_helper: chip_type is BM1684X; the device is a BM1684",
        "bm_mem_mmap_device_mem: the memory is not the device's, or has no bytes",
        "64 bytes at 0x40 do not lie in DDR",
        "bm_mem_flush_partial_device_mem: more than the memory has",
        "bmrt_thread_sync: p_bmrt is NULL",
    ):
        assert text in done.stderr


def test_the_structures_of_the_interface(tmp_path: Path) -> None:
    """Offsets on a machine of 64 bits, where programs and other libraries expect them."""
    done = run(build(tmp_path, Path("structures.c")))
    assert done.returncode == 0, done.stdout
