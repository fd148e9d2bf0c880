"""`tpulayer executorch`: a Python module into a .pte file, and .pte files run with arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import ModelError, TpulayerError, UsageError
from firmware_sim.isa import timing
from firmware_sim.shown import listed
from user_layers.bmrt.reference_data import load_npz, save_npz
from user_layers.executorch.runtime import BACKEND_ID, counters, runtime, wheel
from user_layers.files import run_python, write_atomic
from user_layers.torch.program import check_readable

Array = npt.NDArray[Any]
Say = Callable[[str], None]
_WHOLE = {0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 11: "bool"}
_DTYPES = _WHOLE | {5: "float16", 6: "float32", 7: "float64", 15: "bfloat16"}
"""Of ExecuTorch's codes of types."""


@dataclass(frozen=True)
class CompileOptions:
    """The options of the command. function: "FILE.py:FUNCTION", which gives a module and its example inputs;
    operators: the only ones that go to the device, all where it is empty; custom: "mylib::scale=TPU_SCALE";
    xnnpack: what stays goes to XNNPACK where that takes it; report: a file with why nodes stay."""

    function: str
    out: Path
    operators: Sequence[str] = ()
    custom: Sequence[str] = ()
    opt: int = 2
    dynamic: bool = False
    device: int = 0
    xnnpack: bool = False
    report: Path | None = None


def compile_program(options: CompileOptions, say: Say) -> None:
    """Export, divide, compile and write the .pte file.

    Errors: UsageError for a function that does not give what is wanted, MissingError without ExecuTorch,
    CompileError. Nothing is written then.
    """
    wheel()
    import torch
    from executorch.exir import to_edge_transform_and_lower

    from user_layers.executorch.partitioner import TpuLayerPartitioner

    module, inputs, shapes = example(options.function)
    custom = dict(pair(word) for word in options.custom)
    partitioner = TpuLayerPartitioner(
        operators=options.operators or None,
        custom=custom,
        opt=options.opt,
        dynamic=True if options.dynamic else None,
        device=options.device,
    )
    partitioners: list[Any] = [partitioner]
    if options.xnnpack:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        partitioners.append(XnnpackPartitioner())
    try:
        program = torch.export.export(module.eval(), inputs, dynamic_shapes=shapes)
    except Exception as error:  # torch raises several kinds for what it cannot export
        raise UsageError(f"{options.function}: torch.export refuses the module: {_first(error)}") from None
    edge = to_edge_transform_and_lower(program, partitioner=partitioners)
    made = edge.to_executorch()
    write_atomic(options.out, bytes(made.buffer))
    going, total = partitioner.counted
    say(
        f"{options.function} -> {options.out}: {going} of {total} operations on the BM1684 in "
        f"{count_partitions(edge)}"
    )
    if options.report is not None:
        write_atomic(options.report, partitioner.report())
        say(f"report: {options.report}")


def run_program(path: Path, given: Path | None, out: Path | None, say: Say) -> None:
    """Run the method `forward` of a .pte file; what came out and what the device did.

    given: an .npz file with the inputs, by name in the order that they have there; random numbers where it is
    None. out: gets the outputs as output_0, output_1, ... numpy has no bfloat16: such inputs and outputs are
    float32 there. Errors: UsageError for inputs that do not fit,
    ModelError for a file that is no program or that fails, MissingError without ExecuTorch.
    """
    wheel()
    from executorch.runtime import Verification

    check_readable(path)
    arrays = list(load_npz(given, lambda _: None).values()) if given is not None else None
    try:
        method: Any = runtime().load_program(path, verification=Verification.InternalConsistency)
        method = method.load_method("forward")
    except TpulayerError:
        raise
    except Exception as error:
        raise ModelError(f"{path} cannot be loaded by ExecuTorch: {_first(error)}") from None
    inputs = _tensors(path, method, given, arrays)
    try:
        results = method.execute(inputs)
    except Exception as error:
        if "set_inputs" in str(error):  # smaller extents, where its shapes are not dynamic
            shapes = listed(str(list(tensor.shape)) for tensor in inputs)
            raise UsageError(f"{path} does not run on the shapes {shapes}: {_first(error)}") from None
        raise ModelError(f"{path} failed when it ran: {_first(error)}") from None
    outputs = {f"output_{i}": _array(made) for i, made in enumerate(results) if made is not None}
    for name, array in outputs.items():
        say(f"{name} {array.dtype} {list(array.shape)}")
    if out is not None:
        save_npz(out, outputs)
    found = counters()
    say(
        f"{BACKEND_ID}: {found['runs']} partitions run, {found['commands']} commands, "
        f"{found['ns'] / 1e6:.3f} ms ({timing.modelled()}), "
        f"{found['bytes_in']} bytes in, {found['bytes_out']} out"
    )


