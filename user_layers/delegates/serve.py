"""The process behind compilers in C (sdk/delegate/core/compiler.c): it divides models and compiles parts.

A request is JSON and data, into which it points with [offset, bytes]:

    {"ask": "divide" or "compile", "what": "TFLite", "models": [MODEL, ...],
     "opt": 2, "dynamic": false, "workspace": "/home/me/layers", "consecutive": false, "most": 0}
    MODEL      {"name": "part_0", "tensors": [TENSOR, ...], "inputs": [INDEX, ...], "outputs": [INDEX, ...],
                "operations": [OPERATION, ...], "shapes": {"x": [1, 8, 8, 3]}}
    TENSOR     {"name": "x", "shape": [1, 4, 4, 3], "dtype": "float32", "data": [OFFSET, BYTES] or null}
    OPERATION  {"kind": "CONV_2D", "name": "conv_1", "inputs": [INDEX or -1, ...], "outputs": [INDEX, ...],
                "attributes": {"stride_h": 2}, "own": false}

The last five members of a request and "shapes" (of inputs, other than the tensors say) may be left out;
"consecutive" and "most" are those of `plan`.
dtype null: no array of numbers or bools. An attribute is a number, a text, a list of these, {"bytes":
[OFFSET, BYTES]}, or {"shape": [2], "dtype": "int32", "data": [OFFSET, BYTES]}.

The reply to `divide` has a text for each operation of each model, each ended by a zero byte: the number of
its piece in that model (0, 1, ...), or a minus and why it stays with the framework. The operations of a piece
compile as one model. The reply to `compile` is a program (program.py) with a partition of each model's name.
What is wrong is an error with one text, and the process goes on.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from firmware_sim.device.host_server import main as serve
from firmware_sim.errors import DeviceError, ModelError, TpulayerError, UsageError
from user_layers.delegates.compile import compile_partition
from user_layers.delegates.plan import Plan, plan
from user_layers.delegates.program import pack
from user_layers.delegates.verdicts import Remembered
from user_layers.formats import FORMATS, find
from user_layers.spelling.foreign import QUANTIZED, Array, ForeignModel, Operation, Scaled, Tensor
from user_layers.spelling.spell import Spellings
from user_layers.toolkit import Toolkit

_ASK = 96  # OP_ASK of compiler.c
ROOMS = {row.what: row.spellings for row in FORMATS.values()}
"""Where the spellings of a framework are, by its name: "MODULE:NAME". A function `from_message` in the module
gets each model as it came and returns what it means."""


class Server:
    """Answers requests; rooms: as ROOMS."""

    def __init__(self, rooms: Mapping[str, str] = ROOMS) -> None:
        self._rooms = rooms
        self._toolkits: dict[str, Toolkit] = {}
        self._remembered: dict[tuple[str, str], Remembered] = {}

    def executed(self) -> tuple[int, int]:
        """Nothing: nobody asks what the compiler's device does."""
        return 0, 0

    def close(self) -> None:
        """End the child processes."""
        for toolkit in self._toolkits.values():
            toolkit.close()
        self._toolkits.clear()

    def answer(self, op: int, text: str, a: int, b: int, c: int, data: bytes) -> tuple[int, bytes] | None:
        """(0, the reply's data). TpulayerError for all that is wrong."""
        if op != _ASK:
            raise UsageError(f"unknown request {op} from libtpulayer_delegate.so")
        try:
            return 0, self._ask(json.loads(text), data)
        except TpulayerError:
            raise
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise ModelError(
                f"the request is damaged, or the toolkit: {type(error).__name__}: {error} ({where.name})"
            ) from None
        except Exception as error:  # a mistake of the toolkit's is an error of this request alone
            raise DeviceError(f"internal error: {type(error).__name__}: {error}") from error

    def _ask(self, request: dict[str, Any], data: bytes) -> bytes:
        what, ask = str(request["what"]), str(request["ask"])
        spellings, from_message = self._room(what)
        models = [from_message(read_model(what, one, data)) for one in request["models"]]
        workspace = str(request.get("workspace") or "")
        toolkit = self._toolkit(workspace)
        opt, dynamic = int(request.get("opt", 2)), bool(request.get("dynamic", False))
        if ask == "divide":
            known = self._remembered.setdefault((what, workspace), {})
            plans = [
                plan(
                    model,
                    spellings,
                    toolkit,
                    remembered=known,
                    dynamic=dynamic,
                    opt=opt,
                    consecutive=bool(request.get("consecutive", False)),
                    most=int(request.get("most", 0)),
                )
                for model in models
            ]
            return b"".join(map(_told, plans))
        if ask != "compile":
            raise UsageError(f"unknown request {ask!r}: it is divide or compile")
        return pack(
            [
                compile_partition(
                    model,
                    spellings,
                    name=model.name,
                    toolkit=toolkit,
                    opt=opt,
                    dynamic=dynamic,
                    shapes=one.get("shapes"),
                )
                for model, one in zip(models, request["models"], strict=True)
            ]
        )

    def _room(self, what: str) -> tuple[Spellings, Any]:
        if what not in self._rooms:
            raise UsageError(f"no operations of {what!r} are known; known are {', '.join(self._rooms)}")
        place = self._rooms[what]
        room = import_module(place.partition(":")[0])
        return find(place), getattr(room, "from_message", lambda model: model)

    def _toolkit(self, workspace: str) -> Toolkit:
        if workspace not in self._toolkits:
            self._toolkits[workspace] = Toolkit(workspace or None)
        return self._toolkits[workspace]


