"""Child processes: replies, errors, crashes, limits of time, and nothing left behind."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from firmware_sim.errors import CompileError, DeviceCrash, MissingError
from firmware_sim.processes import process
from firmware_sim.processes.debugger import Debugger
from firmware_sim.processes.process import OUTPUT_TAIL, Child, Crash, InternalError
from tests.paths import ROOT
from tests.support.orphans import ended_with_its_parent


class CrashedError(DeviceCrash):
    def __init__(self, crash: Crash) -> None:
        super().__init__(f"{crash.activity} {crash.what}")
        self.crash = crash


def make(*args: str, **changes: Any) -> Child:
    options: dict[str, Any] = {"limit": 5.0, "name": "echo", "crashed": CrashedError} | changes
    return Child("tests.support.echo_child", list(args), **options)


def when_waiting(child: Child, do: Callable[[], object]) -> threading.Thread:
    """A started thread that calls `do` as soon as a request of `child` waits for its reply."""

    def wait() -> None:
        while not child._pending:
            time.sleep(0.01)
        do()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def gone(pid: int) -> bool:
    """No process, and no zombie."""
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture
def child() -> Iterator[Child]:
    with make("a", "b") as c:
        yield c


def test_reply_carries_header_and_payload(child: Child) -> None:
    reply, data = child.request({"op": "echo", "x": [1, "ü"]}, b"\0\xffpayload")
    assert reply == {"header": {"op": "echo", "x": [1, "ü"]}, "args": ["a", "b"]}
    assert data == b"\0\xffpayload"


def test_large_payload(child: Child) -> None:
    blob = random.Random(0).randbytes(3 << 20)
    assert child.request({"op": "echo"}, blob)[1] == blob


def test_many_requests_one_process(child: Child) -> None:
    pid = child.pid
    for i in range(200):
        assert child.request({"op": "echo", "i": i})[0]["header"] == {"op": "echo", "i": i}
    assert child.pid == pid


def test_passed_fd_is_shared() -> None:
    fd = os.memfd_create("test")
    os.write(fd, b"shared")
    with make(fds=[fd]) as child:
        assert child.request({"op": "fd"})[1] == b"shared"
    os.close(fd)


def test_log_lines_arrive_in_order_before_the_reply() -> None:
    lines: list[str] = []
    with make(on_log=lines.append) as child:
        child.request({"op": "log", "amount": 300})
        assert lines == [f"line {i}" for i in range(300)]


def test_a_request_from_a_log_callback_is_refused() -> None:
    child: Child

    def callback(text: str) -> None:
        child.request({"op": "echo"})

    with make(on_log=callback) as child:
        with pytest.raises(RuntimeError, match="from within a log callback"):
            child.request({"op": "log", "amount": 1})
        assert not child.alive  # its reply would have come to the next request


def test_output_of_python_and_c(capfd: pytest.CaptureFixture[str]) -> None:
    with make() as child:
        child.request({"op": "print"})
        assert sorted(capfd.readouterr().err.split("\n")) == ["", "from C", "from python"]


def test_output_before_an_abort_is_in_the_report() -> None:
    seen: list[str] = []
    with make(on_output=seen.append) as child, pytest.raises(CrashedError) as caught:
        child.request({"op": "print and die"})
    assert caught.value.crash.output == "last words\n" == "".join(seen)
    assert "Aborted" in caught.value.crash.fault


def test_of_long_output_the_report_has_the_end() -> None:
    seen: list[str] = []
    with make(on_output=seen.append) as child, pytest.raises(CrashedError) as caught:
        child.request({"op": "print and die", "amount": 3 * OUTPUT_TAIL})
    whole = "." * (3 * OUTPUT_TAIL) + "last words\n"
    assert "".join(seen) == whole
    assert caught.value.crash.output == whole[-OUTPUT_TAIL:]


def test_errors_travel_with_class_message_and_hint(child: Child) -> None:
    with pytest.raises(CompileError) as caught:
        child.request({"op": "user error"})
    assert (caught.value.message, caught.value.hint) == ("does not fit", "make it smaller")
    with pytest.raises(InternalError, match=r"(?s)process of echo:\nTraceback.*KeyError: 'oops'"):
        child.request({"op": "bug"})
    assert child.request({"op": "ok"})[0] == {"done": "ok"}


def test_error_at_start_is_raised_by_the_first_request() -> None:
    with make("missing") as child, pytest.raises(MissingError, match="nothing here"):
        child.request({"op": "echo"})
    assert gone(child.pid)


def test_death_at_start() -> None:
    with make("die") as child, pytest.raises(CrashedError, match="ended its process with exit code 7"):
        child.request({"op": "echo"})


def test_unknown_module_is_an_internal_error() -> None:
    with (
        Child("tests.no_such_child", limit=1, name="x", crashed=CrashedError) as child,
        pytest.raises(InternalError, match="No module named"),
    ):
        child.request({})


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (signal.SIGSEGV, r"operation raise signal crashed: SIGSEGV \(invalid memory access\)"),
        (signal.SIGFPE, r"crashed: SIGFPE \(integer division by zero\)"),
        (signal.SIGKILL, r"crashed: SIGKILL \(killed from outside"),
        (signal.SIGRTMIN + 1, r"crashed: signal 35"),
    ],
)
def test_signals_are_named(child: Child, number: int, text: str) -> None:
    with pytest.raises(CrashedError, match=text):
        child.request({"op": "raise signal", "amount": number})
    assert gone(child.pid)
    with pytest.raises(RuntimeError, match="the process has ended"):
        child.request({"op": "echo"})


def test_exit_and_a_closed_socket(child: Child) -> None:
    with pytest.raises(CrashedError, match="operation exit ended its process with exit code 3"):
        child.request({"op": "exit", "amount": 3})
    with make(limit=0.5) as other, pytest.raises(CrashedError):
        other.request({"op": "close socket"})
    assert gone(other.pid)


def test_a_request_has_a_limit_whatever_it_does(child: Child) -> None:
    child.request({"op": "echo"})  # started
    begin = time.monotonic()
    with pytest.raises(CrashedError, match=r"operation spin ran for 0\.3 s and was stopped"):
        child.request({"op": "spin"}, limit=0.3)
    assert time.monotonic() - begin >= 0.3
    assert gone(child.pid)


def test_the_next_part_of_a_request_has_its_own_time(child: Child) -> None:
    child.request({"op": "ticks", "amount": 0.2}, limit=1.0)  # 1.6 s in all


def test_more_time_is_asked_for_once_when_it_is_over(child: Child) -> None:
    asked = []

    def more() -> float:
        asked.append(True)
        return 1.0

    child.request({"op": "echo"}, limit=0.1, more=more)
    assert not asked
    with pytest.raises(CrashedError, match=r"operation spin ran for 1 s and was stopped"):
        child.request({"op": "spin"}, limit=0.1, more=more)
    assert asked == [True]


def test_no_limit(clock: list[float]) -> None:
    timer = process._Clock(1, 0)
    for _ in range(100):
        clock[0] += 0.25
        assert timer.expired(0, 0) is None


def test_a_debugger_stops_the_clock(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    timer = process._Clock(1, 1.0)
    monkeypatch.setattr(process, "_is_traced", lambda pid: True)
    for _ in range(20):
        clock[0] += 0.25
        assert timer.expired(0, 0) is None
    monkeypatch.setattr(process, "_is_traced", lambda pid: False)
    for _ in range(5):
        clock[0] += 0.25
        last = timer.expired(0, 0)
    assert last == 1.0


def test_whether_a_debugger_is_there() -> None:
    assert not process._is_traced(os.getpid())
    assert not process._is_traced(1 << 22)  # no such process
    code = "import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as traced:
        assert traced.stdout is not None
        traced.stdout.readline()
        found = process._is_traced(traced.pid)
        traced.kill()
    assert found


def test_endless_output_ends_the_child(child: Child) -> None:
    with pytest.raises(CrashedError, match=r"operation chatter printed more than 16 MiB and was stopped"):
        make(on_output=lambda text: None).request({"op": "chatter"}, limit=60)


def test_a_child_that_writes_into_its_connection_is_a_crash(child: Child) -> None:
    with pytest.raises(CrashedError, match="operation scribble wrote into the connection of its process"):
        child.request({"op": "scribble"})
    assert gone(child.pid)


def test_what_a_child_started_ends_with_it(child: Child) -> None:
    reply, _ = child.request({"op": "start a program"})
    pid = int(str(reply["pid"]))
    assert not gone(pid)
    child.close()
    ended_with_its_parent(pid)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time that clocks see, in seconds; none of it is spent waiting for a CPU."""
    now = [0.0]
    monkeypatch.setattr("firmware_sim.processes.process.time.monotonic", lambda: now[0])
    monkeypatch.setattr(process, "_run_delay", lambda pid: 0.0)
    yield now
    monkeypatch.undo()


