"""The compiler that p_bmcpl stands for, and the calls that make, compile and finish it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from numpy.typing import ArrayLike

from firmware_sim.errors import UsageError
from firmware_sim.wire import DType
from user_layers.api import Graph
from user_layers.bmcompiler.calls import Arrays, Called, Result, Texts, vendor, vendor_last, vendor_spread
from user_layers.net.nodes import check_dtype, check_name, check_shape
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    from user_layers.bmodel.directory import References
    from user_layers.net.compiled import CompiledNet

DEFAULT_OPT = 2
DEFAULT_DIRECTORY = "compilation"


class BMCompiler:
    """What p_bmcpl stands for: the net under construction and the nets compiled so far."""

    def __init__(self, chip: str, directory: Path, toolkit: Toolkit | None = None) -> None:
        self.chip = chip
        self.directory = directory
        self.toolkit = toolkit if toolkit is not None else Toolkit()
        self.nets: list[CompiledNet] = []
        self.references: list[References] = []
        self.finished = False
        self.graph = self._new_graph()
        self._shapes: dict[str, tuple[int, ...]] = {}  # of layers' outputs, where the program gave them

    def _new_graph(self) -> Graph:
        return Graph(self.chip, toolkit=self.toolkit)

    # ---- what the functions that add layers ask for ----

    def use(self, name: str, shape: Sequence[int], dtype: Any = DType.FP32) -> str:
        """A tensor that a layer reads: an input of the net when nothing has made it yet."""
        if not self.graph.has_tensor(name):
            return self.graph.add_input(name, shape, dtype)
        what = f"tensor {name!r}"
        now = check_shape(shape, what)
        if name in self.graph.tensors:
            first, kind = self.graph.tensors[name], check_dtype(dtype, what)
            if (now, kind) != (first.shape, first.dtype):
                raise UsageError(
                    f"{what} is {list(first.shape)} {first.dtype.numpy_name} where it was first used and "
                    f"{list(now)} {kind.numpy_name} here"
                )
        elif self._shapes.get(name, now) != now:
            raise UsageError(f"{what} is {list(self._shapes[name])} where it was made and {list(now)} here")
        return name

    def layer(
        self,
        op: str,
        inputs: Sequence[str],
        param: Mapping[str, Any],
        output: str | Sequence[str],
        shapes: Sequence[Sequence[int]] | None = None,
        name: str | None = None,
    ) -> None:
        """A layer.

        shapes: those that the program gave for its outputs. name: what it would like to be called.
        """
        outputs = [output] if isinstance(output, str) else list(output)
        if not name or any(node.name == name for node in self.graph.nodes):
            name = None
        self.graph.add_tpu_layer(op, inputs, param, outputs, shapes, name=name)
        if shapes is not None:
            self._shapes |= {out: tuple(shape) for out, shape in zip(outputs, shapes, strict=True)}

    def between(self, op: str, inputs: Sequence[str], param: Mapping[str, Any], output: str) -> str:
        """A layer on the way to `output`; the name of what it makes."""
        name = self.fresh(f"{output}:{op.removeprefix('TPU_').lower()}")
        self.layer(op, inputs, param, name)
        return name

    def const(self, values: ArrayLike, stem: str) -> str:
        """A constant under a free name."""
        return self.graph.add_const(self.fresh(stem), values)

    def fresh(self, stem: str) -> str:
        """A free name for a tensor."""
        name, number = stem, 1
        while self.graph.has_tensor(name):
            number += 1
            name = f"{stem}:{number}"
        return name

    # ---- compiling ----

    def tensor(self, name: str) -> tuple[tuple[int, ...], DType]:
        """Shape and type of a tensor of the net under construction."""
        tensors = self.graph.resolve([name]).tensors
        if name not in tensors:
            raise UsageError(f"no tensor is called {name!r}", hint=f"the tensors are {', '.join(tensors)}")
        return tensors[name].shape, tensors[name].dtype

    def made_dims(self) -> list[int]:
        """How many dimensions the outputs of the layer added last have."""
        outputs = self.graph.nodes[-1].outputs
        tensors = self.graph.resolve(outputs).tensors
        return [len(tensors[name].shape) for name in outputs]

    def give_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        """Compare the outputs of the layer added last with these when the net is compiled."""
        node = self.graph.nodes[-1]
        given = (check_shape(s, f"output {o!r}") for s, o in zip(shapes, node.outputs, strict=True))
        self.graph.nodes[-1] = replace(node, shapes=tuple(given))

    def compile(
        self,
        name: str,
        *,
        dynamic: bool,
        opt: int = DEFAULT_OPT,
        inputs: Mapping[str, ArrayLike] | None = None,
        outputs: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        """Compile the layers added since the last call as net `name`."""
        from user_layers.compiler.pipeline import compile_graph
        from user_layers.runtime.references import make_references

        if any(net.name == name for net in self.nets):
            raise UsageError(f"a net called {name!r} is compiled already", hint="give each net its own name")
        self.graph.name = name
        net = compile_graph(self.graph, dynamic=dynamic, opt=opt, verbose=True)
        references = make_references(net, self.toolkit, inputs, outputs)
        self.nets.append(net)
        self.references.append(references)
        self.graph = self._new_graph()
        self._shapes = {}

    def finish(self, directory: Path) -> None:
        """Write the directory and end the compiler."""
        from user_layers.product import write_directory

        self.finished = True
        try:
            if self.graph.nodes:
                raise UsageError(
                    f"{len(self.graph.nodes)} layers were added after the last compile call",
                    hint="call __bmcompile or __bmcompile_ir before finish_bmcompiler",
                )
            if not self.nets:
                raise UsageError("there is no net", hint="add layers and call __bmcompile first")
            write_directory(directory, self.nets, self.references)
        finally:
            self.toolkit.close()

    def check_open(self) -> None:
        """Raise UsageError once the compiler is finished: its device is closed."""
        if self.finished:
            raise UsageError("this compiler is finished", hint="make a new one with create_bmcompiler_dir")


@vendor
def create_bmcompiler(chip_name: str, *, toolkit: Toolkit | None = None) -> BMCompiler:
    """A compiler that writes into ./compilation."""
    return BMCompiler(chip_name, Path(DEFAULT_DIRECTORY), toolkit)


@vendor
def create_bmcompiler_dir(chip_name: str, dir: str | Path, *, toolkit: Toolkit | None = None) -> BMCompiler:
    """A compiler that writes compilation.bmodel, input_ref_data.dat and output_ref_data.dat into dir."""
    return BMCompiler(chip_name, Path(dir), toolkit)


@vendor_last
def finish_bmcompiler(p_bmcpl: BMCompiler) -> None:
    """Write the directory and end the compiler."""
    p_bmcpl.finish(p_bmcpl.directory)


@vendor_last
def finish_bmcompiler_data(p_bmcpl: BMCompiler) -> Annotated[bytes, Result("bmodel_data", "size")]:
    """End the compiler and give the bmodel instead of writing it; in C in memory that free() takes."""
    from user_layers.bmodel.directory import BMODEL

    with TemporaryDirectory(prefix="bmcompiler-") as folder:
        p_bmcpl.finish(Path(folder))
        return (Path(folder) / BMODEL).read_bytes()


@vendor_last
def delete_bmcompiler(p_bmcpl: BMCompiler) -> None:
    """End the compiler without writing anything."""
    p_bmcpl.finished = True
    p_bmcpl.toolkit.close()


@vendor
def get_max_layer_id(p_bmcpl: BMCompiler) -> int:
    """The number of the layer added last to the net under construction, from 0; -1 without layers.

    A function may add several layers. In C also -1 where the call fails.
    """
    return len(p_bmcpl.graph.nodes) - 1


@vendor
def add_layer_name(p_bmcpl: BMCompiler, layer_id: int, layer_name: str) -> None:
    """A name for a layer, by its number (see get_max_layer_id); logs and reports call it so."""
    nodes = p_bmcpl.graph.nodes
    if not 0 <= layer_id < len(nodes):
        raise UsageError(f"layer_id is {layer_id}; the layers are 0 to {len(nodes) - 1}")
    if any(node.name == layer_name for i, node in enumerate(nodes) if i != layer_id):
        raise UsageError(f"layer_name: another layer is called {layer_name!r}")
    nodes[layer_id] = replace(nodes[layer_id], name=check_name(layer_name, "layer_name"))


@vendor
def __bmcompile(p_bmcpl: BMCompiler, net_name: str) -> None:
    """Compile statically, at the default optimisation level, 2."""
    p_bmcpl.compile(net_name, dynamic=False)


@vendor
def __bmcompile_opt(p_bmcpl: BMCompiler, net_name: str, opt_level: int) -> None:
    """Compile statically.

    opt_level 0: every layer by itself in DDR, 1: groups of layers, 2: also single ones.
    """
    p_bmcpl.compile(net_name, dynamic=False, opt=opt_level)


@vendor
def __bmcompile_ir(p_bmcpl: BMCompiler, net_name: str) -> None:
    """Compile dynamically: any shapes up to the ones given."""
    p_bmcpl.compile(net_name, dynamic=True)


@vendor
def __bmcompile_ir_opt(p_bmcpl: BMCompiler, net_name: str, opt_level: int) -> None:
    """Compile dynamically; the firmware interprets the net, so every opt_level gives the same."""
    p_bmcpl.compile(net_name, dynamic=True, opt=opt_level)


@vendor
def __bmcompile_ir_opt_no_multistage(p_bmcpl: BMCompiler, net_name: str, opt_level: int) -> None:
    """The same: a net has one stage."""
    p_bmcpl.compile(net_name, dynamic=True, opt=opt_level)


@dataclass(frozen=True)
class CheckedData:
    """Data of inputs and outputs, by their names."""

    input_names: Annotated[Sequence[str], Texts("input_num"), Called("input_name")]
    inputs: Annotated[Sequence[ArrayLike], Arrays("input_name"), Called("input_data")]
    input_num: int
    output_names: Annotated[Sequence[str], Texts("refer_num"), Called("refer_name")]
    outputs: Annotated[Sequence[ArrayLike], Arrays("refer_name"), Called("refer_data")]
    output_num: Annotated[int, Called("refer_num")]

    def compile(self, p: BMCompiler, net_name: str, *, dynamic: bool) -> None:
        """Compile with it."""
        inputs = dict(zip(self.input_names, self.inputs, strict=True))
        outputs = dict(zip(self.output_names, self.outputs, strict=True))
        p.compile(net_name, dynamic=dynamic, inputs=inputs, outputs=outputs)


@vendor_spread
def compile_with_result_check(p_bmcpl: BMCompiler, data: CheckedData, net_name: str) -> None:
    """Compile statically, with data of inputs and outputs for the two .dat files, by their names."""
    data.compile(p_bmcpl, net_name, dynamic=False)


@vendor_spread
def compile_ir_with_result_check(p_bmcpl: BMCompiler, data: CheckedData, net_name: str) -> None:
    """Compile dynamically, with data of inputs and outputs for the two .dat files, by their names."""
    data.compile(p_bmcpl, net_name, dynamic=True)


def __compile_with_result_check(
    p_bmcpl: BMCompiler,
    input_data: Mapping[str, ArrayLike],
    layer_top_references: Mapping[str, ArrayLike],
    net_name: str,
) -> None:
    """compile_with_result_check with mappings; in C++ std::map<std::string, float *>."""
    ins, refs = input_data, layer_top_references
    compile_with_result_check(
        p_bmcpl, [*ins], [*ins.values()], len(ins), [*refs], [*refs.values()], len(refs), net_name
    )


def __compile_ir_with_result_check(
    p_bmcpl: BMCompiler,
    input_data: Mapping[str, ArrayLike],
    layer_top_references: Mapping[str, ArrayLike],
    net_name: str,
) -> None:
    """compile_ir_with_result_check with mappings; in C++ std::map<std::string, float *>."""
    ins, refs = input_data, layer_top_references
    compile_ir_with_result_check(
        p_bmcpl, [*ins], [*ins.values()], len(ins), [*refs], [*refs.values()], len(refs), net_name
    )
