"""`test_tpu_layer` as a user runs it: in a built workspace, without the demo layers, and not built at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.workspaces import built_copy, make_workspace, tpulayer
from user_layers import demo


def test_a_workspace_that_is_not_built(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path / "w")
    done = tpulayer("test_tpu_layer", "0", cwd=ws.root, code=3)
    assert "is not built" in done.stderr and "build_layers" in done.stderr
    assert not (ws.root / "tpulayer_static").exists()


def test_a_workspace_without_the_demo_layers(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    ws = built_copy(tmp_path_factory, tmp_path / "w")
    done = tpulayer("test_tpu_layer", "1", cwd=ws.root, code=2)
    assert "TPU_CROP" in done.stderr and "TPU_DOUBLE" not in done.stderr
    assert "tpulayer init" in done.stderr and "--demo" in done.stderr


def test_both_modes_and_their_folders(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    ws = built_copy(tmp_path_factory, tmp_path / "w", ("crop", "double"))
    for mode, folder, runs in ((0, "tpulayer_static", 1), (1, "tpulayer_dynamic", 4)):
        done = tpulayer("test_tpu_layer", str(mode), cwd=ws.root)
        assert done.stdout.count("equals numpy bit for bit") == runs
        assert "TPU(CROP)" in done.stdout and "TPU(DOUBLE)" in done.stdout
        names = {p.name for p in (ws.root / folder).iterdir()}
        data = {"compilation.bmodel", "input_ref_data.dat", "output_ref_data.dat"}
        data |= {"compilation.sites.npz"} if mode == 0 else set()
        assert names == {*data, "report.txt", "report.json", "local_memory.svg"}
        done = tpulayer("bmrt_test", "--context_dir", folder, cwd=ws.root)
        assert "+++ The network[tpulayer] stage[0] cmp success +++" in done.stdout


def test_a_wrong_kernel_is_noticed(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    ws = built_copy(tmp_path_factory, tmp_path / "w", ("crop", "double"))
    source = ws.root / "device" / "bm_device_double.c"
    source.write_text(source.read_text().replace("2.0f", "2.5f"))
    tpulayer("build_layers", cwd=ws.root)
    done = tpulayer("test_tpu_layer", "0", cwd=ws.root, code=1)
    assert "DIFFERS in" in done.stdout


@pytest.mark.parametrize("shape", [demo.COMPILED_SHAPE, *demo.OTHER_SHAPES])
def test_what_is_expected(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    y = demo.expected(x)
    assert y.shape == (1, *(n - b - a for n, b, a in zip(shape, demo.BEFORE, demo.AFTER, strict=True)))
    assert y.flat[0] == 3 * x[demo.BEFORE]
