"""docs/contributing.md says which files a new thing of each kind takes: one of each is made in a copy of the
sources, in none but those files, and works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.paths import ROOT

COPIED = ("firmware_sim", "user_layers", "tpulayer", "sdk", "docs", "tool")
REGENERATE = "user_layers.codegen.regenerate"


def listed_files() -> dict[str, list[str]]:
    """Kind -> the paths of its row, with words like NAME as wildcards."""
    page = (ROOT / "docs" / "contributing.md").read_text()
    rows = re.findall(r"^\| ([\w -]+) \| (.*) \|$", page[page.index("| new |") :], re.MULTILINE)
    return {
        kind: [
            re.sub("NAME|FAMILY|KIND|MODULE", "*", path) for path in re.findall(r"`([\w./]+/[\w./]+)`", cell)
        ]
        for kind, cell in rows
        if kind != "new"
    }


@dataclass
class Checkout:
    """A copy of the sources in which new things are made."""

    root: Path
    touched: set[str] = field(default_factory=set)

    def write(self, kind: str, path: str, text: str) -> None:
        """A new file, which the page must name for this kind."""
        assert any(fnmatchcase(path, known) for known in listed_files()[kind]), (
            f"{kind}: {path} is not listed"
        )
        (self.root / path).write_text(text)
        self.touched.add(path)

    def edit(self, kind: str, path: str, anchor: str, text: str) -> None:
        """`text` before the only place where `anchor` stands."""
        before = (self.root / path).read_text()
        assert before.count(anchor) == 1, f"{path}: {before.count(anchor)} times {anchor!r}"
        self.write(kind, path, before.replace(anchor, text + anchor))

    def run(self, *arguments: str, root: Path | None = None) -> str:
        """Output of a Python process that imports from the copy, or from `root`. What the copy builds is
        kept beside it, and pushes nothing out of the user's cache."""
        own = {} if root else {"TPULAYER_CACHE": str(self.root.parent / "cache")}
        env = {**os.environ, **own, "PYTHONPATH": str(root or self.root)}
        done = subprocess.run(
            [sys.executable, *arguments], env=env, cwd=self.root.parent, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def texts(self) -> dict[str, bytes]:
        """What stands in every file of the copy."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }


# ---- one of each ----

COMMAND = """\
import typer


def greet(name: str = "you") -> None:
    \"\"\"Say good morning.\"\"\"
    typer.echo(f"good morning, {name}")
"""


def add_command(checkout: Checkout) -> None:
    row = '            Command("greet", "greeting", "say good morning"),\n'
    checkout.edit("command", "user_layers/commands.py", '            Command("doctor",', row)
    checkout.write("command", "user_layers/cli/greeting.py", COMMAND)
    checkout.edit("command", "docs/commands.md", "| `doctor` |", "| `greet` | says good morning |\n")


NAND = '    Operation(Eu.NAND, of_words(_nand, "~(opd0 & opd1)")),\n'
NAND_REFERENCE = """\
def _nand(a: Words, b: Words) -> Words:
    return ~(a & b)


"""


def add_instruction(checkout: Checkout) -> None:
    checkout.edit("instruction", "firmware_sim/isa/codes.py", "\n\nclass Precision(", "    NAND = 25\n")
    family = "firmware_sim/instructions/arithmetic.py"
    checkout.edit("instruction", family, "@dataclass(frozen=True)\nclass Operation:", NAND_REFERENCE)
    checkout.edit("instruction", family, "    Operation(Eu.COPY,", NAND)


STEP_ROW = '    StepKind(StepOp.TWIN, "as COPY", moves=True),\n'
STEP_C = "    case FW_STEP_TWIN: fw_step_copy(s, &p->tensors[s->in[0]], &p->tensors[s->out[0]]); return;\n"


def add_step(checkout: Checkout) -> None:
    wire = "firmware_sim/wire.py"
    checkout.edit("program step", wire, "\n\n@dataclass(frozen=True)\nclass StepKind:", "    TWIN = 11\n")
    checkout.edit("program step", wire, ")\n_OPERANDS = ", STEP_ROW)
    checkout.edit("program step", "sdk/firmware/fw_step_run.c", "    case FW_STEP_PARALLEL_START:", STEP_C)


LAYER_C = """\
/* TPU_ONES: ones in the shape of the input.
 *
 * Inputs: x
 * Makes: as many ones
 */
#include "bm_layer_move.h"
#include "bm_layer_shape.h"

__BM_PARAM__(TPU_ONES)
typedef struct {
    int reserved;
} tpu_ones_param_t;

__BM_SHAPE__(TPU_ONES)
int ones_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    (void)param;
    if (param_size != (int)sizeof(tpu_ones_param_t)) return BM_LAYER_PARAM_INVALID;
    if (in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, 1)) return BM_LAYER_NOT_SUPPORTED;
    bm_layer_same_shape(&out_tensors[0], &in_tensors[0]);
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_ONES)
int ones_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const int count = (int)bm_layer_elements(in_tensors[0].shape, 0, (int)in_tensors[0].dims);
    bm_move all = {0};
    bm_move_add(&all, count, 1, 0);
    bm_move_fill(out_tensors[0].addr, 0x3F800000, &all, 4);
    return BM_LAYER_OK;
}
"""
LAYER_H = """\
// TPU_ONES: how the compiler may treat it.
#ifndef BM_HOST_ONES_H
#define BM_HOST_ONES_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_ONES)
class OnesDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "ONES"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
"""


def add_layer(checkout: Checkout) -> None:
    checkout.write("built-in layer", "sdk/layers/device/bm_device_ones.c", LAYER_C)
    checkout.write("built-in layer", "sdk/layers/host/bm_host_ones.h", LAYER_H)


CONVERTER = '''\
from user_layers.onnx.lower import Lowering, converts
from user_layers.onnx.model import Node


@converts("Det")
def ones(to: Lowering, node: Node) -> None:
    """For the sake of the example: nothing but Det has no layer for so long."""
    to.need_float(node.inputs[0])
    to.simple("TPU_REDUCE", node, [to.tensor(node.inputs[0])], {"kind": 0, "axes_num": 2, "axes": [1, 2]})
'''


def add_converter(checkout: Checkout) -> None:
    checkout.write("ONNX converter", "user_layers/onnx/convert_added.py", CONVERTER)


PASS = '''\
from dataclasses import replace

from user_layers.compiler.attributes import DescribedNet


def run_alone(described: DescribedNet) -> DescribedNet:
    """No layer runs in local memory."""
    return replace(described, attrs=tuple(replace(attrs, has_local=False) for attrs in described.attrs))
'''


def add_pass(checkout: Checkout) -> None:
    checkout.write("compiler pass", "user_layers/compiler/alone.py", PASS)
    pipeline = "user_layers/compiler/pipeline.py"
    checkout.edit(
        "compiler pass",
        pipeline,
        "from user_layers.compiler.attributes import",
        "from user_layers.compiler.alone import run_alone\n",
    )
    checkout.edit(
        "compiler pass", pipeline, "    mode = choose_mode(", "    described = run_alone(described)\n"
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    root = tmp_path_factory.mktemp("contributing") / "copy"
    for folder in COPIED:
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "*.tmp"))
    made = Checkout(root)
    before = made.texts()
    for add in (add_command, add_instruction, add_step, add_layer, add_converter, add_pass):
        add(made)
    made.run("-m", REGENERATE)
    after = made.texts()
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed - made.touched == {
        "docs/built-in-layers.md",
        "docs/isa.md",
        "sdk/generated/bm1684_fields.h",
        "sdk/generated/fw_wire.h",
        "tool/greet",
    }
    return made


# ---- and they work ----


def test_the_page_names_files_that_are_there() -> None:
    listed = listed_files()
    assert list(listed) == [
        *("instruction", "built-in layer", "ONNX converter", "compiler pass", "program step", "command")
    ]
    for kind, paths in listed.items():
        for path in paths:
            assert any(ROOT.glob(path)), f"{kind}: {path}"


def test_a_command(checkout: Checkout) -> None:
    cli = ("-m", "user_layers.cli.main")
    assert re.search(r"^  greet +say good morning$", checkout.run(*cli, "--help"), re.MULTILINE)
    assert checkout.run(*cli, "greet", "--name", "Ada") == "good morning, Ada\n"
    assert "greet" in checkout.run(*cli, "__complete", "tpulayer", "gr")
    script = checkout.root / "tool" / "greet"
    assert script.read_text() == '#!/usr/bin/env bash\nexec tpulayer greet "$@"\n'
    assert os.access(script, os.X_OK)


EXECUTE = """\
import numpy as np
from firmware_sim import chip
from firmware_sim.isa.codes import Eu, Precision, Task
from firmware_sim.isa.layout import BD
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu

