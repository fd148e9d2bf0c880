"""The layers of a prototxt as a deployed net has them: those of the phase TEST, older formats upgraded.

Layers that Caffe has are read by protobuf, with the schema; of layers of the user's own every field is kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firmware_sim.errors import ModelError
from firmware_sim.suggest import closest, did_you_mean
from user_layers.caffe.schema import message
from user_layers.caffe.text import Block, Field, TextFile

DROPPED = {"HDF5Output", "Accuracy", "Silence", "SoftmaxWithLoss", "DetectionEvaluate", "SmoothL1LossOHEM"}
"""Types of layers that only train or test a net; besides them, all whose names end with Loss."""
DATA = {
    *("Data", "ImageData", "HDF5Data", "MemoryData", "WindowData", "AnnotatedData", "VideoData"),
    *("LabelmapData", "CompactData", "DenseImageData", "DataReader"),
}
"""Types of layers that read what a net is trained with."""
_COMMON = {"name", "type", "bottom", "top", "phase", "loss_weight", "param", "blobs", "propagate_down"}
_COMMON |= {"include", "exclude", "blobs_lr", "weight_decay", "blob_share_mode"}
# The message with a type's parameters is called as the type, but for these.
_PARAMETERS = {
    "Normalize": "norm_param",
    "Deconvolution": "convolution_param",
    "ConvolutionDepthwise": "convolution_param",
    "DepthwiseConvolution": "convolution_param",
    "LogSoftmax": "softmax_param",
}
_SPELLED = {  # words of V1's enumeration that are not the type with capitals and underscores
    "EUCLIDEAN_LOSS": "EuclideanLoss",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
}


@dataclass(frozen=True)
class Layer:
    """A layer of a net. attributes: its parameters, of a type that Caffe has; fields: of another, all that it
    holds. shared: names of its weights that several layers have. at: where it stands in the file."""

    name: str
    kind: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    at: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    shared: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"layer {self.name!r} ({self.kind})"

    @property
    def is_dropped(self) -> bool:
        """Whether a deployed net does without it."""
        return self.kind in DROPPED or self.kind.endswith("Loss")


@dataclass(frozen=True)
class Net:
    """What a prototxt says. inputs: those of the net itself, older than layers of type Input, with shapes.
    excluded: layers that their rules leave out of the phase TEST, and when they have them."""

    file: TextFile
    name: str
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    layers: tuple[Layer, ...]
    excluded: tuple[tuple[Layer, str], ...] = ()


def input_hint(blob: str) -> str:
    """What to write where a blob is to come from outside."""
    return (
        f'write in its place: layer {{ name: "{blob}" type: "Input" top: "{blob}" '
        "input_param { shape { dim: 1 dim: 3 dim: 224 dim: 224 } } }"
    )


def read_net(
    file: TextFile, known: Collection[str], own: Collection[str], refused: Mapping[str, str] | None = None
) -> Net:
    """Read a prototxt. known: types of layers that Caffe has; own: those of the user's; refused: others that
    Caffe has, and why these cannot be had.

    Errors: ModelError with line and column for what is not in the format, fields that do not exist, layers
    that read data bases, and types that nobody knows or that are refused (all of them).
    """
    return _Reader(file, known, own, refused or {}).net()


def parameter_message(kind: str) -> str:
    """The name of the field with a type's parameters; empty where it has none."""
    if kind in _PARAMETERS:
        return _PARAMETERS[kind]
    fields: Collection[str] = message("LayerParameter").DESCRIPTOR.fields_by_name
    found = {name.replace("_", ""): name for name in fields}
    return found.get(kind.lower() + "param", "")


def plain(parameters: Any) -> dict[str, Any]:
    """The fields of a message by name: repeated ones as tuples, enums by their names, messages as mappings.
    What is neither set nor has a default is not there."""
    found: dict[str, Any] = {}
    for about in parameters.DESCRIPTOR.fields:
        value = getattr(parameters, about.name)
        if hasattr(value, "DESCRIPTOR"):
            if parameters.HasField(about.name):
                found[about.name] = plain(value)
        elif isinstance(value, (str, bytes, bool, int, float)):
            if about.has_default_value or parameters.HasField(about.name):
                found[about.name] = _plain(about, value)
        elif len(value):
            found[about.name] = tuple(_plain(about, one) for one in value)
    return found


