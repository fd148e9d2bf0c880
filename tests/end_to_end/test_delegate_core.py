"""libtpulayer_delegate.so: partitions of a toy framework on the device, what fails, what it counts."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.chip import CLOCK_HZ, DESCRIPTOR_BYTES
from firmware_sim.isa import timing
from firmware_sim.timeline import Timer
from tests.support import host_programs
from tests.support.delegate_core import (
    BAD_ARGUMENT,
    BAD_PROGRAM,
    BAD_SHAPES,
    FAILED,
    NO_DEVICE,
    Core,
    CoreError,
)
from tests.support.toy_framework import TOY, random, small_net, toy
from tests.support.workspaces import LIMIT, built_workspace, outside_of_workspaces
from user_layers.bmodel import read
from user_layers.delegates.build import core_library
from user_layers.delegates.compile import compile_partition
from user_layers.delegates.program import CODES, Partition, pack, unpack
from user_layers.onnx.types import held_as
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor
from user_layers.spelling.spell import spell
from user_layers.toolchain.compilers import choose
from user_layers.toolkit import Toolkit
from user_layers.workspace import sdk_dir

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    """The library, on a device without a workspace."""
    with outside_of_workspaces(tmp_path_factory.mktemp("nowhere")):
        yield Core(core_library())


def _compiled(model: ForeignModel, toolkit: Toolkit, dynamic: bool = False) -> bytes:
    return pack([compile_partition(model, TOY, name=model.name, toolkit=toolkit, dynamic=dynamic)])


def _wanted(model: ForeignModel, *inputs: Array) -> list[Array]:
    """What onnxruntime makes of the spelled model."""
    session = onnxruntime.InferenceSession(spell(model, TOY).proto.SerializeToString())
    found: list[Array] = session.run(None, dict(zip(model.inputs, inputs, strict=True)))
    return found


def _unary(shape: tuple[int, ...] = (4, 6), kind: str = "RELU", name: str = "unary") -> ForeignModel:
    return toy({"x": shape, "y": shape}, [(kind, ["x"], "y")], ["x"], ["y"], name)


def test_a_net_with_channels_last_gives_what_onnxruntime_does(core: Core, toolkit: Toolkit) -> None:
    model = small_net()
    program = _compiled(model, toolkit)
    with core.load(program) as net:
        assert net.tensors("input") == [("image", (1, 9, 11, 3), np.dtype(np.float32))]
        for seed in range(3):
            image = random(1, 9, 11, 3, seed=seed)
            (got,) = net.run(image)
            np.testing.assert_allclose(got, _wanted(model, image)[0], rtol=0, atol=1e-5)


def test_counters_prove_that_the_device_did_it(core: Core, toolkit: Toolkit) -> None:
    program = _compiled(small_net(), toolkit)
    (partition,) = unpack(program)
    before = core.counters()
    with core.load(program) as net:
        assert net.counters.commands == 0
        for _ in range(3):
            net.run(random(1, 9, 11, 3))
        found = net.counters
        assert (found.runs, found.failures, found.has_commands) == (3, 0, 1)
        assert (found.bytes_in, found.bytes_out) == (3 * 9 * 11 * 3 * 4, 3 * 10 * 4)
        # The commands are those of the bmodel, and take the time that was modelled when it was compiled.
        (stage,) = read(partition.bmodel).nets[0].stages
        groups = [group for subnet in stage.subnets for group in subnet.groups]
        stored = sum(len(group.bd) + len(group.gdma) for group in groups) // DESCRIPTOR_BYTES
        assert found.commands == 3 * stored > 0
        loaded = sum(t.nbytes for g in groups for t in Timer().timeline(g).transfers() if not t.written)
        launched = partition.cycles + timing.launch(loaded)
        assert abs(found.cycles - 3 * launched) <= 3 * len(partition.layers)
        assert found.ns == pytest.approx(found.cycles * 1e9 / CLOCK_HZ, abs=1)
        assert 0 < found.copy_wall_ns < found.wall_ns
        assert core.counters().commands - before.commands == found.commands


def test_layers_tell_their_operations_and_times(core: Core, toolkit: Toolkit) -> None:
    program = _compiled(small_net(), toolkit)
    with core.load(program) as net:
        layers = net.layers()
    assert [operations for _, _, operations in layers] == [(0,), (1,), (2,), (3,), (3,), (3,), (4,), (5,)]
    assert layers[0][0] == "a/Conv" and layers[0][1] > 0


def test_types_that_the_device_has_not_are_converted_on_the_way(core: Core, toolkit: Toolkit) -> None:
    i64, flag = np.dtype(np.int64), np.dtype(np.bool_)
    model = toy(
        {
            "n": Tensor((2, 3), i64),
            "flat": Tensor((6,), i64),
            "x": (2, 3),
            "z": (2, 3),
            "less": Tensor((2, 3), flag),
            "mask": Tensor((5,), flag),
            "not": Tensor((5,), flag),
            "one": Tensor((), np.dtype(np.float32)),
            "r": Tensor((), np.dtype(np.float32)),
        },
        [
            ("FLAT", ["n"], "flat"),
            ("LESS", ["x", "z"], "less"),
            ("NOT", ["mask"], "not"),
            ("RELU", ["one"], "r"),
        ],
        ["n", "x", "z", "mask", "one"],
        ["flat", "less", "not", "r"],
    )
    n, x, z = np.array([[1, -2, 3], [4, 2**31 - 1, -(2**31)]]), random(2, 3), random(2, 3, seed=1)
    mask, one = np.array([True, False, True, True, False]), np.array(2.5, np.float32)
    with core.load(_compiled(model, toolkit)) as net:
        flat, less, negated, r = net.run(n, x, z, mask, one)
        np.testing.assert_array_equal(flat, n.reshape(6))
        np.testing.assert_array_equal(less, x < z)
        np.testing.assert_array_equal(negated, ~mask)
        assert r == 2.5 and r.shape == ()
        with pytest.raises(CoreError, match=r"input 'n' .* beyond 32 bits") as caught:
            net.run(n + 1, x, z, mask, one)
        assert caught.value.status == BAD_ARGUMENT
        np.testing.assert_array_equal(net.run(n, x, z, mask, one)[0], n.reshape(6))


def test_inputs_nobody_reads_and_outputs_given_twice(core: Core, toolkit: Toolkit) -> None:
    model = toy(
        {"x": (3, 4), "unused": (9,), "c": random(2, 2), "y": (3, 4)},
        [("RELU", ["x"], "y")],
        ["unused", "x"],
        ["y", "c", "y", "x"],
        "odd",
    )
    x = random(3, 4)
    with core.load(_compiled(model, toolkit)) as net:
        y, c, again, same = net.run(random(9), x)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    np.testing.assert_array_equal(again, y)
    np.testing.assert_array_equal(c, random(2, 2))
    np.testing.assert_array_equal(same, x)


def test_results_that_no_input_changes_have_a_net_too(core: Core, toolkit: Toolkit) -> None:
    model = toy({"x": (2,), "c": random(3), "y": (3,)}, [("RELU", ["c"], "y")], ["x"], ["y"], "constant")
    with core.load(_compiled(model, toolkit)) as net:
        np.testing.assert_array_equal(net.run(random(2))[0], np.maximum(random(3), 0))


def test_several_partitions_of_one_program_and_two_of_one_name(core: Core, toolkit: Toolkit) -> None:
    made = [
        compile_partition(_unary(kind=kind), TOY, name=name, toolkit=toolkit)
        for kind, name in (("RELU", "first"), ("TANH", "second"))
    ]
    program, x = pack(made), random(4, 6)
    with core.load(program, "first") as first, core.load(program, "second") as second:
        with core.load(program, "first") as again:
            np.testing.assert_array_equal(again.run(x)[0], np.maximum(x, 0))
        np.testing.assert_array_equal(first.run(x)[0], np.maximum(x, 0))
        np.testing.assert_allclose(second.run(x)[0], np.tanh(x), atol=1e-5)
        assert core.lib.tpld_name(second.handle) == b"second"
    for name, text in ((None, "2 partitions, and none is named"), ("third", "no partition 'third'")):
        with pytest.raises(CoreError, match=text):
            core.load(program, name)


def test_a_dynamic_partition_takes_other_shapes(core: Core, toolkit: Toolkit) -> None:
    model = toy(
        {"x": (4, 8, 8, 3), "a": (4, 4, 4, 3), "y": (4, 4, 4, 3)},
        [("POOL", ["x"], "a", {"size": 2}), ("TANH", ["a"], "y")],
        ["x"],
        ["y"],
    )
    with core.load(_compiled(model, toolkit, dynamic=True)) as net:
        assert core.lib.tpld_is_dynamic(net.handle)
        net.run(random(4, 8, 8, 3))
        told = sum(cycles for _, cycles, _ in net.layers())
        cost = timing.launch(0) + net.counters.commands * timing.issue()
        assert 0 < told < net.counters.cycles < told + 1.5 * cost, "of the largest shapes"
        for shape, out in (
            ((4, 8, 8, 3), (4, 4, 4, 3)),
            ((2, 6, 8, 3), (2, 3, 4, 3)),
            ((1, 2, 2, 3), (1, 1, 1, 3)),
        ):
            net.resize(shape)
            assert net.tensors("output")[0][1] == out
            x = random(*shape)
            n, h, w, c = out
            want = np.tanh(x.reshape(n, h, 2, w, 2, c).max((2, 4)))
            np.testing.assert_allclose(net.run(x)[0], want, atol=1e-5)
        for wrong, text in (
            ((5, 8, 8, 3), "extent 5 in dimension 0; it was compiled for at most 4"),
            ((4, 8, 8), "has 4 dimensions, given are 3"),
            ((4, 8, 8, 0), "extent 0"),
        ):
            with pytest.raises(CoreError, match=text) as caught:
                net.resize(wrong)
            assert caught.value.status == BAD_SHAPES
        assert net.tensors("input")[0][1] == (1, 2, 2, 3), "what failed changed nothing"
        x = random(1, 2, 2, 3)
        np.testing.assert_allclose(net.run(x)[0], np.tanh(x.max((1, 2), keepdims=True)), atol=1e-5)


def test_shapes_that_were_there_before_cost_no_run(core: Core, toolkit: Toolkit) -> None:
    model = toy({"x": (40, 6), "y": (40, 6)}, [("TANH", ["x"], "y")], ["x"], ["y"])
    with core.load(_compiled(model, toolkit, dynamic=True)) as net:

        def cost(rows: int) -> int:
            before = net.counters.commands
            net.resize((rows, 6))
            assert net.tensors("output")[0][1] == (rows, 6)
            return int(net.counters.commands - before)

        assert cost(40) == 0
        assert cost(3) > 0 and cost(5) > 0
        assert cost(3) == cost(40) == cost(5) == 0
        for rows in range(10, 30):
            assert cost(rows) > 0
        assert cost(29) == cost(15) == 0
        assert cost(3) > 0
        np.testing.assert_allclose(net.run(random(3, 6))[0], np.tanh(random(3, 6)), atol=1e-5)


def test_a_static_partition_takes_the_compiled_shapes_alone(core: Core, toolkit: Toolkit) -> None:
    with core.load(_compiled(_unary(), toolkit)) as net:
        net.resize((4, 6))
        with pytest.raises(CoreError, match="extent 3 in dimension 0; it was compiled for 4") as caught:
            net.resize((3, 6))
        assert caught.value.status == BAD_SHAPES


@pytest.mark.parametrize("place", [0, 9, 24, 40, 200, -1])
def test_damaged_programs_are_refused(core: Core, toolkit: Toolkit, place: int) -> None:
    program = bytearray(_compiled(_unary(), toolkit))
    program[place] ^= 0x55
    with pytest.raises(CoreError, match="partition") as caught:
        core.load(bytes(program))
    assert caught.value.status == BAD_PROGRAM
    with pytest.raises(CoreError):
        core.load(bytes(program[: len(program) // 2]))


def test_a_bmodel_that_is_none_or_another_is_refused(core: Core, toolkit: Toolkit) -> None:
    (good,) = unpack(_compiled(_unary(), toolkit))
    (other,) = unpack(_compiled(_unary((4, 7)), toolkit))

    def changed(bmodel: bytes) -> bytes:
        edges = (good.inputs, good.outputs, good.input_places, good.output_places)
        return pack([Partition("unary", bmodel, *edges)])

    for bmodel, text in (
        (b"", "cannot be loaded: "),
        (good.bmodel[:-9], "bmodel"),
        (other.bmodel, "'x' is not what"),
    ):
        with pytest.raises(CoreError, match=text) as caught:
            core.load(changed(bmodel))
        assert caught.value.status == BAD_PROGRAM


def test_wrong_arguments_are_errors_and_no_crashes(core: Core, toolkit: Toolkit) -> None:
    program = _compiled(_unary(), toolkit)
    for dev_id in (-1, 64):
        with pytest.raises(CoreError, match="there is no device") as caught:
            core.load(program, dev_id=dev_id)
        assert caught.value.status == NO_DEVICE
    lib, none = core.lib, ctypes.c_void_p()
    assert lib.tpld_load(0, none, ctypes.c_size_t(5), None, ctypes.byref(none)) == BAD_ARGUMENT
    assert lib.tpld_execute(none, none, none) == BAD_ARGUMENT
    assert lib.tpld_input_num(none) == -1
    lib.tpld_destroy(none)
    with core.load(program) as net:
        assert lib.tpld_execute(net.handle, none, none) == BAD_ARGUMENT
        nothing = (ctypes.c_void_p * 1)()
        assert lib.tpld_execute(net.handle, nothing, nothing) == BAD_ARGUMENT
        assert b"buffer of input 'x' is NULL" in lib.tpld_last_error()
        assert lib.tpld_input(net.handle, 1, ctypes.create_string_buffer(512)) == BAD_ARGUMENT
        assert lib.tpld_close_device(0) == BAD_ARGUMENT


def test_threads_run_partitions_on_one_device(core: Core, toolkit: Toolkit) -> None:
    program, wrong = _compiled(small_net(), toolkit), []
    inputs = [random(1, 9, 11, 3, seed=seed) for seed in range(4)]
    with core.load(program) as net:
        wanted = [net.run(x)[0] for x in inputs]
        shared = core.load(program)

        def work(index: int) -> None:
            own = shared if index % 2 else core.load(program)
            for _ in range(5):
                if not np.array_equal(own.run(inputs[index])[0], wanted[index]):
                    wrong.append(index)
            if own is not shared:
                own.destroy()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        shared.destroy()
    assert not wrong


@pytest.mark.parametrize(
    ("dev_id", "sent", "text"),
    [
        (7, signal.SIGKILL, "device 7 is gone"),
        pytest.param(10, signal.SIGSTOP, "device 10 gave no answer for 3 s", marks=pytest.mark.slow),
    ],
)
def test_a_device_that_dies_is_an_error_and_the_next_call_works(
    toolkit: Toolkit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    dev_id: int,
    sent: signal.Signals,
    text: str,
) -> None:
    with outside_of_workspaces(tmp_path):
        for name, value in host_programs.python_with_pid(tmp_path).items():
            monkeypatch.setenv(name, value)
        # A device of its own, so that nobody else's dies.
        core, program, x = Core(core_library()), _compiled(_unary(), toolkit), random(4, 6)
        with core.load(program, dev_id=dev_id) as one, core.load(program, dev_id=dev_id) as two:
            one.run(x)
            os.kill(int((tmp_path / "pid").read_text()), sent)
            with monkeypatch.context() as patch, pytest.raises(CoreError, match=text) as caught:
                if sent is signal.SIGSTOP:
                    patch.setenv("TPULAYER_HOST_LIMIT", "3")
                one.run(x)
            assert caught.value.status == FAILED
            for net in (one, two, one):
                np.testing.assert_array_equal(net.run(x)[0], np.maximum(x, 0))
            found = one.counters
            assert (found.runs, found.failures, found.reopened) == (3, 1, 1)
        assert core.lib.tpld_close_device(dev_id) == 0
        assert capfd.readouterr().err == "", "the text is the caller's to tell"
        core.lib.bm_dev_request(ctypes.byref(ctypes.c_void_p()), 99)
        assert "bmlib: " in capfd.readouterr().err, "who calls libbmlib itself is told as ever"


@pytest.mark.slow  # builds a workspace
def test_a_kernel_that_crashes_is_an_error_and_the_next_call_works(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer of the user's in a dynamic net, whose kernel runs with the net."""
    ws = built_workspace(tmp_path_factory, ("double",), "delegate_layers")
    shape = (4, 8)
    model = ForeignModel(
        "Toy",
        "bomb",
        {name: Tensor(shape, np.dtype(np.float32)) for name in "xay"},
        ("x",),
        ("y",),
        (
            Operation("TPU_BOMB", "bomb", ("x",), ("a",), {"at": 3}, own=True),
            Operation("RELU", "relu", ("a",), ("y",)),
        ),
    )
    monkeypatch.setenv("TPULAYER_WORKSPACE", str(ws.root))
    with Toolkit(ws) as toolkit:
        program = _compiled(model, toolkit, dynamic=True)
    core = Core(core_library())
    with core.load(program, dev_id=8) as net, core.load(program, dev_id=8) as other:
        x = random(*shape)
        np.testing.assert_array_equal(net.run(x)[0], np.maximum(2 * x, 0))
        with pytest.raises(CoreError, match="crashed") as caught:
            net.resize((3, 8))
        assert caught.value.status in (BAD_SHAPES, FAILED)
        for one in (net, other):
            np.testing.assert_array_equal(one.run(x)[0], np.maximum(2 * x, 0))
        net.resize((2, 8))
        np.testing.assert_array_equal(net.run(x[:2])[0], np.maximum(2 * x[:2], 0))
    monkeypatch.delenv("TPULAYER_WORKSPACE")
    monkeypatch.chdir(tmp_path_factory.mktemp("nowhere"))
    with pytest.raises(CoreError, match="BOMB") as caught:
        core.load(program, dev_id=9)  # whose firmware has no layers of the user's
    assert caught.value.status == BAD_PROGRAM
    for dev_id in (8, 9):
        assert core.lib.tpld_close_device(dev_id) == 0


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("times", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_partitions_come_and_go_without_a_leak(core: Core, toolkit: Toolkit, times: int) -> None:
    program, x = _compiled(_unary((64, 1024)), toolkit), random(64, 1024)

    def cycle() -> None:
        with core.load(program) as net:
            net.run(x)

    for _ in range(5):
        cycle()
    files, size = _open_files(), _mapped_bytes()
    for _ in range(times):
        cycle()
    assert _open_files() == files
    assert _mapped_bytes() - size < 64 * len(program) + (4 << 20), "memory grows"


def test_a_copy_of_the_process_opens_a_device_of_its_own(core: Core, toolkit: Toolkit) -> None:
    program, x = _compiled(_unary(), toolkit), random(4, 6)
    with core.load(program) as net:
        want = net.run(x)[0]

        def child(queue: multiprocessing.SimpleQueue[bool]) -> None:
            queue.put(bool(np.array_equal(net.run(x)[0], want)))

        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        process.join(LIMIT)
        assert process.exitcode == 0 and queue.get()
        np.testing.assert_array_equal(net.run(x)[0], want)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of newer Pythons: that is the point
def test_a_copy_made_while_another_thread_runs_a_partition_is_not_stuck(
    toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with outside_of_workspaces(tmp_path):
        for name, value in host_programs.python_with_pid(tmp_path).items():
            monkeypatch.setenv(name, value)
        core, program, x = Core(core_library()), _compiled(_unary(), toolkit), random(4, 6)
        with core.load(program, dev_id=11) as net:
            want = net.run(x)[0]
            device = int((tmp_path / "pid").read_text())
            os.kill(device, signal.SIGSTOP)  # so that the call lasts
            thread = threading.Thread(target=net.run, args=(x,))
            thread.start()
            try:
                time.sleep(0.3)
                context = multiprocessing.get_context("fork")
                queue = context.SimpleQueue()
                copy = context.Process(target=lambda: queue.put(bool(np.array_equal(net.run(x)[0], want))))
                copy.start()
                copy.join(60)
                copy.kill()
            finally:
                os.kill(device, signal.SIGCONT)
                thread.join(LIMIT)
            assert copy.exitcode == 0 and queue.get()
        assert core.lib.tpld_close_device(11) == 0


def test_no_firmware_is_no_device(core: Core, tmp_path: Path) -> None:
    """In a process of its own, because what a device boots is looked for once."""
    code = (
        "import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); lib.tpld_last_error.restype = ctypes.c_char_p;"
        "print(lib.tpld_open_device(0), lib.tpld_last_error().decode())"
    )
    env = {**os.environ, "BMRUNTIME_FIRMWARE_PATH": str(tmp_path / "nothing")}
    words = [sys.executable, "-c", code, str(core_library())]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=LIMIT, check=True)
    assert done.stdout.startswith(f"{NO_DEVICE} device 0 cannot be used: ") and "nothing" in done.stdout


# ---- as on a card that maps no memory ----

_NO_MAPPING = """
#include "bmlib_runtime.h"
bm_status_t bm_mem_mmap_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem) {
    (void)handle, (void)dmem, (void)vmem;
    return BM_NOT_SUPPORTED;
}
"""
_RUN = """
import sys
from pathlib import Path
import numpy as np
from tests.support.delegate_core import Core
core = Core(Path(sys.argv[1]))
with core.load(Path("program").read_bytes()) as net:
    found = np.load("inputs.npz")
    np.savez("outputs.npz", *net.run(*(found[name] for name in found.files)))
    if core.lib.tpld_is_dynamic(net.handle):
        net.resize((2, 3, 4, 5))
        np.savez("outputs.npz", *net.run(*(found[name][:2, :3, :4] for name in found.files)))
"""


@pytest.mark.parametrize("dynamic", [False, True])
def test_memory_that_cannot_be_mapped_is_copied(toolkit: Toolkit, tmp_path: Path, dynamic: bool) -> None:
    """Moved axes and converted types by way of a place of the net's layout, plain ones straight."""
    flag = np.dtype(np.bool_)
    kinds = {"x": (3, 4, 5, 5), "z": (3, 4, 5, 5), "p": (3, 4, 5, 5), "s": (3, 4, 5, 5)}
    model = toy(
        {**kinds, "less": Tensor((3, 4, 5, 5), flag)},
        [("POOL", ["x"], "p", {"size": 1}), ("ADD", ["p", "p"], "s"), ("LESS", ["z", "z"], "less")],
        ["x", "z"],
        ["s", "less"],
    )
    inputs = [random(3, 4, 5, 5), random(3, 4, 5, 5, seed=1)]
    if dynamic:
        model = toy({"x": (3, 4, 5, 5), "p": (3, 4, 5, 5)}, [("POOL", ["x"], "p", {"size": 1})], ["x"], ["p"])
        inputs = inputs[:1]
    (tmp_path / "program").write_bytes(_compiled(model, toolkit, dynamic))
    np.savez(tmp_path / "inputs.npz", *inputs)
    source, hidden = tmp_path / "hidden.c", tmp_path / "libhidden.so"
    source.write_text(_NO_MAPPING)
    compiler = [*choose().c.argv, f"-I{sdk_dir() / 'include'}", "-shared", "-fPIC"]
    subprocess.run([*compiler, str(source), "-o", str(hidden)], check=True, timeout=LIMIT)
    words = [sys.executable, "-c", _RUN, str(core_library())]
    env = {**os.environ, "LD_PRELOAD": str(hidden), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(words, cwd=tmp_path, env=env, check=True, timeout=LIMIT)
    made = np.load(tmp_path / "outputs.npz")
    found = [made[name] for name in made.files]
    if dynamic:
        np.testing.assert_array_equal(found[0], inputs[0][:2, :3, :4])
    else:
        np.testing.assert_array_equal(found[0], 2 * inputs[0])
        np.testing.assert_array_equal(found[1], np.zeros_like(inputs[0], bool))


# ---- the compiler's process ----


def _ask(core: Core, request: object, data: bytes = b"") -> bytes:
    made, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = json.dumps(request).encode()
    core.check(
        core.lib.tpld_ask_compiler(
            text, data, ctypes.c_size_t(len(data)), ctypes.byref(made), ctypes.byref(size)
        )
    )
    reply = ctypes.string_at(made, size.value)
    ctypes.CDLL(None).free(made)
    return reply


def test_the_compiler_answers_refuses_and_comes_again(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in host_programs.python_with_pid(tmp_path).items():
        monkeypatch.setenv(name, value)
    core.lib.tpld_stop_compiler()
    for _ in range(2):
        with pytest.raises(CoreError, match="no operations of 'Toy' are known") as caught:
            _ask(core, {"ask": "divide", "what": "Toy", "models": []})
        assert caught.value.status == BAD_PROGRAM
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    with pytest.raises(CoreError, match="the compiler is gone") as caught:
        _ask(core, {"ask": "divide", "what": "Toy", "models": []})
    assert caught.value.status == FAILED
    with pytest.raises(CoreError, match="the request is damaged"):
        _ask(core, [])
    core.lib.tpld_stop_compiler()


def test_every_type_of_the_device_has_a_place_in_the_core(core: Core) -> None:
    assert all(held_as(dtype) in CODES for dtype in CODES)
