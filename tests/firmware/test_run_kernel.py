"""Free kernels from C files: results, and what is said to words that do not fit."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from firmware_sim.errors import DeviceError, UsageError
from firmware_sim.firmware.image import Kind
from tests.support.damaged_arrays import OPEN_HEADER
from tests.support.firmware_harness import CHOICES
from user_layers.cli.main import run as cli
from user_layers.kernels.run_kernel import Output, run_kernel
from user_layers.toolchain.cache import cache_root
from user_layers.toolchain.kernel import kernel_firmware

AXPY = """
#include "okk.h"
typedef struct {
    unsigned long long y_addr, x_addr;
    int n;
    float a[2];
    struct { short first; unsigned char second; } nested;
} __attribute__((packed)) axpy_args_t;

void axpy(const void *args) {
    const axpy_args_t *p = args;
    okk_initialize();
    dim4 shape = {1, 64, 1, p->n / 64};
    okk_gdma_32bit_cpy_S2L(0, p->x_addr, &shape, NULL, NULL);
    okk_bdc_mul_C(0x10000, 0, p->a[0], &shape, NULL, NULL);
    okk_bdc_add_C(0x10000, 0x10000, p->a[1] + p->nested.first + p->nested.second, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->y_addr, 0x10000, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(axpy)
void nothing(const void *args) { (void)args; }
OKKERNEL_FUNC_REGISTER(nothing)
"""
VALUES = {"n": 256, "a": [0.5, 1.0], "nested.first": -3, "nested.second": 200}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels") / "axpy.c"
    path.write_text(AXPY)
    return path


def test_arrays_in_and_out(source: Path) -> None:
    x = np.arange(256, dtype=np.float32)
    result = run_kernel(source, "axpy", {"x_addr": x}, {"y_addr": Output((4, 64))}, VALUES)
    assert np.array_equal(result.outputs["y_addr"], (x * 0.5 + 198).reshape(4, 64))
    assert result.cycles > 0


def test_paths_may_be_texts(source: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no file .*nope\.c"):
        run_kernel("nope.c", "axpy")
    run_kernel(str(source), "nothing", includes=[str(source.parent)])
    run_kernel([str(source)], "nothing")


OTHER_STRUCTS = """
#include "okk.h"
#include "shared.h"
#include <stdio.h>
static void fill(const fill_t *p) {
    const dim4 shape = {1, 1, 1, p->n};
    okk_gdma_32bit_set_C_system(p->out_addr, (x32){.fp32 = p->value}, &shape, NULL);
    fprintf(stderr, "%d words\\n", p->n);
}
void fill_all(const void *args) { /* hands its arguments on: nothing in it has their type */
    dim4 spare = {0, 0, 0, 0};
    okk_initialize();
    fill(args);
    okk_poll();
    OKKERNEL_LOG("%p\\n", (void *)&spare);
}
OKKERNEL_FUNC_REGISTER(fill_all)
"""
SHARED = "typedef struct { unsigned long long out_addr; int n; float value; } __attribute__((packed)) fill_t;"


@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize("compiler", CHOICES)
def test_structs_of_the_c_library_and_the_api_are_no_arguments(
    tmp_path: Path, compiler: str, sanitize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FILE, dim4 and x32 are there too; the struct of a header beside the source is the one."""
    monkeypatch.setenv("TPULAYER_CC", compiler)
    (tmp_path / "shared.h").write_text(SHARED)
    (tmp_path / "fill.c").write_text(OTHER_STRUCTS)
    outputs, values = {"out_addr": Output((10,))}, {"n": 10, "value": 2.5}
    result = run_kernel(tmp_path / "fill.c", "fill_all", {}, outputs, values, sanitize=sanitize)
    assert (result.outputs["out_addr"] == 2.5).all()


def test_the_firmware_may_be_the_controllers(source: Path) -> None:
    x = np.arange(256, dtype=np.float32)
    given = ({"x_addr": x}, {"y_addr": Output((4, 64))}, VALUES)
    native, arm = (run_kernel(source, "axpy", *given, firmware=kind) for kind in ("native", "arm"))
    assert np.array_equal(native.outputs["y_addr"], arm.outputs["y_addr"])
    assert (native.instructions, arm.instructions > 0) == (0, True)
    with pytest.raises(UsageError, match="firmware cmodel: give one of native, arm"):
        run_kernel(source, "axpy", *given, firmware=cast(Kind, "cmodel"))


def test_one_array_may_be_input_and_output(source: Path) -> None:
    x = np.arange(256, dtype=np.float32)
    result = run_kernel(
        source, "axpy", {"x_addr": x, "y_addr": x}, {"y_addr": Output((256,))}, {**VALUES, "n": 64}
    )
    assert np.array_equal(result.outputs["y_addr"][:64], x[:64] * 0.5 + 198)
    assert np.array_equal(result.outputs["y_addr"][64:], x[64:])


def test_a_kernel_without_arguments(source: Path) -> None:
    assert run_kernel(source, "nothing").outputs == {}


X = np.zeros(256, np.float32)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({**VALUES, "m": 1}, "axpy_args_t has no member m"),
        ({"n": 1}, "no value for a, nested.first, nested.second"),
        ({**VALUES, "n": 1 << 31}, "n: 2147483648 does not fit into a signed integer of 32 bits"),
        (
            {**VALUES, "nested.second": 256},
            "nested.second: 256 does not fit into an unsigned integer of 8 bits",
        ),
        ({**VALUES, "n": 0.5}, "n: 0.5 does not fit"),
        ({**VALUES, "a": 1.0}, "a takes 2 values, not 1"),
        ({**VALUES, "x_addr": 4}, "x_addr is given as an array and as a value"),
    ],
)
def test_values_that_do_not_fit(source: Path, values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_kernel(source, "axpy", {"x_addr": X}, {"y_addr": Output((4,))}, values)


def test_names_that_do_not_fit(source: Path) -> None:
    with pytest.raises(UsageError, match="n cannot hold a device address"):
        run_kernel(source, "axpy", {"n": X}, {}, {})
    with pytest.raises(UsageError, match="registers no kernel axp"):
        run_kernel(source, "axp")
    with pytest.raises(UsageError, match="there is no file"):
        run_kernel(source.with_name("absent.c"), "axpy")
    with pytest.raises(UsageError, match="larger than the input"):
        run_kernel(source, "axpy", {"x_addr": X, "y_addr": X}, {"y_addr": Output((999,))}, VALUES)


def test_a_refused_call_names_the_line(source: Path) -> None:
    line = AXPY.splitlines().index("    okk_gdma_32bit_cpy_S2L(0, p->x_addr, &shape, NULL, NULL);") + 1
    with pytest.raises(DeviceError, match=rf"over its limit 65535 \[called at .*axpy.c:{line} in axpy\]"):
        run_kernel(source, "axpy", {"x_addr": X}, {"y_addr": Output((4,))}, {**VALUES, "n": 70_000 * 64})


def test_the_command(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(256, dtype=np.float32))
    words = ["run_kernel", "--kernel", str(source), "--name", "axpy", "--in", "x_addr=x.npy"]
    words += ["--arg", "n=256", "--arg", "a=2,1.5", "--arg", "nested.first=0", "--arg", "nested.second=0x0"]
    assert cli([*words, "--out", "y_addr=256:float32:out/y.npy"]) == 0
    assert "y_addr: [256] float32 -> out/y.npy" in capsys.readouterr().out
    assert np.array_equal(np.load("out/y.npy"), np.arange(256, dtype=np.float32) * 2 + 1.5)
    assert cli([*words, "--out", "y_addr=2", "--json"]) == 5  # the kernel writes 256
    assert [one["rule"] for one in json.loads(capsys.readouterr().out)["findings"]] == ["memory.beyond"]
    words += ["--check", "off"]
    assert cli([*words, "--out", "y_addr=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"] == {"y_addr": [1.5, 3.5]}
    assert cli([*words, "--out", "y_addr=256:float32:out/z.npy", "--json"]) == 0
    where = {"file": "out/z.npy", "shape": [256], "dtype": "float32"}
    assert json.loads(capsys.readouterr().out)["outputs"] == {"y_addr": where}
    np.save("x.npy", np.array([np.nan, np.inf, -np.inf, 1] * 64, np.float32))
    assert cli([*words, "--out", "y_addr=4", "--json"]) == 0
    text = capsys.readouterr().out  # strict JSON has no numbers for the first three
    assert json.loads(text, parse_constant=str)["outputs"] == {"y_addr": ["nan", "inf", "-inf", 3.5]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--arg", "n"], "--arg n: expected MEMBER=NUMBER"),
        (["--arg", "n=many"], "'many' is not a number"),
        (["--in", "x_addr=absent.npy"], "absent.npy cannot be read: No such file"),
        (["--in", "x_addr=."], ". cannot be read: Is a directory"),
        (["--arg", "n=1", "--arg", "n=2"], "--arg n is given twice"),
        (["--out", "y_addr=4:float32", "--out", "y_addr=5:float32"], "--out y_addr is given twice"),
        (["--out", "y_addr=4xa"], "--out y_addr=4xa: expected"),
        (["--out", "y_addr=4:float77"], "expected MEMBER=4x8:float32"),
    ],
)
def test_bad_words(source: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["run_kernel", "--kernel", str(source), "--name", "axpy", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a .npy file of numbers"),
        (b"text", "is not a .npy file of numbers"),
        (OPEN_HEADER, "is not a .npy file of numbers"),
        (b"PK\x03\x04 cut short", "holds several arrays (.npz)"),
        (np.array(["a"]), "holds <U1 [1], not numbers for a device"),
        (np.zeros(0, np.float32), "holds float32 [0], not numbers for a device"),
        (np.zeros(2, complex), "holds complex128 [2]"),
        (np.array([{}], object), "is not a .npy file of numbers: Object arrays"),
    ],
    ids=str,
)
def test_files_that_are_no_arrays(
    source: Path, content: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content, allow_pickle=True)
    words = ["run_kernel", "--kernel", str(source), "--name", "axpy", "--in", f"x_addr={path}"]
    assert cli(words) == 2
    assert message in capsys.readouterr().err


def test_the_time_limit_can_be_set(tmp_path: Path) -> None:
    (tmp_path / "slow.c").write_text(
        '#include "okk.h"\n#include <time.h>\n'
        "void slow(const void *args) {\n"
        "    (void)args;\n"
        "    struct timespec start, now;\n"
        "    clock_gettime(CLOCK_MONOTONIC, &start);\n"
        "    do clock_gettime(CLOCK_MONOTONIC, &now); while (now.tv_sec - start.tv_sec < 2);\n"
        "}\nOKKERNEL_FUNC_REGISTER(slow)\n"
    )
    with pytest.raises(DeviceError, match=r"slow ran for 0\.2 s"):
        run_kernel(tmp_path / "slow.c", "slow", time_limit=0.2)
    run_kernel(tmp_path / "slow.c", "slow", time_limit=60)


def test_a_build_removes_kernels_that_nobody_used_when_they_take_too_much(tmp_path: Path) -> None:
    old = cache_root() / "kernels" / f"unused-{os.getpid()}"
    old.mkdir(parents=True)
    with (old / "sparse").open("wb") as file:
        file.truncate(3 * 10**9)
    os.utime(old, (time.time() - 7200,) * 2)
    source = tmp_path / "k.c"
    source.write_text(
        '#include "okk.h"\nvoid f(const void *args) { (void)args; }\nOKKERNEL_FUNC_REGISTER(f)\n'
    )
    assert kernel_firmware(source).exists()
    assert not old.exists()
