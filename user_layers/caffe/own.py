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

import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from firmware_sim.errors import SourceError, TpulayerError, UsageError
from user_layers.caffe.imp import ImpLibraries, ImpType
from user_layers.caffe.layer import CaffeLayer
from user_layers.files import run_python
from user_layers.graph.graph import GraphBuilder
from user_layers.onnx.custom import MapFunction, MappedNode
from user_layers.spelling.foreign import Tensor
from user_layers.toolkit import Toolkit

LayerFunction = Callable[[Any, CaffeLayer], None]
"""Adds the layers of a Caffe layer to the graph that is its first argument (a GraphBuilder, or a Graph)."""
F = TypeVar("F", bound=LayerFunction)


@dataclass(frozen=True)
class OwnLayer:
    """What becomes of the layers of one type. place: where it is registered, for messages; advice: how the
    function makes a top."""

    type: str
    place: str
    function: LayerFunction
    advice: str = "give layer.tops to layers as their outputs"

    def add(self, graph: GraphBuilder, layer: CaffeLayer) -> None:
        """Have the layer added. What the function prints goes to stderr, for a command's stdout may be JSON.
        Errors: CompileError that names layer and place, for what the function does not read or make, and for
        what goes wrong in it."""
        try:
            with redirect_stdout(sys.stderr):
                self.function(graph, layer)
        except TpulayerError as error:
            raise layer.named(error) from None
        except (Exception, SystemExit) as error:
            raise layer.error(
                f"{_line_in(error, self._file) or self.place}: {type(error).__name__}: {error}"
            ) from error
        missing = [f"{name!r} (top {i})" for i, name in enumerate(layer.tops) if not graph.has_tensor(name)]
        if missing:
            raise layer.error(f"{self.place} did not make {', '.join(missing)}", hint=self.advice)
        layer.check_read(self.place)

    @property
    def _file(self) -> str:
        code = getattr(self.function, "__code__", None)
        return str(code.co_filename) if code else ""

    def shapes(self, layer: CaffeLayer, toolkit: Toolkit) -> tuple[Tensor, ...]:
        """Shapes and types of the layer's tops, by adding it to a graph of its own, whose inputs are the
        bottoms. Errors: as from `add`, and of the layers' shape functions."""
        graph = GraphBuilder(name="alone", toolkit=toolkit)
        for bottom, shape in dict(zip(layer.bottoms, layer.shapes, strict=True)).items():
            graph.add_input(bottom, shape)
        self.add(graph, layer.placed(layer.bottoms, layer.tops, layer.shapes))
        try:
            net = graph.resolve(layer.tops)
        except TpulayerError as error:
            raise layer.named(error) from None
        return tuple(
            Tensor(net.tensors[top].shape, np.dtype(net.tensors[top].dtype.numpy_name)) for top in layer.tops
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
            self.add(graph, layer.placed(bottoms, node.outputs, shapes, again=True))

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


def check_type(type: str, place: str) -> None:
    """Refuse a type that Caffe itself has. UsageError."""
    from user_layers.caffe.spellings import known_types  # all spellings

    if type in (*known_types(), "Input"):
        raise UsageError(
            f"{place}: Caffe itself has layers of type {type!r}",
            hint=f"give yours a type of its own, for example TPU{type}",
        )


def own_layers(toolkit: Toolkit) -> Mapping[str, OwnLayer]:
    """The own layers by type: of the folder caffe/ of the toolkit's workspace, of libraries in C++ beside its
    plugins, and of this program. Files that have not changed are read once.

    Errors: UsageError for a type that Caffe itself has, which nobody may replace, and for one with two
    functions; SourceError with file and line for a file that cannot be read.
    """
    workspace = toolkit.workspace
    libraries = ImpLibraries.of(toolkit)
    found: dict[str, OwnLayer] = {}
    for layer in (
        *(_of_folder(workspace.caffe_dir) if workspace else {}).values(),
        *(_of_library(known) for known in libraries.types()),
        *_registered.values(),
    ):
        if layer.type in found:
            raise _two(found[layer.type], layer.place)
        check_type(layer.type, layer.place)
        found[layer.type] = layer
    return found


def _of_library(known: ImpType) -> OwnLayer:
    def add(graph: GraphBuilder, layer: CaffeLayer) -> None:
        ImpLibraries.of(graph.toolkit).add(known, graph, layer)

    place = f"{known.place} ({known.path.name})"
    return OwnLayer(known.type, place, add, "give top(0), top(1) ... to add_tpu_layer among its outputs")


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
    try:
        run_python(path, f"tpulayer_caffe_{path.stem}")
    except TpulayerError:
        raise
    except SyntaxError as error:
        raise SourceError(f"{_short(error.filename or path)}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
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
