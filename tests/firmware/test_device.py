"""The device process with a firmware and a processor made for the test."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import wire
from firmware_sim.chip import DDR_BASE, DDR_BYTES, STATIC_CONTEXT_OFFSET
from firmware_sim.device.client import Device, FirmwareError, StreamGroup
from firmware_sim.device.heap import Heap
from firmware_sim.device.time_limit import time_limit
from firmware_sim.errors import AddressError, DeviceCrash, DeviceError, MissingError, UsageError
from firmware_sim.firmware.image import FirmwareLayer
from firmware_sim.firmware.native import Platform
from firmware_sim.processes.process import InternalError
from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord
from tests.paths import ROOT
from tests.support.orphans import ended_with_its_parent

SPOT = 0x600_0000  # an offset in DDR that the heap may hand out
Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles fake_firmware.c with the given macros, by the system's compiler or by zig."""
    compiler = [shutil.which("cc")] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]

    def run(*macros: str) -> Path:
        out = tmp_path_factory.mktemp("firmware") / "firmware.so"
        includes = [f"-I{ROOT}/sdk/{name}" for name in ("firmware", "generated")]
        flags = ["-O1", "-g", "-shared", "-fPIC", "-w", "-fno-sanitize=undefined", *includes]
        source = ROOT / "tests/sources/fake_firmware.c"
        command = [*map(str, compiler), *flags, *(f"-D{m}" for m in macros), str(source), "-o", str(out)]
        subprocess.run(command, check=True, timeout=300)
        return out

    return run


@pytest.fixture(scope="module")
def image(build: Build) -> Path:
    return build()


Open = Callable[..., Device]


@pytest.fixture
def open_device(image: Path) -> Iterator[Open]:
    opened: list[Device] = []

    def open_it(**changes: Any) -> Device:
        options: dict[str, Any] = {
            "firmware": image,
            "processor": "tests.support.fake_processor:make",
            "time_limit": 1.0,
        } | changes
        opened.append(Device(**options))
        return opened[-1]

    yield open_it
    for d in opened:
        d.close()


@pytest.fixture
def device(open_device: Open) -> Device:
    return open_device()


