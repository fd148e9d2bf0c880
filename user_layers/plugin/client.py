"""Plugins as Python objects. The C++ runs in a child process, so that a crash there is an error
message here; answers are kept, because the compiler asks the same questions often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from firmware_sim.chip import MAX_SHAPE_DIMS, MAX_TENSORS
from firmware_sim.errors import CompileError, TpulayerError, UsageError
from firmware_sim.processes.process import Child, Crash
from firmware_sim.processes.process_child import MAX_PAYLOAD
from firmware_sim.wire import BUILTIN_OP_BASE, DType, Format, StoreMode, TType
from user_layers.plugin.methods import BY_NAME

LIMIT = 10.0  # s for one virtual method: they compute a number
PREPARED = 1e-7  # s more for each byte of constants that one lays out


@dataclass(frozen=True)
class PluginTensor:
    """One tensor of a node, as the descriptor sees it; shape in elements."""

    name: str
    shape: tuple[int, ...]
    dtype: DType = DType.FP32
    ttype: TType = TType.NEURON
    store_mode: StoreMode = StoreMode.N1
    scale: float = 0.0


@dataclass(frozen=True)
class PluginNode:
    """The node that a descriptor is bound to; param are the bytes of the parameter struct."""

    name: str
    op_type: int
    param: bytes
    inputs: tuple[PluginTensor, ...]
    outputs: tuple[PluginTensor, ...]


@dataclass(frozen=True)
class PluginLayer:
    """One layer of a plugin. param_size in bytes; param_hash covers names, types and offsets of the
    parameter struct's fields; path is the plugin's file."""

    op_name: str
    op_type: int
    param_size: int
    param_hash: int
    descriptor: str
    path: Path
    has_local: bool


@dataclass
class Answers:
    """What a descriptor said so far: known, by method and arguments; prepared: by the input's number."""

    known: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)
    prepared: dict[int, tuple[tuple[int, ...], DType] | None] = field(default_factory=dict)


