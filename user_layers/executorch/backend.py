"""`TpuLayerBackend`: what ExecuTorch calls to compile a partition. Files call the backend as the class."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.utils import DelegateMappingBuilder

from firmware_sim.errors import CompileError
from user_layers.delegates.compile import compile_partition
from user_layers.delegates.program import LayerTime, pack
from user_layers.executorch.options import Options
from user_layers.executorch.toolkits import toolkit_of
from user_layers.spelling.foreign import ForeignModel
from user_layers.torch.program import read_program
from user_layers.torch.spellings import TORCH

_FRAME = re.compile(r'(File "([^"]*)", line \d+, in \S+)\n?([^\n]*)')  # of a traceback


@final
class TpuLayerBackend(BackendDetails):  # type: ignore[misc]
    """Compiles a partition of an edge program into a net for the BM1684."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[Any]) -> PreprocessResult:
        """The partition's bytes, and which nodes each layer of its net comes from (for devtools.Inspector).

        Errors: CompileError that names the operations without a layer; DeviceError, UsageError.
        """
        options = Options.of(compile_specs)
        model = read_program(edge_program, name="partition", custom=options.custom)
        try:
            partition = compile_partition(
                model,
                TORCH,
                name="partition",
                toolkit=toolkit_of(options.workspace),
                opt=options.opt,
                dynamic=options.is_dynamic(model),
            )
        except CompileError as error:
            raise _with_lines(error, edge_program.graph) from None
        partition = replace(partition, layers=_told_apart(partition.layers))
        return PreprocessResult(
            processed_bytes=pack([partition]),
            debug_handle_map=_handles(edge_program, model, partition.layers),
        )


def _with_lines(error: CompileError, graph: Any) -> CompileError:
    """The error with the lines of Python that the nodes it names come from."""
    words = set(re.findall(r"\w+", error.message))
    lines = {line_of(node) for node in graph.nodes if node.op == "call_function" and node.name in words}
    told = "".join(f"\n  {line}" for line in sorted(lines - {""}))
    return CompileError(f"{error.message}{told}", hint=error.hint)


def line_of(node: Any) -> str:
    """The line of Python that a node comes from: the innermost that is not PyTorch's own or of code that it
    made, if there is one, as a traceback shows it; "" where none is known."""
    own = (str(Path(torch.__file__).parent), "<")
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    frames = [frame for frame in frames if not frame[1].startswith(own)] or frames
    return " ".join(part.strip() for part in frames[-1][::2]).strip() if frames else ""


def _told_apart(layers: tuple[LayerTime, ...]) -> tuple[LayerTime, ...]:
    """The layers with names that are all different, by which the runtime calls them too."""
    names = [layer.name for layer in layers]
    return tuple(
        replace(layer, name=f"{layer.name}#{index}") if names.count(layer.name) > 1 else layer
        for index, layer in enumerate(layers)
    )


def _handles(program: Any, model: ForeignModel, layers: tuple[LayerTime, ...]) -> Any:
    """The debug handles of each layer, by its name."""
    nodes = {node.name: node for node in program.graph.nodes}
    builder = DelegateMappingBuilder(generated_identifiers=False)
    for layer in layers:
        sources = [nodes[model.operations[index].name] for index in layer.operations]
        sources = [node for node in sources if node.meta.get("debug_handle") is not None]
        if sources:
            builder.insert_delegate_mapping_entry(nodes=sources, identifier=layer.name)
    return builder.get_delegate_mapping()