def args(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def word(device: Device, offset: int = SPOT) -> int:
    return int(device.read_array(DDR_BASE + offset, (1,), np.uint32)[0])


# ---- memory ----


def test_write_and_read_back(device: Device) -> None:
    a = device.malloc(1000)
    b = device.malloc(4)
    assert a == DDR_BASE + STATIC_CONTEXT_OFFSET
    assert b == a + 4096
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    device.write(a, x.transpose(2, 0, 1))
    assert np.array_equal(device.read_array(a, (4, 2, 3), "float32"), x.transpose(2, 0, 1))
    device.write(b, b"abcd")
    assert device.read(b, 4) == b"abcd"
    device.write(b, b"")
    assert device.read(b, 0) == b""
    assert device.read_array(b, (0, 3), np.int8).shape == (0, 3)
    device.write(DDR_BASE + DDR_BYTES - 4, b"last")
    assert device.read(DDR_BASE + DDR_BYTES - 4, 4) == b"last"


def test_access_outside_ddr_is_refused(device: Device) -> None:
    for addr, size in [(DDR_BASE - 1, 4), (DDR_BASE + DDR_BYTES - 3, 4), (0, 1), (DDR_BASE, -1)]:
        with pytest.raises(DeviceError, match=r"do not lie in DDR \(0x100000000 \.\. 0x400000000\)"):
            device.read(addr, size)
    with pytest.raises(DeviceError, match="do not lie in DDR"):
        device.write(DDR_BASE + DDR_BYTES, b"x")


def test_writing_to_the_firmwares_own_memory_is_refused(device: Device) -> None:
    own = DDR_BASE + STATIC_CONTEXT_OFFSET
    before = device.read(own - 64, 128)
    for addr, size in [(DDR_BASE, 4), (own - 1, 1), (own - 64, 128), (own - 1, 0)]:
        for call in (lambda a, n: device.write(a, bytes([1]) * n), device.file_of, device.check_writable):
            with pytest.raises(AddressError, match=r"where the firmware's own memory is.* up to 0x1050fffff"):
                call(addr, size)
    assert device.read(own - 64, 128) == before
    device.write(own, b"mine")
    assert device.read(own, 4) == b"mine"


def test_out_of_memory_and_double_free(device: Device) -> None:
    with pytest.raises(
        DeviceError, match=r"out of device memory: 13\d+ bytes asked for, \d+ free, \d+ in one"
    ):
        device.malloc(13 << 30)
    big = device.malloc(10 << 30)
    with pytest.raises(DeviceError, match="out of device memory"):
        device.malloc(2 << 30)
    device.write(big + (9 << 30), b"x")
    device.free(big)
    with pytest.raises(DeviceError, match="freed already"):
        device.free(big)
    with pytest.raises(DeviceError, match="cannot allocate 0 bytes"):
        device.malloc(0)
    assert device.malloc(11 << 30) == big


def test_freed_memory_goes_back_to_the_system(device: Device) -> None:
    fd = device._open().fd

    def mebibytes() -> int:
        return os.fstat(fd).st_blocks * 512 >> 20

    before = mebibytes()
    assert before < 64  # 12 GiB of address space, little memory
    a = device.malloc(64 << 20)
    device.write(a, np.ones(64 << 20, np.uint8))
    assert mebibytes() >= before + 64
    device.free(a)
    assert mebibytes() <= before + 1


@given(st.lists(st.integers(1, 40), max_size=30), st.data())
def test_heap_blocks_never_overlap_and_all_comes_back(sizes: list[int], data: st.DataObject) -> None:
    heap = Heap(1000, 400, 8)
    live: dict[int, int] = {}
    for size in sizes:
        try:
            at = heap.malloc(size)
        except DeviceError:
            # First fit fails only where no gap between live blocks is large enough.
            edges = sorted((a, a + n) for a, n in live.items())
            ends = [1000, *(-(-e // 8) * 8 for _, e in edges)]
            gaps = [s - e for e, s in zip(ends, [*(a for a, _ in edges), 1400], strict=True)]
            assert max(gaps) < -(-size // 8) * 8
            continue
        assert at % 8 == 0
        assert at >= 1000
        assert at + size <= 1400
        assert all(at + size <= a or a + n <= at for a, n in live.items())
        live[at] = size
        if data.draw(st.booleans()):
            victim = data.draw(st.sampled_from(sorted(live)))
            heap.free(victim)
            del live[victim]
    for at in live:
        heap.free(at)
    assert heap.used == 0
    assert heap.malloc(400) == 1000


def test_kernel_and_host_see_the_same_memory(device: Device) -> None:
    device.launch("store_pointer", args(SPOT, 77))
    assert word(device) == 77
    device.launch("store", args(SPOT, 78))
    assert word(device) == 78
    device.launch("store_unpolled", args(SPOT, 79))
    assert word(device) == 79
    assert device.local_memory.shape == (64, 512 << 10)
    assert device.l2.shape == (4 << 20,)


# ---- requests ----


def test_query(device: Device) -> None:
    info = device.query()
    assert info.abi_version == wire.ABI_VERSION
    assert info.layers == (
        FirmwareLayer("TPU_ONE", 0, 8, 0x1234_5678_9ABC_DEF0),
        FirmwareLayer("TPU_TWO", 7, 0, 1),
    )
    assert info.kernels == ("one", "two")


@pytest.mark.parametrize(
    ("missing", "message"),
    [(9 + 1, "ends inside its 2 layers"), (9 + 2 * 88 + 1, "is 15 bytes long")],
)
def test_query_answers_that_end_early(open_device: Open, build: Build, missing: int, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        open_device(firmware=build(f"QUERY_CUT={missing}")).query()


def test_infer_shape_carries_everything(device: Device) -> None:
    x = TensorRecord((3, 4), dtype=wire.DType.INT32, ttype=wire.TType.NEURON_SHAPE, host_data=(5, 6, 7))
    y = TensorRecord((8, 9, 10))
    z = TensorRecord((1, 1), host_data=(100,))
    # 5 parameter bytes: the host data must start at the next multiple of 8.
    a, b, c, d = device.infer_shape(0x10003, b"\x0bxxxx", [x, y, z], 4)
    assert a.shape == (118, 11)
    assert a.host_data == (-7, 0x10003)
    assert a.dtype is wire.DType.INT32
    assert a.ttype is wire.TType.NEURON_SHAPE
    assert b.shape == (118, 11, 10)
    assert b.host_data is None
    assert c.slice_shape == (1, 1)
    assert d.shape == a.shape


def test_record_collects_command_groups(device: Device) -> None:
    program = Program([ProgramTensor(TensorKind.INPUT, TensorRecord((1,)))], [Step(StepOp.GLOBAL)])
    recorded = device.record(program)
    groups = recorded.groups
    assert [(g.bd_num, g.gdma_num) for g in groups] == [(2, 1), (1, 0)]
    rows = np.frombuffer(groups[0].bd + groups[1].bd, "<u4").reshape(-1, 32)
    assert rows[:, 1].tolist() == [1, 3, 4]
    assert np.frombuffer(groups[0].gdma, "<u4")[:3].tolist() == [1, 2, 2]
    assert recorded.steps == ((2, 1), (3, 1), (3, 1))  # what the fake firmware calls steps
    assert word(device, 3) == 0  # nothing was executed


def test_running_while_recording_is_refused(device: Device) -> None:
    with pytest.raises(DeviceError, match="the program: stored command streams were started while recording"):
        device.record(Program([], [Step(StepOp.GLOBAL)] * 2))


def test_run_streams(device: Device) -> None:
    commands = np.zeros((3, 32), np.uint32)
    commands[:, :3] = [[1, SPOT, 1], [1, SPOT + 4, 2], [1, SPOT + 8, 3]]
    at = device.malloc(3 * 128)
    device.write(at, commands)
    device.run_streams([StreamGroup(at, 0, 2, 0), StreamGroup(0, at + 256, 0, 1)])
    assert device.read_array(DDR_BASE + SPOT, (3,), np.uint32).tolist() == [1, 2, 3]
    device.run_streams([])
    assert device.cycles == 2 * 10 + 100


def test_streams_outside_ddr_are_refused(device: Device) -> None:
    for group in (StreamGroup(16, 0, 1, 0), StreamGroup(0, DDR_BASE + DDR_BYTES - 128, 0, 2)):
        place = "the static network, command group 1"
        with pytest.raises(DeviceError, match=rf"^{place}: the (BD|GDMA) stream of .* not lie in DDR"):
            device.run_streams([group])


def test_numbers_that_no_request_holds(device: Device) -> None:
    tensor = TensorRecord((1,))
    for call in (
        lambda: device.run_streams([StreamGroup(-1, 0, 0, 0)]),
        lambda: device.run_streams([StreamGroup(0, 0, 1 << 32, 0)]),
        lambda: device.infer_shape(1 << 31, b"", [tensor], 1),
        lambda: device.infer_shape(0, b"", [TensorRecord((1 << 31,))], 1),
        lambda: device.infer_shape(0, b"", [TensorRecord((1,), host_data=(1 << 31,))], 1),
        lambda: device.infer_shape(0, b"", [TensorRecord((1,) * 9)], 1),
        lambda: device.run_program(1 << 64, 1, [tensor], [tensor], 0, 0, 0),
        lambda: device.record(Program([], [Step(StepOp.COPY, (-1,))])),
    ):
        with pytest.raises(UsageError, match=r"out of range|9 dimensions"):
            call()


def test_streams_outside_of_ddr_are_not_copied_first(device: Device) -> None:
    with pytest.raises(DeviceError, match="does not lie in DDR"):
        device.run_streams([StreamGroup(DDR_BASE, 0, 1 << 27, 0)])  # 16 GiB


def test_run_program(device: Device) -> None:
    out = device.run_program(1000, 20, [TensorRecord((1,))], [TensorRecord((9, 3))], 300, 4, 5000)
    assert out[0].shape == (4, 3)
    assert out[0].addr == 6320


def test_bad_arguments(device: Device) -> None:
    for name in ("", "x" * 65, "a\0b"):
        with pytest.raises(UsageError, match="is not a kernel name"):
            device.launch(name)
    with pytest.raises(UsageError, match="17 inputs"):
        device.infer_shape(0, b"", [TensorRecord((1,))] * 17, 1)


def test_hundred_launches_in_one_process(device: Device) -> None:
    process = device._started().pid
    for i in range(100):
        device.launch("store", args(SPOT + 4 * i, i))
    assert device.read_array(DDR_BASE + SPOT, (100,), np.uint32).tolist() == list(range(100))
    assert device._started().pid == process


# ---- errors that are not crashes ----


def test_firmware_errors(device: Device) -> None:
    with pytest.raises(FirmwareError, match=r"^kernel fail: text of the firmware$") as caught:
        device.launch("fail")
    assert caught.value.status == wire.Status.ASSERT
    with pytest.raises(FirmwareError, match=r"^kernel fail_silent failed with code -77"):
        device.launch("fail_silent")
    with pytest.raises(FirmwareError, match=r"okk_x: wrong \[called at .*fake_firmware.c:\d+ in issue_bd\]"):
        device.launch("fail_at")
    with pytest.raises(DeviceError, match="gave no reply"):
        device.launch("no_reply")
    with pytest.raises(DeviceError, match="reply is damaged"):
        device.launch("long_reply")


def test_error_of_the_processor_reaches_the_caller(device: Device) -> None:
    with pytest.raises(
        DeviceError, match=r"^kernel refuse: command refused, issued at .*fake_firmware.c:\d+ in issue_bd\n"
    ) as caught:
        device.launch("refuse")
    assert caught.value.hint == "do not do that"
    assert not isinstance(caught.value, DeviceCrash)
    device.launch("store", args(SPOT, 5))
    assert word(device) == 5


def test_bug_of_the_processor_is_internal(device: Device) -> None:
    with pytest.raises(InternalError, match=r"(?s)process of device 0:\n.*a bug in the processor"):
        device.launch("bug")
    device.launch("empty")


def test_too_many_descriptors_at_once(device: Device) -> None:
    with pytest.raises(DeviceError, match="hands over 70000"):
        device.launch("too_many")


# ---- crashes ----


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        ("segv", r"crashed: SIGSEGV \(invalid memory access\)"),
        ("past_l2", "crashed: SIGSEGV"),
        ("past_ddr", "crashed: SIGSEGV"),
        ("stack", "crashed: SIGSEGV"),
        ("abort", r"crashed: SIGABRT \(abort or failed assertion\)"),
        ("div", r"crashed: SIGFPE \(integer division by zero\)"),
        ("trap", r"crashed: SIG(ILL|TRAP)"),
        ("exit", "ended its process with exit code 3"),
    ],
)
def test_crash_names_the_kernel_and_the_device_survives(device: Device, kernel: str, what: str) -> None:
    a = device.malloc(4)
    device.write(a, b"keep")
    with pytest.raises(DeviceCrash, match=rf"^kernel {kernel} {what}.*; device 0 was reset"):
        device.launch(kernel)
    assert device.read(a, 4) == b"keep"
    device.launch("store", args(SPOT, 5))
    assert word(device) == 5
    assert device.malloc(4) != a


@pytest.mark.parametrize("kernel", ["spin", "sleep", "poll_forever", "log_forever"])
def test_endless_kernels_are_stopped(open_device: Open, kernel: str) -> None:
    device = open_device(time_limit=0.3, on_log=lambda text: None)
    begin = time.monotonic()
    with pytest.raises(DeviceCrash, match=rf"kernel {kernel} ran for 0\.3 s") as caught:
        device.launch(kernel)
    assert time.monotonic() - begin < 60  # the limit leaves out what a busy machine takes
    assert "--time-limit" in caught.value.hint
    device.launch("empty")


def test_endless_stream_of_instructions_is_stopped(open_device: Open) -> None:
    device = open_device(time_limit=0.5)
    said = r"kernel stream( ran for 0\.5 s and was stopped|.* takes more than 0\.5 s on the chip)"
    with pytest.raises(DeviceError, match=said):  # by the clock of this machine or of the chip
        device.launch("stream")
    device.launch("many", args(20_000))


def test_a_recording_holds_so_many_instructions(open_device: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    device = open_device(time_limit=60)
    with pytest.raises(DeviceError, match=r"kernel many: more than 4194304 instructions to record"):
        device.record_launch("many", args(4_200_000))


def test_time_of_the_engines_counts(open_device: Open) -> None:
    device = open_device(time_limit=0.4)
    with pytest.raises(DeviceCrash, match=r"kernel engine_time ran for 0\.4 s and was stopped"):
        device.launch("engine_time", args(3000))
    open_device(time_limit=0).launch("engine_time", args(700))


def test_a_static_net_may_take_what_its_modelled_time_says(
    open_device: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def modelled() -> float:
        asked.append(True)
        return 0.001

    open_device().run_streams([], modelled)
    assert not asked
    monkeypatch.setattr("firmware_sim.device.time_limit.USUAL", 0.3)
    monkeypatch.setattr("firmware_sim.device.time_limit.SLOWEST", 1000)
    limit = time_limit()
    assert (limit.seconds, limit.of_net(0.001), limit.of_net(1e-6)) == (0.3, 1.0, 0.3)
    assert time_limit(0.5).of_net(1.0) == 0.5  # who chooses a limit means it


def test_activity_of_the_firmware_is_in_the_report(device: Device) -> None:
    with pytest.raises(DeviceCrash, match=r"layer deep_inside \(TPU_X\), global function crashed: SIGABRT"):
        device.launch("activity")
    with pytest.raises(DeviceCrash, match=r"^x{512} crashed: SIGABRT"):
        device.launch("long_activity")


def test_two_devices_do_not_disturb_each_other(open_device: Open) -> None:
    one, two = open_device(dev_id=1, time_limit=0.5), open_device(dev_id=2)
    failures: list[str] = []

    def crash() -> None:
        for kernel in ("segv", "spin", "abort"):
            try:
                one.launch(kernel)
            except DeviceCrash as error:
                failures.append(str(error))

    thread = threading.Thread(target=crash)
    thread.start()
    count = 0
    while thread.is_alive() or count < 50:
        two.launch("store", args(SPOT, count))
        assert word(two) == count
        count += 1
    thread.join()
    assert len(failures) == 3
    assert all("device 1 was reset" in text for text in failures)
    assert word(one) == 0


def test_launches_from_several_threads(device: Device) -> None:
    def work(number: int) -> None:
        for i in range(40):
            device.launch("store", args(SPOT + 4 * (40 * number + i), 1000 * number + i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    got = device.read_array(DDR_BASE + SPOT, (4, 40), np.uint32)
    assert got.tolist() == [[1000 * n + i for i in range(40)] for n in range(4)]


def test_platform_struct_is_that_of_the_header(image: Path) -> None:
    names = [name for name, _ in Platform._fields_]
    expected = [*(getattr(Platform, n).offset for n in names), ctypes.sizeof(Platform)]
    lib = ctypes.CDLL(str(image))
    assert list((ctypes.c_uint32 * len(expected)).in_dll(lib, "platform_layout")) == expected


# ---- log and output ----


def test_log_callback_and_printf(open_device: Open, capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    device = open_device(on_log=lines.append)
    device.launch("log")
    assert lines == ["first", "sec\nond"]
    device.launch("printf")
    assert capfd.readouterr() == ("", "printed by a kernel\n")


def test_log_goes_to_stderr_by_default(device: Device, capfd: pytest.CaptureFixture[str]) -> None:
    device.launch("log")
    assert capfd.readouterr() == ("", "firstsec\nond\n")


# ---- start and end ----


def test_fast_math_in_the_firmware_does_not_reach_the_emulator(build: Build, open_device: Open) -> None:
    """A library linked with -ffast-math makes the processor flush denormals when it is loaded."""
    device = open_device(firmware=build("FAST_MATH"))
    device.launch("denormal", args(SPOT))
    expected = np.float32(1e-39) * np.float32(0.5)
    assert expected != 0
    assert device.read_array(DDR_BASE + SPOT, (1,), np.float32)[0] == expected


def test_firmware_that_does_not_boot(build: Build, open_device: Open, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"firmware\.so refused to boot \(code -9\)"):
        open_device(firmware=build("BOOT_CODE=-9"))
    with pytest.raises(DeviceCrash, match=r"firmware .*firmware\.so crashed: SIGSEGV"):
        open_device(firmware=build("BOOT_CRASH"))
    (tmp_path / "firmware.so").write_bytes(b"no library")
    with pytest.raises(DeviceError, match="cannot be loaded as a firmware"):
        open_device(firmware=tmp_path)


def test_where_the_firmware_comes_from(
    image: Path, open_device: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("BMRUNTIME_FIRMWARE_PATH", raising=False)
    monkeypatch.chdir(tmp_path)  # not a workspace
    with pytest.raises(MissingError, match="no firmware: none was given") as caught:
        open_device(firmware=None)
    assert caught.value.hint == "run build_layers"
    monkeypatch.setenv("BMRUNTIME_FIRMWARE_PATH", str(image.parent))
    assert open_device(firmware=None).firmware.path == image
    monkeypatch.setenv("BMRUNTIME_FIRMWARE_PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"no firmware at .*firmware\.so \(BMRUNTIME_FIRMWARE_PATH\)"):
        open_device(firmware=None)
    assert open_device(firmware=image).firmware.path == image


def test_where_the_time_limit_comes_from(open_device: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (time_limit().seconds, time_limit().chosen) == (60, False)
    monkeypatch.setenv("TPULAYER_TIME_LIMIT", "0.25")
    assert time_limit().seconds == 0.25
    assert time_limit(3).seconds == 3
    with pytest.raises(DeviceCrash, match=r"kernel spin ran for 0\.25 s"):
        open_device(time_limit=None).launch("spin")
    for text in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv("TPULAYER_TIME_LIMIT", text)
        with pytest.raises(UsageError, match=f"TPULAYER_TIME_LIMIT {text}: give a number of seconds"):
            open_device(time_limit=None)
    monkeypatch.delenv("TPULAYER_TIME_LIMIT")
    for wrong in (-1, float("nan")):
        with pytest.raises(UsageError, match=r"time_limit -?\w+: give a number of seconds, 0 for no limit"):
            open_device(time_limit=wrong)


def test_close_leaves_nothing(open_device: Open) -> None:
    gc.collect()
    fds = len(os.listdir("/proc/self/fd"))
    device = open_device()
    pid = device._started().pid
    local = device.local_memory
    device.close()
    device.close()
    assert not Path(f"/proc/{pid}").exists()
    assert local[0, 0] == 0  # still mapped
    del local
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == fds
    for use in (lambda: device.launch("empty"), lambda: device.malloc(4), lambda: device.read(DDR_BASE, 1)):
        with pytest.raises(DeviceError, match="device 0 is closed"):
            use()


def test_memory_is_unmapped_with_the_last_view(open_device: Open) -> None:
    gc.collect()

    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("memfd:device")

    before = mapped()
    device = open_device()
    assert mapped() == before + 1
    device.close()
    gc.collect()
    assert mapped() == before


def test_sigkill_of_the_parent_leaves_no_process(image: Path) -> None:
    script = f"""
from firmware_sim.device.client import Device
device = Device({str(image)!r}, processor="tests.support.fake_processor:make", time_limit=100)
print(device._started().pid, flush=True)
device.launch("spin")
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.2)
        parent.kill()
        parent.wait()
    ended_with_its_parent(pid)
