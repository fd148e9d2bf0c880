"""Every method of LayerDescriptor, overridden alone in C++, and what that changes in a compiled net."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import CompileError
from firmware_sim.wire import TType
from tests.paths import ROOT
from tests.support.workspaces import built_copy, layers_toolkit
from tpulayer import Graph
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.grouping import Alone, Group, Segment
from user_layers.compiler.log import log_lines
from user_layers.compiler.mode import Kind
from user_layers.compiler.pipeline import plan_net
from user_layers.compiler.plan import Plan
from user_layers.compiler.prepare import prepare_constants
from user_layers.compiler.strips import in_strips
from user_layers.compiler.window import Window
from user_layers.graph import BINARY_MUL
from user_layers.graph.shapes import infer_shapes
from user_layers.scan.link import descriptor_methods
from user_layers.toolchain.targets import build_layers
from user_layers.toolkit import Toolkit

WIDE = (1, 130, 190, 190)  # two of these do not fit into local memory

# Method -> its whole definition in a descriptor that has no other (and get_name, to be found in the log).
BODIES = {
    "get_name": "",
    "must_dynamic_run": "bool must_dynamic_run() const override { return true; }",
    "output_shape_is_dynamic": "bool output_shape_is_dynamic() const override { return true; }",
    "force_use_global_layer": "bool force_use_global_layer() const override { return true; }",
    "can_split_local_h_w": "bool can_split_local_h_w() const override { return false; }",
    "can_inplace": "bool can_inplace(DATA_TYPE_T t) const override { return t == DTYPE_FP32; }",
    "can_h_w_dynamic": "bool can_h_w_dynamic() const override { return false; }",
    "just_reshape": "bool just_reshape() const override { return true; }",
    "is_share_mem_layer": "bool is_share_mem_layer() const override { return true; }",
    "get_global_buffer_size": "u64 get_global_buffer_size() const override { return 4 * 12345; }",
    "input_type": "TENSOR_TYPE_T input_type(int i) const override "
    "{ return i == 1 ? BMNET_COEFF : BMNET_NEURON; }",
    "get_local_buffer_size": "u32 get_local_buffer_size(const int *s) const override "
    "{ return s[0] * s[1] * s[2] * s[3]; }",
    "is_backslice_optimize_support_layer": "bool is_backslice_optimize_support_layer() const override "
    "{ return true; }",
    "backward_hslice": "int backward_hslice(int n) const override { return n + 2; }",
    "backward_wslice": "int backward_wslice(int n) const override { return n + 2; }",
    "backward_hidx": "int backward_hidx(int h) const override { return h - 1; }",
    "backward_widx": "int backward_widx(int w) const override { return w - 1; }",
    "backward_kh": "int backward_kh(int k) const override { return k + 2; }",
    "backward_stride_h": "int backward_stride_h(int s) const override { return 2 * s; }",
    "backward_up_pad_h": "int backward_up_pad_h(int p) const override { return p + 1; }",
    "backward_down_pad_h": "int backward_down_pad_h(int p) const override { return p + 1; }",
    "should_input_on_l2mem": "bool should_input_on_l2mem(int i) const override { return i == 1; }",
    "forward_height": "int forward_height(int h) const override { return h - 7; }",
    "is_concat_layer": "bool is_concat_layer() const override { return true; }",
    "accepts_larger_tiles": "bool accepts_larger_tiles() const override { return true; }",
    "prepared_shape": "std::vector<int> prepared_shape(int i) const override "
    "{ return i == 1 ? std::vector<int>{1, 4} : std::vector<int>{}; }\n"
    "    void prepare(int, const void *, void *to) const override { *static_cast<float *>(to) = 7; }",
    "prepared_dtype": "std::vector<int> prepared_shape(int) const override { return {2, 2}; }\n"
    "    DATA_TYPE_T prepared_dtype(int) const override { return DTYPE_INT16; }\n"
    "    void prepare(int, const void *, void *) const override {}",
    "prepared_with": "std::vector<int> prepared_shape(int) const override { return {1, 8}; }\n"
    "    int prepared_with(int i) const override { return i == 2 ? 1 : i; }\n"
    "    void prepare(int, const void *, void *) const override {}",
    "each_row_alone": "bool each_row_alone() const override { return true; }\n"
    "    DATA_TYPE_T input_dtype(int) const override { return DTYPE_UINT8; }",
    "input_dtype": "DATA_TYPE_T input_dtype(int) const override { return DTYPE_UINT8; }",
    "input_store_mode": "DATA_TYPE_T input_dtype(int) const override { return DTYPE_INT8; }\n"
    "    STORE_MODE_T input_store_mode(int) const override { return STORE_MODE_1N; }",
    "prepare": "std::vector<int> prepared_shape(int) const override { return {1, 4}; }\n"
    "    void prepare(int, const void *, void *to) const override { *static_cast<float *>(to) = 9; }",
}
PLAIN = "PLAIN"  # overrides nothing


def op_of(method: str) -> str:
    return f"TPU_M_{method.upper()}"


DEVICE = """
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"
__BM_PARAM__(%(op)s) typedef struct { int lower, sum; } tpu_m_%(name)s_param_t;
__BM_SHAPE__(%(op)s) int m_%(name)s_reshape(const void *param, const int param_size, const tpu_tensor_t *in,
        const int in_num, tpu_tensor_t *out, const int out_num) {
    const tpu_m_%(name)s_param_t *p = param;
    *out = *in;
    if (p->sum) for (int i = 1; i < in_num; i++) out->shape[0] += in[i].shape[0];
    out->shape[2] -= p->lower;
    return 0;
}
__BM_GLOBAL__(%(op)s) int m_%(name)s_global(const void *param, const int param_size, const tpu_tensor_t *in,
        const int in_num, const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out,
        const int out_num) {
    return 0;
}
__BM_LOCAL__(%(op)s) int m_%(name)s_local(const void *param, const int param_size, const tpu_tensor_t *in,
        const int in_num, const u64 buffer_offset, const u64 buffer_size, tpu_tensor_t *out,
        const int out_num) {
    return 0;
}
"""
HOST = """
__BM_DESC__(%(op)s)
class M%(name)sDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "ONLY_%(name)s"; }
    %(body)s
};
"""


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    ws = built_copy(tmp_path_factory, tmp_path_factory.mktemp("workspace"))
    rows = {name: body for name, body in BODIES.items() if body} | {PLAIN: ""}
    host = ["#include <string>\n#include <vector>\n", '#include "bmcompiler_tpulayer_host.hpp"\n']
    for name, body in rows.items():
        values = {"op": op_of(name), "name": name.lower(), "body": body}
        (ws.root / "device" / f"bm_device_m_{name.lower()}.c").write_text(DEVICE % values)
        host.append(HOST % values)
    (ws.root / "host" / "bm_host_m.hpp").write_text("".join(host))
    build_layers(ws)
    with Toolkit(ws) as toolkit:
        yield toolkit


@dataclass
class Planned:
    """A plan, and how it looks in the log."""

    plan: Plan
    log: str

    @property
    def segments(self) -> Sequence[Segment]:
        return self.plan.schedule.segments

    @property
    def group(self) -> Group:
        (group,) = (s for s in self.segments if isinstance(s, Group))
        return group

    def windows(self, axis: str) -> list[Window]:
        """What the layer (node 1 of the group) reads of input 0, tile by tile."""
        return [p.read[1, 0] for p in getattr(self.group.tiling, axis)]


def planned(
    toolkit: Toolkit,
    method: str,
    shape: tuple[int, ...] = WIDE,
    *,
    lower: int = 0,
    consts: int = 0,
    joined: bool = False,
    beside: bool = False,
    dynamic: bool = False,
    opt: int = 1,
) -> Planned:
    """x * 2 -> the layer -> * 0.5, planned but not recorded.

    lower: rows that the output has less; consts: further inputs, which are constants of 4 numbers; joined: a
    second input that is computed, and both outputs' batches together; beside: another layer reads the same
    tensor through a window of 3 rows.
    """
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", shape)
    inputs = [graph.add_const_binary_layer("x", 2.0, "first", BINARY_MUL)]
    if joined:
        inputs.append(graph.add_const_binary_layer("x", 3.0, "second", BINARY_MUL))
    inputs += [graph.add_const(f"c{i}", np.ones((1, 4, 1, 1), np.float32)) for i in range(consts)]
    graph.add_tpu_layer(op_of(method), inputs, {"lower": lower, "sum": int(joined)}, ["made"])
    if beside:
        graph.add_tpu_layer(op_of("backward_kh"), ["first"], {}, ["other"])
        graph.add_const_binary_layer("other", 0.5, "third", BINARY_MUL)
    graph.add_const_binary_layer("made", 0.5, "last", BINARY_MUL)
    described = prepare_constants(gather_attributes(infer_shapes(graph), toolkit))
    plan = plan_net(described, dynamic=dynamic, opt=opt)
    return Planned(plan, "\n".join(log_lines(plan.described, plan.mode, plan.schedule)))


def test_every_method_is_here() -> None:
    assert set(BODIES) == set(descriptor_methods())


def test_the_manual_lists_the_first_of_them() -> None:
    """The class of tests/sources/manual_layers overrides exactly the methods that are not our own."""
    text = (ROOT / "tests" / "sources" / "manual_layers" / "bm_host_xxx.h").read_text()
    manual = re.findall(r"(\w+)\([^()]*\) const override", text)
    own = {"is_concat_layer", "accepts_larger_tiles", "input_dtype", "input_store_mode", "each_row_alone"}
    own |= {n for n in descriptor_methods() if "prepare" in n}
    assert sorted(manual) == sorted(set(descriptor_methods()) - own) and len(manual) == 23


def test_get_name_shows_in_the_log(toolkit: Toolkit) -> None:
    assert "TPU(ONLY_plain)" in planned(toolkit, PLAIN).log


@pytest.mark.parametrize("method", ["must_dynamic_run", "output_shape_is_dynamic"])
def test_modes(toolkit: Toolkit, method: str) -> None:
    assert set(planned(toolkit, PLAIN).plan.mode.kinds) == {Kind.STATIC}
    found = planned(toolkit, method)
    after = Kind.DYNAMIC if method == "output_shape_is_dynamic" else Kind.STATIC
    assert found.plan.mode.kinds == (Kind.STATIC, Kind.DYNAMIC, after)
    assert f"compiled dynamically: {method} of TPU(ONLY_{method})" in found.log


def test_can_h_w_dynamic(toolkit: Toolkit) -> None:
    for method, free in ((PLAIN, True), ("can_h_w_dynamic", False)):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", (2, 3, 4, 5))
        graph.add_tpu_layer(op_of(method), ["x"], None, ["y"])
        (stage,) = graph.compile(dynamic=True).stages
        assert stage.n_dynamic and stage.h_w_dynamic == free


def test_groups(toolkit: Toolkit) -> None:
    assert planned(toolkit, PLAIN).group.nodes == (0, 1, 2)
    forced = planned(toolkit, "force_use_global_layer")
    assert [s.reason for s in forced.segments if isinstance(s, Alone) and s.node == 1] == [
        "force_use_global_layer"
    ]


def test_can_split_local_h_w(toolkit: Toolkit) -> None:
    assert planned(toolkit, PLAIN).group.counts[1] > 1
    whole = planned(toolkit, "can_split_local_h_w")
    assert not any(isinstance(s, Group) and s.counts[1] > 1 and 1 in s.nodes for s in whole.segments)
    assert "it does not fit into local memory" in whole.log


def test_can_inplace_saves_a_buffer(toolkit: Toolkit) -> None:
    shape = (1, 64, 100, 100)
    plain, inplace = planned(toolkit, PLAIN, shape).group, planned(toolkit, "can_inplace", shape).group
    places = [
        group.local.values[group.local.made["made"]].offsets
        == group.local.values[group.local.made["first"]].offsets
        for group in (plain, inplace)
    ]
    assert places == [False, True] and inplace.local.used < plain.local.used


def test_just_reshape_runs_nothing(toolkit: Toolkit) -> None:
    assert "global (opt=0)" in planned(toolkit, PLAIN, opt=0).log.splitlines()[1]
    for opt in (0, 1, 2):  # though it has a local function
        assert "shares its input's memory" in planned(toolkit, "just_reshape", opt=opt).log.splitlines()[1]


def test_is_share_mem_layer_gives_one_address(toolkit: Toolkit) -> None:
    for method, same in ((PLAIN, False), ("is_share_mem_layer", True)):
        ddr = planned(toolkit, method, opt=0).plan.ddr
        assert (ddr.address["made"] == ddr.address["first"]) == same


def test_what_it_takes_is_converted(toolkit: Toolkit) -> None:
    """A quantised tensor becomes fp32 for a layer that says nothing, and stays for one that takes it."""
    found = {}
    for method, dtype, mode in (
        (PLAIN, "int8", None),
        ("input_dtype", "uint8", None),
        ("input_store_mode", "int8", "1N"),
    ):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", (2, 3, 4, 5), dtype, scale=0.5, store_mode=mode)
        graph.add_tpu_layer(op_of(method), ["x"], None, ["y"])
        found[method] = [node.op.op for node in infer_shapes(graph).nodes]
    assert found == {
        PLAIN: ["TPU_DEQUANTIZE", op_of(PLAIN)],
        **{method: [op_of(method)] for method in ("input_dtype", "input_store_mode")},
    }


def test_get_global_buffer_size(toolkit: Toolkit) -> None:
    assert planned(toolkit, PLAIN, opt=0).plan.ddr.buffer == {}
    found = planned(toolkit, "get_global_buffer_size", opt=0).plan
    (program,) = found.programs
    assert program is not None
    (step,) = (s for s in program.steps if s.buffer_bytes)
    assert step.buffer_bytes == 4 * 12345 and step.buffer_addr == found.ddr.buffer[1]


def test_get_local_buffer_size(toolkit: Toolkit) -> None:
    plain, found = planned(toolkit, PLAIN).group, planned(toolkit, "get_local_buffer_size").group
    assert not plain.local.work and set(found.local.work) == {1}
    assert found.tiling.count > plain.tiling.count  # it wants a byte for every element of the tile


def test_input_type_gives_the_layout(toolkit: Toolkit) -> None:
    for method, layout in ((PLAIN, TType.NEURON), ("input_type", TType.COEFF)):
        found = planned(toolkit, method, (1, 4, 8, 8), consts=1)
        value = found.group.local.values[found.group.local.read[1, 1]]
        assert value.ttype == layout


def test_should_input_on_l2mem(toolkit: Toolkit) -> None:
    assert planned(toolkit, PLAIN, (1, 4, 8, 8), consts=1).group.l2 == {}
    assert set(planned(toolkit, "should_input_on_l2mem", (1, 4, 8, 8), consts=1).group.l2) == {"c0"}


def test_windows_over_rows(toolkit: Toolkit) -> None:
    """Which rows the first tile reads, and the second; pad: rows over the upper edge."""
    plain = planned(toolkit, PLAIN)
    first, second = plain.windows("h")[:2]
    assert (first.first, first.pad, second.first) == (0, 0, first.extent)
    for method, above, below in (
        ("backward_hslice", 0, 2),  # n + 2 rows from the same one
        ("backward_hidx", 1, -1),  # one row up
        ("backward_kh", 0, 2),  # a window of 3 rows
        ("backward_up_pad_h", 1, -1),  # that begins one row up
    ):
        windows = planned(toolkit, method).windows("h")
        outs = [p.made["made"] for p in planned(toolkit, method).group.tiling.h]
        assert [w.first for w in windows[1:]] == [o.first - above for o in outs[1:]], method
        assert windows[0].pad == above, method
        assert windows[0].end == outs[0].end + below, method


def test_backward_stride_h(toolkit: Toolkit) -> None:
    """One row of every two: a tile reads twice as many, but the last."""
    found = planned(toolkit, "backward_stride_h", lower=95)
    outs = [p.made["made"] for p in found.group.tiling.h]
    assert [(w.first, w.extent) for w in found.windows("h")] == [
        (2 * o.first, 2 * o.extent - 1) for o in outs
    ]


def test_backward_down_pad_h(toolkit: Toolkit) -> None:
    """The last tile has all rows to the lower edge: the window goes on over it."""
    ends = [planned(toolkit, m, lower=3).windows("h")[-1].end for m in (PLAIN, "backward_down_pad_h")]
    assert ends == [187, 190]


def test_windows_over_columns(toolkit: Toolkit) -> None:
    shape = (1, 130, 1, 65_000)
    plain = planned(toolkit, PLAIN, shape).windows("w")
    assert len(plain) > 1 and plain[1].first == plain[0].extent
    wider = planned(toolkit, "backward_wslice", shape)
    outs = [p.made["made"] for p in wider.group.tiling.w]
    assert wider.windows("w")[0].extent == outs[0].extent + 2
    moved = planned(toolkit, "backward_widx", shape)
    outs = [p.made["made"] for p in moved.group.tiling.w]
    assert [w.first for w in moved.windows("w")[1:]] == [o.first - 1 for o in outs[1:]]
    assert moved.windows("w")[0].pad == 1


@pytest.mark.parametrize("method", ["is_backslice_optimize_support_layer", "accepts_larger_tiles"])
def test_layers_that_share_larger_tiles(toolkit: Toolkit, method: str) -> None:
    """Beside a layer with a window of 3 rows: only a layer that takes larger tiles is in its group."""

    def together(found: Planned) -> bool:
        readers = {k for k, n in enumerate(found.plan.described.net.nodes) if "first" in n.inputs}
        assert len(readers) == 2
        return any(isinstance(s, Group) and readers <= set(s.nodes) for s in found.segments)

    tall = (1, 130, 36_100, 1)  # nothing to cut but rows
    assert not together(planned(toolkit, PLAIN, tall, beside=True))
    assert together(planned(toolkit, method, tall, beside=True))


def test_forward_height_is_compared_with_the_shape_function(toolkit: Toolkit) -> None:
    planned(toolkit, PLAIN, lower=3)
    planned(toolkit, "forward_height", lower=7)
    with pytest.raises(
        CompileError, match=r"forward_height\(190\) of its descriptor returns 183; expected 187"
    ):
        planned(toolkit, "forward_height", lower=3)


def test_is_concat_layer_makes_the_inputs_in_the_output(toolkit: Toolkit) -> None:
    for method, joined in ((PLAIN, False), ("is_concat_layer", True)):
        ddr = planned(toolkit, method, (2, 3, 4, 5), joined=True, opt=0).plan.ddr
        at = ddr.address["made"]
        here = (ddr.address["first"], ddr.address["second"]) == (at, at + 4 * 2 * 3 * 4 * 5)
        assert here == joined


def test_constants_that_are_prepared(toolkit: Toolkit) -> None:
    shape = (1, 4, 8, 8)
    plain = planned(toolkit, PLAIN, shape, consts=2).plan.ddr.coefficients
    assert np.frombuffer(plain.data[plain.offsets["c0"] :][:16], np.float32).tolist() == [1, 1, 1, 1]

    def tensors(method: str) -> list[tuple[tuple[int, ...], int, bytes]]:
        net = planned(toolkit, method, shape, consts=2, opt=0).plan.described.net
        node = net.nodes[1]
        found = (net.tensors[name] for name in node.inputs[1:])
        return [(t.shape, int(t.dtype), t.data or b"") for t in found]

    seven, nine = (np.array([x, 0, 0, 0], np.float32).tobytes() for x in (7, 9))
    ones = np.ones(4, np.float32).tobytes()
    assert tensors(PLAIN) == [((1, 4, 1, 1), 0, ones)] * 2
    assert tensors("prepared_shape") == [((1, 4), 0, seven), ((1, 4, 1, 1), 0, ones)]
    assert tensors("prepare") == [((1, 4), 0, nine)] * 2
    assert tensors("prepared_dtype") == [((2, 2), 4, bytes(8))] * 2  # DTYPE_INT16
    assert tensors("prepared_with") == [((1, 8), 0, bytes(32))]


# ---- the manual's own layer ----


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    """Every file of tests/sources/manual_layers, which is written as the manual writes layers."""
    with layers_toolkit(tmp_path_factory, "manual_layers") as toolkit:
        yield toolkit


@pytest.mark.parametrize("opt", [0, 1, 2])
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_layer_of_the_manual(manual: Toolkit, opt: int, dynamic: bool) -> None:
    x = np.random.default_rng(0).standard_normal((2, 70, 60, 61)).astype(np.float32)
    graph = Graph(name="net", toolkit=manual)
    graph.add_input("x", x.shape)
    graph.add_const_binary_layer("x", 2.0, "twice", BINARY_MUL)
    graph.add_tpu_layer("TPU_XXX", ["twice"], None, ["same"])
    graph.add_const_binary_layer("same", 0.5, "y", BINARY_MUL)
    lines: list[str] = []
    graph.compile(opt=opt, dynamic=dynamic, log=lines.append)
    (y,) = graph.run({"x": x})
    assert np.array_equal(y, x)
    where = "dynamic" if dynamic else "local, group 0" if opt else "global (opt=0)"
    assert "TPU(XXX)" in lines[1] and where in lines[1]


def test_an_empty_struct_has_no_bytes_in_c_and_one_in_cpp(manual: Toolkit) -> None:
    info = manual.op("TPU_XXX", "here")
    assert info.param_size == 0
    given: tuple[dict[str, int] | bytes | None, ...] = (None, {}, b"", b"\0")
    assert [manual.layer_param(info, values, "here") for values in given] == [b""] * 4


def test_layers_of_this_toolkit_mark_what_they_override(tmp_path: Path) -> None:
    """-Wsuggest-override over every header with a descriptor."""
    from tests.support.layer_sources import compile_text
    from user_layers.toolchain.builtin import builtin_artifacts

    built = builtin_artifacts().directory
    for path in sorted((ROOT / "sdk" / "layers" / "host").glob("bm_host_*.h")):
        source = tmp_path / f"{path.stem}.cpp"
        source.write_text(f'#include "{path}"\n')
        sdk = [ROOT / "sdk" / name for name in ("include", "generated")]
        folders = [f"-I{p}" for p in (*sdk, built, path.parent)]
        flags = ["-std=c++17", "-fsyntax-only", "-Wsuggest-override", "-Woverloaded-virtual", "-Werror"]
        compile_text("c++", [*flags, *folders, str(source)])


@pytest.mark.parametrize("method", ["input_dtype", "each_row_alone"])
def test_each_row_alone_lets_strips_through(toolkit: Toolkit, method: str) -> None:
    """Between convolutions of a net of batch 1: what the layer gets is cut, or joined before it."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 4, 16, 8), "uint8", scale=0.1)
    graph.add_const("w", np.ones((4, 4, 1, 1), np.int8))
    window = ("groups", "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")
    values = {**dict.fromkeys(window, 1), "relu": 1, "scale": 0.1}
    graph.add_tpu_layer("TPU_CONV_INT8", ["x", "w"], values, ["a"])
    graph.add_tpu_layer(op_of(method), ["a"], {}, ["b"])
    graph.add_tpu_layer("TPU_CONV_INT8", ["b", "w"], values, ["y"])
    graph.add_output("y")
    made = in_strips(graph, graph.resolve())
    assert made is not None
    (own,) = (node for node in made.nodes if node.op.op == op_of(method))
    shape = made.resolve().tensors[own.outputs[0]].shape
    assert shape == ((4, 4, 4, 8) if method == "each_row_alone" else (1, 4, 16, 8))