tpu = Tpu(Memory.create(ddr_bytes=1 << 20))
words = tpu.memory.local[0].view(np.uint32)
words[:500], words[1024:1524] = np.arange(500), 0x0000FFFE
fields = {"tsk_typ": Task.ARITHMETIC, "tsk_eu_typ": Eu.NAND, "opt_res0_prec": Precision.INT32, "res0_w": 500}
places = {f"{name}_addr": chip.LOCAL_BASE + at for name, at in (("opd0", 0), ("opd1", 4096), ("res0", 8192))}
steps = {"opd1_n_str": 1, "opd1_c_str": 1, "opd1_h_str": 1, "opd1_w_str": 1, "cmd_id_tpu": 1}
command = np.frombuffer(BD.encode(**{**BD.defaults, **fields, **places, **steps}), np.uint32).reshape(1, 32)
tpu.execute(command, np.zeros((0, 32), np.uint32))
assert (words[2048:2548] == ~(np.arange(500, dtype=np.uint32) & 0xFFFE)).all()
"""


def test_an_instruction(checkout: Checkout) -> None:
    checkout.run("-c", EXECUTE)
    assert "ar.nand" in checkout.run("-m", "user_layers.cli.main", "isa", "list")
    assert "| ~(opd0 & opd1) |" in (checkout.root / "docs/isa.md").read_text()
    assert "BD_EU_NAND = 25" in (checkout.root / "sdk/generated/bm1684_fields.h").read_text()


def test_a_program_step_in_both_languages(checkout: Checkout) -> None:
    header = (checkout.root / "sdk/generated/fw_wire.h").read_text()
    assert "FW_STEP_TWIN = 11" in header and '[FW_STEP_TWIN] = {"TWIN", 0, 1, 0, 0, 0, 0}' in header
    checkout.run("-c", "from firmware_sim.wire import *; assert Step(StepOp.TWIN).operands == (0, 0)")


SEGMENTS = """\
import numpy as np
from tpulayer import Graph
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.pipeline import plan_net
from user_layers.compiler.prepare import prepare_constants
from user_layers.graph.shapes import infer_shapes

