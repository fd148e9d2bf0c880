"""Files of models, whatever framework they are of: which room reads them, by their endings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmware_sim.errors import TpulayerError, UsageError

if TYPE_CHECKING:
    from user_layers.net.compiled import CompiledNet
    from user_layers.onnx.custom import MapFunction
    from user_layers.onnx.load import Source
    from user_layers.spelling.foreign import ForeignModel
    from user_layers.toolkit import Toolkit


Shapes = Mapping[str, Sequence[int]] | Sequence[Sequence[int]]


@dataclass(frozen=True)
class Format:
    """A kind of file. what: the framework; reader: "MODULE:FUNCTION", which makes a ForeignModel of a path;
    spellings: "MODULE:NAME". weights: the reader also takes `weight`, a file with the weights, `shapes` of
    the inputs and a `toolkit` with layers of the user's own."""

    what: str
    reader: str
    spellings: str
    weights: bool = False


_MINDSPORE = Format("MindSpore", "user_layers.mindir:read_model", "user_layers.mindir:MINDSPORE")
FORMATS = {
    ".tflite": Format(
        "TFLite", "user_layers.tflite.integers:read_model", "user_layers.tflite.spellings:TFLITE"
    ),
    ".pt2": Format("PyTorch", "user_layers.torch.program:read_pt2", "user_layers.torch.spellings:TORCH"),
    ".ms": _MINDSPORE,
    ".mindir": _MINDSPORE,
    ".prototxt": Format(
        "Caffe", "user_layers.caffe.read:read_caffe", "user_layers.caffe.spellings:CAFFE", weights=True
    ),
}
"""All others are ONNX's."""


def find(place: str) -> Any:
    """What "MODULE:NAME" names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def in_onnx(
    path: str | Path,
    *,
    weight: str | Path | None = None,
    shapes: Shapes | None = None,
    toolkit: Toolkit | None = None,
) -> tuple[Any, Source | None]:
    """What compiles a file, and where it comes from: an ONNX file as it is (its path, None), and of other
    frameworks' the onnx.ModelProto that means the same, with the same names of inputs and outputs.

    weight: the file with the weights, for a format that has them apart. shapes: of inputs, by name or in
    their order, for one that needs them to be read. toolkit: where layers of the user's own come from.
    Errors: MissingError without the package that reads it; UsageError for a file that cannot be read;
    ModelError for one that is damaged; CompileError that names all operations that ONNX cannot say.
    """
    path = Path(path)
    found = FORMATS.get(path.suffix.lower())
    if weight is not None and (found is None or not found.weights):
        raise UsageError(
            f"{path} has its weights in it; {weight} is one file too many",
            hint="only Caffe's .prototxt has a file with weights beside it",
        )
    if found is None:
        return path, None
    from user_layers.onnx.load import Source
    from user_layers.spelling.spell import Spelled, spell

    spellings = find(found.spellings)
    if not found.weights:
        model: ForeignModel = find(found.reader)(path)
        spelled = spell(model, spellings)
        return spelled.proto, Source(
            str(path), path.name, path.stem, None, spelled.calls, model.notes, file=path
        )

    def read(given: Shapes) -> tuple[ForeignModel, Spelled]:
        made = find(found.reader)(path, weight, shapes=given, toolkit=toolkit)
        return made, spell(made, spellings)

    model, spelled = read(shapes or {})
    known = {name: model.tensors[name].shape for name in model.inputs}

    def reread(given: Mapping[str, Sequence[int]]) -> Any:
        same = all(known.get(name) == tuple(shape) for name, shape in given.items())
        return spelled.proto if same else read({**known, **given})[1].proto

    return spelled.proto, Source(
        str(path), path.name, path.stem, None, spelled.calls, model.notes, reread, path
    )


def compile_file(
    model: str | Path,
    directory: str | Path,
    *,
    weight: str | Path | None = None,
    dynamic: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
    stages: Sequence[Mapping[str, Sequence[int]]] = (),
    opt: int = 2,
    custom: Mapping[str, str | MapFunction] | None = None,
    cpu: bool = True,
    check: bool = True,
    report: bool = False,
    name: str | None = None,
    layers: bool = False,
    toolkit: Toolkit | None = None,
    log: Callable[[str], None] | None = None,
) -> CompiledNet:
    """Compile a model's file into a folder, as `compile_onnx` does; returns the net.

    model: an ONNX file, .tflite (TFLite), .pt2 (an exported PyTorch program), .ms or .mindir (MindSpore
    Lite), .prototxt (Caffe). The others are written as ONNX models first; it is these that onnxruntime runs
    to compare with, and whose nodes `custom` names (OPERATION/OP). weight: the .caffemodel of a .prototxt, by
    default the one of the same name beside it.
    directory: made if it is not there; it gets compilation.bmodel and its reference data.
    dynamic: the net takes any input shapes up to those compiled. shapes: of inputs, where they are free or to
    be others; stages: further sets of them. opt: 0 to 2, how much is kept in local memory. cpu: what no layer
    computes runs on onnxruntime. check: compare with onnxruntime. report, layers: also write a report, a net
    for each layer. name: of the net, by default the file's. toolkit: where the layers come from; one given
    stays open. log: gets each line that is told.
    Errors: those of `compile_onnx`, and of reading the file.
    """
    from user_layers.onnx.compile import compile_onnx

    proto, source = in_onnx(model, weight=weight, shapes=shapes, toolkit=toolkit)
    try:
        return compile_onnx(
            proto,
            directory,
            dynamic=dynamic,
            shapes=shapes,
            stages=stages,
            opt=opt,
            custom=custom,
            cpu=cpu,
            check=check,
            report=report,
            name=name,
            layers=layers,
            toolkit=toolkit,
            log=log,
            source=source,
        )
    except TpulayerError as error:
        if source is not None and source.reread is None and (shapes or stages) and not error.hint:
            error.hint = f"{source.place} may hold the shapes it was exported with: export it for the others"
        raise