class PluginHost:
    """The plugins at `paths`, loaded in a child process; a context manager.

    Errors, at the first call: UsageError for a file that is not a plugin of this version, or for two
    plugins with the same op_type. A descriptor that crashes, hangs or throws is a CompileError that
    names the layer and the method; after a crash the host is closed.
    """

    def __init__(self, paths: Sequence[Path], *, limit: float = LIMIT) -> None:
        self.paths = tuple(Path(p) for p in paths)
        self._limit = limit
        self._child = Child(
            "user_layers.plugin.host",
            [str(p.resolve()) for p in self.paths],
            limit=limit,
            name="plugin host",
            crashed=_crashed,
        )
        self._layers: tuple[PluginLayer, ...] | None = None
        self._builtin: dict[object, Answers] = {}
        self._failed: TpulayerError | None = None

    def __enter__(self) -> PluginHost:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child process; handles are invalid afterwards."""
        self._child.close()

    def layers(self) -> tuple[PluginLayer, ...]:
        """The layers of all plugins, by op_type."""
        if self._layers is None:
            reply, _ = self.request({"op": "layers"})
            rows = reply["layers"]
            assert isinstance(rows, list)
            self._layers = tuple(PluginLayer(**{**row, "path": Path(row["path"])}) for row in rows)
        return self._layers

    def create(self, node: PluginNode) -> DescriptorHandle:
        """A descriptor bound to a copy of `node`."""
        layer = next((x for x in self.layers() if x.op_type == node.op_type), None)
        if layer is None:
            raise UsageError(
                f"{node.name}: no plugin holds a layer with op_type {node.op_type}",
                hint="run `tpulayer build_layers`",
            )
        for what, tensors in (("inputs", node.inputs), ("outputs", node.outputs)):
            if len(tensors) > MAX_TENSORS:
                raise UsageError(f"{node.name}: {len(tensors)} {what}; a layer has at most {MAX_TENSORS}")
            for t in tensors:
                if len(t.shape) > MAX_SHAPE_DIMS:
                    raise UsageError(
                        f"{node.name}: tensor {t.name} has {len(t.shape)} dimensions, at most "
                        f"{MAX_SHAPE_DIMS} are possible"
                    )
        if len(node.param) != layer.param_size:
            raise UsageError(
                f"{node.name}: {len(node.param)} bytes of parameters; the struct of {layer.op_name} has "
                f"{layer.param_size}"
            )
        reply, _ = self.request(
            {
                "op": "create",
                "name": node.name,
                "op_type": node.op_type,
                "inputs": [_tensor(t) for t in node.inputs],
                "outputs": [_tensor(t) for t in node.outputs],
            },
            node.param,
        )
        answers = Answers()
        if (
            node.op_type >= BUILTIN_OP_BASE
        ):  # they compute from parameters and tensors, whatever their names are
            kinds = tuple(replace(t, name="") for t in (*node.inputs, *node.outputs))
            answers = self._builtin.setdefault((node.op_type, node.param, len(node.inputs), kinds), answers)
        return DescriptorHandle(self, int(str(reply["handle"])), node, layer, str(reply["name"]), answers)

    def request(
        self, header: dict[str, object], payload: bytes = b"", *, more: float = 0.0
    ) -> tuple[dict[str, object], bytes]:
        """Ask the child; for DescriptorHandle. more: seconds that it may take beyond the limit."""
        if self._failed is not None:
            raise self._failed
        if not self._child.alive:
            raise UsageError("the plugin host is closed", hint="ask descriptors inside its `with` block")
        try:
            return self._child.request(header, payload, limit=self._limit + more)
        except TpulayerError as e:
            if not self._child.alive:
                self._failed = e
            raise


def _tensor(t: PluginTensor) -> list[object]:
    return [t.name, list(t.shape), int(t.dtype), int(t.ttype), int(t.store_mode), t.scale]


def _crashed(crash: Crash) -> TpulayerError:
    where = crash.activity or "the plugin host"
    detail = crash.output.strip().splitlines()[-5:]
    text = f"{where} {crash.what}"
    if detail:
        text += "\n  it wrote: " + "\n            ".join(detail)
    return CompileError(text, hint="look for a null pointer, a wrong index or an endless loop in that method")


class DescriptorHandle:
    """A layer's descriptor, bound to one node. The methods are those of the C++ class, with the
    same names; see bmcompiler_tpulayer_host.hpp for their meaning."""

    def __init__(
        self,
        host: PluginHost,
        handle: int,
        node: PluginNode,
        layer: PluginLayer,
        name: str,
        answers: Answers,
    ) -> None:
        self._host = host
        self._handle = handle
        self._known, self._prepared = answers.known, answers.prepared
        self.node = node
        self.layer = layer
        self.name = name  # what get_name() returns

    def call(self, method: str, args: Sequence[int] = ()) -> int:
        """One virtual method by name; its result as an int. CompileError when it fails."""
        self.ask([(method, args)])
        return self._known[method, tuple(int(a) for a in args)]

    def ask(self, calls: Sequence[tuple[str, Sequence[int]]]) -> None:
        """Call virtual methods by name, each with its arguments, in one request: their answers are known
        then. CompileError where one fails; those behind it are not called."""
        keys = ((method, tuple(int(a) for a in args)) for method, args in calls)
        new = [key for key in keys if key not in self._known]
        if new:
            wanted = [[BY_NAME[method].number, list(args)] for method, args in new]
            reply, _ = self._host.request({"op": "call", "handle": self._handle, "calls": wanted})
            results = reply["results"]
            assert isinstance(results, list)
            self._known.update(zip(new, map(int, results), strict=True))

    def must_dynamic_run(self) -> bool:
        """Whether the layer runs dynamically, in a subnet of its own."""
        return bool(self.call("must_dynamic_run"))

    def output_shape_is_dynamic(self) -> bool:
        """Whether the layer and all that follows run dynamically."""
        return bool(self.call("output_shape_is_dynamic"))

    def force_use_global_layer(self) -> bool:
        """Whether groups may not contain the node."""
        return bool(self.call("force_use_global_layer"))

    def can_split_local_h_w(self) -> bool:
        """Whether tiles may be cut along h and w too."""
        return bool(self.call("can_split_local_h_w"))

    def can_inplace(self, dtype: DType) -> bool:
        """Whether the output's tile may take the input tile's memory, for elements of this type."""
        return bool(self.call("can_inplace", [dtype]))

    def can_h_w_dynamic(self) -> bool:
        """Whether height and width may differ from the compiled ones in a dynamic net."""
        return bool(self.call("can_h_w_dynamic"))

    def just_reshape(self) -> bool:
        """Whether the output is the input's bytes under another shape."""
        return bool(self.call("just_reshape"))

    def is_share_mem_layer(self) -> bool:
        """Whether the output lies in the first input's memory in DDR."""
        return bool(self.call("is_share_mem_layer"))

    def get_global_buffer_size(self) -> int:
        """Bytes of DDR that the global function works in."""
        return self.call("get_global_buffer_size")

    def input_type(self, in_idx: int) -> TType:
        """Layout of an input. CompileError for a number that is not a TENSOR_TYPE_T."""
        value = self.call("input_type", [in_idx])
        try:
            return TType(value)
        except ValueError:
            raise CompileError(
                f"layer {self.node.name} ({self.layer.op_name}): {self.layer.descriptor}::input_type"
                f"({in_idx}) returned {value}, which is not a TENSOR_TYPE_T",
                hint="return one of BMNET_NEURON, BMNET_COEFF, BMNET_COEFF_NEURON, BMNET_NEURON_SHAPE",
            ) from None

    def takes(self, in_idx: int) -> Format:
        """Type and store mode in which the functions take an input that is quantised, or of which they want
        integers: input_dtype and input_store_mode. CompileError for a pair that the chip does not have."""
        dtype, mode = self.call("input_dtype", [in_idx]), self.call("input_store_mode", [in_idx])
        taken = Format.of_codes(dtype, mode)
        if taken is not None:
            return taken
        raise CompileError(
            f"layer {self.node.name} ({self.layer.op_name}): {self.layer.descriptor} takes input {in_idx} as "
            f"type {dtype} in store mode {mode}",
            hint="input_dtype returns one of DTYPE_*, input_store_mode STORE_MODE_4N for 8 bits or "
            "STORE_MODE_2N for 16 bits, or STORE_MODE_1N",
        )

    def get_local_buffer_size(self, split_shape: Sequence[int]) -> int:
        """Bytes of local memory per NPU for a tile of these four extents."""
        return self.call("get_local_buffer_size", split_shape)

    def should_input_on_l2mem(self, in_idx: int) -> bool:
        """Whether the input is put in L2."""
        return bool(self.call("should_input_on_l2mem", [in_idx]))

    def prepared(self, in_idx: int) -> tuple[tuple[int, ...], DType] | None:
        """Shape and type that the kernel gets a constant input in; None: those of the graph."""
        if in_idx not in self._prepared:
            reply, _ = self._host.request({"op": "prepared", "handle": self._handle, "input": in_idx})
            shape = reply["shape"]
            assert isinstance(shape, list)
            found = (tuple(shape), DType(int(str(reply["dtype"])))) if shape else None
            self._prepared[in_idx] = found
        return self._prepared[in_idx]

    def prepared_with(self, in_idx: int) -> int:
        """The prepared input that holds the elements of this one; the same number: none."""
        return self.call("prepared_with", [in_idx])

    def prepare(self, in_idx: int, constants: Mapping[int, bytes], nbytes: int) -> bytes:
        """The elements of a constant input as the kernel gets them, `nbytes` of them (see prepared).
        constants: its own, by in_idx, and those of the inputs that it takes in (prepared_with)."""
        order = [in_idx, *(i for i in constants if i != in_idx)]
        sizes = [[i, len(constants[i])] for i in order]
        total = sum(size for _, size in sizes)
        if max(total, nbytes) > MAX_PAYLOAD:
            raise CompileError(
                f"layer {self.node.name} ({self.layer.op_name}): input {in_idx} is too large to be prepared: "
                f"{total} bytes, of which {self.layer.descriptor} makes {nbytes}",
                hint=f"at most {MAX_PAYLOAD} bytes",
            )
        header: dict[str, object] = {"op": "prepare", "handle": self._handle, "input": in_idx}
        header |= {"bytes": nbytes, "sizes": sizes}
        payload = b"".join(constants[i] for i in order)
        return self._host.request(header, payload, more=PREPARED * (total + nbytes))[1]

    def is_backslice_optimize_support_layer(self) -> bool:
        """Whether the local function works on larger tiles than it needs."""
        return bool(self.call("is_backslice_optimize_support_layer"))

    def backward_hslice(self, out_hslice: int) -> int:
        """Input rows that so many output rows need."""
        return self.call("backward_hslice", [out_hslice])

    def backward_wslice(self, out_wslice: int) -> int:
        """Input columns that so many output columns need."""
        return self.call("backward_wslice", [out_wslice])

    def backward_hidx(self, out_hidx: int) -> int:
        """The first input row that an output row needs; may be negative."""
        return self.call("backward_hidx", [out_hidx])

    def backward_widx(self, out_widx: int) -> int:
        """The first input column that an output column needs; may be negative."""
        return self.call("backward_widx", [out_widx])

    def backward_kh(self, out_kh: int) -> int:
        """Rows of the input's window for an output's window of out_kh rows."""
        return self.call("backward_kh", [out_kh])

    def backward_stride_h(self, out_stride_h: int) -> int:
        """Input rows from one window to the next, for a step of out_stride_h output rows."""
        return self.call("backward_stride_h", [out_stride_h])

    def backward_up_pad_h(self, out_up_pad_h: int) -> int:
        """Rows of padding above the input, for out_up_pad_h above the output."""
        return self.call("backward_up_pad_h", [out_up_pad_h])

    def backward_down_pad_h(self, out_down_pad_h: int) -> int:
        """Rows of padding below the input, for out_down_pad_h below the output."""
        return self.call("backward_down_pad_h", [out_down_pad_h])

    def forward_height(self, in_height: int) -> int:
        """Rows of the output for in_height rows of the first input."""
        return self.call("forward_height", [in_height])

    def is_concat_layer(self) -> bool:
        """Whether the output is the inputs' bytes one after the other."""
        return bool(self.call("is_concat_layer"))

    def accepts_larger_tiles(self) -> bool:
        """Whether the local function works on larger tiles, also where no window describes what it needs."""
        return bool(self.call("accepts_larger_tiles"))

    def each_row_alone(self) -> bool:
        """Whether each row depends on the same row of the inputs alone, so that rows may come as batches."""
        return bool(self.call("each_row_alone"))