def _plain(about: Any, value: Any) -> Any:
    if hasattr(value, "DESCRIPTOR"):
        return plain(value)
    return about.enum_type.values_by_number[value].name if about.enum_type is not None else value


_NOBODYS = "Caffe has no layers of that type, nor has your workspace"


class _Reader:
    def __init__(
        self, file: TextFile, known: Collection[str], own: Collection[str], refused: Mapping[str, str]
    ) -> None:
        self.file = file
        self.known = known
        self.own = own
        self.refused = refused
        self.tree = file.tree()

    def net(self) -> Net:
        around = [one for one in self.tree.fields if one.name not in ("layer", "layers")]
        self.check_fields(Block(tuple(around)), message("NetParameter").DESCRIPTOR, "a net")
        blocks = self.tree.all("layer") + self.tree.all("layers")
        old = self.check_blocks(blocks)
        heads = [self.head(block, old) for block in blocks]
        state = self.state()
        kept = [
            (block, head) for block, head in zip(blocks, heads, strict=True) if self.is_in(block, head, state)
        ]
        self.check_types([head for _, head in kept])
        starts = {block.start for block, _ in kept}
        excluded = [
            (head, self.rules(block, head, state))
            for block, head in zip(blocks, heads, strict=True)
            if block.start not in starts
        ]
        schema = message("V1LayerParameter" if old else "LayerParameter").DESCRIPTOR
        read = set()  # where those begin that protobuf reads
        for block, head in kept:
            if head.kind in self.known and head.kind not in self.own:
                self.check_fields(block.value, schema, head.title)
                read.add(block.start)
        net = self.parsed([block for block in blocks if block.start not in read])
        parameters = iter(net.layers if old else net.layer)
        layers = [
            self.with_parameters(head, next(parameters)) if head.at in read else self.with_fields(head, block)
            for block, head in kept
        ]
        return Net(self.file, net.name, self.inputs(net), tuple(layers), tuple(excluded))

    def check_blocks(self, blocks: Sequence[Field]) -> bool:
        """Whether the layers are of the format V1."""
        file = self.file
        if not blocks and not self.tree.all("input"):
            raise ModelError(f"{file.name} is not a net of Caffe's: it has no layers")
        for block in blocks:
            if not isinstance(block.value, Block) or not file.text.startswith(block.name, block.start):
                raise file.error(block.start, f"{block.name} {{ ... }} is wanted here, once for each layer")
            if block.name != blocks[0].name:
                raise file.error(
                    block.start, "the file has both `layer` and `layers`: all are to be of one kind"
                )
            if block.name == "layers" and block.value.all("layer"):
                raise file.error(
                    block.start,
                    "the net is in Caffe's first format (V0: `layers { layer { ... } }`)",
                    "upgrade_net_proto_text of a later Caffe writes it in a newer one",
                )
        return bool(blocks) and blocks[0].name == "layers"

    def head(self, block: Field, old: bool) -> Layer:
        """What all layers have, and no more."""
        names = [self.text(one) for one in block.value.all("name")]
        kinds = [self.text(one) for one in block.value.all("type")]
        if len(kinds) != 1:
            raise self.file.error(block.start, f"the layer {' '.join(names[:1])!r} has {len(kinds)} types")
        kind = self.upgraded(block.value.all("type")[0]) if old else kinds[0]
        bottoms, tops = (tuple(self.text(one) for one in block.value.all(end)) for end in ("bottom", "top"))
        shared = []
        for one in block.value.all("param"):
            given = one.value.values().get("name", "") if isinstance(one.value, Block) else one.value
            shared.append(str(given))
        return Layer(names[-1] if names else "", kind, bottoms, tops, block.start, shared=tuple(shared))

    def text(self, found: Field) -> str:
        if not isinstance(found.value, str):
            raise self.file.error(found.start, f"the field {found.name} is a text in quotes")
        return found.value

    def upgraded(self, found: Field) -> str:
        """The type of a layer of the format V1, from its word."""
        words = message("V1LayerParameter").DESCRIPTOR.enum_types_by_name["LayerType"].values_by_name
        word = str(found.value)
        if word not in words:
            meant = closest(word, words) or closest(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper(), words)
            raise self.file.error(
                found.start,
                f"`layers` have no type {word}" + (f"; did you mean {meant}?" if meant else ""),
                'in files with `layers` it is a word such as CONVOLUTION; `layer` has texts, "Convolution"',
            )
        if word in _SPELLED:
            return _SPELLED[word]
        known = {kind.lower(): kind for kind in (*self.known, *self.own, *self.refused, *DROPPED, *DATA)}
        flat = word.replace("_", "").lower()
        return known.get(flat, "".join(part.capitalize() for part in word.split("_")))

    def state(self) -> Mapping[str, Any]:
        """What the rules of layers are about; the phase is always TEST."""
        found: dict[str, Any] = {"phase": "TEST", "level": 0, "stage": ()}
        for one in self.tree.all("state"):
            found |= self.values(one, message("NetState").DESCRIPTOR)
        if found["phase"] != "TEST":
            raise self.file.error(
                self.tree.all("state")[-1].start, "the net's state is TRAIN; what runs is a net of phase TEST"
            )
        return {**found, "stage": _words(found["stage"])}

    def is_in(self, block: Field, head: Layer, state: Mapping[str, Any]) -> bool:
        """Whether the rules of a layer have it in the net."""
        include, exclude = (block.value.all(name) for name in ("include", "exclude"))
        if include and exclude:
            raise self.file.error(block.start, f"{head.title} has rules to include and to exclude it")
        met = any(self.is_met(rule, state) for rule in include or exclude)
        return met if include else not met

    def rules(self, block: Field, head: Layer, state: Mapping[str, Any]) -> str:
        """When a layer would be in the net that its rules leave out."""
        if self.is_in(block, head, {**state, "phase": "TRAIN"}):
            return "in phase TRAIN alone"
        return "only where its rules (include, exclude) have it"

    def is_met(self, rule: Field, state: Mapping[str, Any]) -> bool:
        said = self.values(rule, message("NetStateRule").DESCRIPTOR)
        low, high = said.get("min_level", state["level"]), said.get("max_level", state["level"])
        if not isinstance(low, int) or not isinstance(high, int):
            raise self.file.error(rule.start, "the levels of a rule are whole numbers")
        return (
            said.get("phase", state["phase"]) == state["phase"]
            and low <= state["level"] <= high
            and set(_words(said.get("stage", ()))) <= set(state["stage"])
            and not set(_words(said.get("not_stage", ()))) & set(state["stage"])
        )

    def check_types(self, layers: Sequence[Layer]) -> None:
        known = {*self.known, *self.own}
        unknown = []
        for layer in layers:
            if layer.kind in DATA and layer.kind not in known:
                top = layer.tops[0] if layer.tops else "data"
                raise self.file.error(
                    layer.at,
                    f"{layer.title} reads images from where the net was trained",
                    input_hint(top),
                )
            if layer.kind not in known and not layer.is_dropped:
                unknown.append(layer)
        if not unknown:
            return
        place = self.file.place(unknown[0].at)
        texts = [
            f"{layer.title}: {self.refused[layer.kind]}"
            if layer.kind in self.refused
            else f"{layer.title}{did_you_mean(layer.kind, known)}: {_NOBODYS}"
            for layer in unknown
        ]
        rest = "".join(
            f"\n  {self.file.place(layer.at)}: {text}"
            for layer, text in zip(unknown[1:], texts[1:], strict=True)
        )
        raise ModelError(
            f"{place}: {texts[0]}{rest}",
            hint=f"add_layer NAME 1 --caffe {unknown[0].kind} makes one of your own",
        )

    def values(self, field: Field, schema: Any) -> dict[str, Any]:
        """The fields of a message that holds numbers and texts alone."""
        if not isinstance(field.value, Block):
            raise self.file.error(field.start, f"{field.name} is a message: {field.name} {{ ... }}")
        self.check_fields(field.value, schema, field.name)
        for one in field.value.fields:
            if isinstance(one.value, Block):
                raise self.file.error(one.start, f"{field.name}: {one.name} is no message")
        return dict(field.value.values())

    def check_fields(self, block: Any, schema: Any, what: str) -> None:
        """Refuse fields that a message does not have, with what was probably meant."""
        if not isinstance(block, Block):
            return  # protobuf says so
        for one in block.fields:
            about = schema.fields_by_name.get(one.name)
            if about is None:
                meant = did_you_mean(one.name, schema.fields_by_name)
                raise self.file.error(
                    one.start, f"{what} has no field {one.name!r}{meant}", self.hint(one.name)
                )
            if about.message_type is not None:
                self.check_fields(one.value, about.message_type, f"{what}: {one.name}")
            words = [] if about.enum_type is None else list(about.enum_type.values_by_name)
            if words and isinstance(one.value, str) and one.value not in words:
                raise self.file.error(
                    one.start,
                    f"{what}: {one.name} cannot be {one.value}{did_you_mean(one.value, words)}",
                    f"it is one of {', '.join(words)}",
                )

    def hint(self, name: str) -> str:
        solver = {"net", "train_net", "test_net", "base_lr", "lr_policy", "max_iter", "snapshot_prefix"}
        return "this is a solver's file; the one with the net is wanted" if name in solver else ""

    def parsed(self, left: list[Field]) -> Any:
        """The file as protobuf reads it, without some of the layers."""
        from google.protobuf import text_format

        net = message("NetParameter")()
        try:
            text_format.Parse(self.file.without(left), net)
        except text_format.ParseError as error:
            text = re.sub(r"^\d+:\d+ ?: ?(?:'.*': )?", "", str(error)).replace("caffe.", "")
            line, column = error.GetLine() or 1, error.GetColumn() or 1
            raise ModelError(f"{self.file.name}:{line}:{column}: {text}") from None
        return net

    def with_parameters(self, head: Layer, layer: Any) -> Layer:
        name = parameter_message(head.kind)
        attributes: dict[str, Any] = {}
        if name and name in layer.DESCRIPTOR.fields_by_name:
            missing = getattr(layer, name).FindInitializationErrors()
            if missing:
                raise self.file.error(head.at, f"{head.title}: {name} lacks {', '.join(missing)}")
            attributes = plain(getattr(layer, name))
        elif name:
            attributes = plain(getattr(message("LayerParameter")(), name))
        return Layer(head.name, head.kind, head.bottoms, head.tops, head.at, attributes, shared=head.shared)

    def with_fields(self, head: Layer, block: Field) -> Layer:
        """A layer of the user's own, or one that is left out."""
        fields = {name: value for name, value in block.value.values().items() if name not in _COMMON}
        return Layer(
            head.name, head.kind, head.bottoms, head.tops, head.at, fields=fields, shared=head.shared
        )

    def inputs(self, net: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The net's own inputs. Four numbers of input_dim for each, or an input_shape, or none."""
        names = tuple(net.input)
        shapes = [tuple(int(n) for n in shape.dim) for shape in net.input_shape]
        dims = [int(n) for n in net.input_dim]
        if shapes and dims:
            raise ModelError(f"{self.file.name} has both input_dim and input_shape")
        if dims and len(dims) != 4 * len(names):
            raise ModelError(
                f"{self.file.name} has {len(dims)} input_dim; {len(names)} inputs need four of them each"
            )
        shapes = shapes or [tuple(dims[i : i + 4]) for i in range(0, len(dims), 4)]
        if len(shapes) == 1:
            shapes *= len(names)
        if shapes and len(shapes) != len(names):
            raise ModelError(f"{self.file.name} has {len(names)} inputs and {len(shapes)} input_shape")
        return tuple(zip(names, shapes or [()] * len(names), strict=True))


def _words(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
