"""Kernels and layers in a real gdb, natively and on the controller, driven through its machine interface."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from firmware_sim.firmware.image import DEBUG_NAME, Kind
from tests.paths import ROOT
from tests.support.doc_blocks import blocks_of
from tests.support.gdb_mi import InGdb, Mi, needs_arm_gdb, needs_gdb, needs_gdbserver
from tests.support.gdb_remote import Remote, word
from tests.support.workspaces import built_demo, environment, tpulayer
from user_layers.workspace import Workspace

KERNEL = """#include "okk.h"

typedef struct {
    unsigned long long y_addr, x_addr;
    int n;
    float factor;
} __attribute__((packed)) scale_args_t;

static volatile int stop = 1, wrong;

static void load(unsigned long long from, const dim4 *shape) {
    okk_gdma_32bit_cpy_S2L(0, from, shape, NULL, NULL);
}

void scale(const void *args) {
    const scale_args_t *p = args;
    okk_initialize();
    dim4 shape = {1, 64, 1, p->n / 64};
    load(p->x_addr, &shape);
    while (!stop) {
    }
    if (wrong) *(volatile int *)8 = 1;
    okk_bdc_mul_C(0x10000, 0, p->factor, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->y_addr, 0x10000, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scale)
"""
ARGS = ["--arg", "n=256", "--arg", "factor=2", "--in", "x_addr=x.npy", "--out", "y_addr=256:float32:y.npy"]
RUN = ["run_kernel", "--kernel", "scale.c", "--name", "scale", *ARGS]

BOTH = pytest.mark.parametrize(
    "kind", [pytest.param("native", marks=needs_gdb), pytest.param("arm", marks=needs_arm_gdb)]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scale.c").write_text(KERNEL)
    np.save(tmp_path / "x.npy", np.arange(256, dtype=np.float32))
    return tmp_path


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("gdb") / "ws"
    return built_demo(tmp_path_factory, root)


def line_of(text: str) -> int:
    return 1 + KERNEL[: KERNEL.index(text)].count("\n")


def check_result(folder: Path) -> None:
    assert np.array_equal(np.load(folder / "y.npy"), np.arange(256, dtype=np.float32) * 2)


@BOTH
def test_a_kernel_from_its_first_line_to_its_result(folder: Path, kind: Kind) -> None:
    with InGdb(*RUN, "--firmware", kind, "--time-limit", "1", cwd=folder) as run:
        mi = run.mi
        function, file, line = mi.frames()[0]
        assert (function, file) == ("scale", "scale.c")
        assert line_of("void scale") <= line <= line_of("okk_initialize")
        assert ("op_launch", "fw_main.c") in [frame[:2] for frame in mi.frames()]
        assert mi.value("((const scale_args_t *)args)->n") == "256"
        time.sleep(2)  # longer than its limit of time
        mi.call(f"-break-insert scale.c:{line_of('load(p->x_addr')}")
        assert mi.go()["reason"] == "breakpoint-hit"
        mi.call("-break-delete")
        assert mi.value("*p").endswith("n = 256, factor = 2}")
        assert mi.value("shape") == "{n = 1, c = 64, h = 1, w = 4}"
        assert mi.go("-exec-next")["reason"] == "end-stepping-range"
        mi.call("-exec-continue")
    check_result(folder)
    assert "550 MHz" in run.output


@BOTH
def test_an_endless_loop_is_interrupted(folder: Path, kind: Kind) -> None:
    with InGdb(*RUN, "--firmware", kind, "--time-limit", "1", cwd=folder) as run:
        mi = run.mi
        mi.value("stop = 0")
        run.keys("continue\n")
        time.sleep(1.5)
        run.keys("\x03")
        assert mi.stopped()["signal-name"] in ("SIGINT", "0")
        assert ("scale", "scale.c") in [frame[:2] for frame in mi.frames()]
        mi.value("stop = 1")
        mi.call("-exec-continue")
    check_result(folder)


@BOTH
def test_a_crash_is_shown_and_then_told(folder: Path, kind: Kind) -> None:
    with InGdb(*RUN, "--firmware", kind, cwd=folder, code=1) as run:
        run.mi.value("wrong = 1")
        stopped = run.mi.go()
        assert (stopped["signal-name"], stopped["func"]) == ("SIGSEGV", "scale")
        assert int(stopped["line"]) == line_of("if (wrong)")
        run.mi.call("-exec-continue")
        if kind == "native":  # its own handler, and then the end
            run.mi.stopped()
            run.mi.call("-gdb-exit")
    assert re.search(r"error: kernel scale .* at scale\.c:\d+ in scale; device 0 was reset", run.output)


@BOTH
def test_leaving_gdb_ends_the_command(folder: Path, kind: Kind) -> None:
    with InGdb(*RUN, "--firmware", kind, cwd=folder, code=130) as run:
        run.mi.call("-gdb-exit")
    assert not (folder / "y.npy").exists()


@BOTH
def test_the_second_layer_of_a_dynamic_net(ws: Workspace, kind: Kind) -> None:
    with InGdb("test_tpu_layer", "1", "--firmware", kind, cwd=ws.root) as run:
        mi = run.mi
        mi.call("-break-delete")
        mi.call("-exec-continue")
        mi.ready()  # of the device that compiles; the net runs on another one
        mi.until(r"^=thread-group-added")
        mi.ready()
        seen = [mi.frames()[0][0]]
        for _ in range(3):
            names = [frame[0] for frame in mi.frames()]
            assert "fw_layer_run" in names and "fw_program_run" in names
            if seen[-1].startswith("double"):
                break
            mi.go()
            seen.append(mi.frames()[0][0])
        assert seen[0].startswith("crop") and seen[-1].startswith("double")
        assert "fw_group_run" in [frame[0] for frame in mi.frames()]  # in local memory, among others
        assert mi.value("in_num") == "1" and mi.value("in_tensors[0].dims") == "4"
        mi.call("-break-delete")
        mi.call("-exec-continue")
    assert run.output.count("equals numpy bit for bit") == 4


@BOTH
def test_a_local_function_and_a_parameter_struct(ws: Workspace, kind: Kind) -> None:
    with InGdb("test", "crop", "--firmware", kind, "--time-limit", "5", cwd=ws.root) as run:
        mi = run.mi
        assert mi.frames()[0][0] == "crop_global"
        mi.call("-break-delete 1")
        where = mi.value("((const tpu_crop_param_t *)param)->before[0]")
        assert where.lstrip("-").isdigit()
        stopped = mi.go()
        assert stopped["func"] == "crop_local"
        mi.call("-break-delete")
        mi.call("-exec-continue")
    assert re.search(r"test: all \d+ are equal to golden", run.output)


def port_in(process: subprocess.Popen[str], pattern: str) -> int:
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(pattern, line):
            return int(found[1])
    raise AssertionError("no port was told")


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "user_layers.cli.main", *words],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ends_well(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


@needs_gdb
@needs_gdbserver
def test_a_gdb_of_ones_own_connects_to_native_code(folder: Path) -> None:
    """As editors do."""
    with start(folder, *RUN, "--gdb-port", "0") as process:
        port = port_in(process, r"^Listening on port (\d+)")
        words = ["gdb", "-q", "-nx", "-i=mi", "-ex", "set breakpoint pending on", "-ex", "set sysroot /"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as gdb:
            assert gdb.stdin is not None and gdb.stdout is not None
            mi = Mi(gdb.stdout.fileno(), gdb.stdin.fileno())
            mi.call(f"-file-exec-and-symbols {sys.executable}")
            mi.call(f"-target-select remote 127.0.0.1:{port}")
            mi.call("-break-insert -f scale")
            assert mi.go()["func"] == "scale"
            assert mi.value("((const scale_args_t *)args)->n") == "256"
            mi.call("-exec-continue")
            ends_well(process)
            mi.call("-gdb-exit")
    check_result(folder)


def test_the_controller_s_server_needs_no_gdb(folder: Path) -> None:
    with start(folder, *RUN, "--firmware", "arm", "--gdb-port", "0") as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "gdb server for the controller" in line)
        found = re.search(r"at 127\.0\.0\.1:(\d+); in a gdb for ARM: file (\S+),.*break scale", line)
        assert found is not None, line
        elf = Path(found[2])
        assert elf.name == DEBUG_NAME
        with elf.open("rb") as stream:
            symbols = ELFFile(stream).get_section_by_name(".symtab")
            (symbol,) = symbols.get_symbol_by_name("scale")
        with Remote(int(found[1])) as gdb:
            assert gdb.ask("?") == "S05"
            assert gdb.ask(f"Z0,{symbol['st_value']:x},4") == "OK"
            assert gdb.ask("c") == "S05"
            assert word(gdb.ask("pf")) == symbol["st_value"]
            args = word(gdb.ask("p0"))
            assert gdb.ask(f"m{args + 16:x},4") == (256).to_bytes(4, "little").hex()
            assert gdb.ask("s") == "S05" and word(gdb.ask("pf")) == symbol["st_value"] + 4
            gdb.tell("c")
            assert "controller ran" in ends_well(process)
    check_result(folder)


def test_what_is_not_there_is_said(folder: Path, ws: Workspace) -> None:
    nothing = environment(PATH=str(folder))
    done = tpulayer("test_tpu_layer", "0", "--gdb", cwd=ws.root, env=nothing, code=3)
    assert "error: --gdb: gdb is not installed" in done.stderr and "apt-get install gdb" in done.stderr
    done = tpulayer("test", "double", "--firmware", "arm", "--gdb", cwd=ws.root, env=nothing, code=3)
    assert "--gdb: gdb-multiarch is not installed" in done.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(0, marks=(needs_gdb, needs_gdbserver)),
        pytest.param(1, marks=needs_arm_gdb),
    ],
)
def test_an_editor_s_launch(ws: Workspace, number: int) -> None:
    """What Visual Studio Code does with the two files, as far as gdb sees it."""
    tpulayer("init", ".", "--vscode", cwd=ws.root)
    launch, tasks = (
        json.loads((ws.root / ".vscode" / name).read_text()) for name in ("launch.json", "tasks.json")
    )
    one = launch["configurations"][number]
    (task,) = (task for task in tasks["tasks"] if task["label"] == one["preLaunchTask"])
    (usual,) = re.findall(r"--gdb-port (\d+)$", task["command"])
    port = str(free_port())
    shell = task["options"]["shell"]
    command = task["command"].replace("${input:layer}", "double").replace(usual, port)
    ready = re.compile(task["problemMatcher"]["background"]["endsPattern"])
    with subprocess.Popen(
        [shell["executable"], *shell["args"], command],
        cwd=ws.root,
        env=environment(TPULAYER_PYTHON=sys.executable),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if ready.search(line):
                break
        else:
            raise AssertionError("".join(said))
        settings = [word for text in one["setupCommands"] for word in ("-ex", text["text"])]
        words = [one["miDebuggerPath"], "-q", "-nx", "-i=mi", *settings]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as gdb:
            assert gdb.stdin is not None and gdb.stdout is not None
            mi = Mi(gdb.stdout.fileno(), gdb.stdin.fileno())
            program = one["program"].replace("${workspaceFolder}", str(ws.root))
            mi.call(f"-file-exec-and-symbols {program}")
            mi.call(f"-target-select remote {one['miDebuggerServerAddress'].replace(usual, port)}")
            mi.call("-break-insert -f --source bm_device_double.c --function double_local")
            assert mi.go()["func"] == "double_local"
            mi.call("-break-delete")
            mi.call("-exec-continue")
            assert "are equal to golden" in ends_well(process)
            mi.call("-gdb-exit")


@pytest.mark.slow
@pytest.mark.parametrize(
    "reason",
    [
        pytest.param("needs gdb", marks=needs_gdb),
        pytest.param("needs a gdb for ARM", marks=needs_arm_gdb),
    ],
)
def test_the_page_s_examples(ws: Workspace, reason: str) -> None:
    blocks = blocks_of(ROOT / "docs" / "debugging.md")
    for block in blocks:
        if block.path is not None:
            (ws.root / block.path).parent.mkdir(exist_ok=True)
            (ws.root / block.path).write_text(block.text)
    np.save(ws.root / "x.npy", np.ones((64, 100), np.float32))
    chosen = [block for block in blocks if block.excerpt == reason]
    assert chosen
    tools = os.pathsep.join((str(ROOT / "tool"), str(Path(sys.executable).parent), os.environ["PATH"]))
    for block in chosen:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=ws.root,
            env=environment(PATH=tools, TPULAYER=str(ROOT)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "No symbol" not in done.stderr and "not being run" not in done.stderr, done.stderr