def test_time_in_which_this_process_was_stopped_does_not_count(clock: list[float]) -> None:
    timer = process._Clock(1, 10.0)
    timer.expired(1, 0)
    clock[0] += 3600.0  # of these it believes two steps
    assert timer.expired(1, 0) is None
    for _ in range(40):
        clock[0] += 0.25
        last = timer.expired(1, 0)
    assert last == 10.0


def test_waiting_for_a_processor_counts_in_the_end(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it started itself may be what keeps the processors busy."""
    monkeypatch.setattr(process, "_run_delay", lambda pid: clock[0])
    timer, passed = process._Clock(1, 1.0), 0.0
    while timer.expired(0, 0) is None:
        clock[0] += 0.25
        passed += 0.25
        assert passed < 100
    assert passed > 10


def test_time_aside_has_a_limit_of_its_own(clock: list[float]) -> None:
    timer = process._Clock(1, 0.5)
    timer.expired(0, 1)
    for _ in range(8):
        clock[0] += 0.25
        assert timer.expired(0, 1) is None
    for _ in range(int(process.ASIDE_LIMIT * 4)):
        clock[0] += 0.25
        last = timer.expired(0, 1)
    assert last == process.ASIDE_LIMIT


def test_time_aside_does_not_count() -> None:
    with make(limit=0.5) as child:
        child.request({"op": "aside", "amount": 1.0})


def test_time_in_which_the_child_is_stopped_from_running_does_not_count() -> None:
    """Many spinning processes on one CPU: the child gets a small share of it and still answers."""
    cpu = next(iter(os.sched_getaffinity(0)))
    spin = f"import os\nos.sched_setaffinity(0, [{cpu}])\nwhile True: pass"
    load = [subprocess.Popen([sys.executable, "-S", "-c", spin]) for _ in range(8)]
    try:
        with make(limit=0.25) as child:
            child.request({"op": "echo"})
            os.sched_setaffinity(child.pid, [cpu])
            for _ in range(20):
                child.request({"op": "echo"})
    finally:
        for p in load:
            p.kill()
            p.wait()


def test_close_is_final_and_repeatable(child: Child) -> None:
    child.request({"op": "echo"})
    assert child.alive
    child.close()
    child.close()
    assert not child.alive
    assert gone(child.pid)


def test_close_from_another_thread_ends_a_waiting_request(child: Child) -> None:
    child.request({"op": "echo"})
    other = when_waiting(child, child.close)
    with pytest.raises(CrashedError, match="SIGKILL"):  # neither the limit nor the end of the operation
        child.request({"op": "spin"}, limit=100)
    other.join()
    assert gone(child.pid)


def test_a_forgotten_child_goes_with_its_object() -> None:
    child = make()
    child.request({"op": "echo"})
    pid, before = child.pid, len(os.listdir("/proc/self/fd"))
    del child
    gc.collect()
    assert gone(pid)
    assert len(os.listdir("/proc/self/fd")) == before - 3


def test_requests_from_several_threads_are_not_mixed_up(child: Child) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        for i in range(50):
            reply, data = child.request({"op": "echo", "n": number, "i": i}, bytes([number]) * 1000)
            if reply["header"] != {"op": "echo", "n": number, "i": i} or data != bytes([number]) * 1000:
                wrong.append(reply)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("op", ["idle", "spin"])
def test_sigkill_of_the_parent_leaves_no_process(op: str) -> None:
    script = f"""
import sys, threading
from tests.unit.test_process import make
child = make(limit=100.0)
child.request({{"op": "echo"}})
print(child.pid, flush=True)
if {op!r} == "spin":
    child.request({{"op": "spin"}})
threading.Event().wait(100)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.2)
        assert not gone(pid)
        parent.kill()
        parent.wait()
    ended_with_its_parent(pid)


