"""`TpuLayerBackend`: what ExecuTorch calls to compile a partition. Files call the backend as the class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, final

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.utils import DelegateMappingBuilder

from user_layers.delegates.compile import compile_partition
from user_layers.delegates.program import LayerTime, pack
from user_layers.executorch.options import Options
from user_layers.executorch.toolkits import toolkit_of
from user_layers.spelling.foreign import ForeignModel
from user_layers.torch.program import read_program
from user_layers.torch.spellings import TORCH


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
        partition = compile_partition(
            model,
            TORCH,
            name="partition",
            toolkit=toolkit_of(options.workspace),
            opt=options.opt,
            dynamic=options.is_dynamic(model),
        )
        partition = replace(partition, layers=_told_apart(partition.layers))
        return PreprocessResult(
            processed_bytes=pack([partition]),
            debug_handle_map=_handles(edge_program, model, partition.layers),
        )


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
