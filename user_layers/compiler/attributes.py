"""What each layer's descriptor says of it, asked through the plugin."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from firmware_sim.errors import CompileError
from firmware_sim.wire import LARGER, DType, TType
from user_layers.compiler.cuts import gather_crosses, slice_crosses
from user_layers.compiler.window import Window
from user_layers.net.net import Net, NetTensorInfo
from user_layers.net.nodes import LayerNode
from user_layers.net.ops import Descriptor
from user_layers.toolkit import Toolkit

# What the compiler can lay out; the other types of TENSOR_TYPE_T belong to layers that do not exist here.
_INPUT_TYPES = (TType.NEURON, TType.COEFF, TType.COEFF_NEURON, TType.NEURON_SHAPE)

# Built-in layers whose local functions take their inputs in DDR: the call is the load of what they make.
_GATHERS = frozenset(("TPU_TRANSPOSE", "TPU_UNFOLD"))
# Those whose local functions run on the DMA engine, within local memory; and those that do where channels
# change lanes.
_TURNS = frozenset(("TPU_DEPTH_TO_SPACE", "TPU_TURN", "TPU_TURN_BYTES"))
_CROSSES = {"TPU_SLICE": slice_crosses, "TPU_GATHER": gather_crosses}
# Those that can also be the store of what they make: their local functions take the output in DDR too.
_SCATTERS = frozenset(("TPU_DEPTH_TO_SPACE",))
# Those that read what lies in L2 with the tensor unit alone; others bring it here by the DMA engine.
_LOOKS_UP = frozenset(("TPU_LOOKUP",))
# Those to which planes of volumes are batches: the parameter `planes` says how many stay together.
_VOLUMES = frozenset(("TPU_CONV3D", "TPU_POOL_PLANES"))
# Those that make several rows and columns of one: how many of the input a part of the output needs depends on
# where it begins, with which a descriptor is not asked.
_SPREADS = frozenset(("TPU_DEPTH_TO_SPACE", "TPU_UPSAMPLE"))

# What every descriptor is asked, in the order in which that is used.
_METHODS = (
    "must_dynamic_run",
    "output_shape_is_dynamic",
    "force_use_global_layer",
    "can_split_local_h_w",
    "accepts_larger_tiles",
    "is_backslice_optimize_support_layer",
    "can_h_w_dynamic",
    "just_reshape",
    "is_share_mem_layer",
    "is_concat_layer",
    "get_global_buffer_size",
)


@dataclass(frozen=True)
class Sliding:
    """A window of `kernel` rows that moves by `stride` rows for each row of the output; above and below: rows
    by which it reaches over the input's edges. All in rows of the input."""

    kernel: int
    stride: int
    above: int
    below: int

    def rows(self, first: int, extent: int) -> tuple[int, int]:
        """First row and number of rows of the input under these output rows, unclipped."""
        return first * self.stride - self.above, (extent - 1) * self.stride + self.kernel


