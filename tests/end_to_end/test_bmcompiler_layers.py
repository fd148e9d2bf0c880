"""Every function of bmcompiler that adds layers: its values, and the same net from C."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.bmcompiler_cases import Net, batches, nets
from user_layers.bmcompiler import BMCompiler, create_bmcompiler_dir
from user_layers.bmcompiler.calls import FUNCTIONS
from user_layers.net.compiled import CompiledNet
from user_layers.runtime.references import run_net
from user_layers.toolkit import Toolkit

NETS = {net.name: net for net in nets()}


def compiled(net: Net, toolkit: Toolkit, dynamic: bool) -> BMCompiler:
    p = create_bmcompiler_dir("BM1684", "nowhere", toolkit=toolkit)
    for name, arguments in net.calls:
        FUNCTIONS[name].call(p, *arguments)
    p.compile(net.name, dynamic=dynamic, inputs=net.inputs)
    return p


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", NETS)
def test_values(name: str, dynamic: bool, toolkit: Toolkit) -> None:
    net = NETS[name]
    check_run(net, compiled(net, toolkit, dynamic).nets[0], toolkit)


def check_run(net: Net, made: CompiledNet, toolkit: Toolkit) -> None:
    outputs = [t.name for t in made.stages[0].outputs]
    assert set(outputs) == set(net.wanted)
    for output, got in zip(outputs, run_net(made, toolkit, net.inputs), strict=True):
        want = net.wanted[output]
        assert got.shape == want.shape, output
        np.testing.assert_allclose(np.asarray(got, want.dtype), want, rtol=1e-5, atol=2e-5, err_msg=output)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_dynamic_nets_take_other_batches(n: int, toolkit: Toolkit) -> None:
    net = batches(n)
    p = create_bmcompiler_dir("BM1684", "nowhere", toolkit=toolkit)
    for name, arguments in net.calls:
        FUNCTIONS[name].call(p, *arguments)
    p.compile(net.name, dynamic=True)
    check_run(net, p.nets[0], toolkit)


def test_every_function_is_in_a_net() -> None:
    used = {name for net in NETS.values() for name, _ in net.calls}
    layers = {name for name in FUNCTIONS if name.startswith("add_")}
    assert layers - used == {"add_tpu_layer"}  # of a workspace: tests/end_to_end/test_demo_cpp.py
