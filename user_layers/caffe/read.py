"""Reading a net of Caffe's: a prototxt with the layers, a caffemodel with their weights."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from firmware_sim.errors import CompileError, ModelError, TpulayerError, UsageError
from firmware_sim.suggest import did_you_mean
from user_layers.caffe.arity import ARITIES
from user_layers.caffe.blobs import fitted, learned, wanted_blobs
from user_layers.caffe.layer import CaffeLayer
from user_layers.caffe.own import OwnLayer, own_layers
from user_layers.caffe.prototxt import DATA, Layer, Net, input_hint, read_net
from user_layers.caffe.spellings import CAFFE, REFUSED
from user_layers.caffe.text import TextFile
from user_layers.caffe.weights import read_caffemodel
from user_layers.files import read_input
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor
from user_layers.spelling.infer import inferred
from user_layers.toolkit import Toolkit

WHAT = "Caffe"
Shapes = Mapping[str, Sequence[int]] | Sequence[Sequence[int]]
_FLOAT = np.dtype(np.float32)
_MISFITS = (ArithmeticError, LookupError, TypeError, ValueError)
_NAMED = 5  # layers without weights that a message names
_MOST = 2**31 - 1  # elements of a blob, which Caffe counts with an int


def read_caffe(
    prototxt: str | Path,
    weight: str | Path | None = None,
    *,
    shapes: Shapes | None = None,
    own: Mapping[str, OwnLayer] | None = None,
    toolkit: Toolkit | None = None,
) -> ForeignModel:
    """The model of a prototxt and its caffemodel, as it is deployed (phase TEST), with all shapes.

    weight: the file with the weights; by default that of the same name with the ending .caffemodel, if it is
    there. shapes: of inputs, by name or one after the other, instead of those that the prototxt gives. own:
    layers of the user's by type, by default those that `own_layers` finds. toolkit: what these
    layers are asked for shapes with, by default that of the workspace around the current folder.
    Errors: UsageError for files that cannot be read and shapes that do not fit, ModelError for what is
    damaged or not as Caffe has it, with line and column, CompileError for layers that cannot be had,
    MissingError without a package.
    """
    path = Path(prototxt)
    file = TextFile(str(prototxt), _text(path))
    with Toolkit() if toolkit is None else nullcontext(toolkit) as opened:
        own = own_layers(opened) if own is None else own
        net = read_net(file, {*CAFFE, "Input"}, own, REFUSED)
        found = path.with_suffix(".caffemodel")
        if weight is None and found.is_file():
            weight = found
        weights = _Weights(net, None if weight is None else Path(weight), own)
        return _Reader(net, weights, shapes or {}, own, opened).model(path.stem)


def _text(path: Path) -> str:
    try:
        return read_input(path).decode("utf-8-sig")  # editors of Windows begin files with a mark
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ModelError(
            f"{path} is not a prototxt: it is not text", hint="the file with the weights goes to --weight"
        ) from None


class _Weights:
    """The blobs of the layers of a net."""

    def __init__(self, net: Net, path: Path | None, own: Mapping[str, OwnLayer]) -> None:
        self.path = path
        self.blobs: dict[str, Sequence[Array]] = dict(read_caffemodel(path)) if path is not None else {}
        self.net = net
        self.share()
        self.check(own)

    def share(self) -> None:
        """Give layers without blobs those of an earlier layer that calls them the same."""
        owners: dict[str, Array] = {}
        for layer in self.net.layers:
            if layer.name not in self.blobs and layer.shared and all(name in owners for name in layer.shared):
                self.blobs[layer.name] = [owners[name] for name in layer.shared]
            for name, blob in zip(layer.shared, self.blobs.get(layer.name, ()), strict=False):
                if name:
                    owners.setdefault(name, blob)

    def check(self, own: Mapping[str, OwnLayer]) -> None:
        """Refuse what is of another net, and layers without weights that have them by their type."""
        needy = [layer for layer in self.net.layers if learned(layer.kind) and layer.kind not in own]
        without = [layer for layer in needy if layer.name not in self.blobs and not _may_lack(layer)]
        if not without:
            return
        place = self.net.file.place(without[0].at)
        if self.path is None:
            beside = Path(self.net.file.name).with_suffix(".caffemodel")
            raise UsageError(
                f"{place}: {without[0].title} has weights, and no file with weights is given",
                hint=f"name it with --weight, or put it beside the prototxt: {beside}",
            )
        if len(without) == len(needy):
            there = ", ".join(repr(name) for name in list(self.blobs)[:_NAMED])
            raise ModelError(
                f"{self.path} is of another net: none of its layers ({there or 'without weights'}, ...) is "
                f"called as one with weights in {self.net.file.name} ({without[0].name!r}, ...)"
            )
        names = ", ".join(f"{one.name!r}{did_you_mean(one.name, self.blobs)}" for one in without[:_NAMED])
        more = f" and {len(without) - _NAMED} more" if len(without) > _NAMED else ""
        raise ModelError(f"{place}: {self.path} has no weights for {names}{more}")

    def of(self, layer: Layer, bottoms: Sequence[tuple[int, ...]]) -> list[Array]:
        """The layer's blobs in the shapes that Caffe has. Errors: ModelError."""
        given = list(self.blobs.get(layer.name, ()))
        where = f"{self.net.file.place(layer.at)}: {layer.title}"
        try:
            wanted = wanted_blobs(layer.kind, layer.attributes, bottoms)
        except _MISFITS as error:
            raise ModelError(f"{where}: its parameters do not fit its bottoms: {error}") from None
        if wanted is None:
            return given
        if len(given) != len(wanted):
            hint = "bias_term says whether there is a bias" if abs(len(given) - len(wanted)) == 1 else ""
            raise ModelError(
                f"{where} has {len(given)} blobs in {self.path}; {_shown(wanted)} are wanted", hint=hint
            )
        made = []
        for number, (array, shape) in enumerate(zip(given, wanted, strict=True)):
            blob = fitted(array, shape)
            if blob is None:
                raise ModelError(
                    f"{where}: blob {number} in {self.path} has the shape {list(array.shape)}; "
                    f"{list(shape)} is wanted"
                )
            made.append(blob)
        return made