@dataclass(frozen=True)
class LayerAttributes:
    """The answers of one descriptor; those that take arguments are asked once for each argument.

    label: how the log calls the layer, `TPU(CROP)` for the user's and `EXPAND_DIMS` for built-in ones.
    numbers: the descriptor's number of each input, which goes on where a prepared one holds others.
    """

    node: LayerNode
    numbers: tuple[int, ...]
    label: str
    has_local: bool
    must_dynamic_run: bool
    output_shape_is_dynamic: bool
    force_global: bool
    can_split_h_w: bool
    larger_tiles: bool
    larger_tiles_by_window: bool  # is_backslice_optimize_support_layer
    can_h_w_dynamic: bool
    just_reshape: bool
    share_mem: bool
    is_concat_layer: bool
    global_buffer: int  # bytes of DDR
    input_types: tuple[TType, ...]
    on_l2: tuple[bool, ...]
    planes: int = field(default=1, kw_only=True)  # batches of the input that are one volume: never cut apart
    turns: bool = field(default=False, kw_only=True)  # the local function runs on the DMA engine alone
    any_batch: bool = field(default=False, kw_only=True)  # tiles may have fewer batches than they are cut to
    _descriptor: Descriptor | None = field(repr=False, compare=False)
    _known: dict[tuple[str, object], int] = field(default_factory=dict, repr=False, compare=False)
    _windows: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def gathers(self) -> bool:
        """Whether the local function loads the tile that it makes itself, from inputs that lie in DDR: it
        runs on the DMA engine alone."""
        return self.node.op.is_builtin and self.node.op.op in _GATHERS

    @cached_property
    def taken_whole(self) -> tuple[bool, ...]:
        """Which inputs are never cut: constants in a compact layout, shapes, what lies in L2 or stays in
        DDR."""
        return tuple(
            on_l2 or self.gathers or kind != TType.NEURON
            for on_l2, kind in zip(self.on_l2, self.input_types, strict=True)
        )

    @property
    def views(self) -> bool:
        """Whether the local function leaves all bytes of a tile where they are, under another shape. What the
        user's layers with just_reshape do never runs in a static net, and is not known to be that."""
        return self.just_reshape and self.node.op.is_builtin

    @property
    def scatters(self) -> bool:
        """Whether such a layer stores the tile that it makes itself, where its output lies in DDR. In nets
        with fixed shapes only."""
        return self.turns and self.node.op.op in _SCATTERS and not self.any_batch

    @property
    def alone(self) -> bool:
        """Whether nothing may be moved beside the local function: it copies from L2 itself."""
        return any(self.on_l2) and not (self.node.op.is_builtin and self.node.op.op in _LOOKS_UP)

    @property
    def tile_index(self) -> int:
        """What the program says of the tiles that the layer makes (ProgramTensor.index)."""
        return LARGER if self.larger_tiles else 0

    def local_buffer(self, split_shape: tuple[int, ...]) -> int:
        """Bytes per NPU that the local function needs for an output tile of this shape; with any_batch, and
        of as many or fewer batches."""
        if not self.any_batch:
            return self._local_buffer(split_shape)
        batches, *rest = split_shape
        return max(self._local_buffer((n, *rest)) for n in range(1, batches + 1))

    def _local_buffer(self, split_shape: tuple[int, ...]) -> int:
        size = self._ask("get_local_buffer_size", split_shape)
        if size < 0:
            raise self.nonsense(f"get_local_buffer_size({list(split_shape)})", size, "at least 0")
        return size

    def forward_height(self, in_height: int) -> int:
        """Rows of the output, as the descriptor has it."""
        return self._ask("forward_height", in_height)

    def can_inplace(self, dtype: DType) -> bool:
        """Whether the output's tile may take the input tile's memory, for elements of this type."""
        return bool(self._ask("can_inplace", dtype))

    def prepare(self, index: int, tensor: NetTensorInfo) -> bytes:
        """The elements of a prepared input as the layer's functions get them."""
        assert self._descriptor is not None and tensor.plain is not None and tensor.plain.data is not None
        number = self.numbers[index]
        held = {i: t.data for i, t in tensor.holds.items() if t.data is not None}
        return self._descriptor.prepare(number, {number: tensor.plain.data, **held}, tensor.nbytes)

    def backward_h(self, first: int, extent: int, height: int, in_height: int) -> tuple[int, int]:
        """First row and number of rows of the input that these output rows need, unclipped.

        height, in_height: rows of the whole output and input.
        """
        key = (first, extent, height, in_height)
        known = self._windows.get(key)
        if known is None:
            known = self._windows[key] = self._rows(first, extent, height, in_height)
        return known

    def _rows(self, first: int, extent: int, height: int, in_height: int) -> tuple[int, int]:
        by_rows = self._backward("h", first, extent)
        sliding = self._sliding
        if sliding is None:
            return by_rows
        start, rows = sliding.rows(first, extent)
        if not self._rows_are_as_given:
            if self.larger_tiles_by_window and by_rows != (start, rows):
                raise self._contradiction(first, extent, by_rows, (start, rows))
            return by_rows
        if first + extent == height and sliding.below:  # it reaches over the lower edge: no row is left out
            rows = max(rows, in_height + sliding.below - start)
        return start, rows

    def backward_w(self, first: int, extent: int) -> tuple[int, int]:
        """First column and number of columns of the input that these output columns need, unclipped.

        CompileError when the descriptor says fewer than one.
        """
        known = self._windows.get((first, extent))
        if known is None:
            known = self._windows[first, extent] = self._backward("w", first, extent)
        return known

    def nonsense(self, call: str, result: object, expected: str) -> CompileError:
        """The error for an answer that cannot be; call: the method as it was asked, with its arguments."""
        return CompileError(
            f"{self.node.title}: {call} of its descriptor returns {result}; expected {expected}",
            hint="correct the method in host/ and run `build_layers`",
        )

    def _backward(self, axis: str, first: int, extent: int) -> tuple[int, int]:
        assert self._descriptor is not None
        self._descriptor.ask([(f"backward_{axis}slice", (extent,)), (f"backward_{axis}idx", (first,))])
        rows = self._ask(f"backward_{axis}slice", extent)
        if rows < 1:
            raise self.nonsense(f"backward_{axis}slice({extent})", rows, "at least 1")
        start = self._ask(f"backward_{axis}idx", first)
        if self.node.op.is_builtin and self.node.op.op in _SPREADS:
            rows = self._ask(f"backward_{axis}idx", first + extent - 1) + 1 - start
        return start, rows

    @cached_property
    def _rows_are_as_given(self) -> bool:
        """Whether backward_hidx and backward_hslice say that output rows need the same rows of the input."""
        return all(self._ask("backward_hidx", i) == i for i in (0, 1)) and all(
            self._ask("backward_hslice", n) == n for n in (1, 2)
        )

    @cached_property
    def _sliding(self) -> Sliding | None:
        """What backward_kh and its companions say of the layer's own window; None where they say nothing."""
        if not (self._rows_are_as_given or self.larger_tiles_by_window):
            return None
        kernel, stride = self._ask("backward_kh", 1), self._ask("backward_stride_h", 1)
        above, below = self._ask("backward_up_pad_h", 0), self._ask("backward_down_pad_h", 0)
        for name, value in (("backward_kh(1)", kernel), ("backward_stride_h(1)", stride)):
            if value < 1:
                raise self.nonsense(name, value, "at least 1")
        plain = (kernel, stride, above, below) == (1, 1, 0, 0)
        return None if plain else Sliding(kernel, stride, above, below)

    def _contradiction(
        self, first: int, extent: int, by_rows: tuple[int, int], by_window: tuple[int, int]
    ) -> CompileError:
        def text(start: int, rows: int) -> str:
            return f"rows {start} to {start + rows - 1}"

        return CompileError(
            f"{self.node.title}: its descriptor contradicts itself: for output {text(first, extent)} "
            f"backward_hidx and backward_hslice ask for input {text(*by_rows)}, backward_kh, "
            f"backward_stride_h and backward_up_pad_h for {text(*by_window)}",
            hint="correct one of them in host/, or leave backward_hidx and backward_hslice out, and run "
            "`build_layers`",
        )

    def _ask(self, method: str, argument: object) -> int:
        key = (method, argument)
        assert self._descriptor is not None  # a part on the host is in no group
        if key not in self._known:
            self._known[key] = int(getattr(self._descriptor, method)(argument))
        return self._known[key]


