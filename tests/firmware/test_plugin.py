"""Descriptors through the plugin boundary: every method, crashes, exceptions, foreign plugins."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from firmware_sim.errors import CompileError, MissingError, UsageError
from firmware_sim.wire import DType, Format, TType
from tests.support.layer_sources import (
    HEAD,
    Sources,
    compile_text,
    device,
    global_,
    host,
    local,
    param,
    shape,
)
from user_layers.codegen import generate
from user_layers.plugin import (
    PLUGIN_PATH_VARIABLE,
    DescriptorHandle,
    PluginHost,
    PluginNode,
    PluginTensor,
    find_plugins,
)
from user_layers.plugin import host as plugin_host
from user_layers.plugin.host import ABI_VERSION
from user_layers.plugin.methods import METHODS
from user_layers.scaffold import init
from user_layers.toolkit import Toolkit
from user_layers.workspace import Workspace, sdk_dir

# Every method gives an answer of its own that depends on its argument and on the node.
DESCRIPTOR = """
#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
__BM_DESC__(TPU_X)
class XDescriptor : public bmcompiler::LayerDescriptor {
    int mode() const { return param<tpu_x_param_t>()->mode; }
    mutable int calls = 0;
  public:
    std::string get_name() const override { return "X of " + layer()->name; }
    bool must_dynamic_run() const override { return mode() & 1; }
    bool output_shape_is_dynamic() const override { return mode() & 2; }
    bool force_use_global_layer() const override { return mode() & 4; }
    bool can_split_local_h_w() const override { return mode() & 8; }
    bool can_inplace(DATA_TYPE_T t) const override { return t == DTYPE_INT8; }
    bool can_h_w_dynamic() const override { return mode() & 16; }
    bool just_reshape() const override { return mode() & 32; }
    bool is_share_mem_layer() const override { return mode() & 64; }
    bool is_concat_layer() const override { return mode() & 256; }
    u64 get_global_buffer_size() const override { return 1ull << 40; }
    TENSOR_TYPE_T input_type(int i) const override { return layer()->inputs.at(i).ttype; }
    u32 get_local_buffer_size(const int *s) const override {
        return s[0] * 1000 + s[1] * 100 + s[2] * 10 + s[3];
    }
    bool should_input_on_l2mem(int i) const override { return i == 1; }
    bool is_backslice_optimize_support_layer() const override { return mode() & 128; }
    int backward_hslice(int n) const override { return 2 * n + 1; }
    int backward_wslice(int n) const override { return 3 * n + 1; }
    int backward_hidx(int i) const override { return i - 5; }
    int backward_widx(int i) const override { return i - 6; }
    int backward_kh(int n) const override { return n + layer()->outputs.at(0).shape.at(2); }
    int backward_stride_h(int n) const override { return n * layer()->inputs.at(0).dtype; }
    int backward_up_pad_h(int n) const override { return n + ++calls; }
    int backward_down_pad_h(int n) const override {
        if (mode() == 200) { std::printf("about to fail"); std::fflush(stdout); std::abort(); }
        if (mode() == 201) { int *p = nullptr; return *(volatile int *)p; }
        if (mode() == 202) throw std::runtime_error("no such pad");
        if (mode() == 203) throw 42;
        if (mode() == 204) for (volatile int i = 0; i >= 0;) i = 1;
        return n + 4;
    }
    int forward_height(int h) const override { return h / 2; }
    std::vector<int> prepared_shape(int i) const override {
        if (mode() == 205) throw std::runtime_error("no such weights");
        if (mode() == 206) return std::vector<int>(9, 1);
        if (mode() == 207) return {2, 0};
        if (i == 1) return {};
        const auto &s = layer()->inputs.at(i).shape;
        return {mode() == 208 ? ++calls : 1, s.at(2), s.at(1) * s.at(0)};
    }
    DATA_TYPE_T prepared_dtype(int i) const override {
        if (mode() == 209) return static_cast<DATA_TYPE_T>(9);
        return mode() == 210 ? DTYPE_FP32 : LayerDescriptor::prepared_dtype(i);
    }
    int prepared_with(int i) const override { return i == 1 ? 0 : i; }
    void prepare(int i, const void *constant, void *prepared) const override {
        const auto *from = static_cast<const short *>(constant);
        auto *to = static_cast<short *>(prepared);
        if (mode() == 211) to[6] = 1;
        if (mode() == 212) to[0] = from[6];
        if (mode() == 213) return LayerDescriptor::prepare(i, constant, prepared);
        if (mode() == 214) {
            const void *other = layer()->inputs.at(1).data;
            to[0] = other ? static_cast<short>(static_cast<const int *>(other)[6]) : -1;
            return;
        }
        for (int k = 0; k < 5; k++) to[k] = from[5 - k];
    }
};
"""


def build(sources: Sources, prefix: str = "bmtpu") -> Path:
    """The plugin of a folder of layer sources."""
    out = sources.root / "generated"
    generate(sources.table(0x10000 if prefix == "bmbuiltin" else 0), out, prefix=prefix)
    return compiled(sources, out / f"{prefix}_host_entry.cpp")


def compiled(sources: Sources, entry: Path, *flags: str) -> Path:
    includes = [f"-I{p}" for p in (sdk_dir() / "include", sources.root / "host", sources.root / "generated")]
    library = sources.root / f"libbmplugin_{sources.root.name}.so"
    compile_text(
        "c++",
        [
            "-std=c++17",
            "-shared",
            "-fPIC",
            "-Wall",
            "-Wextra",
            "-Werror",
            *includes,
            *flags,
            str(entry),
            "-o",
            str(library),
        ],
    )
    return library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = Sources(tmp_path_factory.mktemp("plugin"))
    sources.layer(device(struct="typedef struct { int mode; } tpu_x_param_t;") + local("TPU_X"), DESCRIPTOR)
    y = HEAD + param("TPU_Y", "typedef struct { int reserved; } y_t;") + shape("TPU_Y", "y_shape")
    sources.write("device/y.c", y + global_("TPU_Y", "y_global"))
    sources.write("host/y.h", host("TPU_Y", "YDescriptor").replace("class", "namespace n { class") + "}\n")
    text = (
        (sources.root / "host/y.h")
        .read_text()
        .replace("__BM_DESC__(TPU_Y)\nnamespace n { ", "namespace n {\n__BM_DESC__(TPU_Y)\n")
    )
    sources.write("host/y.h", text)
    return build(sources)


@pytest.fixture(scope="module")
def plugins(library: Path) -> PluginHost:
    return PluginHost([library])


def node(mode: int = 0, name: str = "x_0", op_type: int = 0) -> PluginNode:
    return PluginNode(
        name,
        op_type,
        mode.to_bytes(4, "little"),
        (
            PluginTensor("a", (1, 2, 3), DType.INT16, TType.COEFF),
            PluginTensor("b", (7,), ttype=TType.NEURON_SHAPE),
        ),
        (PluginTensor("c", (1, 2, 9, 4)),),
    )


def test_layers(plugins: PluginHost, library: Path) -> None:
    x, y = plugins.layers()
    assert (x.op_name, x.op_type, x.param_size, x.descriptor, x.has_local) == (
        "TPU_X",
        0,
        4,
        "XDescriptor",
        True,
    )
    assert (y.op_name, y.op_type, y.descriptor, y.has_local) == ("TPU_Y", 1, "n::YDescriptor", False)
    assert x.path == library and x.param_hash != y.param_hash


@pytest.mark.parametrize("bit", range(9))
def test_yes_and_no(plugins: PluginHost, bit: int) -> None:
    names = [
        "must_dynamic_run",
        "output_shape_is_dynamic",
        "force_use_global_layer",
        "can_split_local_h_w",
        "can_h_w_dynamic",
        "just_reshape",
        "is_share_mem_layer",
        "is_backslice_optimize_support_layer",
        "is_concat_layer",
    ]
    handle = plugins.create(node(1 << bit))
    assert [getattr(handle, n)() for n in names] == [i == bit for i in range(9)]


def test_numbers_and_arguments(plugins: PluginHost) -> None:
    h = plugins.create(node())
    assert h.name == "X of x_0"
    assert (h.can_inplace(DType.INT8), h.can_inplace(DType.FP32)) == (True, False)
    assert h.get_global_buffer_size() == 1 << 40
    assert (h.input_type(0), h.input_type(1)) == (TType.COEFF, TType.NEURON_SHAPE)
    assert h.get_local_buffer_size([2, 3, 4, 5]) == 2345
    assert (h.should_input_on_l2mem(0), h.should_input_on_l2mem(1)) == (False, True)
    assert (h.backward_hslice(4), h.backward_wslice(4)) == (9, 13)
    assert (h.backward_hidx(0), h.backward_widx(0)) == (-5, -6)
    assert (h.backward_kh(10), h.backward_stride_h(2)) == (19, 2 * int(DType.INT16))
    assert (h.backward_up_pad_h(10), h.backward_down_pad_h(0)) == (11, 4)
    assert h.forward_height(9) == 4


def test_methods_asked_together_are_known_then(plugins: PluginHost) -> None:
    h, alone = plugins.create(node()), plugins.create(node())
    calls = [("backward_hslice", (4,)), ("input_type", (1,)), ("get_local_buffer_size", (2, 3, 4, 5))]
    h.ask([*calls, calls[0]])
    assert [h.call(*one) for one in calls] == [alone.call(*one) for one in calls]


def test_every_method_of_the_table_is_a_method_of_the_handle() -> None:
    others = {"call", "ask", "prepared", "prepare"}
    methods = {n for n in vars(DescriptorHandle) if not n.startswith("_")} - others
    assert methods - {"takes"} == {m.name for m in METHODS} - {"input_dtype", "input_store_mode"}


def test_defaults(plugins: PluginHost) -> None:
    h = plugins.create(node(op_type=1))
    assert h.name == "UNKNOWN"
    yes = {"can_split_local_h_w", "can_h_w_dynamic"}
    for m in METHODS:
        if m.result == "bool":
            assert h.call(m.name, [0] if m.arg else []) == (m.name in yes), m.name
        elif m.arg == "extent":
            assert h.call(m.name, [17]) == 17, m.name
    assert h.get_global_buffer_size() == h.get_local_buffer_size([1, 2, 3, 4]) == 0
    assert h.input_type(0) is TType.NEURON


WEIGHTS = bytes(range(12))  # of input a: 6 elements of 2 bytes


def test_prepared_constants(plugins: PluginHost) -> None:
    h = plugins.create(node())
    assert h.prepared(0) == ((1, 3, 2), DType.INT16)
    assert h.prepared(1) is None
    assert h.prepare(0, {0: WEIGHTS}, 12) == bytes([10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 0])  # the last stays 0
    assert plugins.create(node(210)).prepared(0) == ((1, 3, 2), DType.FP32)
    plain = plugins.create(node(op_type=1))
    assert plain.prepared(0) is None


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (205, "exception: no such weights"),
        (206, "prepared_shape has 9 dimensions, at most 8 are possible"),
        (207, "exception: an extent of 0"),
        (209, "exception: the type 9 is not a DATA_TYPE_T"),
    ],
)
def test_prepared_shapes_that_make_no_sense(plugins: PluginHost, mode: int, text: str) -> None:
    with pytest.raises(CompileError) as e:
        plugins.create(node(mode, "w_1")).prepared(0)
    assert e.value.message == f"layer w_1 (TPU_X): XDescriptor::prepared_shape(0) failed: {text}"


def test_constants_that_others_take_in(plugins: PluginHost) -> None:
    h = plugins.create(node(214))
    assert (h.prepared_with(0), h.prepared_with(1)) == (0, 0)
    other = bytes(24) + (77).to_bytes(4, "little")  # of input b: 7 elements of 4 bytes
    assert h.prepare(0, {1: other, 0: WEIGHTS}, 12)[:2] == b"\x4d\0"
    assert h.prepare(0, {0: WEIGHTS}, 12)[:2] == b"\xff\xff"  # forgotten again
    with pytest.raises(CompileError, match=r"prepare\(0\) failed: a constant of 24 bytes, its shape has 28"):
        h.prepare(0, {0: WEIGHTS, 1: other[:24]}, 12)
    assert plugins.create(node(op_type=1)).prepared_with(3) == 3


def test_preparing_checks_sizes(plugins: PluginHost) -> None:
    h = plugins.create(node())
    with pytest.raises(CompileError, match=r"prepare\(0\) failed: the constant has 10 bytes, its shape 12"):
        h.prepare(0, {0: WEIGHTS[:10]}, 12)
    with pytest.raises(CompileError, match="prepared_shape is of 12 bytes now, before of 14"):
        h.prepare(0, {0: WEIGHTS}, 14)
    with pytest.raises(CompileError, match=r"prepare\(7\) failed: exception: "):
        h.prepare(7, {7: WEIGHTS}, 12)
    changing = plugins.create(node(208))
    assert changing.prepared(0) == ((1, 3, 2), DType.INT16)
    with pytest.raises(CompileError, match="prepared_shape is of 24 bytes now, before of 12"):
        changing.prepare(0, {0: WEIGHTS}, 12)
    with pytest.raises(CompileError, match="prepared_shape is given, prepare is not"):
        plugins.create(node(213)).prepare(0, {0: WEIGHTS}, 12)


@pytest.mark.parametrize("mode", [211, 212])
def test_preparing_beyond_the_ends_is_a_crash(
    library: Path, mode: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with PluginHost([library]) as plugins:
        h = plugins.create(node(mode, "w_1"))
        with pytest.raises(
            CompileError, match=r"layer w_1 \(TPU_X\): XDescriptor::prepare\(0\) crashed: SIGSEGV"
        ):
            h.prepare(0, {0: WEIGHTS}, 12)
    capfd.readouterr()


def test_answers_are_kept(plugins: PluginHost) -> None:
    h = plugins.create(node())
    assert [h.backward_up_pad_h(0) for _ in range(3)] == [1, 1, 1]  # it counts its calls
    assert plugins.create(node()).backward_up_pad_h(0) == 1


@pytest.mark.parametrize(
    ("mode", "text"),
    [(202, "failed: exception: no such pad"), (203, "failed: exception of an unknown type")],
)
def test_exceptions(plugins: PluginHost, mode: int, text: str) -> None:
    h = plugins.create(node(mode, "pad_1"))
    with pytest.raises(CompileError) as e:
        h.backward_down_pad_h(0)
    assert e.value.message == f"layer pad_1 (TPU_X): XDescriptor::backward_down_pad_h(0) {text}"
    assert h.backward_kh(0) == 9  # the host lives on
    with pytest.raises(CompileError, match=r"input_type\(5\) failed: exception: "):
        h.input_type(5)
    with pytest.raises(CompileError, match="argument is not an int"):
        h.backward_hidx(1 << 40)
    with pytest.raises(CompileError, match="0 arguments, expected 1"):
        h.call("backward_hidx")


@pytest.mark.parametrize(
    ("mode", "text"),
    [(200, "crashed: SIGABRT"), (201, "crashed: SIGSEGV"), (204, "ran for 1 s")],
)
def test_crashes(library: Path, mode: int, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    with PluginHost([library], limit=1.0) as plugins:
        h = plugins.create(node(mode, "pad_1"))
        with pytest.raises(CompileError) as e:
            h.backward_down_pad_h(0)
        assert e.value.message.startswith("layer pad_1 (TPU_X): XDescriptor::backward_down_pad_h(0) " + text)
        assert "endless loop" in e.value.hint
        if mode == 200:
            assert "about to fail" in e.value.message
        with pytest.raises(CompileError) as again:  # the reason, not "the process has ended"
            h.backward_kh(0)
        assert again.value is e.value
    capfd.readouterr()


def test_an_input_type_that_is_none(plugins: PluginHost) -> None:
    odd = node()
    tensor = PluginTensor("a", (1,))
    object.__setattr__(tensor, "ttype", 77)
    with pytest.raises(
        CompileError, match=r"XDescriptor::input_type\(0\) returned 77, which is not a TENSOR_TYPE_T"
    ):
        plugins.create(PluginNode(odd.name, 0, odd.param, (tensor,), odd.outputs)).input_type(0)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (PluginNode("n", 9, b"", (), ()), "n: no plugin holds a layer with op_type 9"),
        (PluginNode("n", 0, b"12345", (), ()), "n: 5 bytes of parameters; the struct of TPU_X has 4"),
        (
            PluginNode("n", 0, b"1234", (PluginTensor("t", (1,)),) * 17, ()),
            "n: 17 inputs; a layer has at most 16",
        ),
        (
            PluginNode("n", 0, b"1234", (), (PluginTensor("t", (1,) * 9),)),
            "n: tensor t has 9 dimensions, at most 8",
        ),
    ],
)
def test_bad_nodes(plugins: PluginHost, bad: PluginNode, message: str) -> None:
    with pytest.raises(UsageError) as e:
        plugins.create(bad)
    assert e.value.message.startswith(message)


def test_a_closed_host(library: Path) -> None:
    with PluginHost([library]) as plugins:
        h = plugins.create(node())
    with pytest.raises(UsageError, match="the plugin host is closed"):
        h.backward_kh(0)


# ---- loading ----


def load(paths: Sequence[Path]) -> str:
    with PluginHost(paths) as plugins, pytest.raises(UsageError) as e:
        plugins.layers()
    return str(e.value)


def test_files_that_are_no_plugins(tmp_path: Path) -> None:
    (tmp_path / "libbmplugin_a.so").write_text("text")
    assert "cannot be loaded" in load([tmp_path / "libbmplugin_a.so"])
    (tmp_path / "b.c").write_text("int other;\n")
    compile_text("c", ["-shared", "-fPIC", str(tmp_path / "b.c"), "-o", str(tmp_path / "b.so")])
    assert "no TPU-layer plugin" in load([tmp_path / "b.so"])
    (tmp_path / "c.c").write_text(f"int bmplugin_abi_version(void) {{ return {ABI_VERSION + 1}; }}\n")
    compile_text("c", ["-shared", "-fPIC", str(tmp_path / "c.c"), "-o", str(tmp_path / "c.so")])
    text = load([tmp_path / "c.so"])
    versions = (
        f"version {ABI_VERSION + 1} of the plugin interface, this toolkit has versions 1 to {ABI_VERSION}"
    )
    assert f"made for {versions}" in text
    assert "rebuild_layers" in text


def test_a_plugin_of_version_1_prepares_nothing(tmp_path: Path) -> None:
    sources = Sources(tmp_path).layer(
        device(struct="typedef struct { int mode; } tpu_x_param_t;"), DESCRIPTOR
    )
    generate(sources.table(0), tmp_path / "generated")
    entry = tmp_path / "generated" / "bmtpu_host_entry.cpp"
    text = entry.read_text().replace("return BMPLUGIN_ABI_VERSION;", "return 1;")
    window = "d.backward_kh(as_int(args[0]))"  # without an argument then
    assert text.count(f"need(1);\n        return static_cast<int64_t>({window})") == 1
    text = text.replace(
        f"need(1);\n        return static_cast<int64_t>({window})", "need(0);\n        return 9"
    )
    entry.write_text(text)
    absent = [f"-Dbmplugin_{name}=absent_{name}" for name in ("prepared", "prepare", "constant")]
    with PluginHost([compiled(sources, entry, *absent)]) as plugins:
        h = plugins.create(node(256))
        assert h.prepared(0) is None and h.backward_kh(1) == 9 and not h.is_concat_layer()
        assert h.prepared_with(1) == 1 and h.takes(0) == Format()
        assert not h.accepts_larger_tiles()


def test_two_plugins_with_one_op_type(library: Path, tmp_path: Path) -> None:
    other = Path(shutil.copy(library, tmp_path / "libbmplugin_other.so"))
    text = load([library, other])
    assert f"op_type 0 is TPU_X in {library} and TPU_X in {other}" in text


def test_builtin_and_user_plugins_together(library: Path, tmp_path: Path) -> None:
    builtin = build(Sources(tmp_path).layer(device("TPU_B"), host("TPU_B", "BDescriptor")), "bmbuiltin")
    with PluginHost([builtin, library]) as plugins:
        assert [x.op_type for x in plugins.layers()] == [0, 1, 0x10000]


def test_the_structures_are_the_headers(tmp_path: Path) -> None:
    structures = (
        ("layer", plugin_host.Layer),
        ("tensor", plugin_host.Tensor),
        ("format", plugin_host.Format),
        ("node", plugin_host.Node),
    )
    lines = ['#include "bmplugin_abi.h"', "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    expected = []
    for name, structure in structures:
        lines.append(f'printf("%zu\\n", sizeof(bmplugin_{name}));')
        expected.append(ctypes.sizeof(structure))
        for field in structure._fields_:
            lines.append(f'printf("%zu\\n", offsetof(bmplugin_{name}, {field[0]}));')
            expected.append(getattr(structure, field[0]).offset)
    lines.append('printf("%d\\n%d\\n%d\\n", BMPLUGIN_ABI_VERSION, BMPLUGIN_MAX_DIMS, BMPLUGIN_MAX_TENSORS);')
    expected += [plugin_host.ABI_VERSION, plugin_host.MAX_DIMS, plugin_host.MAX_TENSORS]
    lines.append('printf("%d\\n", (int)BMPLUGIN_HAS_LOCAL); return 0; }')
    expected.append(plugin_host.HAS_LOCAL)
    (tmp_path / "m.c").write_text("\n".join(lines) + "\n")
    compile_text("c", [f"-I{sdk_dir() / 'include'}", str(tmp_path / "m.c"), "-o", str(tmp_path / "m")])
    run = subprocess.run([tmp_path / "m"], capture_output=True, text=True, check=True, timeout=60)
    assert [int(x) for x in run.stdout.split()] == expected


# ---- finding ----


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.delenv(PLUGIN_PATH_VARIABLE, raising=False)
    init(tmp_path / "ws")
    return Workspace(tmp_path / "ws")


def test_the_workspaces_plugin(workspace: Workspace, library: Path) -> None:
    assert find_plugins(None) == find_plugins(workspace) == []
    workspace.plugin.parent.mkdir(parents=True)
    shutil.copy(library, workspace.plugin)
    assert find_plugins(workspace) == [workspace.local_plugin]


def test_the_variable(
    workspace: Workspace, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, foreign = tmp_path / "a", tmp_path / "b"
    for f in (folder, foreign):
        f.mkdir()
    copy = Path(shutil.copy(library, folder / "libbmplugin_x.so"))
    (foreign / "libbmplugin_other.so").write_bytes(b"another kind of plugin")
    for value in (f"{folder}", f"{copy}", f"{foreign}:{folder}:", f"{folder}:{library}"):
        monkeypatch.setenv(PLUGIN_PATH_VARIABLE, value)
        assert find_plugins(workspace) == [copy]

    second = foreign / "libbmplugin_second.so"
    second.write_bytes(library.read_bytes() + b"changed")
    monkeypatch.setenv(PLUGIN_PATH_VARIABLE, f"{folder}:{foreign}")
    with pytest.raises(UsageError) as e:
        find_plugins(workspace)
    assert str(copy) in e.value.message and str(second) in e.value.message

    second.unlink()
    for value, message in (
        (f"{tmp_path}/none", "none, which does not exist"),
        (f"{foreign}", "holds no TPU-layer plugin"),
        (f"{foreign}/libbmplugin_other.so", "which is not a TPU-layer plugin"),
    ):
        monkeypatch.setenv(PLUGIN_PATH_VARIABLE, value)
        with pytest.raises(MissingError, match=message):
            find_plugins(workspace)


@pytest.mark.parametrize("name", ["libbmplugin_tpu_layer.so", "libbmplugin_layer.so"])
def test_the_vendors_other_names(
    workspace: Workspace, library: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLUGIN_PATH_VARIABLE, str(tmp_path / name))
    with pytest.raises(MissingError, match=f"{name}, which does not exist"):
        find_plugins(workspace)
    built = Path(shutil.copy(library, tmp_path / "libbmplugin_tpulayer.so"))
    assert find_plugins(workspace) == [built]
    own = tmp_path / name
    own.write_bytes(library.read_bytes() + b"another one")
    assert find_plugins(workspace) == [own]  # a file of that name is the one that is meant
    monkeypatch.setenv(PLUGIN_PATH_VARIABLE, str(tmp_path / "libbmplugin_tpu.so"))
    with pytest.raises(MissingError, match="which does not exist"):
        find_plugins(workspace)


def test_equal_built_in_layers_are_asked_once(toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their names are; others have answers of their own."""
    info, host = toolkit.op("TPU_UPSAMPLE", "here"), toolkit.plugins
    assert isinstance(host, PluginHost)

    def bound(name: str, scale: int, rows: int) -> DescriptorHandle:
        tensors = [PluginTensor(f"{name}{i}", (1, 2, rows * by, 4)) for i, by in enumerate((1, scale))]
        param = scale.to_bytes(4, "little") + (1).to_bytes(4, "little")
        return host.create(PluginNode(name, info.op_type, param, (tensors[0],), (tensors[1],)))

    handles = [bound("a", 2, 5), bound("b", 2, 5), bound("c", 3, 5), bound("d", 2, 6)]
    asked: list[object] = []
    request = host.request

    def counted(header: dict[str, object]) -> tuple[dict[str, object], bytes]:
        asked.append(header)
        return request(header)

    monkeypatch.setattr(host, "request", counted)
    assert [h.backward_hidx(12) for h in handles] == [6, 6, 4, 6]
    assert [h.prepared(0) for h in handles] == [None] * 4
    assert len(asked) == 6
