"""The program check, and load_firmware, on libraries that record their calls and fail on demand."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.support.card import hand_made_pack, mock_libraries, records, run_sh, with_system_compiler
from user_layers.card.explain import Explanation, as_text, explain
from user_layers.card.pack import write_sums
from user_layers.card.programs import card_programs
from user_layers.card.result import read_result
from user_layers.toolchain.compilers import choose

MACHINE = os.uname().machine
RNG = np.random.default_rng(3)
WIDE = RNG.standard_normal((2, 70, 3, 3)).astype(np.float32)
NETS = (("layer", "one_a", WIDE), ("net", "b", WIDE[:1]))

pytestmark = pytest.mark.skipif(MACHINE not in ("x86_64", "aarch64"), reason=f"no programs for {MACHINE}")


@dataclass(frozen=True)
class Mock:
    libraries: Path
    built: Path

    def pack(self, folder: Path, nets: tuple[tuple[str, str, np.ndarray], ...] = NETS) -> Path:
        return hand_made_pack(folder / "pack", MACHINE, self.built, nets)


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Mock:
    folder = mock_libraries(tmp_path_factory.mktemp("mock"), choose().c)
    with pytest.MonkeyPatch.context() as patch:
        with_system_compiler(patch)
        return Mock(folder, card_programs(MACHINE))


def explained(mock: Mock, folder: Path, *words: str, code: int = 1, **env: str) -> Explanation:
    """What compare says after a run of NETS."""
    pack = mock.pack(folder)
    env = {"MOCK_LOG": str(folder / "log"), **env}
    run_sh(pack, *words, libraries=mock.libraries, code=code, **env)
    return explain(read_result(pack))


def test_calls_and_their_order(mock: Mock, tmp_path: Path) -> None:
    pack = mock.pack(tmp_path, (*NETS[:1], ("dynamic", "c", WIDE[:1])))
    log = tmp_path / "log"
    run_sh(
        pack, "--device", "3", "--repeat", "2", "--load-firmware", libraries=mock.libraries, MOCK_LOG=str(log)
    )
    size, half = WIDE.nbytes, WIDE[:1].nbytes
    memory = 1 << 20

    def net(name: str, sizes: list[tuple[int, int]]) -> list[str]:
        made = [f"bm_malloc_device_byte 1 {room}\nbm_memcpy_s2d_partial 1 {n} of {room}" for n, room in sizes]
        launch = f"bmrt_launch_tensor_ex 1 {name} {len(sizes)} {len(sizes)} 1 1\nbm_thread_sync 1"
        back = [f"bm_memcpy_d2s_partial 1 {n} of {room}" for n, room in sizes]
        return [
            f"bmrt_get_network_info 1 {name}",
            *made,
            *(f"bm_malloc_device_byte 1 {room}" for _, room in sizes),
            *(f"bm_memcpy_s2d_partial 1 {room} of {room}" for _, room in sizes),
            *(launch, *back),
            *(launch, *back),
            *(f"bm_free_device 1 {room}" for _ in range(2) for _, room in sizes),
        ]

    expected = [
        "bm_dev_request 3",
        f"bm_malloc_device_byte 1 {memory}",
        f"bm_memcpy_s2d_partial 1 {memory} of {memory}",
        f"bm_memcpy_d2s_partial 1 {memory} of {memory}",
        f"bm_free_device 1 {memory}",
        "bmrt_create 1",
        f"bmrt_load_bmodel 1 {pack}/models/0.bmodel 1",
        *net("one_a", [(size, size)]),
        "bmrt_destroy 1",
        f"okkernel_load_firmware 1 {pack}/firmware/tcm.bin {pack}/firmware/ddr.bin 1",
        "bmrt_create 1",
        f"bmrt_load_bmodel 1 {pack}/models/1.bmodel 1",
        *net("c", [(half, half), (half, half + 64)]),
        "bmrt_destroy 1",
        "bm_dev_free 1",
    ]
    assert log.read_text() == "\n".join(expected) + "\n"
    assert explain(read_result(pack)).good


def test_dynamic_nets_are_left_out_without_their_firmware(mock: Mock, tmp_path: Path) -> None:
    pack, log = mock.pack(tmp_path, (*NETS, ("dynamic", "c", WIDE))), tmp_path / "log"
    run_sh(pack, libraries=mock.libraries, MOCK_LOG=str(log))
    assert "load_firmware" not in log.read_text() and "bmrt_load_bmodel 1" in log.read_text()
    found = explain(read_result(pack))
    assert not found.good and "dynamic nets were left out (models/1.bmodel)" in found.verdict
    assert any("--load-firmware" in line for line in found.advice)
    run_sh(pack, "--load-firmware-first", libraries=mock.libraries, MOCK_LOG=str(log))
    calls = log.read_text().splitlines()
    last = len(calls) - 1 - calls[::-1].index("bm_dev_request 0")
    order = [call.split()[0] for call in calls[last:]]
    assert order.index("okkernel_load_firmware") < order.index("bmrt_create")
    assert order.count("okkernel_load_firmware") == 1 and explain(read_result(pack)).good


def test_what_is_recorded(mock: Mock, tmp_path: Path) -> None:
    pack = mock.pack(tmp_path)
    done = run_sh(pack, "--repeat", "3", libraries=mock.libraries, MOCK_LOG=str(tmp_path / "log"))
    assert "result.json: all bits are equal\n" in done.stdout and "said on" not in done.stdout + done.stderr
    log = (pack / "result" / "log.txt").read_text()
    assert "said on stdout\n" in log and "said on stderr\n" in log
    result = read_result(pack)
    assert [(name, path) for name, path, _ in result.libraries] == [
        ("bmlib", str(mock.libraries / "libbmlib.so")),
        ("bmrt", str(mock.libraries / "libbmrt.so")),
    ]
    assert result.infos == {"bm_get_chipid": 0x1684, "bm_get_board_name": 'a board  [31m"\\'}
    assert result.texts[0] == ("libbmrt_version", "mock 1") and result.end == ("finished", 0, "bm_dev_free")
    (one, two) = result.runs.values()
    assert (one.what, one.title, len(one.host_us), one.device_us) == ("layer", "one_a", 3, ())
    assert [o.name for o in two.outputs] == ["out0", "out1"] * 2
    assert {o.sha256 for o in one.outputs} == {hashlib.sha256(WIDE.tobytes()).hexdigest()}
    assert "\x1b" not in as_text(explain(result))


@pytest.mark.parametrize(
    ("mode", "net", "said"),
    [
        (
            "rounding",
            "one_a",
            ["the first layer that differs: one_a", "how: rounding, at most 1 ulp", "n: 1 of 2 (0)"],
        ),
        ("zeros", "one_a", ["other values altogether|small differences", "c: 1 of 70 (0)"]),
        ("nan", "b", ["first differs: b", "NaN where numbers were expected", "all layers"]),
        ("lane", "one_a", ["lanes: 5 of 64", "c: 2 of 70 (5, 69)", "36 of 1260 elements"]),
        ("unwritten", "b", ["nobody wrote there", "n: all 1; c: all 70"]),
        ("varies", "one_a", ["other bits in a later launch", "commands that do not wait"]),
        ("shape", "b", ["not the shape that was expected"]),
        ("refuse", "b", ["first failed: b", "bmrt_launch_tensor_ex failed (status 0)"]),
    ],
)
def test_what_goes_wrong_in_a_net(mock: Mock, tmp_path: Path, mode: str, net: str, said: list[str]) -> None:
    found = explained(mock, tmp_path, MOCK_MODE=mode, MOCK_NET=net)
    text = as_text(found)
    for words in said:
        assert any(word in text for word in words.split("|")), f"{words} is missing in\n{text}"
    assert [difference["run"] for difference in found.differences] == [net]
    kept = [path.name for path in (tmp_path / "pack" / "result").glob("run*.bin")]
    assert (len(kept) > 0) == (mode not in ("varies", "refuse"))


@pytest.mark.parametrize(
    ("mode", "words", "end", "said"),
    [
        ("crash", (), ("signal", 11), "crashed (signal 11) in: bmrt_launch_tensor_ex of net 'b'"),
        ("exit", (), ("exit", 77), "ended by itself (exit code 77) in: bmrt_launch_tensor_ex of net 'b'"),
        (
            "hang",
            ("--step-limit", "1"),
            ("step limit", 9),
            "one call did not return in: bmrt_launch_tensor_ex",
        ),
        ("hang", ("--limit", "1"), ("limit", 9), "at the limit for everything in: bmrt_launch_tensor_ex"),
    ],
)
def test_a_library_that_does_not_come_back(
    mock: Mock, tmp_path: Path, mode: str, words: tuple[str, ...], end: tuple[str, int], said: str
) -> None:
    """What was seen before is not lost."""
    found = explained(mock, tmp_path, *words, MOCK_MODE=mode, MOCK_NET="b")
    result = read_result(tmp_path / "pack")
    assert result.end[:2] == end and said in found.verdict, found.verdict
    assert result.runs[0].good and not result.runs[1].outputs
    assert any("log.txt" in line for line in found.advice) or mode == "hang"


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        ("bm_dev_request", 3, "not run: the device could not be opened (status 5)"),
        ("bm_malloc_device_byte", 1, "not run: bm_malloc_device_byte failed (status 5)"),
        ("bm_memcpy_s2d_partial", 1, "not run: bm_memcpy_s2d_partial failed (status 5)"),
        ("bm_memcpy_d2s_partial", 1, "not run: bm_memcpy_d2s_partial failed (status 5)"),
        ("bits of copies", 1, "1 of 1048576 bytes came back wrong"),
        ("bmrt_create", 1, "bmrt_create failed"),
        ("bmrt_load_bmodel", 1, "models/0.bmodel, models/1.bmodel was not loaded"),
        ("bmrt_get_network_info", 1, "the first layer that failed: one_a"),
        ("bm_thread_sync", 1, "the first layer that failed: one_a"),
        ("okkernel_load_firmware", 1, "okkernel_load_firmware failed (status 5)"),
    ],
)
def test_a_call_that_fails(mock: Mock, tmp_path: Path, call: str, code: int, said: str) -> None:
    env = {"MOCK_FAILS": call, "MOCK_STATUS": "5"}
    found = explained(mock, tmp_path, "--load-firmware", code=code, **env)
    assert not found.good and said in found.verdict, found.verdict
    freed = re.findall(r"^bm_free_device.*", (tmp_path / "log").read_text(), re.MULTILINE)
    made = re.findall(r"^bm_malloc_device_byte.*", (tmp_path / "log").read_text(), re.MULTILINE)
    assert len(freed) == (len(made) if call != "bm_malloc_device_byte" else 0)


def test_an_interrupt_leaves_a_result(mock: Mock, tmp_path: Path) -> None:
    pack, log = mock.pack(tmp_path), tmp_path / "log"
    env = {"MOCK_LOG": str(log), "MOCK_MODE": "hang", "MOCK_NET": "b", "LD_LIBRARY_PATH": str(mock.libraries)}
    words = [str(pack / "bin" / MACHINE / "check"), str(pack), str(tmp_path / "out")]
    with subprocess.Popen(words, env={**os.environ, **env}) as check:
        end = time.monotonic() + 60
        while not (log.exists() and "tensor_ex 1 b" in log.read_text()) and time.monotonic() < end:
            time.sleep(0.02)
        check.send_signal(signal.SIGINT)
        assert check.wait(60) == 1
    found = explain(read_result(tmp_path / "out"))
    assert found.verdict.endswith("the check was interrupted in: bmrt_launch_tensor_ex of net 'b', stage 0")
    assert read_result(tmp_path / "out").runs[0].good


def test_load_firmware_calls(mock: Mock, tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = {**os.environ, "LD_LIBRARY_PATH": str(mock.libraries), "MOCK_LOG": str(log)}

    def run(*words: str, **more: str) -> tuple[int, str]:
        log.write_text("")
        done = subprocess.run(
            [str(mock.built / "load_firmware"), *words],
            env={**env, **more},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, log.read_text()

    assert run("a.bin", "b.bin", "2") == (
        0,
        "bm_dev_request 2\nokkernel_load_firmware 1 a.bin b.bin 0\nbm_dev_free 1\n",
    )
    assert run("a.bin", "b.bin", MOCK_FAILS="okkernel_load_firmware", MOCK_STATUS="2")[0] == 1
    assert run("a.bin", "b.bin", MOCK_FAILS="bm_dev_request", MOCK_STATUS="1") == (3, "bm_dev_request 0\n")
    assert run("a.bin")[0] == 2 and run("a.bin", "b.bin", "x") == (2, "")


def test_run_sh(mock: Mock, tmp_path: Path) -> None:
    pack, log = mock.pack(tmp_path), str(tmp_path / "log")
    for words, said in (
        (("--nonsense",), "unknown word --nonsense"),
        (("--out", str(pack / "plan.txt")), "this is not a folder"),
    ):
        assert said in run_sh(pack, *words, libraries=mock.libraries, code=2, MOCK_LOG=log).stderr
    assert "is nowhere in LD_LIBRARY_PATH" in run_sh(pack, libraries=tmp_path, code=3).stderr
    assert "--load-firmware-first" in run_sh(pack, "--help", libraries="").stdout
    numbered = tmp_path / "num bered"  # as packages without files for developers install them
    numbered.mkdir()
    for name, end in (("libbmlib.so", ".0"), ("libbmrt.so", ".1.0")):
        shutil.copy(mock.libraries / name, numbered / (name + end))
    out = tmp_path / "other place"
    run_sh(pack, "--out", str(out), libraries=numbered, MOCK_LOG=log)
    assert records(out, "library")[0]["path"] == str(numbered / "libbmlib.so.0")
    assert not (pack / "result" / "result.json").exists()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "uname").write_text("#!/bin/sh\necho mips64\n")
    (tools / "uname").chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    assert "no programs for mips64" in run_sh(pack, libraries=mock.libraries, code=3, PATH=path).stderr
    (pack / "bin" / MACHINE / "check").chmod(0o644)
    assert "chmod +x" in run_sh(pack, libraries=mock.libraries, code=3).stderr
    (pack / "bin" / MACHINE / "check").unlink()
    assert f"no programs for {MACHINE}" in run_sh(pack, libraries=mock.libraries, code=3).stderr


def test_a_result_is_never_an_older_one(mock: Mock, tmp_path: Path) -> None:
    pack, log = mock.pack(tmp_path), str(tmp_path / "log")
    run_sh(pack, libraries=mock.libraries, MOCK_LOG=log)
    (pack / "plan.txt").write_text("nonsense\n")
    write_sums(pack)
    done = run_sh(pack, libraries=mock.libraries, code=3, MOCK_LOG=log)
    assert "not a plan of version 1" in done.stderr and not (pack / "result" / "result.json").exists()


@pytest.mark.parametrize(
    "edit",
    [
        ("\t0\t2x70x3x3", "\t0\t2x70x3x0"),
        ("\t0\t2x70x3x3", "\t0\t2x70x3x1x1x1x1x1x1"),
        ("\t0\t2x70x3x3", "\t99\t2x70x3x3"),
        ("\t0\t2x70x3x3", "\t0\t99999999x99999999x9x9"),
        ("\tdata.bin", "\t../data.bin"),
        ("\tdata.bin", "\t/etc/passwd"),
        (f"\t{WIDE.nbytes}\t", f"\t{WIDE.nbytes + 4}\t"),
        (f"\t{WIDE.nbytes}\t", "\t-4\t"),
        ("run\t", "walk\t"),
        ("models/0.bmodel", "../0.bmodel"),
        ("layer\tone_a\t0", "layer\tone_a\tx"),
        ("\n", ""),
    ],
)
def test_damaged_plans(mock: Mock, tmp_path: Path, edit: tuple[str, str]) -> None:
    pack = mock.pack(tmp_path)
    text = (pack / "plan.txt").read_text()
    assert edit[0] in text
    (pack / "plan.txt").write_text(text.replace(*edit))
    write_sums(pack)
    done = run_sh(pack, libraries=mock.libraries, code=3, MOCK_LOG=str(tmp_path / "log"))
    assert "plan.txt, line" in done.stderr and not (tmp_path / "log").exists()


FILES = ("plan.txt", "data.bin", "models/0.bmodel", "models/1.bmodel", "firmware/tcm.bin", "firmware/ddr.bin")


@pytest.mark.parametrize("how", ["changed", "cut off", "missing", "not listed"])
@pytest.mark.parametrize("name", FILES)
def test_damaged_packs(mock: Mock, tmp_path: Path, name: str, how: str) -> None:
    """The card is not asked for anything; the file is named."""
    pack = mock.pack(tmp_path, (*NETS, ("dynamic", "c", WIDE)))
    data = bytearray((pack / name).read_bytes())
    data[len(data) // 2] ^= 1
    if how == "missing":
        (pack / name).unlink()
    elif how == "not listed":
        sums = (pack / "SHA256SUMS").read_text()
        (pack / "SHA256SUMS").write_text(
            "".join(x for x in sums.splitlines(True) if not x.endswith(f"{name}\n"))
        )
    else:
        (pack / name).write_bytes(data if how == "changed" else data[: len(data) // 2])
    done = run_sh(pack, libraries=mock.libraries, code=3, MOCK_LOG=str(tmp_path / "log"))
    assert re.search(
        rf"^error: {pack}/{name} is .*: copy it again$|{name} No such file.*copy it again$", done.stderr, re.M
    )
    assert not (tmp_path / "log").exists() and not (pack / "result" / "result.json").exists()


def test_a_pack_without_its_sums_and_empty_files(mock: Mock, tmp_path: Path) -> None:
    pack = mock.pack(tmp_path)
    (pack / "data.bin").write_bytes(b"")
    done = run_sh(pack, libraries=mock.libraries, code=3, MOCK_LOG=str(tmp_path / "log"))
    assert f"{pack}/data.bin is not as it was packed" in done.stderr
    (pack / "SHA256SUMS").unlink()
    done = run_sh(pack, libraries=mock.libraries, code=3, MOCK_LOG=str(tmp_path / "log"))
    assert f"{pack}/SHA256SUMS" in done.stderr and "copy it again" in done.stderr
    assert not (tmp_path / "log").exists()


def test_a_pack_that_goes_away_while_it_is_checked(mock: Mock, tmp_path: Path) -> None:
    pack = mock.pack(tmp_path)
    env = {"MOCK_LOG": str(tmp_path / "log"), "MOCK_REMOVES": str(pack / "data.bin")}
    done = run_sh(pack, libraries=mock.libraries, code=3, **env)
    assert f"of {pack}/data.bin from 0 on; copy the pack again" in done.stderr
    assert not explain(read_result(pack)).good


NUMBERS = {"--device": (0, 1023), "--repeat": (1, 1000), "--step-limit": (1, 86400), "--limit": (1, 864000)}


@pytest.mark.parametrize("option", [*NUMBERS, "--out"])
def test_words_that_are_no_numbers(mock: Mock, tmp_path: Path, option: str) -> None:
    """Neither run.sh nor check takes them, before anything is run or written."""
    pack, log = mock.pack(tmp_path), tmp_path / "log"
    least, most = NUMBERS.get(option, (0, 0))
    check = [str(pack / "bin" / MACHINE / "check"), str(pack), str(tmp_path / "out")]
    env = {**os.environ, "LD_LIBRARY_PATH": str(mock.libraries), "MOCK_LOG": str(log)}
    wrong = [least - 1, most + 1, -5, "x", "1x", "0x1", "1.5", "1e2", " 1", "", "9" * 30, "\u0663", "*"]
    for word in map(str, wrong if option in NUMBERS else [""]):
        done = run_sh(pack, option, word, libraries=mock.libraries, code=2, MOCK_LOG=str(log))
        needed = f"{option} {word}: a number from {least} to {most} is needed"
        assert (needed if word else f"{option} needs a word") in done.stderr
        if option in NUMBERS and word != " 1":
            done = subprocess.run([*check, option, word], env=env, capture_output=True, text=True, timeout=60)
            assert done.returncode == 2 and needed in done.stderr
    for words in ((option,), (option, "--load-firmware")):
        assert "needs a word" in run_sh(pack, *words, libraries=mock.libraries, code=2).stderr
    assert not log.exists() and not (tmp_path / "out").exists() and not (pack / "result").exists()


def test_the_least_and_the_most(mock: Mock, tmp_path: Path) -> None:
    pack, log = mock.pack(tmp_path), str(tmp_path / "log")
    for words in (
        ("--repeat", "0001", "--limit", "08", "--step-limit", "08", "--device", "00"),
        ("--repeat", "1000", "--limit", "864000", "--step-limit", "86400", "--device", "1023"),
    ):
        run_sh(pack, *words, libraries=mock.libraries, MOCK_LOG=log)
    assert "bm_dev_request 1023\n" in Path(log).read_text()


def test_names_in_any_script(mock: Mock, tmp_path: Path) -> None:
    """result.json is UTF-8, also where a text of the check is cut off inside a character."""
    names = ("one_网络 é \U0001f600", "one_\u07ff\u0800\uffff\U0010ffff\x7f", "one_" + "層" * 400)
    pack = mock.pack(tmp_path, tuple(("net", name, WIDE[:1]) for name in names))
    env = {"MOCK_MODE": "hang", "MOCK_NET": names[2]}
    run_sh(pack, "--step-limit", "1", libraries=mock.libraries, code=1, MOCK_LOG=str(tmp_path / "log"), **env)
    raw = (pack / "result" / "result.json").read_bytes().decode("utf-8")
    assert names[0] in raw and "\x7f" not in raw
    assert [run["title"] for run in records(pack / "result", "planned")] == list(names)
    assert records(pack / "result", "end")[0]["step"].startswith("bmrt_launch_tensor_ex of net 'one_層層")
    titles = [run.title for run in read_result(pack).runs.values()]
    assert titles == [names[0], "one_\u07ff\u0800", names[2]]  # others are no characters to be shown


@pytest.mark.parametrize(
    "name",
    [
        b"\xff",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xe2\x82",
        b"\x80",
    ],
)
def test_names_that_are_not_utf8(mock: Mock, tmp_path: Path, name: bytes) -> None:
    pack = mock.pack(tmp_path, (("net", "one_a", WIDE[:1]),))
    plan = pack / "plan.txt"
    plan.write_bytes(plan.read_bytes().replace(b"\tone_a\t", b"\tone_" + name + b"b\t"))
    write_sums(pack)
    run_sh(pack, libraries=mock.libraries, MOCK_LOG=str(tmp_path / "log"))
    assert records(pack / "result", "planned")[0]["net"] == "one_" + "\ufffd" * len(name) + "b"
    assert explain(read_result(pack)).verdict.startswith("equal: all bits of 1 run;")