@dataclass(frozen=True)
class DescribedNet:
    """A net with the attributes of each node, in the same order.

    toolkit: whose device measures the layers. known_...: what passes that ask the same of nodes again and
    again found (tiling.py, concat.py), by node; of windows by axis, node, first, extent, and whether there
    are several slices.
    """

    net: Net
    attrs: tuple[LayerAttributes, ...]
    toolkit: Toolkit = field(repr=False, compare=False)
    known_windows: dict[tuple[str, int, int, int, bool], tuple[Window | None, ...]] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )
    known_rows: dict[int, bool] = field(init=False, default_factory=dict, repr=False, compare=False)
    known_batch: dict[int, bool] = field(init=False, default_factory=dict, repr=False, compare=False)
    known_concats: dict[int, tuple[int, ...] | None] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def const_names(self) -> tuple[str, ...]:
        """The tensors whose bytes are known when compiling, in the net's order."""
        return tuple(t.name for t in self.net.tensors.values() if t.data is not None)


def gather_attributes(net: Net, toolkit: Toolkit) -> DescribedNet:
    """Net -> DescribedNet. Errors: CompileError for answers that make no sense."""
    return DescribedNet(net, tuple(_attributes(net, node, toolkit) for node in net.nodes), toolkit)


def _attributes(net: Net, node: LayerNode, toolkit: Toolkit) -> LayerAttributes:
    if node.cpu is not None:
        return _cpu_attributes(node, node.cpu.shape_varies)
    d = toolkit.describe(node, [net.tensors[n] for n in node.inputs], [net.tensors[n] for n in node.outputs])
    held = {i for name in node.inputs for i in net.tensors[name].holds}
    numbers = tuple(i for i in range(len(node.inputs) + len(held)) if i not in held)
    of_inputs = ((method, (i,)) for method in ("input_type", "should_input_on_l2mem") for i in numbers)
    d.ask([*((method, ()) for method in _METHODS), *of_inputs])
    attrs = LayerAttributes(
        node=node,
        numbers=numbers,
        label=_label(node, d.name),
        has_local=node.op.has_local,
        must_dynamic_run=d.must_dynamic_run(),
        output_shape_is_dynamic=d.output_shape_is_dynamic(),
        force_global=d.force_use_global_layer(),
        can_split_h_w=d.can_split_local_h_w(),
        larger_tiles=d.accepts_larger_tiles(),
        larger_tiles_by_window=d.is_backslice_optimize_support_layer(),
        can_h_w_dynamic=d.can_h_w_dynamic(),
        just_reshape=d.just_reshape(),
        share_mem=d.is_share_mem_layer(),
        is_concat_layer=d.is_concat_layer(),
        global_buffer=d.get_global_buffer_size(),
        input_types=tuple(TType(d.input_type(i)) for i in numbers),
        on_l2=tuple(d.should_input_on_l2mem(i) for i in numbers),
        planes=_planes(node, toolkit),
        turns=_turns(net, node),
        _descriptor=d,
    )
    if attrs.global_buffer < 0:
        raise attrs.nonsense("get_global_buffer_size()", attrs.global_buffer, "at least 0")
    for i, kind in enumerate(attrs.input_types):
        if kind not in _INPUT_TYPES:
            raise attrs.nonsense(
                f"input_type({i})", f"BMNET_{kind.name}", ", ".join(f"BMNET_{k.name}" for k in _INPUT_TYPES)
            )
    if node.inputs and not attrs.output_shape_is_dynamic:
        _check_height(net, attrs)
    return attrs