with Graph() as graph:
    graph.add_input("x", (1, 8, 16, 16))
    for source, target in (("x", "a"), ("a", "y")):
        graph.add_tpu_layer("TPU_UNARY", [source], {"unary_op": 0}, [target])
    plan = plan_net(prepare_constants(gather_attributes(infer_shapes(graph), graph.toolkit)), opt=1)
    print(*(type(segment).__name__ for segment in plan.schedule.segments))
"""
BUILT = """\
import numpy as np, onnx
from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord
from tpulayer import Graph
from onnx import helper

x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
with Graph() as graph:
    graph.add_input("x", x.shape)
    graph.add_tpu_layer("TPU_ONES", ["x"], None, ["y"])
    graph.compile()
    assert (graph.run({"x": x})[0] == 1).all()

    def recorded(opcode):
        program = Program()
        for address in (0x1_1000_0000, 0x1_2000_0000):
            program.add(ProgramTensor(TensorKind.NEURON, TensorRecord((4, 5), addr=address)))
        program.steps.append(Step(opcode, (0,), (1,), name="step"))
        return graph.toolkit.device.record(program).groups

    assert recorded(StepOp.TWIN) == recorded(StepOp.COPY) and recorded(StepOp.TWIN)[0].gdma_num == 1

value = helper.make_tensor_value_info
node = helper.make_node("Det", ["x"], ["y"])
graph = helper.make_graph([node], "g", [value("x", 1, (2, 3, 3))], [value("y", 1, (2,))])
model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
with Graph.from_onnx(model) as graph:
    assert [layer.op.op for layer in graph.nodes] == ["TPU_REDUCE"]
"""


@pytest.mark.slow
def test_what_needs_a_build(checkout: Checkout) -> None:
    """A layer and a step of the firmware, a converter, a pass of the compiler."""
    pytest.importorskip("onnx", reason="converters are for ONNX")
    lock = checkout.root / "sdk/layers/config/op_types.lock"
    before = lock.read_text()
    checkout.run("-c", BUILT)
    assert re.fullmatch(r"TPU_ONES \d+\n", lock.read_text().removeprefix(before))
    checkout.run("-m", REGENERATE)
    assert "| `TPU_ONES` | | x | as many ones |" in (checkout.root / "docs/built-in-layers.md").read_text()
    assert checkout.run("-c", SEGMENTS).split() == ["Alone", "Alone"]
    assert checkout.run("-c", SEGMENTS, root=ROOT).split() == ["Group"]
