"""Kernels with a mistake, by each way that runs kernels: findings name the line, results are there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.checks.error import CheckError
from firmware_sim.checks.finding import Finding
from firmware_sim.device.client import Device
from tests.support.host_programs import build, run
from user_layers.bmlib import okkernel_launch_async, okkernel_launch_sync, okkernel_sync
from user_layers.cli.main import run as command
from user_layers.kernels.run_kernel import Output, run_kernel
from user_layers.toolchain.kernel import kernel_firmware

SOURCE = """
#include "okk.h"
typedef struct {
    unsigned long long x_addr, y_addr;
} __attribute__((packed)) args_t;
static const dim4 tile = {.n = 1, .c = 64, .h = 8, .w = 16};

void race(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->x_addr, &tile, NULL, NULL);
    okk_parallel_start();
    okk_gdma_32bit_cpy_S2L(0, p->x_addr, &tile, NULL, NULL); /* RACE */
    okk_bdc_add_C(0x4000, 0, 1.f, &tile, NULL, NULL); /* BESIDE */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->y_addr, 0x4000, &tile, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(race)

void garbage(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_bdc_add_C(0x4000, 0, 1.f, &tile, NULL, NULL); /* GARBAGE */
    okk_gdma_32bit_cpy_L2S(p->y_addr, 0x4000, &tile, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(garbage)

void right(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->x_addr, &tile, NULL, NULL);
    okk_bdc_add_C(0x4000, 0, 1.f, &tile, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->y_addr, 0x4000, &tile, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(right)
"""
X = np.arange(64 * 8 * 16, dtype=np.float32).reshape(64, 8, 16)
NBYTES = X.nbytes


def line_of(mark: str) -> int:
    return SOURCE[: SOURCE.index(f"/* {mark} */")].count("\n") + 1


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wrong") / "wrong.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture(autouse=True)
def default_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPULAYER_CHECK", raising=False)
    monkeypatch.delenv("TPULAYER_CHECK_LIMIT", raising=False)


def lines(finding: Finding) -> set[int]:
    """Of the two commands of a finding."""
    return {one.frames[0].line for one in (finding.by, finding.other) if one is not None}


def test_python(source: Path) -> None:
    wanted = {"y_addr": Output(X.shape)}
    result = run_kernel(source, "right", {"x_addr": X}, wanted)
    assert np.array_equal(result.outputs["y_addr"], X + 1)
    with pytest.raises(CheckError) as caught:
        run_kernel(source, "race", {"x_addr": X}, wanted)
    [finding] = caught.value.findings
    assert finding.rule == "hazard.war" and lines(finding) == {line_of("RACE"), line_of("BESIDE")}
    got: list[Finding] = []
    result = run_kernel(source, "race", {"x_addr": X}, wanted, on_findings=got.extend)
    assert np.array_equal(result.outputs["y_addr"], X + 1) and got == [finding]
    result = run_kernel(source, "race", {"x_addr": X}, wanted, check="init,memory")
    assert np.array_equal(result.outputs["y_addr"], X + 1)


def test_what_the_host_reads(source: Path) -> None:
    """Nothing is wrong with a result of garbage until somebody takes it."""
    with Device(kernel_firmware([source])) as device:
        x, y = device.malloc(NBYTES), device.malloc(NBYTES)
        args = x.to_bytes(8, "little") + y.to_bytes(8, "little")
        device.write(x, X)
        device.launch("garbage", args)
        device.launch("garbage", args)
        device.query()
        with pytest.raises(CheckError, match=r"^reading 4 bytes at") as caught:
            device.read(y + NBYTES - 4, 4)
        [finding] = caught.value.findings
        assert finding.rule == "init.unwritten" and lines(finding) == {line_of("GARBAGE")}
        assert len(device.read(y, NBYTES)) == NBYTES  # told once
        device.launch("garbage", args)
        device.launch("right", args)  # over it
        assert np.array_equal(device.read_array(y, X.shape, np.float32), X + 1)
        device.launch("garbage", args)
        device.write(y, X)
        assert np.array_equal(device.read_array(y, X.shape, np.float32), X)
        device.launch("garbage", args)
        device.free(y)
        again = device.malloc(NBYTES)
        assert again == y and len(device.read(again, NBYTES)) == NBYTES
        with device.checking("off"):
            device.launch("garbage", args)
            assert len(device.read(y, NBYTES)) == NBYTES


def test_copies_that_leave_their_buffer(source: Path) -> None:
    with Device(kernel_firmware([source])) as device:
        x = device.malloc(NBYTES, "x")
        device.write(x, X)
        with pytest.raises(CheckError, match=rf"^reading {NBYTES + 4} bytes at .*") as caught:
            device.read(x, NBYTES + 4)
        [finding] = caught.value.findings
        assert (finding.rule, finding.tensor, finding.nbytes) == ("memory.beyond", "x", 4)
        with pytest.raises(CheckError, match=r"^writing [^!]*goes 16 bytes beyond its end"):
            device.write(x + NBYTES - 16, bytes(range(32)))
        assert device.read_array(x + NBYTES - 16, (16,), np.uint8).tolist() == list(range(16))
        with device.checking("init,hazard"):
            device.write(x + NBYTES - 16, bytes(32))


def test_the_words_of_bmlib(source: Path) -> None:
    with Device(kernel_firmware([source])) as device:
        x, y = device.malloc(NBYTES), device.malloc(NBYTES)
        device.write(x, X)
        args = x.to_bytes(8, "little") + y.to_bytes(8, "little")
        with pytest.raises(CheckError, match=r"hazard\.war"):
            okkernel_launch_sync(device, "race", args)
        okkernel_launch_async(device, "race", args)
        okkernel_launch_async(device, "right", args)
        with pytest.raises(CheckError, match=r"hazard\.war"):
            okkernel_sync(device)
        assert np.array_equal(device.read_array(y, X.shape, np.float32), X + 1)


@pytest.mark.parametrize("kind", ["native", "arm"])
def test_the_command(kind: str, source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", X)
    words = ["run_kernel", "--kernel", str(source), "--in", f"x_addr={tmp_path / 'x.npy'}"]
    words += ["--out", "y_addr=64x8x16:float32", "--firmware", kind]
    assert command([*words, "--name", "right"]) == 0
    assert command([*words, "--name", "race", "--json"]) == 5
    out, err = capfd.readouterr()
    answer = json.loads(out[out.index("{") :])
    assert np.array_equal(np.array(answer["outputs"]["y_addr"], np.float32), X + 1)
    assert [one["rule"] for one in answer["findings"]] == ["hazard.war"]
    assert f"wrong.c:{line_of('RACE')} in race: hazard.war: " in err and err.endswith("1 finding: 1 hazard\n")
    assert command([*words, "--name", "garbage"]) == 5
    assert f"wrong.c:{line_of('GARBAGE')} in garbage: init.unwritten: " in capfd.readouterr().err
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPULAYER_CHECK", "all")
        assert command([*words, "--name", "race", "--check", "off"]) == 0


PROGRAM = r"""
#include "bmlib_runtime.h"
int main(int argc, char **argv) {
    bm_handle_t h;
    bm_device_mem_t x, y;
    static float data[64 * 8 * 16], got[64 * 8 * 16];
    for (int i = 0; i < 64 * 8 * 16; i++) data[i] = (float)i;
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS && okkernel_load_firmware(h, argv[1], "") == BM_SUCCESS);
    bm_status_t wrong = argc > 2 ? BM_SUCCESS : BM_ERR_FAILURE; /* with checks off nothing fails */
    CHECK(bm_malloc_device_byte(h, &x, sizeof data) == BM_SUCCESS);
    CHECK(bm_malloc_device_byte(h, &y, sizeof data) == BM_SUCCESS);
    CHECK(bm_memcpy_s2d(h, x, data) == BM_SUCCESS);
    unsigned long long args[2] = {bm_mem_get_device_addr(x), bm_mem_get_device_addr(y)};
    CHECK(okkernel_launch_sync(h, "right", args, sizeof args) == BM_SUCCESS);
    CHECK(okkernel_launch_sync(h, "race", args, sizeof args) == wrong);
    CHECK(bm_memcpy_d2s(h, got, y) == BM_SUCCESS);
    for (int i = 0; i < 64 * 8 * 16; i++) CHECK(got[i] == (float)i + 1);
    CHECK(okkernel_launch_async(h, "race", args, sizeof args) == BM_SUCCESS);
    CHECK(okkernel_launch_sync(h, "right", args, sizeof args) == BM_SUCCESS);
    CHECK(okkernel_sync(h) == wrong);
    CHECK(okkernel_sync(h) == BM_SUCCESS);
    CHECK(okkernel_launch_sync(h, "garbage", args, sizeof args) == BM_SUCCESS);
    memset(got, 0x55, sizeof got);
    CHECK(bm_memcpy_d2s(h, got, y) == wrong); /* the bytes come all the same */
    static float more[64 * 8 * 16 + 1]; /* a descriptor may be larger than what was allocated */
    bm_device_mem_t larger = bm_mem_from_device(args[0], sizeof more);
    CHECK(bm_memcpy_s2d(h, larger, more) == wrong && bm_memcpy_d2s(h, more, larger) == wrong);
    CHECK(bm_memcpy_d2d_byte(h, larger, 0, x, 0, sizeof data) == BM_SUCCESS);
    CHECK(bm_memcpy_d2d_byte(h, larger, 0, larger, 0, sizeof more) == wrong);
    int same = 0;
    for (int i = 0; i < 64 * 8 * 16; i++) same += memcmp(&got[i], "UUUU", 4) == 0;
    CHECK(same == 0);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
"""


def test_a_host_program(source: Path, tmp_path: Path) -> None:
    program, firmware = build(tmp_path, PROGRAM), kernel_firmware([source])
    done = run(program, firmware, TPULAYER_PYTHON=sys.executable)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    assert done.stderr.count("kernel race: checks found") == 2
    assert f"wrong.c:{line_of('RACE')} in race: hazard.war: " in done.stderr
    assert f"wrong.c:{line_of('GARBAGE')} in garbage: init.unwritten: " in done.stderr
    copy = f"{NBYTES + 4} bytes from byte 0 of buffer 1 of {NBYTES} bytes (bm_malloc_device_byte)"
    for doing in ("reading", "writing"):
        assert f"{doing} {copy}, goes 4 bytes beyond its end" in done.stderr
    done = run(program, firmware, "off", TPULAYER_PYTHON=sys.executable, TPULAYER_CHECK="off")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", ""), done.stdout + done.stderr