def _turns(net: Net, node: LayerNode) -> bool:
    """See LayerAttributes.turns."""
    if not node.op.is_builtin:
        return False
    crosses = _CROSSES.get(node.op.op)
    return node.op.op in _TURNS or (crosses is not None and crosses(node, net.tensors[node.inputs[0]].shape))


def _planes(node: LayerNode, toolkit: Toolkit) -> int:
    if not node.op.is_builtin or node.op.op not in _VOLUMES:
        return 1
    return int(toolkit.param_values(node.op, node.param)["planes"])


def _check_height(net: Net, attrs: LayerAttributes) -> None:
    """forward_height, where it says something, against the shape function."""
    before, after = (net.tensors[names[0]].nchw[2] for names in (attrs.node.inputs, attrs.node.outputs))
    height = attrs.forward_height(before)
    if height not in (before, after):
        raise attrs.nonsense(
            f"forward_height({before})", height, f"{after}, which its shape function gives the output"
        )


def _cpu_attributes(node: LayerNode, shape_varies: bool) -> LayerAttributes:
    """A part on the host takes tensors as they lie in DDR, of any shape."""
    return LayerAttributes(
        node=node,
        numbers=tuple(range(len(node.inputs))),
        label=node.op.op,
        has_local=False,
        must_dynamic_run=False,
        output_shape_is_dynamic=shape_varies,
        force_global=True,
        can_split_h_w=False,
        larger_tiles=False,
        larger_tiles_by_window=False,
        can_h_w_dynamic=True,
        just_reshape=False,
        share_mem=False,
        is_concat_layer=False,
        global_buffer=0,
        input_types=tuple(TType.NEURON for _ in node.inputs),
        on_l2=tuple(False for _ in node.inputs),
        _descriptor=None,
    )


def _label(node: LayerNode, name: str) -> str:
    if node.op.is_builtin:
        return node.op.short
    return f"TPU({name if name not in ('', 'UNKNOWN') else node.op.short})"
