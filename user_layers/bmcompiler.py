"""The vendor's bmcompiler spelling of a graph, as module-level functions.

Names and argument order are those of bmcompiler's C interface; strings are str, arrays are sequences. A
tensor that no layer makes becomes an input of the net when it is first used (with the shape and type given
there), tensors that no layer uses become its outputs. Each compile call ends one net; the next layer
begins another, and all nets of one compiler go into one compilation.bmodel.

    p = create_bmcompiler_dir("BM1684", "out")
    add_const_binary_layer(p, "x", [1, 3, 8, 8], 4, 2.0, "y", BINARY_MUL, 0)
    __bmcompile_opt(p, "net", 2)
    finish_bmcompiler(p)

Inside a class body write `bmcompiler.__bmcompile` with getattr: Python changes names with two leading
underscores there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmware_sim.errors import UsageError
from firmware_sim.wire import DType
from user_layers.graph import (
    BINARY_ADD,
    BINARY_DIV,
    BINARY_MAX,
    BINARY_MIN,
    BINARY_MUL,
    BINARY_SUB,
    Graph,
)
from user_layers.graph.nodes import check_dtype, check_shape
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from user_layers.compiler import CompiledNet, References

__all__ = [
    "BINARY_ADD",
    "BINARY_DIV",
    "BINARY_MAX",
    "BINARY_MIN",
    "BINARY_MUL",
    "BINARY_SUB",
    "BMCompiler",
    "__bmcompile",
    "__bmcompile_ir",
    "__bmcompile_ir_opt",
    "__bmcompile_opt",
    "__compile_ir_with_result_check",
    "__compile_with_result_check",
    "add_const_binary_layer",
    "add_expand_dims_layer",
    "add_tpu_layer",
    "create_bmcompiler",
    "create_bmcompiler_dir",
    "finish_bmcompiler",
]

DEFAULT_OPT = 2


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

    def _new_graph(self) -> Graph:
        return Graph(self.chip, toolkit=self.toolkit)

    def use(self, name: str, shape: Sequence[int], dtype: Any) -> str:
        """A tensor that a layer reads: an input of the net when nothing has made it yet."""
        if not self.graph.has_tensor(name):
            return self.graph.add_input(name, shape, dtype)
        what = f"tensor {name!r}"
        if name in self.graph.tensors:
            first = self.graph.tensors[name]
            now = (check_shape(shape, what), check_dtype(dtype, what))
            if now != (first.shape, first.dtype):
                raise UsageError(
                    f"{what} is {list(first.shape)} {first.dtype.numpy_name} where it was first used and "
                    f"{list(now[0])} {now[1].numpy_name} here"
                )
        return name

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
        from user_layers.compiler import compile_graph
        from user_layers.compiler.references import make_references

        self.check_open()
        if any(net.name == name for net in self.nets):
            raise UsageError(f"a net called {name!r} is compiled already", hint="give each net its own name")
        self.graph.name = name
        net = compile_graph(self.graph, dynamic=dynamic, opt=opt, verbose=True)
        references = make_references(net, self.toolkit, inputs, outputs)
        self.nets.append(net)
        self.references.append(references)
        self.graph = self._new_graph()

    def finish(self) -> None:
        from user_layers.compiler import write_directory

        self.check_open()
        self.finished = True
        try:
            if self.graph.nodes:
                raise UsageError(
                    f"{len(self.graph.nodes)} layers were added after the last compile call",
                    hint="call __bmcompile or __bmcompile_ir before finish_bmcompiler",
                )
            if not self.nets:
                raise UsageError(
                    "finish_bmcompiler without a net", hint="add layers and call __bmcompile first"
                )
            write_directory(self.directory, self.nets, self.references)
        finally:
            self.toolkit.close()

    def check_open(self) -> None:
        if self.finished:
            raise UsageError("this compiler is finished", hint="make a new one with create_bmcompiler_dir")


def create_bmcompiler(chip_name: str, *, toolkit: Toolkit | None = None) -> BMCompiler:
    """A compiler that writes into ./compilation."""
    return create_bmcompiler_dir(chip_name, "compilation", toolkit=toolkit)


def create_bmcompiler_dir(chip_name: str, dir: str | Path, *, toolkit: Toolkit | None = None) -> BMCompiler:
    """A compiler that writes compilation.bmodel, input_ref_data.dat and output_ref_data.dat into dir."""
    return BMCompiler(chip_name, Path(dir), toolkit)


def finish_bmcompiler(p_bmcpl: BMCompiler) -> None:
    """Write the directory and end the compiler."""
    p_bmcpl.finish()


def add_tpu_layer(
    p_bmcpl: BMCompiler,
    input_num: int,
    input_names: Sequence[str],
    input_shapes: Sequence[Sequence[int]],
    input_dims: Sequence[int],
    input_dtypes: Sequence[Any],
    output_num: int,
    output_names: Sequence[str],
    output_shapes: Sequence[Sequence[int]],
    output_dims: Sequence[int],
    output_dtypes: Sequence[Any],
    op_type: int | str,
    layer_param: Mapping[str, Any] | bytes | None,
    param_size: int,
) -> None:
    """A layer of the workspace: input_num tensors with input_dims[i] dimensions each, the same for outputs.

    dtypes are DATA_TYPE_T codes (or numpy names). layer_param: the struct's bytes, of which param_size are
    used, or its fields by name (param_size must then be the struct's size).
    """
    p_bmcpl.check_open()
    graph = p_bmcpl.graph
    _count("input", input_num, names=input_names, shapes=input_shapes, dims=input_dims, dtypes=input_dtypes)
    _count(
        "output", output_num, names=output_names, shapes=output_shapes, dims=output_dims, dtypes=output_dtypes
    )
    info = p_bmcpl.toolkit.op(op_type, "add_tpu_layer")
    if isinstance(layer_param, (bytes, bytearray, memoryview)):
        data = bytes(layer_param)
        if len(data) < param_size:
            raise UsageError(f"add_tpu_layer: layer_param has {len(data)} bytes, param_size is {param_size}")
        layer_param = data[:param_size]
    elif param_size != info.param_size:
        raise UsageError(
            f"add_tpu_layer: param_size is {param_size}, the parameter struct of {info.op} has "
            f"{info.param_size} bytes"
        )
    ins = [
        p_bmcpl.use(name, _cut(shape, dims, name), dtype)
        for name, shape, dims, dtype in zip(input_names, input_shapes, input_dims, input_dtypes, strict=True)
    ]
    shapes = [_cut(s, d, n) for n, s, d in zip(output_names, output_shapes, output_dims, strict=True)]
    graph.add_tpu_layer(info.op, ins, layer_param, output_names, shapes, output_dtypes)


def add_expand_dims_layer(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: Sequence[int],
    input_dim: int,
    axis: int,
    output_name: str,
) -> None:
    """A dimension of extent 1 in front of dimension `axis`; fp32 when input_name is new."""
    p_bmcpl.check_open()
    p_bmcpl.use(input_name, _cut(input_shape, input_dim, input_name), DType.FP32)
    p_bmcpl.graph.add_expand_dims_layer(input_name, axis, output_name)


def add_const_binary_layer(
    p_bmcpl: BMCompiler,
    A_name: str,
    A_shape: Sequence[int],
    A_dim: int,
    B_value: float,
    output_name: str,
    binary_op: int,
    inversed: int,
) -> None:
    """A OP B_value for each element (inversed: B_value OP A), fp32."""
    p_bmcpl.check_open()
    p_bmcpl.use(A_name, _cut(A_shape, A_dim, A_name), DType.FP32)
    p_bmcpl.graph.add_const_binary_layer(A_name, B_value, output_name, binary_op, inversed)


def __bmcompile(p_bmcpl: BMCompiler, net_name: str) -> None:
    """Compile statically, at the default optimisation level."""
    p_bmcpl.compile(net_name, dynamic=False)


def __bmcompile_opt(p_bmcpl: BMCompiler, net_name: str, opt_level: int) -> None:
    """Compile statically; opt_level as in Graph.compile."""
    p_bmcpl.compile(net_name, dynamic=False, opt=opt_level)


def __bmcompile_ir(p_bmcpl: BMCompiler, net_name: str) -> None:
    """Compile dynamically."""
    p_bmcpl.compile(net_name, dynamic=True)


def __bmcompile_ir_opt(p_bmcpl: BMCompiler, net_name: str, opt_level: int) -> None:
    """Compile dynamically; the firmware interprets the net, so every opt_level gives the same."""
    p_bmcpl.compile(net_name, dynamic=True, opt=opt_level)


def __compile_with_result_check(
    p_bmcpl: BMCompiler,
    input_data: Mapping[str, ArrayLike],
    layer_top_references: Mapping[str, ArrayLike],
    net_name: str,
) -> None:
    """Compile statically, with reference data by tensor name for the two .dat files."""
    p_bmcpl.compile(net_name, dynamic=False, inputs=input_data, outputs=layer_top_references)


def __compile_ir_with_result_check(
    p_bmcpl: BMCompiler,
    input_data: Mapping[str, ArrayLike],
    layer_top_references: Mapping[str, ArrayLike],
    net_name: str,
) -> None:
    """Compile dynamically, with reference data by tensor name for the two .dat files."""
    p_bmcpl.compile(net_name, dynamic=True, inputs=input_data, outputs=layer_top_references)


def _cut(shape: Sequence[int], dims: int, name: str) -> tuple[int, ...]:
    if len(shape) < dims:
        raise UsageError(
            f"tensor {name!r} has {dims} dimensions but its shape {list(shape)} only {len(shape)}"
        )
    return tuple(shape[:dims])


def _count(what: str, number: int, **lists: Sequence[Any]) -> None:
    for label, values in lists.items():
        if len(values) != number:
            raise UsageError(
                f"add_tpu_layer: {what}_num is {number} but {what}_{label} has {len(values)} entries"
            )
