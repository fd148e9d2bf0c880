"""`tpulayer step`: walking through what commands, layers' tests and programs ran."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import TpulayerError, UsageError
from tests.support.workspaces import built_copy, environment, tpulayer
from user_layers.stepper.session import WORDS, Session
from user_layers.stepper.stepper import Stepper
from user_layers.toolchain.targets import build_layers
from user_layers.workspace import Workspace

KERNEL = r"""
#include "okk.h"

typedef struct { unsigned long long y, x; } __attribute__((packed)) args_t;

void half(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, 4, 1, 8};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->x, &shape, NULL, NULL);
    okk_bdc_mul_C(4096, 0, 0.5f, &shape, NULL, NULL);
    okk_bdc_add_C(4096, 4096, 1.0f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->y, 4096, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(half)
"""
X = np.arange(32, dtype=np.float32).reshape(1, 4, 1, 8)
RUN = ["run_kernel", "--kernel", "half.c", "--name", "half", "--in", "x=x.npy"]
RUN += ["--out", "y=1x4x1x8:float32:y.npy"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stepping")
    (path / "half.c").write_text(KERNEL)
    np.save(path / "x.npy", X)
    np.save(path / "want.npy", X / 2)
    (path / "program.py").write_text(
        "import sys\nimport numpy as np\nfrom tpulayer import Output, run_kernel\n"
        "assert sys.argv[1:] == ['word']\n"
        "run_kernel('half.c', 'half', {'x': np.load('x.npy')}, {'y': Output((1, 4, 1, 8))})\n"
    )
    return path


def asked(folder: Path, lines: list[str], words: list[str] = RUN) -> list[str]:
    """The answers of the stepper, one for each line."""
    options = [word for line in lines for word in ("-x", line)]
    done = tpulayer("step", "--json", *options, *words, cwd=folder)
    answer = json.loads(done.stdout[done.stdout.index('{\n  "command": "step"') :])
    assert [one["command"] for one in answer["answers"]] == lines
    return [one["text"] for one in answer["answers"]]


def test_a_kernel(folder: Path) -> None:
    lines = [
        *("where", "until half.c:12", "list", "operands", "writer 0x8001000", "until y", "check y want.npy"),
        *("print y int32", "back", "save local.npy 0x8001000 1x4x1x8", "commands", "tensors", "requests"),
        *("until BD:2", "goto 1", "until BD:2", "print opd0", "until half", "goto end", "help"),
    ]
    lines.remove("print y int32")
    found = dict(zip(lines, asked(folder, lines), strict=True))
    assert found["where"].startswith("command 0 of 4: GDMA gdma.copy.s2l; half.c:10 half\n  GDMA 1 after")
    assert ">    12     okk_bdc_add_C" in found["list"]
    assert "opd1 = 0x3f800000 (1)" in found["operands"]
    assert found["writer 0x8001000"] == "command 1 of 4: BD md_scalar.mul; half.c:11 half"
    assert found["until y"] == "all 4 commands of kernel half are done"
    assert found["check y want.npy"] == (
        "y: DIFFERS in 32 of 32 elements, first at [0, 0, 0, 0]: 1.0, numpy 0.0; "
        "computed by command 2, half.c:12 half; stored by command 3, half.c:13 half"
    )
    np.testing.assert_array_equal(np.load(folder / "local.npy"), X / 2 + 1)
    assert found["tensors"].splitlines()[0].startswith("x: [1, 4, 1, 8] float32 at 0x1")
    assert found["requests"].startswith("> 0: kernel half, 4 commands, ")
    assert found["until BD:2"].startswith("command 2 of 4")
    assert found["print opd0"].startswith("[1, 4, 1, 8] float32\n")
    assert all(word.name in found["help"] for word in WORDS)


def test_from_a_pipe_and_in_a_program(folder: Path) -> None:
    def through(lines: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tpulayer", "step", *words]
        return subprocess.run(
            command, cwd=folder, input=lines, env=environment(), capture_output=True, text=True, timeout=840
        )

    done = through("step 2\n\nquit\nnonsense\n", "program.py", "word")
    assert done.returncode == 0, done.stderr
    heads = [line for line in done.stdout.splitlines() if line.startswith(("command", "all"))]
    assert [line.split(";")[0] for line in heads] == [
        *("command 0 of 4: GDMA gdma.copy.s2l", "command 2 of 4: BD md_scalar.add"),
        "all 4 commands of kernel half are done",
    ]
    done = through("print zz\n", *RUN)
    assert done.returncode == 2 and "zz is no operand, tensor or address" in done.stderr


def test_what_was_answered_before_a_line_that_fails(folder: Path) -> None:
    done = tpulayer("step", "--json", "-x", "goto 1", "-x", "print zz", *RUN, cwd=folder, code=2)
    answer = json.loads(done.stdout[done.stdout.index('{\n  "command": "step"') :])
    assert [one["command"] for one in answer["answers"]] == ["goto 1"] and "zz is no operand" in done.stderr


def test_a_program_that_fails_is_stepped_through(folder: Path) -> None:
    (folder / "fails.py").write_text(
        (folder / "program.py").read_text() + "raise ValueError('mine is wrong')\n"
    )
    done = tpulayer("step", "-x", "where", "fails.py", "word", cwd=folder)
    assert "command 0 of 4" in done.stdout
    assert "ValueError: mine is wrong" in done.stderr and "fails.py ended with exit code 1" in done.stderr


def test_what_nothing_has_written_yet(session: Session) -> None:
    session.do("goto 0")
    assert str(session.do("check y want.npy")).endswith("; no command so far wrote that element")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("stpe", "unknown command stpe; did you mean step"),
        ("goto", "usage: goto N"),
        ("step -1", "-1 is not a number of commands"),
        ("goto 99", "there is no command 99"),
        ("until nowhere", "nowhere is no layer, node, function, tensor or buffer"),
        ("until y+4096", "y+4096 is beyond its end: it has 128 bytes"),
        ("print 0x8000000", "give a shape"),
        ("print 0x8000000 1xtwo", "two is not a shape"),
        ("print 0x8000000 1x2 flaot32", "flaot32 is not a type"),
        ("print 0x8000000 4 object", "object is not a type"),
        ("print 0x8000000 4 U4", "U4 is not a type"),
        ("print 0x8000000 0x4", "0x4 has no elements"),
        ("print 0x100000000 99999x9999", "more than 64 MiB"),
        ("check y none.npy", "none.npy cannot be read: No such file"),
        ("print 0x1 4", "no memory at address 0x1"),
        ("print opd0 float32 1x2", "an operand has its own shape"),
        ("check y", "usage: check NAME FILE.npy"),
        ("check z want.npy", "there is no tensor z"),
        ("check y half.c", "half.c is no .npy file"),
        ("request 7", "there is no request 7"),
        ("list 'x", "No closing quotation"),
    ],
)
def test_lines_that_mean_nothing(session: Session, folder: Path, line: str, message: str) -> None:
    session.do("goto 2")
    with pytest.raises(TpulayerError) as raised:
        session.do(line)
    assert message in raised.value.message + raised.value.hint


@pytest.fixture(scope="module")
def session(folder: Path) -> Session:
    from firmware_sim.device.trace import traced
    from user_layers.kernels.run_kernel import Output, run_kernel

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with traced(memories=True) as trace:
            run_kernel(folder / "half.c", "half", {"x": X}, {"y": Output((1, 4, 1, 8))})
    return Session(trace.requests)


@pytest.fixture(autouse=True)
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_objects_show_themselves(session: Session) -> None:
    session.do("goto 2")
    shown = session.replay._repr_html_()
    assert isinstance(session.replay, Stepper) and "at command 2 of 4" in shown
    assert shown.count("<tr>") == 3 and shown.count("bold") == 1 and "half.c:12 half" in shown


def test_what_cannot_be_stepped_through(folder: Path) -> None:
    for words, message in (
        (["step", "step", "test"], "step step"),
        (["step", "verify", "double"], "step verify"),
        (["step", "profile", "--test", "double"], "step profile"),
        (["step", "--json", *RUN], "--json without --execute"),
        (["step", "--request", "3", "-x", "where", *RUN], "--request 3: there are 1"),
        (["step", "-x", "where", "list_layers", "--help"], "nothing ran on a device"),
        (["step", "-x", "where", "no.py"], "there is no file no.py"),
        (["step", "-x", "where", "tset"], "unknown command tset"),
    ):
        done = tpulayer(*words, cwd=folder, code=2)
        assert message in done.stderr, (words, done.stderr)
    with pytest.raises(UsageError, match="nothing ran"):
        Session([])


def test_a_layers_test(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    """A right layer is right in every mode at its end; of a wrong one the case and the line are found."""
    ws = built_copy(tmp_path_factory, tmp_path / "ws", layers=("double",))
    (ws.root / "tests").mkdir(exist_ok=True)
    (ws.root / "tests" / "test_double.py").write_text(
        "from user_layers.testing import Case\n\n"
        "def golden(inputs, param):\n    return [inputs[0] + inputs[0]]\n\n"
        "CASES = [Case((2, 3, 17, 23)), Case((1, 70, 5, 5), smaller=[])]\n"
    )
    lines = ["requests"]
    for number in range(8):
        lines += [f"request {number}", "goto end", "check"]
    answers = asked(ws.root, lines, ["test", "double"])
    assert "double [2, 3, 17, 23]: opt 0, native" in answers[0]
    assert len(answers[3::3]) == 8 and all(text.endswith("elements equal") for text in answers[3::3]), answers
    spoil(ws)
    (where, check, kept) = asked(ws.root, ["until TPU_DOUBLE", "check", "requests"], ["test", "double"])
    assert "WRONG" in kept and "bm_device_double.c" in where
    end = asked(ws.root, ["goto end", "check"], ["test", "double"])[1]
    assert "DIFFERS" in end and "computed by command" in end and check


def spoil(ws: Workspace) -> None:
    """The layer's local kernel, which groups use, computes something else."""
    source = ws.device_dir / "bm_device_double.c"
    text = source.read_text()
    wrong = text.replace("2.0f, &shape", "3.0f, &shape")
    assert wrong != text
    source.write_text(wrong)
    build_layers(ws)
