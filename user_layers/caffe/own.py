"""Layers that Caffe does not have: what a user's function makes of each, and where such functions are found.

caffe/NAME.py of a workspace:

    from tpulayer.caffe import CaffeLayer, caffe_layer

    @caffe_layer("TPUDetectOut")
    def detect_out(graph, layer: CaffeLayer) -> None:
        p = layer.message("detect_out_param")
        graph.add_tpu_layer("TPU_DETECT_OUT", layer.bottoms, {"top_k": p.integer("top_k", 100)}, layer.tops)

A program may use the decorator too, for the models that it reads itself.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Container, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from firmware_sim.errors import SourceError, TpulayerError, UsageError
from firmware_sim.shown import count as counted
from user_layers.caffe.message import Message
from user_layers.graph.graph import GraphBuilder
from user_layers.onnx.custom import MapFunction, MappedNode
from user_layers.spelling.foreign import Array, Tensor
from user_layers.toolkit import Toolkit
from user_layers.workspace import Workspace


class CaffeLayer(Message):
    """A layer of a prototxt as its function gets it. Its fields are read as those of a message; what every
    layer of Caffe has (name, type, bottom, top, param, include, ...) is not among them.

    type, name: as the prototxt has them. bottoms: names of tensors in the graph, tops: names that the
    function must give to outputs of layers; shapes: of the bottoms, in elements. where: "FILE:LINE", for
    messages.
    """

    def __init__(
        self,
        type: str,
        name: str,
        bottoms: Sequence[str],
        tops: Sequence[str],
        shapes: Sequence[Sequence[int]],
        fields: Mapping[str, Any],
        weights: Sequence[Array] = (),
        where: str = "",
    ) -> None:
        super().__init__(f"{f'{where}: ' if where else ''}layer {name!r} ({type})", fields)
        self.type = type
        self.name = name
        self.bottoms = tuple(bottoms)
        self.tops = tuple(tops)
        self.shapes = tuple(tuple(shape) for shape in shapes)
        self.where = where
        self._weights = tuple(weights)
        self._weights_read = False

    def __repr__(self) -> str:
        return f"<CaffeLayer {self.name!r} ({self.type}): {list(self.bottoms)} -> {list(self.tops)}>"

    @property
    def weights(self) -> tuple[Array, ...]:
        """Its blobs in the caffemodel, float32 arrays. Where there are some and nobody looks at them, that is
        an error."""
        self._weights_read = True
        return self._weights

    def expect(
        self,
        *,
        bottoms: int | tuple[int, int] | None = None,
        tops: int | tuple[int, int] | None = None,
        weights: int | tuple[int, int] | None = None,
    ) -> None:
        """Refuse a layer with another number of these: exactly so many, or from the fewest to the most."""
        if weights is not None:
            self._weights_read = True
        for one, many, found, wanted in (
            ("bottom", "bottoms", len(self.bottoms), bottoms),
            ("top", "tops", len(self.tops), tops),
            ("blob of weights", "blobs of weights", len(self._weights), weights),
        ):
            fewest, most = (wanted, wanted) if isinstance(wanted, int) else wanted or (found, found)
            if not fewest <= found <= most:
                number = str(most) if fewest == most else f"{fewest} to {most}"
                raise self.error(f"it has {found} {one if found == 1 else many}; expected {number}")

    def check_read(self, by: str) -> None:
        """Refuse fields, and weights, that nobody has read. by: who reads."""
        super().check_read(by)
        if self._weights and not self._weights_read:
            raise self.error(
                f"{by} does not read its {counted(len(self._weights), 'blob')} of weights",
                hint="they are in layer.weights; layer.expect(weights=0) refuses layers that have some",
            )

    def placed(
        self, bottoms: Sequence[str], tops: Sequence[str], shapes: Sequence[Sequence[int]]
    ) -> CaffeLayer:
        """The same layer between other tensors, of which nothing has been read yet."""
        return CaffeLayer(
            self.type, self.name, bottoms, tops, shapes, self._fields, self._weights, self.where
        )


LayerFunction = Callable[[Any, CaffeLayer], None]
"""Adds the layers of a Caffe layer to the graph that is its first argument (a GraphBuilder, or a Graph)."""
F = TypeVar("F", bound=LayerFunction)


@dataclass(frozen=True)
class OwnLayer:
    """What becomes of the layers of one type. place: where it is registered, for messages."""

    type: str
    place: str
    function: LayerFunction

    def add(self, graph: GraphBuilder, layer: CaffeLayer) -> None:
        """Have the layer added. Errors: CompileError that names layer and place, for what the function does
        not read or make, and for what goes wrong in it."""
        try:
            self.function(graph, layer)
        except TpulayerError as error:
            raise layer.named(error) from None
        except Exception as error:
            raise layer.error(
                f"{_line_in(error, self._file) or self.place}: {type(error).__name__}: {error}"
            ) from error
        missing = [name for name in layer.tops if not graph.has_tensor(name)]
        if missing:
            raise layer.error(
                f"{self.place} did not make {', '.join(missing)}",
                hint="give layer.tops to layers as their outputs",
            )
        layer.check_read(self.place)

    @property
    def _file(self) -> str:
        code = getattr(self.function, "__code__", None)
        return str(code.co_filename) if code else ""

    def shapes(self, layer: CaffeLayer, toolkit: Toolkit) -> tuple[Tensor, ...]:
        """Shapes and types of the layer's tops, by adding it to a graph of its own, whose inputs are the
        bottoms. Errors: as from `add`, and of the layers' shape functions."""
        graph = GraphBuilder(name="alone", toolkit=toolkit)
        names = {bottom: f"bottom{i}" for i, bottom in enumerate(dict.fromkeys(layer.bottoms))}
        for bottom, shape in dict(zip(layer.bottoms, layer.shapes, strict=True)).items():
            graph.add_input(names[bottom], shape)
        tops = [f"top{i}" for i in range(len(layer.tops))]
        alone = layer.placed([names[bottom] for bottom in layer.bottoms], tops, layer.shapes)
        self.add(graph, alone)
        try:
            net = graph.resolve(tops)
        except TpulayerError as error:
            raise layer.named(error) from None
        return tuple(
            Tensor(net.tensors[top].shape, np.dtype(net.tensors[top].dtype.numpy_name)) for top in tops
        )

    def mapped(self, layer: CaffeLayer) -> MapFunction:
        """What the ONNX converter calls for the node that stands for this layer: its first inputs are the
        bottoms, its outputs the tops."""

        def add(graph: Any, node: MappedNode) -> None:
            number = len(layer.bottoms)
            bottoms = [name for name in node.inputs[:number] if name is not None]
            if len(bottoms) != number:
                raise layer.error("one of its bottoms is a tensor that the device cannot hold")
            shapes = [found or known for found, known in zip(node.shapes, layer.shapes, strict=False)]
            self.add(graph, layer.placed(bottoms, node.outputs, shapes))

        return add


