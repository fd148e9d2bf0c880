"""What users make of nodes: `--map NODE=TPU_OP`, or a small Python function, `--map NODE=FILE.py:FUNCTION`.

def crop(graph: GraphBuilder, node: MappedNode) -> None:
    graph.add_tpu_layer("TPU_CROP", [node.inputs[0]], {"before": node.attributes["starts"]}, node.outputs)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmware_sim.errors import CompileError, TpulayerError, UsageError
from firmware_sim.shown import brief
from user_layers.files import run_python
from user_layers.onnx.lower import Converter, Lowering, Unsupported, own_layer
from user_layers.onnx.model import Array, Node

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class MappedNode:
    """A node as a function gets it.

    inputs: names of tensors of the graph, None for an input left out or one that the device cannot hold;
    shapes: of the inputs in the model, where known; constants: values of those inputs that are constants.
    outputs: names that the function must give to outputs of layers.
    """

    op: str
    name: str
    attributes: Mapping[str, Any]
    inputs: tuple[str | None, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    constants: tuple[Array | None, ...]
    outputs: tuple[str, ...]

    __repr__ = brief


MapFunction = Callable[[Any, MappedNode], None]
"""Adds the layers of a node to the graph that is its first argument (a GraphBuilder, or a Graph)."""


def parse_map(words: Sequence[str]) -> dict[str, str]:
    """--map NODE=TPU_OP or NODE=FILE.py:FUNCTION, by the node's name or its operation."""
    found = {}
    for word in words:
        node, sign, target = word.partition("=")
        if not sign or not node or not target:
            raise UsageError(f"--map {word}: expected NODE=TPU_OP or NODE=FILE.py:FUNCTION")
        found[node] = target
    return found


def resolve_map(custom: Mapping[str, str | MapFunction] | None) -> dict[str, Converter]:
    """Converters of what `parse_map` gives; functions may stand there themselves. Errors: UsageError."""
    found = {}
    for node, target in (custom or {}).items():
        if callable(target):
            found[node] = called(target)
        else:
            found[node] = called(load_function(target, "--map")) if ":" in target else own_layer(target)
    return found


def called(function: MapFunction) -> Converter:
    """A converter that calls a user's function and checks that it made the outputs."""

    def convert(to: Lowering, node: Node) -> None:
        inputs = [_operand(to, name) for name in node.inputs]
        shapes = [to.model.value(name).fixed if name else None for name in node.inputs]
        constants = [to.constant(name) for name in node.inputs]
        outputs = tuple(to.output(node, i) for i in range(len(node.outputs)))
        mapped = MappedNode(
            node.op, node.name, node.attributes, tuple(inputs), tuple(shapes), tuple(constants), outputs
        )
        what = f"{node.title}: the function {getattr(function, '__name__', function)}"
        try:
            function(to.graph, mapped)
        except TpulayerError:
            raise
        except (Exception, SystemExit) as error:
            raise CompileError(f"{what} failed: {type(error).__name__}: {error}") from error
        missing = [
            name
            for name, used in zip(outputs, node.outputs, strict=True)
            if used and not to.graph.has_tensor(name)
        ]
        if missing:
            raise CompileError(
                f"{what} did not make {', '.join(missing)}",
                hint="give node.outputs to layers as their outputs",
            )

    return convert


def _operand(to: Lowering, name: str) -> str | None:
    try:
        return to.tensor(name) if name else None
    except Unsupported:
        return None


def load_function(target: str, option: str) -> Callable[..., Any]:
    """What FILE.py:FUNCTION names; option: of the command, for messages. Errors: UsageError."""
    file, _, name = target.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{option}: there is no file {path}")
    try:
        module = run_python(path, f"tpulayer_{option.strip('-')}_{path.stem}")
    except (Exception, SystemExit) as error:
        raise UsageError(f"{option}: {path} cannot be loaded: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{option}: {path} has no function {name!r}")
    found: Callable[..., Any] = function
    return found
