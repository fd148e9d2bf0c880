"""Reading a model file of MindSpore Lite, whichever of its two formats it has."""

from __future__ import annotations

from pathlib import Path

from firmware_sim.errors import CompileError, ModelError, UsageError
from user_layers.files import read_input
from user_layers.mindir.integers import CASTS
from user_layers.mindir.mindir import read_mindir
from user_layers.mindir.ms import IDENTIFIER, read_ms
from user_layers.mindir.words import MINDSPORE
from user_layers.spelling.foreign import ForeignModel
from user_layers.spelling.infer import with_shapes


def read_model(path: Path) -> ForeignModel:
    """The model of a `.ms` or `.mindir` file. Errors: UsageError for a file that cannot be read, ModelError
    for one that is damaged, or another kind."""
    try:
        data = read_input(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        model = read_ms(data) if data[4:8] == IDENTIFIER else read_mindir(data)
        model, _ = CASTS.in_float(model)
    except ModelError as error:
        raise ModelError(f"{path} is not a model of MindSpore Lite: {error.message}") from None
    except ValueError as error:
        raise ModelError(f"{path} is a damaged model of MindSpore Lite: {error}") from None
    made = [model.tensors[name] for operation in model.operations for name in operation.outputs]
    if all(tensor.shape and min(tensor.shape) >= 0 for tensor in made):
        return model
    try:  # a scalar, or a shape that the file leaves out
        return with_shapes(model, MINDSPORE)
    except (ModelError, CompileError):
        return model  # who asks for more than the file tells says so