def _may_lack(layer: Layer) -> bool:
    """Whether a layer of a type with weights may have none: its second bottom is what others learn."""
    return (
        layer.kind in ("Scale", "Bias") and len(layer.bottoms) > 1 and not layer.attributes.get("bias_term")
    )


def _shown(shapes: Sequence[tuple[int, ...]]) -> str:
    return f"{len(shapes)} ({', '.join(str(list(shape)) for shape in shapes)})" if shapes else "none"


def _too_large(shape: Sequence[int]) -> str:
    return f"has {math.prod(shape)} elements in the shape {list(shape)}; blobs have at most {_MOST}"


class _Reader:
    """Layer by layer: the tensors that blobs are at that point, then the layer's shapes."""

    def __init__(
        self,
        net: Net,
        weights: _Weights,
        shapes: Shapes,
        own: Mapping[str, OwnLayer],
        toolkit: Toolkit,
    ) -> None:
        self.net = net
        self.weights = weights
        self.own = own
        self.toolkit = toolkit
        self.tensors: dict[str, Tensor] = {}
        self.values: dict[str, str] = {}  # what each blob is by now: the name of a tensor
        self.makers: dict[str, Layer | None] = {}  # who wrote a blob first
        self.read: set[str] = set()
        self.inputs: list[str] = []
        self.operations: list[Operation] = []
        self.notes: list[str] = []
        self.gone: dict[str, Layer] = {}  # tops of layers that are left out
        self.excluded = {top: found for found in net.excluded for top in found[0].tops}
        self.told: dict[str, tuple[int, ...]] = {}  # shapes of inputs in the file that are others now
        self.writes = Counter(top for layer in net.layers if not layer.is_dropped for top in layer.tops)
        self.shapes = self.named(shapes)

    def model(self, name: str) -> ForeignModel:
        for blob, shape in self.net.inputs:
            self.add_input(blob, shape, None)
        for layer in self.net.layers:
            if layer.kind == "Input":
                self.add_inputs(layer)
            elif layer.is_dropped and layer.kind not in self.own:
                self.leave_out(layer)
            else:
                self.add(layer)
        if not self.inputs:
            raise ModelError(
                f"{self.net.file.name} has no input",
                hint='write one: layer { name: "data" type: "Input" top: "data" '
                "input_param { shape { dim: 1 dim: 3 dim: 224 dim: 224 } } }",
            )
        made = [name for op in self.operations for name in op.outputs]
        outputs = tuple(name for name in made if name in self.values.values() and name not in self.read)
        if not outputs:
            raise ModelError(f"{self.net.file.name} has no output: no layer makes what no other reads")
        for blob in self.inputs:
            if self.values[blob] in outputs:
                self.notes.append(
                    f"the output {self.values[blob]!r} is what {blob!r} is at the end: "
                    "a layer writes to that input"
                )
        return ForeignModel(
            WHAT,
            self.net.name or name,
            {name: self.without_data(name, outputs) for name in self.tensors},
            tuple(self.inputs),
            outputs,
            tuple(op for op in self.operations if self.is_computed(op, outputs)),
            tuple(self.notes),
        )

    def is_computed(self, op: Operation, outputs: Sequence[str]) -> bool:
        """Whether an operation is left: its results are not all constants inside the net."""
        return any(self.tensors[name].data is None or name in outputs for name in op.outputs)

    def without_data(self, name: str, outputs: Sequence[str]) -> Tensor:
        return replace(self.tensors[name], data=None) if name in outputs else self.tensors[name]

    # ---- inputs ----

    def named(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """The shapes given, by input. Errors: UsageError."""
        names = [blob for blob, _ in self.net.inputs]
        names += [top for layer in self.net.layers if layer.kind == "Input" for top in layer.tops]
        if not isinstance(shapes, Mapping):
            if len(shapes) > len(names):
                raise UsageError(
                    f"{len(shapes)} shapes are given; {self.net.file.name} has the inputs {', '.join(names)}"
                )
            shapes = dict(zip(names, shapes, strict=False))
        found = {}
        for name, shape in shapes.items():
            if name not in names:
                raise UsageError(
                    f"{self.net.file.name} has no input {name!r}{did_you_mean(name, names)}",
                    hint=f"its inputs are {', '.join(names)}",
                )
            try:
                found[name] = tuple(operator.index(extent) for extent in shape)
            except TypeError:
                raise UsageError(f"input {name!r}: the shape {shape!r} is not one of whole numbers") from None
            if not found[name] or min(found[name]) < 1:
                raise UsageError(f"input {name!r}: the shape {list(found[name])} needs extents of 1 and more")
        return found

    def add_inputs(self, layer: Layer) -> None:
        self.check_arity(layer)
        given = [tuple(int(n) for n in shape.get("dim", ())) for shape in layer.attributes.get("shape", ())]
        if len(given) not in (0, 1, len(layer.tops)):
            raise self.error(layer, f"has {len(given)} shapes for {len(layer.tops)} tops")
        given = given * len(layer.tops) if len(given) == 1 else given or [()] * len(layer.tops)
        for top, shape in zip(layer.tops, given, strict=True):
            self.add_input(top, shape, layer)

    def add_input(self, blob: str, shape: tuple[int, ...], layer: Layer | None) -> None:
        if blob in self.values:
            raise ModelError(f"{self.net.file.name} has two inputs {blob!r}")
        told, shape = shape, self.shapes.get(blob, shape)
        if told and len(told) != len(shape):
            self.told[blob] = told
        if not shape or min(shape) < 1:
            said = f"the shape {list(shape)}" if shape else "no shape"
            raise UsageError(
                f"{self.net.file.name}: its input {blob!r} has {said}",
                hint="give one, in a shell with --shapes, in Python with shapes={...}",
            )
        if math.prod(shape) > _MOST:
            raise UsageError(f"{self.net.file.name}: its input {blob!r} {_too_large(shape)}")
        self.inputs.append(blob)
        self.values[blob] = blob
        self.makers[blob] = layer
        self.tensors[blob] = Tensor(shape, _FLOAT)

    # ---- layers ----

    def leave_out(self, layer: Layer) -> None:
        """What only training and tests need. What a Silence reads is no output."""
        for blob in layer.bottoms:
            if blob in self.excluded and blob not in self.values:
                continue  # labels, which only training has
            name = self.bottom(layer, blob)
            if layer.kind == "Silence":
                self.read.add(name)
        self.gone.update(dict.fromkeys(layer.tops, layer))
        if layer.kind == "Silence":
            return
        scores = f"; {layer.bottoms[0]!r} is left as it is" if layer.bottoms else ""
        softmax = ", without a Softmax" if layer.kind == "SoftmaxWithLoss" else ""
        self.notes.append(f"left out: {layer.title}, which is for training and tests{scores}{softmax}")

    def add(self, layer: Layer) -> None:
        bottoms = tuple(self.bottom(layer, blob) for blob in layer.bottoms)
        self.read.update(bottoms)
        shapes = [self.tensors[name].shape for name in bottoms]
        for blob in layer.tops:
            if blob in self.values and blob not in layer.bottoms:
                by = self.makers[blob]
                made = by.title if by is not None else "the net's input"
                raise self.error(layer, f"makes {blob!r}, which {made} makes, too")
        if len(set(layer.tops)) != len(layer.tops):
            raise self.error(layer, "makes one blob twice")
        tops = tuple(self.top(layer, blob) for blob in layer.tops)
        if layer.kind in self.own:
            self.add_own(layer, bottoms, tops)
        else:
            try:
                self.add_known(layer, bottoms, tops, shapes)
            except (CompileError, ModelError) as error:
                raise type(error)(error.message + self.other_ranks(), hint=error.hint) from None
        for blob, name in zip(layer.tops, tops, strict=True):
            self.values[blob] = name
            self.makers.setdefault(blob, layer)

    def add_known(
        self,
        layer: Layer,
        bottoms: tuple[str, ...],
        tops: tuple[str, ...],
        shapes: Sequence[tuple[int, ...]],
    ) -> None:
        self.check_arity(layer)
        blobs = self.weights.of(layer, shapes)
        names = []
        for number, blob in enumerate(blobs):
            names.append(self.free(f"{layer.name}/blob{number}"))
            self.tensors[names[-1]] = Tensor(blob.shape, blob.dtype, blob)
        self.tensors.update(dict.fromkeys(tops, Tensor((), _FLOAT)))
        attributes = {**layer.attributes, "blobs": len(blobs)}
        operation = Operation(layer.kind, layer.name, (*bottoms, *names), tops, attributes)
        try:
            self.tensors.update(inferred(WHAT, operation, self.tensors, CAFFE))
        except (CompileError, ModelError) as error:
            raise self.placed(layer, error) from None
        for top, name in zip(layer.tops, tops, strict=True):
            if math.prod(self.tensors[name].shape) > _MOST:
                raise self.error(layer, f"makes {top!r}, which {_too_large(self.tensors[name].shape)}")
        self.operations.append(operation)

    def check_arity(self, layer: Layer) -> None:
        """Refuse too many or too few bottoms and tops."""
        found = ARITIES[layer.kind].misfit(layer.kind, len(layer.bottoms), len(layer.tops))
        if found:
            raise self.error(layer, found)

    def other_ranks(self) -> str:
        """What may be the cause of an error: inputs with more or fewer extents than in the file."""
        return "".join(
            f"\n  input {blob!r} is given the shape {list(self.shapes[blob])}; {self.net.file.name} has "
            f"{list(told)}"
            for blob, told in self.told.items()
        )

    def add_own(self, layer: Layer, bottoms: tuple[str, ...], tops: tuple[str, ...]) -> None:
        mine = self.own[layer.kind]
        shapes = [self.tensors[name].shape for name in bottoms]
        blobs = self.weights.blobs.get(layer.name, ())
        place = self.net.file.place(layer.at).rpartition(":")[0]
        whole = CaffeLayer(layer.kind, layer.name, bottoms, tops, shapes, layer.fields, blobs, place)
        self.tensors.update(zip(tops, mine.shapes(whole, self.toolkit), strict=True))
        self.operations.append(
            Operation(layer.kind, layer.name, bottoms, tops, own=True, call=mine.mapped(whole))
        )

    def bottom(self, layer: Layer, blob: str) -> str:
        """The tensor that a blob is by now."""
        if blob in self.values:
            return self.values[blob]
        if blob in self.gone:
            raise self.error(
                layer, f"reads {blob!r} of {self.gone[blob].title}, which is left out: it is for training"
            )
        later = any(blob in one.tops for one in self.net.layers)
        if blob in self.excluded and not later:
            maker, when = self.excluded[blob]
            hint = "take the rules (include, exclude) away, or give the net the level or stage that they want"
            raise self.error(
                layer,
                f"reads {blob!r}, which {maker.title} makes {when} ({self.net.file.place(maker.at)})",
                input_hint(blob) if maker.kind in DATA or maker.kind == "Input" else hint,
            )
        why = ", which a layer behind it makes" if later else did_you_mean(blob, self.values)
        raise self.error(layer, f"reads {blob!r}{why or ', which no layer makes'}")

    def top(self, layer: Layer, blob: str) -> str:
        """A name for what a layer writes to a blob: the blob's for what is written last."""
        self.writes[blob] -= 1
        last = self.writes[blob] == 0 and blob not in self.inputs
        return blob if last else self.free(f"{blob}@{layer.name or layer.kind}")

    def free(self, name: str) -> str:
        found, count = name, 0
        while found in self.tensors or found in self.writes:
            count += 1
            found = f"{name}:{count}"
        return found

    def error(self, layer: Layer, text: str, hint: str = "") -> ModelError:
        return ModelError(f"{self.net.file.place(layer.at)}: {layer.title} {text}", hint=hint)

    def placed(self, layer: Layer, error: TpulayerError) -> TpulayerError:
        """The error of one operation, with its place instead of the list that it stands in."""
        text = error.message.rpartition("\n  ")[2]
        text = text.removeprefix(f"{WHAT} {layer.kind} {layer.name}").lstrip(": ")
        return type(error)(f"{self.net.file.place(layer.at)}: {layer.title}: {text}", hint=error.hint)
