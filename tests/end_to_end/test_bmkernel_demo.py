"""The bmkernel project: its kernel by itself for any size, and the example that uses it in both ways."""

from __future__ import annotations

import importlib.util
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firmware_sim.device.client import Device
from tests.paths import ROOT
from tests.support.examples import examples
from tests.support.workspaces import make_workspace
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.targets import build_bmkernel

PROJECT = ROOT / "bmkernel_demo"


def _host() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scale_add", PROJECT / "host" / "scale_add.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Device]:
    """A device with the project's own firmware, built from a copy."""
    root = tmp_path_factory.mktemp("bmkernel")
    copy = root / "kernels"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("build", "install"))
    ws = make_workspace(root / "w", layers=(), config=f"BMKERNEL_PATH = {copy}\n")
    build_bmkernel(ws, Reporter(quiet=True))
    with Device(copy / "install" / "firmware" / "firmware.so") as device:
        yield device


def test_its_firmware_has_no_layers(device: Device) -> None:
    info = device.query()
    assert info.layers == ()
    assert "scale_add" in info.kernels


# Around the sizes at which the kernel changes how it deals out the elements: 64 NPUs, 4096 on each.
SIZES = st.one_of(
    st.integers(0, 200),
    st.sampled_from([64 * 4096 + d for d in (-64, -1, 0, 1, 63, 64)]),
    st.integers(0, 20_000),
)


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=SIZES, factor=st.floats(-100, 100, width=32, allow_subnormal=False), seed=st.integers(0, 2**32 - 1)
)
def test_any_size_equals_numpy(device: Device, size: int, factor: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(1, 2, size).astype(np.float32) for _ in range(2))
    expected = np.float32(factor) * a + b
    got = _host().scale_add(device, a, b, factor)
    # Tiny products are flushed to zero by the chip; beside b, which is at least 1, they do not count.
    np.testing.assert_array_equal(got, expected)


def test_arrays_that_differ_are_refused(device: Device) -> None:
    with pytest.raises(ValueError, match=r"a is \[2\], b is \[3\]"):
        _host().scale_add(device, np.zeros(2, np.float32), np.zeros(3, np.float32), 1.0)


def test_the_example_uses_it_in_both_ways(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / "host"))
    runpy.run_path(str(ROOT / "examples" / "bmkernel_demo.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "launched by itself: equals numpy",
        "called by a layer:  equals numpy",
    ]
    assert Path(PROJECT / "install" / "firmware" / "firmware.so").is_file()
