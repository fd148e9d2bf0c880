"""`torch.compile(module, backend="tpulayer")`: graphs that TorchDynamo captures, as nets; for inference."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from firmware_sim.errors import CompileError, ModelError, UsageError
from user_layers.onnx.backend import PreparedModel, prepare, unheld
from user_layers.spelling.spell import spell
from user_layers.torch.program import decomposed, read_program
from user_layers.torch.spellings import TORCH

_MOST_NETS = 4  # of a graph, for as many sets of parameters; those used longest ago go first

_STATIC = "_dynamo_static_input_type"  # what Dynamo marks the buffers of modules with


def tpulayer(module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A function that does what the captured graph does, on the emulated device; onnxruntime runs what no
    layer computes. Parameters and buffers are part of the net: another one is compiled where a call comes
    with other values of them, as after a step of training or for another module of the same class. What
    cannot be compiled at all (free extents, operations without an ONNX spelling, gradients) runs in PyTorch
    as if it had not been asked for, with a warning.
    Errors: MissingError and DeviceError, which are not about the graph."""
    import torch

    stored = [
        index
        for index, value in enumerate(example_inputs)
        if isinstance(value, torch.nn.Parameter) or getattr(value, _STATIC, None) is not None
    ]
    given = [index for index in range(len(example_inputs)) if index not in stored]
    if not all(isinstance(example_inputs[index], torch.Tensor) for index in given):
        return _in_pytorch(module, "it has extents that are free: torch.compile(..., dynamic=False)")
    if torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in example_inputs):
        return _in_pytorch(module, "a net has no gradients: call it under torch.no_grad()")
    nets = _Nets(module, stored, given)
    try:
        nets.of(example_inputs)
    except (CompileError, ModelError, UsageError) as error:
        return _in_pytorch(module, error.message)

    def run(*arguments: Any) -> Any:
        try:
            net = nets.of(arguments)
            arrays = [arguments[index].detach().cpu().contiguous().numpy() for index in given]
            made = net.run(arrays)
        except (CompileError, ModelError, UsageError) as error:  # numbers that a net does not hold
            return _in_pytorch(module, error.message)(*arguments)
        return [torch.from_numpy(array.copy()) for array in made]

    return run


class _Nets:
    """Those of one graph, each with the values of the parameters that are in it."""

    def __init__(self, module: Any, stored: Sequence[int], given: Sequence[int]) -> None:
        self._module = module
        self._stored, self._given = stored, given
        self._made: list[tuple[list[Any], PreparedModel]] = []  # the one used last comes last

    def of(self, arguments: Sequence[Any]) -> PreparedModel:
        """The net with the parameters of this call. Values are compared: identity does not tell of what is
        written into `tensor.data`, and reading all of them takes less time than any net."""
        import torch

        held = [_bytes(arguments[index]) for index in self._stored]
        for place, (known, net) in enumerate(self._made):
            if all(map(torch.equal, held, known)):
                self._made.append(self._made.pop(place))
                return net
        net = self._compiled(arguments)
        self._made.append(([value.clone() for value in held], net))
        if len(self._made) > _MOST_NETS:
            self._made.pop(0)[1].close()
        return net

    def _compiled(self, arguments: Sequence[Any]) -> PreparedModel:
        import torch

        stored = {index: arguments[index] for index in self._stored}
        wrapped = _wrapped(self._module, stored, self._given)
        try:
            with torch.no_grad():
                program = torch.export.export(wrapped, tuple(arguments[index] for index in self._given))
        except Exception as error:  # torch raises several kinds for what it cannot export
            text = next(iter(str(error).splitlines()), type(error).__name__)
            raise CompileError(f"torch.export refuses it: {text}") from None
        with torch.no_grad():
            proto = spell(read_program(decomposed(program, tuple(TORCH)), name="graph"), TORCH).proto
        if (value := unheld(proto)) is not None:
            raise CompileError(f"{value.name} is {value.what}, which no tensor of the device holds")
        return prepare(proto)


def _bytes(tensor: Any) -> Any:
    """A tensor's elements as bytes, which are equal also where they are not numbers."""
    import torch

    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


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
