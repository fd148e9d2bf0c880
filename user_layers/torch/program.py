"""A torch.export.ExportedProgram, in the ATen or the edge dialect, as a ForeignModel."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firmware_sim.errors import CompileError, MissingError, ModelError, UsageError
from user_layers.files import check_input
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor

if TYPE_CHECKING:
    import torch

WHAT = "PyTorch"
OWN_NAMESPACE = "tpulayer"
_DTYPES = {
    "float32": "float32",
    "float64": "float64",
    "float16": "float16",
    "int64": "int64",
    "int32": "int32",
    "int16": "int16",
    "int8": "int8",
    "uint8": "uint8",
    "bool": "bool",
}


class Free(int):
    """An extent that may be smaller when the program runs; the number is its upper bound. expression: what it
    is computed of; free extents of the same expression are always equal."""

    expression = ""


def is_free(value: Any) -> bool:
    """Whether an argument is known only when the program runs; a tuple, whether something in it is."""
    return any(map(is_free, value)) if isinstance(value, (list, tuple)) else isinstance(value, Free)


def check_readable(path: Path) -> None:
    """Refuse what is no file to read. UsageError."""
    try:
        check_input(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def load_program(path: Path) -> torch.export.ExportedProgram:
    """What torch.export.save wrote. Errors: MissingError without torch, UsageError for a file that cannot be
    read, ModelError for one that is no exported program."""
    check_readable(path)
    try:
        import torch
        import torch.ao.quantization.fx._decomposed  # operators that quantised programs have
    except ImportError:
        raise MissingError(
            f"{path} is read with the package torch, which is not installed", hint="pip install torch"
        ) from None
    try:
        return torch.export.load(str(path))
    except Exception as error:  # of many kinds: zip, json, its own
        text = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"{path} is not an exported PyTorch program: {text}") from None


def read_pt2(path: Path) -> ForeignModel:
    """The program of a .pt2 file, in operators that ONNX can say as far as there are any. Errors: as of
    `load_program` and `read_program`."""
    from user_layers.torch.quantised import without_dynamic
    from user_layers.torch.spellings import TORCH

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # what PyTorch tells itself
        return without_dynamic(read_program(decomposed(load_program(path), tuple(TORCH)), name=path.stem))


def decomposed(program: torch.export.ExportedProgram, kept: Sequence[str]) -> torch.export.ExportedProgram:
    """The program in the core ATen operators and those of `kept`, by their names ("aten.linear.default")."""
    import torch

    table = torch.export.default_decompositions()
    for target in list(table.keys()):
        if str(target) in kept:
            del table[target]
    return program.run_decompositions(table)


def read_program(
    program: torch.export.ExportedProgram, *, name: str = "forward", custom: Mapping[str, str] | None = None
) -> ForeignModel:
    """The program's operations; names of tensors and operations are those of its graph's nodes.

    custom: the layer that stands for an operator of the user's, {"mylib::scale": "TPU_SCALE"}; those of the
    namespace `tpulayer` are layers by themselves (tpulayer::scale is TPU_SCALE). Free extents are at their
    upper bounds. Errors: CompileError for a free extent without one, for a program that changes its buffers.
    """
    for spec in program.graph_signature.output_specs:
        if spec.kind.name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION", "PARAMETER_MUTATION"):
            raise CompileError(
                f"{WHAT} {name}: it changes {spec.target} while it runs, which a net cannot keep"
            )
    return read_graph(
        program.graph, constants_of(program), program.range_constraints, name=name, custom=custom
    )


def read_graph(
    graph: torch.fx.Graph,
    constants: Mapping[str, torch.Tensor],
    ranges: Mapping[Any, Any],
    *,
    name: str,
    custom: Mapping[str, str] | None = None,
    whole: bool = True,
) -> ForeignModel:
    """The same for a graph by itself, such as a branch of a condition. constants: by the names of the
    placeholders that stand for them; ranges: of the symbols in free extents. whole: all of it is to be a
    model; otherwise some of its operations, and what no model can have is allowed elsewhere."""
    return _Reader(graph, constants, ranges, custom or {}, whole).read(name)


def layer_of(target: Any, custom: Mapping[str, str]) -> str | None:
    """The user's layer that an operator stands for; None for the others."""
    qualified = str(getattr(target, "_schema", "")).partition("(")[0].partition(".")[0]
    namespace, _, plain = qualified.partition("::")
    if qualified in custom:
        return custom[qualified]
    if namespace != OWN_NAMESPACE:
        return None
    return plain if plain.startswith("TPU_") else f"TPU_{plain.upper()}"


def kind_of(target: Any) -> str:
    """How this operator is called here, in both dialects: `aten.add.Tensor`."""
    found = getattr(target, "_op", None)  # an operator of the edge dialect stands for one of ATen's
    found = found if hasattr(found, "_schema") else target
    return str(found) if hasattr(found, "_schema") else str(getattr(found, "__name__", found))


