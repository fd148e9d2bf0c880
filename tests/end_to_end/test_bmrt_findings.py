"""Nets in host programs whose checks find something: the call fails, and the outputs are there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.bmodel_samples import static_net, unwritten_net
from tests.support.host_programs import build, run
from tests.support.workspaces import outside_of_workspaces
from user_layers.bmodel import write

PROGRAM = r"""
#include "bmruntime_interface.h"
int main(int argc, char **argv) {
    bm_handle_t h;
    bool fine = argc > 2; /* without checks */
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    void *rt = bmrt_create(h);
    CHECK(rt != NULL && bmrt_load_bmodel(rt, argv[1]));
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[16], zeros[16];
    void *const ins[] = {x};
    void *outs[] = {y};
    bm_shape_t in = {2, {2, 4}}, out;
    memset(zeros, 0, sizeof zeros);
    memset(y, 0x55, sizeof y);
    memset(&out, 0, sizeof out);
    CHECK(bmrt_launch_data(rt, "right", ins, &in, 1, outs, &out, 1, true) && y[0] == 1 && out.dims[0] == 4);
    memset(y, 0x55, sizeof y);
    memset(&out, 0, sizeof out);
    CHECK(bmrt_launch_data(rt, "broken", ins, &in, 1, outs, &out, 1, true) == fine);
    CHECK(out.num_dims == 2 && out.dims[0] == 4 && out.dims[1] == 4 && memcmp(y, zeros, sizeof y) == 0);
    void *made[] = {NULL};
    CHECK(bmrt_launch_data(rt, "broken", ins, &in, 1, made, &out, 1, false) == fine);
    CHECK(made[0] != NULL && memcmp(made[0], zeros, sizeof y) == 0);
    free(made[0]);
    bm_tensor_t a, b;
    CHECK(bmrt_tensor(&a, rt, BM_FLOAT32, in) && bm_memcpy_s2d(h, a.device_mem, x) == BM_SUCCESS);
    memset(&b, 0, sizeof b);
    CHECK(bmrt_launch_tensor(rt, "broken", &a, 1, &b, 1) == fine);
    CHECK(b.shape.num_dims == 2 && b.shape.dims[1] == 4 && bm_mem_get_device_size(b.device_mem) == sizeof y);
    CHECK(bm_memcpy_d2s(h, y, b.device_mem) == BM_SUCCESS && memcmp(y, zeros, sizeof y) == 0);
    CHECK(!bmrt_launch_tensor(rt, "absent", &a, 1, &b, 1));
    bm_free_device(h, a.device_mem);
    bm_free_device(h, b.device_mem);
    bmrt_destroy(rt);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
"""


@pytest.fixture(scope="module", autouse=True)
def outside_of_any_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with outside_of_workspaces(tmp_path_factory.mktemp("outside")):
        yield


@pytest.mark.parametrize("language", ["c", "c++"])
def test_outputs_come_with_the_failure(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TPULAYER_CHECK", raising=False)
    model = tmp_path / "two.bmodel"
    model.write_bytes(write([replace(static_net(2, name="right"), layers=()), unwritten_net()]))
    program = build(tmp_path, PROGRAM, language=language)
    done = run(program, model, TPULAYER_PYTHON=sys.executable)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    assert done.stderr.count("net 'broken': checks found") == 3
    assert done.stderr.count("init.unwritten: ") == 3
    done = run(program, model, "off", TPULAYER_PYTHON=sys.executable, TPULAYER_CHECK="off")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    assert "checks found" not in done.stderr