def test_a_forked_copy_of_the_parent_leaves_the_child_alone() -> None:
    script = """
import os, sys
from tests.unit.test_process import make
child = make()
child.request({"op": "echo"})
if (copy := os.fork()) == 0:
    sys.exit(7)  # what is called at exit is
assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 7
child.request({"op": "echo"})
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_child_and_not_only_the_wait() -> None:
    child = make(limit=100.0)
    child.request({"op": "echo"})
    with pytest.raises(KeyboardInterrupt):
        when_waiting(child, lambda: os.kill(os.getpid(), signal.SIGINT))
        child.request({"op": "spin"})
    assert gone(child.pid)


# ---- in a debugger ----


def under(*program: str) -> Debugger:
    """A debugger that only runs what it is given, in a program of the system's."""

    def command(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        return [*program, *(f"{name}={value}" for name, value in environment.items()), *words]

    return Debugger(command, terminal=False)


def test_a_child_in_a_debugger_is_as_any_other(capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    with make("a", debugger=under("env"), env={"X": "y z"}, on_log=lines.append) as child:
        reply, data = child.request({"op": "echo"}, b"payload")
        assert reply == {"header": {"op": "echo"}, "args": ["a"]} and data == b"payload"
        child.request({"op": "log", "amount": 2})
        assert lines == ["line 0", "line 1"]
        child.request({"op": "print"})
        assert sorted(capfd.readouterr().err.split("\n")) == ["", "from C", "from python"]
        pid = child.pid
    assert gone(pid)


def test_in_a_debugger_there_is_no_limit_of_time() -> None:
    with make(debugger=under("env"), limit=0.01) as child:
        assert child.request({"op": "ticks", "amount": 0.1})[0] == {"done": "ticks"}


def test_leaving_a_debugger_is_an_interrupt() -> None:
    with make(debugger=under("env")) as child:
        child.request({"op": "echo"})
        with pytest.raises(KeyboardInterrupt):
            child.request({"op": "exit", "code": 3})
        assert not child.alive


def test_a_debugger_that_does_not_start_the_child() -> None:
    missing = pytest.raises(MissingError, match="echo did not start in the debugger")
    with make(debugger=under("false")) as child, missing:
        child.request({"op": "echo"})


def test_a_debugger_beside_the_child_ends_with_it() -> None:
    child = make(debugger=Debugger(beside=["sleep", "1000"]))
    child.request({"op": "echo"})
    (beside,) = child._debuggers
    assert beside.poll() is None
    child.close()
    assert beside.poll() is not None and gone(child.pid)
