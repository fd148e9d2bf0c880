"""TFLite models with other shapes of inputs than the file names: a larger batch, another picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firmware_sim.errors import ModelError, UsageError
from user_layers.files import read_input


def reshaped(path: Path, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """The file of a model whose inputs have these shapes; LiteRT says what follows for all other tensors.

    LiteRT gives a device the shapes of the file, with 1 for those that may change, and does not tell it about
    other ones later. shapes: by the input's name, as in the model's signature or as of the tensor.
    Errors: UsageError for a file that cannot be read, a name or shape that does not fit; ModelError for one
    that LiteRT does not take.
    """
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    try:
        data = read_input(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        runner = Interpreter(model_content=data, experimental_op_resolver_type=plain)
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"{path}: LiteRT does not take this model: {error}") from None
    places = _inputs(runner)
    for name, shape in shapes.items():
        if name not in places:
            raise UsageError(f"{path} has no input {name!r}, but {', '.join(map(repr, places))}")
        if len(shape) != len(places[name]["shape"]) or min(shape, default=1) < 1:
            was = [int(n) for n in places[name]["shape"]]
            raise UsageError(f"input {name!r} of {path} cannot have the shape {list(shape)}; it has {was}")
        runner.resize_tensor_input(places[name]["index"], list(shape))
    try:
        runner.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"{path} does not work with these shapes: {error}") from None
    found = {int(one["index"]): one for one in runner.get_tensor_details()}
    model = schema.ModelT.InitFromPackedBuf(bytearray(data), 0)
    for index, tensor in enumerate(model.subgraphs[0].tensors):
        if index in found and model.buffers[tensor.buffer].data is None:
            tensor.shape = [int(n) for n in found[index]["shape"]]
        tensor.shapeSignature = None
    return _packed(model)


def _inputs(runner: Any) -> dict[str, Any]:
    """What is known of the inputs, by their names in the first signature and their tensors'."""
    details = runner.get_input_details()
    found = {one["name"]: one for one in details}
    by_index = {one["index"]: one for one in details}
    for key in list(runner.get_signature_list())[:1]:
        named = runner.get_signature_runner(key).get_input_details()
        found |= {name: by_index[one["index"]] for name, one in named.items() if one["index"] in by_index}
    return found


def _packed(model: Any) -> bytes:
    import flatbuffers

    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
