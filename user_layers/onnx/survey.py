"""Which nodes have layers: every converter is tried, on nodes that ONNX defines by others also in these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from firmware_sim.errors import CompileError
from user_layers.graph import GraphBuilder
from user_layers.onnx.attention import fuse_attention
from user_layers.onnx.bias import fuse_bias
from user_layers.onnx.branches import merge_branches
from user_layers.onnx.channels import channels_stay
from user_layers.onnx.column_parts import split_products
from user_layers.onnx.columns import fuse_columns
from user_layers.onnx.columnwise import weights_first
from user_layers.onnx.counts import count_in_floats
from user_layers.onnx.cuts_first import cut_before_functions, cut_before_transposes
from user_layers.onnx.edges import fold_edges
from user_layers.onnx.einsum import write_einsum
from user_layers.onnx.enlarged import convolve_before_enlarging
from user_layers.onnx.expand import Expansion
from user_layers.onnx.flattened import keep_tokens
from user_layers.onnx.fold import fold_constants
from user_layers.onnx.fuse import fuse_affine
from user_layers.onnx.groups import join_groups
from user_layers.onnx.head_batches import heads_as_batches
from user_layers.onnx.interleave import order_by_products
from user_layers.onnx.kernels import multiply_computed_kernels, unfold_by_convolution
from user_layers.onnx.last_channels import channels_by_themselves
from user_layers.onnx.load import infer_values
from user_layers.onnx.lower import Converter, Lowering
from user_layers.onnx.merged import merge_dimensions
from user_layers.onnx.model import DOMAIN, Model, Node
from user_layers.onnx.nested import nest_concatenations
from user_layers.onnx.parted import part_products, part_transposes
from user_layers.onnx.partition import Reason
from user_layers.onnx.parts import split_convolutions
from user_layers.onnx.patterns import OF_ROWS, fuse_patterns
from user_layers.onnx.phases import split_phases
from user_layers.onnx.picked import pick_channels
from user_layers.onnx.pixel_sums import sum_pixels
from user_layers.onnx.pixels import take_pixels
from user_layers.onnx.places import put_places_first
from user_layers.onnx.proto import is_written_out
from user_layers.onnx.reductions import keep_reduced
from user_layers.onnx.repeats import without_repeats
from user_layers.onnx.rotary import turn_heads
from user_layers.onnx.row_orders import keep_orders
from user_layers.onnx.rows import join_rows
from user_layers.onnx.rows_first import rows_before_transposes
from user_layers.onnx.spectra import write_spectra
from user_layers.onnx.taps import without_idle_taps
from user_layers.onnx.tokens import turn_tokens
from user_layers.onnx.turns import turn_narrow


class NoLayers(CompileError):
    """Nodes have no layers, though all are to have some. outputs: those of the model that depend on them."""

    def __init__(self, message: str, outputs: frozenset[str]) -> None:
        super().__init__(message)
        self.outputs = outputs


@dataclass(frozen=True)
class Survey:
    """What trying every node gave. lowering: the model as it was tried last, with the layers' graph, which is
    good where nothing was refused; refused: the nodes (by index) without a layer, and why."""

    lowering: Lowering
    refused: Mapping[int, Reason]

    @property
    def model(self) -> Model:
        """Fused, with nodes written out, and with the shapes that layers of the user gave."""
        return self.lowering.model


def survey_layers(
    model: Model,
    graph: Callable[[], GraphBuilder],
    custom: Mapping[str, Converter],
    *,
    cpu: bool = True,
    plain: bool = False,
    ranges: Collection[str] | None = None,
) -> Survey:
    """Try a layer for each node of the fused model. Where nodes have none and ONNX defines them by others,
    the model is taken from before fusing, with these written out, folded and fused again.

    graph: makes an empty graph for each try. cpu: nodes may be without a layer; otherwise they are a NoLayers
    that names each. plain: only operations that the host has, too. ranges: tensors whose ranges are known
    where the net shall be in integers; what has none would stay in fp32.
    """
    given = model
    model = count_in_floats(model)  # before fusing, for what it writes is floats as any
    # Before all that looks for products.
    model = unfold_by_convolution(multiply_computed_kernels(write_einsum(write_spectra(model))))
    expansion = Expansion(model)
    passes = fuse_affine if plain else partial(_layered, ranges=ranges)
    lowering = Lowering(passes(model), graph(), custom)
    refused = lowering.survey()
    tried = lowering.model.nodes
    if is_beyond_host(tried[i] for i in refused):
        # What has no layer as one node may have some as it was written; the host knows only that.
        return survey_layers(given, graph, custom, cpu=cpu, plain=True, ranges=ranges)
    while refused and expansion.review(lowering.model, refused):
        written = fold_constants(infer_values(expansion.written_out()))
        lowering = Lowering(passes(written), graph(), custom)
        refused = lowering.survey()
    if refused and not cpu:
        nodes = lowering.model.nodes
        lines = [f"{nodes[i].title}: {reason.text}" for i, reason in refused.items() if not reason.follows]
        text = "no layer does this:\n  " + "\n  ".join(lines)
        raise NoLayers(text, _behind(lowering.model, refused))
    return Survey(lowering, refused)


def is_beyond_host(nodes: Iterable[Node]) -> bool:
    """Whether operations of this compiler alone are among them, of which onnxruntime knows nothing."""
    return any(node.domain == DOMAIN and not is_written_out(node) for node in nodes)


def _layered(model: Model, ranges: Collection[str] | None) -> Model:
    """The model in operations as the layers are: what one layer does is one node."""
    # Nothing looks through repetitions, so they go first; then pixels: what they are subtracted from and
    # multiplied by keeps its bits. Tokens have a dimension of their own for all that follows. Heads are
    # turned by products before attention follows them back to theirs; what is stacked otherwise is put in
    # order.
    model = sum_pixels(keep_reduced(without_repeats(model)))
    model = keep_tokens(put_places_first(nest_concatenations(take_pixels(model))))
    # Queries, keys and values lie apart before that; what is normalised of them, too.
    model = order_by_products(turn_heads(cut_before_transposes(part_transposes(part_products(model)))))
    model = rows_before_transposes(fuse_patterns(model, OF_ROWS))
    # Tokens again, which attention that is one layer makes.
    model = keep_tokens(fuse_attention(weights_first(model)))
    # Rows in few orders before cut out ones become channels that are picked.
    model = keep_orders(channels_by_themselves(fold_edges(fuse_patterns(model))))
    # Behind edges, which become pads. Branches become one convolution; then channels are picked where a
    # convolution cannot make them apart; then convolutions by phases, whose kernels have no idle taps.
    model = pick_channels(split_convolutions(without_idle_taps(merge_branches(model))))
    model = split_phases(join_groups(model))
    # Behind biases and factors, which then are parts too; before products become convolutions.
    model = split_products(cut_before_functions(fuse_columns(fuse_bias(model))))
    # Behind what makes one node of several, for it goes through single nodes; before channels are scaled.
    model = fuse_affine(
        turn_tokens(heads_as_batches(turn_narrow(join_rows(merge_dimensions(channels_stay(model))))))
    )
    return _whole(convolve_before_enlarging(model, ranges))  # with weights as they are in the end


def _whole(model: Model) -> Model:
    """The model, in which something makes whatever is read: passes put nodes in the place of others."""
    known = {*model.constants, *(value.name for value in model.inputs)}
    for node in model.nodes:
        lost = [name for name in node.reads if name not in known]
        assert not lost, f"{node.title} reads {lost[0]!r}, which a pass has taken away"
        known.update(node.makes)
    return model


def _behind(model: Model, refused: Mapping[int, Reason]) -> frozenset[str]:
    """The outputs of a model that depend on some of its nodes."""
    lost: set[str] = set()
    for i, node in enumerate(model.nodes):
        if i in refused or not lost.isdisjoint(node.reads):
            lost.update(node.makes)
    return frozenset(lost & set(model.results))
