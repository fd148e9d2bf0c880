"""`--save-repro` of test, check and run_kernel: what is found is kept, and shown again from there alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.support.bmodel_samples import unwritten_net
from tests.support.workspaces import built_copy, tpulayer
from user_layers.bmodel import write
from user_layers.toolchain.targets import build_layers

KERNEL = r"""
#include "okk.h"
#include "sub/size.h"
#include <shape.h>
#include "../odd_part.c"
#include "nowhere.h"

typedef struct { unsigned long long y, x; int mode; } __attribute__((packed)) args_t;

void odd(const void *args) {
    const args_t *p = args;
    const dim4 shape = SHAPE;
    okk_initialize();
    if (p->mode != 1) okk_gdma_32bit_cpy_S2L(0, p->x, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->y, 0, &shape, NULL, NULL);
    okk_poll();
    OKKERNEL_ASSERT(p->mode != 2);
}
OKKERNEL_FUNC_REGISTER(odd)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "here"
    for name, text in {
        "src/odd.c": KERNEL.replace('#include "nowhere.h"', '#if 0\n#include "nowhere.h"\n#endif'),
        "src/sub/size.h": '#include "../more.inc"\n',
        "src/more.inc": "#define WIDTH 8\n",
        "more/shape.h": "#define SHAPE {1, 4, 1, WIDTH}\n",
        "odd_part.c": "/* empty */\n",
        "other/odd.c": "int another_file_of_the_same_name;\n",
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    np.save(path / "x.npy", np.arange(32, dtype=np.float32).reshape(1, 4, 1, 8))
    return path


def again(folder: Path, name: str, code: int) -> str:
    """The output of a kept folder, which was moved, while what it was made from is gone."""
    moved = folder.parent / f"moved {name}"
    shutil.move(folder / "kept" / name, moved)
    shutil.rmtree(folder)
    done = tpulayer("repro", str(moved), cwd=folder.parent, code=code)
    return done.stdout + done.stderr


@pytest.mark.parametrize(("mode", "code", "told"), [(1, 5, "init.unwritten"), (2, 1, "assert")])
def test_a_kernel(folder: Path, mode: int, code: int, told: str) -> None:
    words = ["run_kernel", "--kernel", "src/odd.c", "--kernel", "other/odd.c", "--name", "odd"]
    words += ["--include", "more", "--in", "x=x.npy"]
    words += ["--out", "y=1x4x1x8:float32:y.npy", "--check", "memory,init", "--save-repro", "kept"]
    assert "kept" not in tpulayer(*words, "--arg", "mode=0", cwd=folder).stderr
    assert not (folder / "kept").exists()
    done = tpulayer(*words, "--arg", f"mode={mode}", cwd=folder, code=code)
    assert told in done.stderr.lower() and "kept in kept/odd" in done.stderr
    assert told in again(folder, "odd", code).lower()


def test_inputs_are_kept_as_they_were(folder: Path) -> None:
    """The output goes into the input's file."""
    before = (folder / "x.npy").read_bytes()
    words = ["run_kernel", "--kernel", "src/odd.c", "--name", "odd", "--include", "more", "--in", "x=x.npy"]
    words += ["--out", "y=1x4x1x8:float32:x.npy", "--arg", "mode=1", "--save-repro", "kept"]
    tpulayer(*words, cwd=folder, code=5)
    assert (folder / "x.npy").read_bytes() != before
    assert (folder / "kept" / "odd" / "files" / "data" / "x.npy").read_bytes() == before


def test_a_mistake_in_the_command_is_not_kept(folder: Path) -> None:
    words = ["run_kernel", "--kernel", "src/odd.c", "--name", "even", "--include", "more"]
    words += ["--save-repro", "kept"]
    tpulayer(*words, cwd=folder, code=2)
    assert not (folder / "kept").exists()


def test_a_bmodel(folder: Path) -> None:
    (folder / "net.bmodel").write_bytes(write([unwritten_net()]))
    done = tpulayer("check", "net.bmodel", "--seed", "7", "--save-repro", "kept", cwd=folder, code=5)
    assert "kept in kept/check-net" in done.stderr
    assert "seed 7" in again(folder, "check-net", 5)


def test_a_layers_test(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    ws = built_copy(tmp_path_factory, tmp_path / "ws", layers=("double",))
    (ws.root / "tests").mkdir(exist_ok=True)
    (ws.root / "tests" / "test_double.py").write_text(
        "from user_layers.testing import Case\n\n"
        "def golden(inputs, param):\n    return [inputs[0] + inputs[0]]\n\n"
        'CASES = [Case((1, 3, 2, 2), modes=("opt 1",))]\n'
    )
    source = ws.device_dir / "bm_device_double.c"
    source.write_text(source.read_text().replace("2.0f, &shape", "3.0f, &shape"))
    build_layers(ws)
    done = tpulayer("test", "double", "--save-repro", "kept", cwd=ws.root, code=1)
    assert "kept in kept/test" in done.stderr
    assert "DIFFERS" in again(ws.root, "test", 1)