def count_partitions(edge: Any) -> str:
    """How many partitions of an edge program manager are ours."""
    from executorch.exir.lowered_backend_module import get_lowered_backend_modules

    from user_layers.executorch.partitioner import modules_of

    number = sum(
        lowered.backend_id == BACKEND_ID
        for module in modules_of(edge.exported_program().graph_module)
        for lowered in get_lowered_backend_modules(module)
    )
    return f"{number} partition{'s' if number != 1 else ''}"


def example(text: str) -> tuple[Any, tuple[Any, ...], Any]:
    """What FILE.py:FUNCTION gives: a module, example inputs, and the dynamic shapes if it names some.
    Errors: UsageError for a file or function that is not there, fails, or gives something else."""
    file, colon, name = text.rpartition(":")
    if not colon:
        raise UsageError(f"{text}: expected FILE.py:FUNCTION")
    path = Path(file)
    check_readable(path)
    try:
        module = run_python(path, f"tpulayer_example_{path.stem}")
        function = getattr(module, name, None)
        found = function() if callable(function) else None
    except Exception as error:
        raise UsageError(f"{text} failed: {type(error).__name__}: {_first(error)}") from error
    if function is None:
        raise UsageError(f"{path} has no function {name!r}")
    if not isinstance(found, tuple) or len(found) not in (2, 3) or not isinstance(found[1], (tuple, list)):
        raise UsageError(
            f"{text} must return a module and a tuple of example inputs",
            hint="return MyModule(), (torch.randn(1, 3, 224, 224),); a third value would be the "
            "dynamic_shapes of torch.export",
        )
    return found[0], tuple(found[1]), found[2] if len(found) == 3 else None


def pair(word: str) -> tuple[str, str]:
    """An operator and the layer that stands for it, of a text mylib::scale=TPU_SCALE. Errors: UsageError."""
    name, sign, layer = word.partition("=")
    if not sign or not name or not layer:
        raise UsageError(f"--map {word}: expected NAMESPACE::OPERATOR=TPU_LAYER")
    return name, layer


def _tensors(path: Path, method: Any, given: Path | None, arrays: Sequence[Array] | None) -> list[Any]:
    """The inputs of a program as tensors. arrays: from the file `given`, None for random numbers. UsageError
    for those that do not fit."""
    import torch

    total = method.metadata.num_inputs()
    if arrays is not None and len(arrays) != total:
        raise UsageError(f"{given} has {len(arrays)} arrays, the program {total} inputs")
    inputs = []
    for index in range(total):
        try:
            meta = method.metadata.input_tensor_meta(index)
        except Exception:  # ExecuTorch's own: it has only tensors' descriptions
            raise UsageError(
                f"{path}: input {index} is not a tensor, which this command cannot give"
            ) from None
        code, most = int(meta.dtype()), list(meta.sizes())
        if code not in _DTYPES:
            raise UsageError(f"{path}: input {index} has ExecuTorch's type {code}, which numpy does not have")
        kind = _DTYPES[code]
        wanted = getattr(torch, kind)
        if arrays is None:
            inputs.append(_random(most, wanted, index))
            continue
        array: Array = np.require(arrays[index], arrays[index].dtype.newbyteorder("="), "C")
        if array.dtype.name != ("float32" if kind == "bfloat16" else kind):
            raise UsageError(
                f"{given}: array {index} is {array.dtype}; the program's input {index} is {kind}"
            )
        if array.ndim != len(most) or any(n > bound for n, bound in zip(array.shape, most, strict=True)):
            raise UsageError(
                f"{given}: array {index} has the shape {list(array.shape)}; the program's input {index} has "
                f"{most}, or at most so much of each where its shapes are dynamic"
            )
        inputs.append(torch.from_numpy(array).to(wanted))
    return inputs


def _random(shape: Sequence[int], dtype: Any, seed: int) -> Any:
    """Random numbers for an input of a floating type, zeros for others (which may be indices)."""
    import torch

    if not dtype.is_floating_point:
        return torch.zeros(shape, dtype=dtype)
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return torch.from_numpy(np.asarray(numbers)).to(dtype)


def _array(result: Any) -> Array:
    """An output: a tensor, or a number."""
    import torch

    if not isinstance(result, torch.Tensor):
        return np.asarray(result)
    result = result.detach()
    return np.asarray((result.float() if result.dtype == torch.bfloat16 else result).numpy())


def _first(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
