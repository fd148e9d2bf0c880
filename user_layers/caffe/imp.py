"""Own Caffe layers in C++: libimpbmnetu.so (sdk/include/imp_bmnetu.h), asked in a child process.

A library's `add` runs there, on fields and weights that are sent along; the layers that it adds come back and
are added to the graph here. So a crash or an endless loop in it is an error message. What it prints goes to
stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim.errors import CompileError, TpulayerError
from firmware_sim.processes.process import Child, Crash
from firmware_sim.processes.process_child import MAX_PAYLOAD
from user_layers.caffe.layer import CaffeLayer
from user_layers.graph.graph import GraphBuilder
from user_layers.net.nodes import called
from user_layers.plugin import find_imp_libraries
from user_layers.toolkit import Toolkit

LIMIT = 10.0  # s for one layer: it reads some fields


@dataclass(frozen=True)
class ImpType:
    """A type of layers in a library. place: the line that registers it."""

    type: str
    path: Path
    place: str


class ImpLibraries:
    """The libraries at `paths`, loaded in a child process that starts when it is first asked.

    Errors: UsageError for a file that is no such library, or one for another version of its header;
    CompileError for a layer that its `add` refuses, and where that crashes or does not end.
    """

    def __init__(self, paths: Sequence[Path], *, limit: float = LIMIT) -> None:
        self.paths = tuple(paths)
        self._limit = limit
        self._child: Child | None = None
        self._quiet = False  # what it prints has been shown
        self._types: tuple[ImpType, ...] | None = None

    @classmethod
    def of(cls, toolkit: Toolkit) -> ImpLibraries:
        """Those beside the toolkit's plugins; they are closed with it."""
        return toolkit.keep("imp_bmnetu", lambda: cls(find_imp_libraries(toolkit.workspace)))

    def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def types(self) -> tuple[ImpType, ...]:
        """What the libraries register."""
        if self._types is None:
            rows: Any = self._request({"op": "types"})[0]["types"] if self.paths else []
            self._types = tuple(ImpType(kind, Path(path), place) for kind, path, place in rows)
        return self._types

    def add(self, of: ImpType, graph: GraphBuilder, layer: CaffeLayer) -> None:
        """Add what the library makes of a layer. Errors: CompileError, with the library's own text."""
        weights = [np.ascontiguousarray(array, np.float32) for array in layer.weights]
        size = sum(array.nbytes for array in weights)
        if size > MAX_PAYLOAD:
            raise layer.error(f"its weights are too large for a layer in C++: {size} of {MAX_PAYLOAD} bytes")
        header: dict[str, object] = {
            "op": "add",
            "type": of.type,
            "name": layer.name,
            "where": layer.where,
            "bottoms": layer.bottoms,
            "tops": layer.tops,
            "shapes": layer.shapes,
            "fields": layer.raw(),
            "weights": [array.shape for array in weights],
        }
        self._quiet = layer.again
        reply, payload = self._request(header, b"".join(array.tobytes() for array in weights))
        at = 0
        added: Any = reply["added"]
        with called(of.place):
            for row in added:
                data = payload[at : at + row.pop("size")]
                at += len(data)
                if "const" in row:
                    graph.add_const(row["const"], np.frombuffer(data, np.float32).reshape(row["shape"]))
                else:
                    graph.add_tpu_layer(layer_param=data, **row)

    def _request(self, header: dict[str, object], payload: bytes = b"") -> tuple[dict[str, object], bytes]:
        if self._child is None or not self._child.alive:
            self._child = Child(
                "user_layers.caffe.imp_child",
                [str(path.resolve()) for path in self.paths],
                limit=self._limit,
                name="Caffe layers in C++",
                crashed=_crashed,
                on_output=self._print,
            )
        return self._child.request(header, payload)

    def _print(self, text: str) -> None:
        if not self._quiet:
            sys.stderr.write(text)
            sys.stderr.flush()


def _crashed(crash: Crash) -> TpulayerError:
    text = f"{crash.activity or 'the process of libimpbmnetu.so'} {crash.what}"
    detail = crash.output.strip().splitlines()[-5:]
    if detail:
        text += "\n  it wrote: " + "\n            ".join(detail)
    return CompileError(text, hint="look for a null pointer, a wrong index or an endless loop in its add()")