_registered: dict[str, OwnLayer] = {}
_TARGET: ContextVar[dict[str, OwnLayer]] = ContextVar("_TARGET", default=_registered)
"""Where the decorator puts layers: while files of a workspace are read, among those of the workspace."""


def caffe_layer(type: str) -> Callable[[F], F]:
    """Say what becomes of Caffe layers of a type that Caffe does not have.

    The function gets the graph and a `CaffeLayer`; it reads the layer's fields, checks them and adds layers
    (add_tpu_layer) that make the tops. Errors: UsageError where the type has a function already.
    """
    if not isinstance(type, str) or not type:
        raise UsageError(
            f"caffe_layer({type!r}): expected a type", hint='for example @caffe_layer("TPUCrop")'
        )

    def register(function: F) -> F:
        target = _TARGET.get()
        code = getattr(function, "__code__", None)
        place = f"{_short(code.co_filename)}:{code.co_firstlineno}" if code else repr(function)
        known = target.get(type)
        if known is not None and not (target is _registered and _same(known.function, function)):
            raise _two(known, place)
        target[type] = OwnLayer(type, place, function)
        return function

    return register


def own_layers(workspace: Workspace | None, taken: Container[str] = ()) -> Mapping[str, OwnLayer]:
    """The own layers by type: of the workspace's folder caffe/, and of this program. Files that have not
    changed are read once.

    taken: the types that Caffe itself has, which nobody may replace. Errors: UsageError for such a type, and
    for one with two functions; SourceError with file and line for a file that cannot be read.
    """
    found: dict[str, OwnLayer] = {}
    for layer in [*(_of_folder(workspace.caffe_dir) if workspace else {}).values(), *_registered.values()]:
        if layer.type in found:
            raise _two(found[layer.type], layer.place)
        if layer.type in taken:
            raise UsageError(
                f"{layer.place}: Caffe itself has layers of type {layer.type!r}",
                hint="give yours a type of its own, for example TPU" + layer.type,
            )
        found[layer.type] = layer
    return found


_State = tuple[tuple[Path, int, int], ...]
_read: dict[Path, tuple[_State, dict[str, OwnLayer]]] = {}


def _of_folder(folder: Path) -> dict[str, OwnLayer]:
    files = sorted(folder.glob("*.py"))
    state = tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
    known = _read.get(folder)
    if known is None or known[0] != state:
        layers: dict[str, OwnLayer] = {}
        before = _TARGET.set(layers)
        try:
            for path in files:
                _run_file(path)
        finally:
            _TARGET.reset(before)
        known = _read[folder] = state, layers
    return known[1]


def _run_file(path: Path) -> None:
    spec = spec_from_file_location(f"tpulayer_caffe_{path.stem}", path)
    assert spec is not None and spec.loader is not None  # its name ends with .py
    try:
        spec.loader.exec_module(module_from_spec(spec))
    except TpulayerError:
        raise
    except SyntaxError as error:
        raise SourceError(f"{_short(error.filename or path)}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        place = _line_in(error, str(path)) or _short(path)
        raise SourceError(f"{place}: {type(error).__name__}: {error}") from error


def _two(known: OwnLayer, place: str) -> UsageError:
    return UsageError(
        f"Caffe layers of type {known.type!r} are registered twice: {known.place} and {place}",
        hint="keep one of them",
    )


def _same(one: LayerFunction, other: LayerFunction) -> bool:
    """Whether it is one function that was defined again, as at a prompt."""
    names = [(getattr(f, "__module__", ""), getattr(f, "__qualname__", f)) for f in (one, other)]
    return names[0] == names[1]


def _line_in(error: BaseException, file: str) -> str:
    """The innermost line of a file that an error came through, as `caffe/detect.py:12`."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{_short(file)}:{frames[-1].lineno}" if frames else ""


def _short(file: str | Path) -> str:
    return "/".join(Path(file).parts[-2:])