def is_number(value: Any) -> bool:
    """Whether a node's value (node.meta["val"]) is one number, symbolic or not, and no tensor."""
    return isinstance(value, (bool, int, float)) or type(value).__name__ in ("SymInt", "SymFloat", "SymBool")


def constants_of(program: Any) -> dict[str, Any]:
    """The parameters, buffers and constants of a program (torch.Tensor), by the names of their nodes."""
    found = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            stored = program.state_dict if spec.target in program.state_dict else program.constants
            if spec.target in stored:
                found[spec.arg.name] = stored[spec.target]
    return found


class _Reader:
    def __init__(
        self,
        graph: Any,
        constants: Mapping[str, Any],
        ranges: Mapping[Any, Any],
        custom: Mapping[str, str],
        whole: bool,
    ) -> None:
        self.whole = whole
        self.graph = graph
        self.constants = constants
        self.ranges = ranges
        self.custom = custom
        self.tensors: dict[str, Tensor] = {}
        self.alias: dict[Any, str] = {}  # the tensor of a node
        self.results: dict[Any, list[str]] = {}  # of a node with several
        self.operations: list[Operation] = []

    def read(self, name: str) -> ForeignModel:
        inputs = list(self._placeholders())
        outputs: list[str] = []
        for node in self.graph.nodes:
            if node.op == "call_function":
                self._call(node)
            elif node.op == "get_attr" and _is_tensor(node.meta.get("val")):
                self._declare(node.name, node.meta["val"])  # a constant of a branch, which is given to it
                self.alias[node] = node.name
            elif node.op == "output":
                outputs += self._outputs(node, name)
        outputs = [*self._once(outputs)] if self.whole else [*dict.fromkeys(outputs)]
        return ForeignModel(WHAT, name, self.tensors, tuple(inputs), tuple(outputs), tuple(self.operations))

    def _once(self, outputs: Sequence[str]) -> Iterator[str]:
        """The outputs, with copies of those that are given more than once."""
        given: set[str] = set()
        for name in outputs:
            again, count = name, 0
            while again in given or (count and again in self.tensors):
                count += 1
                again = f"{name}_{count}"
            if count:
                self.tensors[again] = replace(self.tensors[name], data=None)
                self.operations.append(Operation("aten.alias.default", again, (name,), (again,)))
            given.add(again)
            yield again

    def _placeholders(self) -> Iterator[str]:
        """Tell the tensors that the program starts with; the names of those that are given."""
        for node in self.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in self.constants:
                tensor = self.constants[node.name]
                data = _array(tensor)
                self.tensors[node.name] = Tensor(
                    tuple(tensor.shape), None if data is None else data.dtype, data
                )
                self.alias[node] = node.name
            elif _is_tensor(node.meta.get("val")):
                self._declare(node.name, node.meta["val"])
                self.alias[node] = node.name
                yield node.name

    def _outputs(self, node: Any, name: str) -> Iterator[str]:
        for value in _flat(node.args):
            if value in self.alias:
                yield self.alias[value]
            elif value is not None and self.whole:
                raise CompileError(f"{WHAT} {name}: its output {value} is no tensor, which a net cannot give")

    def _call(self, node: Any) -> None:
        value = node.meta.get("val")
        if kind_of(node.target) == "getitem":
            self.alias[node] = self._item(node)
            return
        if value is None or is_number(value):
            return  # asserts about extents, and extents computed of extents: see _plain
        results = value if isinstance(value, (list, tuple)) else [value]
        if isinstance(value, (list, tuple)):
            outputs = self._items(node, len(results))
        else:
            outputs = [node.name]
            self.alias[node] = node.name
        for output, result in zip(outputs, results, strict=True):
            self._declare(output, result)
            if ":" in output:  # its type is not asked for
                self.tensors[output] = replace(self.tensors[output], dtype=None)
        try:
            inputs, attributes = self._arguments(node)
        except CompileError:
            if self.whole:
                raise
            inputs, attributes = [None], {}
        layer = layer_of(node.target, self.custom)
        if layer is not None and (free := [name for name, value in attributes.items() if is_free(value)]):
            if self.whole:
                raise CompileError(
                    f"{WHAT} {node.name}: its argument {free[0]} depends on an extent that is free",
                    hint="layers get their parameters when a net is compiled: export with fixed shapes",
                )
            layer = None  # it stays
        self.operations.append(
            Operation(
                layer or kind_of(node.target),
                node.name,
                tuple(inputs),
                tuple(outputs),
                attributes,
                own=layer is not None,
            )
        )

    def _items(self, node: Any, count: int) -> list[str]:
        """Names for the results of a node: those of the nodes that take them out, and with a colon in it
        the name of one that nothing takes, which is not asked for."""
        names = [f"{node.name}:{index}" for index in range(count)]
        for user in node.users:
            if kind_of(user.target) == "getitem" and names[user.args[1]].startswith(f"{node.name}:"):
                names[user.args[1]] = user.name
        self.results[node] = names
        return names

    def _item(self, node: Any) -> str:
        source, index = node.args[:2]
        return str(self.results[source][index])

    def _declare(self, name: str, value: Any) -> None:
        if not _is_tensor(value):
            self.tensors[name] = Tensor((), None)
            return
        try:
            shape = tuple(self._extent(extent) for extent in value.shape)
        except CompileError:
            if self.whole:
                raise
            shape = (-1,) * len(value.shape)  # known when it runs
        self.tensors[name] = Tensor(shape, _dtype(value.dtype))

    def _arguments(self, node: Any) -> tuple[list[str | None], dict[str, Any]]:
        """The tensors of a call in the order of its operator's schema, and the other arguments by name."""
        schema = getattr(node.target, "_schema", None)
        inputs: list[str | None] = []
        attributes: dict[str, Any] = {}
        if schema is None:
            return [self.alias.get(value) for value in _flat(node.args) if value in self.alias], {}
        for index, argument in enumerate(schema.arguments):
            if index < len(node.args):
                value = node.args[index]
            elif argument.name in node.kwargs:
                value = node.kwargs[argument.name]
            else:
                value = argument.default_value
            kind = str(argument.type)
            if kind in ("Tensor", "Optional[Tensor]"):
                inputs.append(self._tensor(node, argument.name, value))
            elif kind in ("List[Tensor]", "List[Optional[Tensor]]", "Optional[List[Tensor]]"):
                inputs += [self._tensor(node, argument.name, item) for item in value or ()]
            else:
                attributes[argument.name] = self._plain(value)
        return inputs, attributes

    def _tensor(self, node: Any, argument: str, value: Any) -> str | None:
        if value is None:
            return None
        if value in self.alias:
            return self.alias[value]
        plain = self._plain(value)
        if not isinstance(plain, (bool, int, float)):
            raise CompileError(f"{WHAT} {node.name}: its argument {argument} is {value}, not a tensor")
        name = f"{node.name}.{argument}"
        if is_free(plain):  # an extent as an operand
            self.tensors[name] = Tensor((), None, odd="is an extent that is free")
            return name
        kept = np.float32 if isinstance(plain, float) else np.bool_ if isinstance(plain, bool) else np.int64
        self.tensors[name] = Tensor((), np.dtype(kept), np.asarray(plain, kept))
        return name

    def _plain(self, value: Any) -> Any:
        """An argument as numbers, texts, tuples of them, a numpy.dtype; None for what says nothing here."""
        if hasattr(value, "meta") and hasattr(value, "op"):  # a node that is no tensor
            value = value.meta.get("val")
        if isinstance(value, (list, tuple)):
            return tuple(self._plain(item) for item in value)
        if is_number(value):
            return value if isinstance(value, (bool, int, float)) else self._extent(value)
        if isinstance(value, str):
            return value
        return _dtype(value)

    def _extent(self, value: Any) -> int:
        if not type(value).__name__.startswith("Sym"):
            return int(value)
        expression = value.node.expr
        if expression.is_number:
            return int(expression)
        bounds = {}
        for symbol in expression.free_symbols:
            known = self.ranges.get(symbol)
            upper = getattr(known, "upper", None)
            if upper is None or not getattr(upper, "is_Integer", False) or int(upper) > 1 << 31:
                raise CompileError(
                    f"{WHAT}: the extent {symbol} is free without an upper bound",
                    hint='export with dynamic_shapes that say it: torch.export.Dim("batch", max=8)',
                )
            bounds[symbol] = int(upper)
        found = Free(int(expression.subs(bounds)))
        found.expression = str(expression)
        return found


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, (list, tuple)):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _dtype(value: Any) -> np.dtype[Any] | None:
    """The numpy type of a torch.dtype; None for one that numpy has not, and for anything else."""
    name = str(value).removeprefix("torch.")
    return np.dtype(_DTYPES[name]) if name in _DTYPES else None


def _array(tensor: Any) -> Array | None:
    dtype = _dtype(tensor.dtype)
    if dtype is None:
        return None
    if hasattr(tensor, "fake_mode"):  # while partitions are sought there are no values: any will do
        return np.broadcast_to(np.asarray(dtype.kind == "f", dtype), tuple(tensor.shape))
    found: Array = np.ascontiguousarray(tensor.detach().cpu().numpy())
    return found


def example_inputs(program: Any) -> dict[str, Array]:
    """The inputs with which the program was exported, by name; nothing where it holds none."""
    given = getattr(program, "example_inputs", None)
    if not given:
        return {}
    args, kwargs = given
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    flat = [*_flat(args), *_flat(list(kwargs.values()))]
    if len(flat) != len(names):
        raise UsageError(f"the program has {len(names)} inputs, its example {len(flat)}")
    return {n: a for n, t in zip(names, flat, strict=True) if _is_tensor(t) and (a := _array(t)) is not None}
