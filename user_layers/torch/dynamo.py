"""`torch.compile(module, backend="tpulayer")`: graphs that TorchDynamo captures, as nets; for inference."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from firmware_sim.errors import CompileError, ModelError, UsageError
from user_layers.onnx.backend import prepare, unheld
from user_layers.spelling.spell import spell
from user_layers.torch.program import decomposed, read_program
from user_layers.torch.spellings import TORCH


def tpulayer(module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A function that does what the captured graph does, on the emulated device; onnxruntime runs what no
    layer computes. Parameters are taken as they are now. What cannot be compiled at all (free extents,
    operations without an ONNX spelling) runs in PyTorch as if it had not been asked for, with a warning.
    Errors: MissingError and DeviceError, which are not about the graph."""
    import torch

    stored = {
        index: value
        for index, value in enumerate(example_inputs)
        if isinstance(value, torch.nn.Parameter) or getattr(value, "_is_buffer", False)
    }
    given = [index for index in range(len(example_inputs)) if index not in stored]
    if not all(isinstance(example_inputs[index], torch.Tensor) for index in given):
        return _in_pytorch(module, "it has extents that are free: torch.compile(..., dynamic=False)")
    try:
        with torch.no_grad():
            wrapped = _wrapped(module, stored, given)
            program = torch.export.export(wrapped, tuple(example_inputs[index] for index in given))
        proto = spell(read_program(decomposed(program, tuple(TORCH)), name="graph"), TORCH).proto
        if (value := unheld(proto)) is not None:
            return _in_pytorch(module, f"{value.name} is {value.what}, which no tensor of the device holds")
        prepared = prepare(proto)
    except (CompileError, ModelError, UsageError) as error:
        return _in_pytorch(module, error.message)
    names = [value.name for value in proto.graph.input]

    def run(*arguments: Any) -> list[Any]:
        arrays = [arguments[index].detach().cpu().contiguous().numpy() for index in given]
        made = prepared.run(dict(zip(names, arrays, strict=True)))
        return [torch.from_numpy(array.copy()) for array in made]

    return run


def _wrapped(module: Any, stored: dict[int, Any], given: Sequence[int]) -> Any:
    """The graph as a module that holds its parameters, and takes the rest."""
    import torch

    class Holding(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.graph = module
            for index, value in stored.items():
                self.register_buffer(f"stored_{index}", value.detach())

        def forward(self, *arguments: Any) -> Any:
            whole = dict(zip(given, arguments, strict=True))
            whole.update({index: getattr(self, f"stored_{index}") for index in stored})
            return self.graph(*(whole[index] for index in sorted(whole)))

    return Holding()


def _in_pytorch(module: Any, reason: str) -> Callable[..., Any]:
    warnings.warn(f"tpulayer leaves a graph to PyTorch: {reason}", stacklevel=2)
    run: Callable[..., Any] = module.forward
    return run