def _told(made: Plan) -> bytes:
    texts = [f"-{why}" for why in made.reasons]
    for number, piece in enumerate(made.pieces):
        for index in piece:
            texts[index] = str(number)
    return b"".join(text.replace("\0", " ").encode(errors="replace") + b"\0" for text in texts)


def read_model(what: str, message: dict[str, Any], data: bytes) -> ForeignModel:
    """A MODEL of a request. Raises ValueError and the like for what is none."""
    names: list[str] = []
    tensors: dict[str, Tensor] = {}
    for one in message["tensors"]:
        name = str(one["name"])
        while name in tensors:  # two of a name stay two
            name += "'"
        names.append(name)
        tensors[name] = _tensor(one, data)
    operations = tuple(
        Operation(
            str(one["kind"]),
            str(one["name"]),
            tuple(None if i < 0 else names[i] for i in one["inputs"]),
            tuple(_named(names, one["outputs"])),
            {key: _attribute(value, data) for key, value in one.get("attributes", {}).items()},
            bool(one.get("own", False)),
        )
        for one in message["operations"]
    )
    inputs, outputs = (tuple(_named(names, message[key])) for key in ("inputs", "outputs"))
    return ForeignModel(what, str(message["name"]), tensors, inputs, outputs, operations)


def _named(names: Sequence[str], indices: Sequence[int]) -> list[str]:
    if min(indices, default=0) < 0:
        raise ValueError(f"a tensor with the index {min(indices)}")
    return [names[i] for i in indices]


def _piece(place: Sequence[int], data: bytes) -> bytes:
    offset, size = map(int, place)
    if offset < 0 or size < 0 or offset + size > len(data):
        raise ValueError(f"{size} bytes at {offset} of {len(data)}")
    return data[offset : offset + size]


def _array(message: dict[str, Any], data: bytes) -> Array:
    piece = _piece(message["data"], data)
    return np.frombuffer(piece, np.dtype(message["dtype"])).reshape([int(n) for n in message["shape"]])


def _tensor(message: dict[str, Any], data: bytes) -> Tensor:
    shape = tuple(int(extent) for extent in message["shape"])
    if message.get("scaled") is not None:
        return Tensor(shape, None, odd=QUANTIZED, scaled=_scaled(message["scaled"], data))
    if message["dtype"] is None:
        return Tensor(shape, None)
    values = None if message.get("data") is None else _array(message, data)
    return Tensor(shape, np.dtype(message["dtype"]), values)


def _scaled(message: dict[str, Any], data: bytes) -> Scaled:
    values = None if message.get("stored") is None else _array(message["stored"], data)
    scales, zero_points = (_array(message[name], data) for name in ("scales", "zero_points"))
    return Scaled(np.dtype(message["dtype"]), scales, zero_points, int(message["axis"]), values)


def _attribute(value: Any, data: bytes) -> Any:
    if isinstance(value, list):
        return tuple(_attribute(one, data) for one in value)
    if isinstance(value, dict):
        return _piece(value["bytes"], data) if "bytes" in value else _array(value, data)
    return value


def main() -> None:
    """Serve the C library; see firmware_sim.device.host_server."""
    serve(lambda number, program: Server())
