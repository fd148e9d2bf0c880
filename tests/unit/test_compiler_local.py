"""Groups in local memory: random nets, every emitted program verified by the compiler region by region."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject
from hypothesis import strategies as st

from firmware_sim.errors import CompileError
from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord, TType
from tests.support.compiler_fakes import FakeLayer, FakeToolkit, global_layer, local_layer, window_layer
from tests.support.examples import examples
from tpulayer import Graph
from user_layers.compiler.allocate import Request, place
from user_layers.compiler.attributes import DescribedNet, gather_attributes
from user_layers.compiler.fitting import fit_counts, fit_group
from user_layers.compiler.flow import OpKind
from user_layers.compiler.grouping import Alone, Group
from user_layers.compiler.pipeline import plan_net
from user_layers.compiler.plan import Plan
from user_layers.compiler.verify_memory import region_of
from user_layers.graph.shapes import infer_shapes

BIG = (1, 64, 512, 512)  # 1 MiB per NPU: two slices at least


def describe(graph: Graph) -> DescribedNet:
    return gather_attributes(infer_shapes(graph), graph.toolkit)


def planned(graph: Graph, opt: int = 2, *, dynamic: bool = False) -> tuple[list[Group | Alone], Plan]:
    """The segments that run, and the plan, whose program the compiler has verified."""
    plan = plan_net(describe(graph), opt=opt, dynamic=dynamic)
    return [s for s in plan.schedule.segments if isinstance(s, (Group, Alone))], plan


def program_of(plan: Plan) -> Program:
    (program,) = plan.programs
    assert program is not None
    return program


def loaded(plan: Plan) -> list[ProgramTensor]:
    """The tiles of all loads."""
    program = program_of(plan)
    return [program.tensors[s.outputs[0]] for s in program.steps if s.opcode is StepOp.LOAD]


def target(plan: Plan, store: Step) -> TensorRecord:
    return program_of(plan).tensors[store.outputs[0]].tensor


def chain(layers: list[FakeLayer], shape: tuple[int, ...]) -> Graph:
    """x -> layer 0 -> t0 -> layer 1 -> t1 ..."""
    types = {layer.op_type: layer for layer in layers}
    graph = Graph(toolkit=FakeToolkit(*types.values()))
    name = graph.add_input("x", shape)
    for i, layer in enumerate(layers):
        (name,) = graph.add_tpu_layer(layer.op, [name], None, [f"t{i}"])
    return graph


def only_group(graph: Graph) -> Group:
    segments, _ = planned(graph)
    (group,) = segments
    assert isinstance(group, Group)
    return group


def counts(group: Group) -> tuple[int, int, int]:
    return len(group.tiling.n), len(group.tiling.h), len(group.tiling.w)


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    layers = []
    for i in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["plain", "inplace", "window", "buffer", "whole", "global"]))
        if kind == "global":
            layers.append(global_layer(f"TPU_G{i}", i))
        elif kind == "window":
            kernel = draw(st.integers(1, 5))
            layers.append(
                window_layer(
                    f"TPU_W{i}",
                    i,
                    kernel=kernel,
                    stride=draw(st.integers(1, 3)),
                    pad=draw(st.integers(0, kernel // 2)),
                    axes=draw(st.sampled_from(["h", "w", "hw"])),
                )
            )
        else:
            answers: dict[str, dict[str, Any]] = {
                "plain": {},
                "inplace": {"can_inplace": True},
                "buffer": {"get_local_buffer_size": lambda s: s[0] * 256 + 4},
                "whole": {"can_split_local_h_w": False},
            }
            layers.append(FakeLayer(f"TPU_L{i}", i, says=answers[kind]))
    shape = (
        draw(st.integers(1, 5)),
        draw(st.sampled_from([1, 3, 63, 64, 65, 200])),
        draw(st.integers(20, 400)),
        draw(st.integers(20, 300)),
    )
    graph = chain(layers, shape)
    try:
        infer_shapes(graph)
    except CompileError:
        reject()  # windows that are larger than what is left
    return graph


@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(chains(), st.booleans())
def test_every_program_moves_the_right_data(graph: Graph, dynamic: bool) -> None:
    segments, _ = planned(graph, dynamic=dynamic)
    for s in segments:
        if isinstance(s, Group):
            assert s.local.used <= 512 * 1024


@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(chains())
def test_tiles_of_the_last_tensor_tile_it_exactly_once(graph: Graph) -> None:
    segments, plan = planned(graph)
    net, (last,) = plan.described.net, plan.described.net.outputs
    if isinstance(segments[-1], Group):
        stores = [s for s in program_of(plan).steps if s.opcode is StepOp.STORE]
        to_last = {s.inputs[0] for s in stores if target(plan, s).addr == plan.ddr.address[last]}
        tiles = [region_of(program_of(plan).tensors[i]) for i in to_last]
        assert len(set(tiles)) == len(tiles)
        assert sum(math.prod(extent for _, extent in p) for p in tiles) == math.prod(net.tensors[last].shape)


@examples(200)
@given(
    st.lists(
        st.tuples(st.integers(0, 300_000), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
        max_size=12,
    ),
    st.sampled_from([None, 65536]),
    st.sampled_from([None, 524288]),
)
def test_placed_buffers_never_meet(
    raw: list[tuple[int, int, int, int]], bank: int | None, limit: int | None
) -> None:
    requests = []
    for size, a, b, c in raw:
        first, used, last = sorted((a, b, c))
        requests.append(Request(size, first, last, (used, last), ((first, used - 1),)))
    placement = place(requests, align=128, limit=limit, bank=bank)
    if placement is None:
        assert limit is not None
        return
    assert limit is None or placement.used <= limit
    for i, r in enumerate(requests):
        assert placement.offsets[i] % 128 == 0
        assert placement.offsets[i] + r.size <= placement.used
        for j, q in enumerate(requests[:i]):
            if not r.size or not q.size or r.last < q.first or q.last < r.first:
                continue
            a, b = placement.offsets[i], placement.offsets[j]
            assert a + r.size <= b or b + q.size <= a


@pytest.mark.parametrize("limit", [1 << 21, 1 << 19])
def test_what_is_used_is_in_other_banks_than_what_is_moved_where_there_is_room(limit: int) -> None:
    bank = 65536
    requests = [Request(100_000, p, p + 2, (p + 1, p + 1), ((p, p), (p + 2, p + 2))) for p in range(8)]
    placement = place(requests, align=128, limit=limit, bank=bank)
    assert placement is not None
    banks = [set(range(o // bank, (o + 99_999) // bank + 1)) for o in placement.offsets]
    meet = [(i, j) for i in range(8) for j in range(i) if banks[i] & banks[j] and i - j == 1]
    assert not meet
    tight = place(requests, align=128, limit=300_288)
    assert tight is not None and tight.used <= 300_288


def test_a_small_chain_is_one_group_without_slices() -> None:
    group = only_group(chain([local_layer(), local_layer(), local_layer()], (1, 3, 20, 20)))
    assert counts(group) == (1, 1, 1)


def test_a_large_tensor_is_cut_over_h_and_pipelined() -> None:
    graph = chain([local_layer()], BIG)
    group = only_group(graph)
    # Where nothing takes any time, the fewest tiles are best: three at a time, each at most 171 KiB.
    assert counts(group) == (1, 7, 1)
    assert group.local.overlapped
    _, plan = planned(graph)
    assert [s.opcode for s in program_of(plan).steps].count(StepOp.PARALLEL_START) == 1


def test_the_next_tile_is_loaded_while_one_is_computed() -> None:
    group = fit_counts(describe(chain([local_layer()], (8, 64, 128, 128))), (0,), (8, 1, 1), None)
    assert isinstance(group, Group)
    at: dict[tuple[OpKind, int], int] = {}
    done: dict[tuple[OpKind, int], int] = {}  # the op of the other engine that has been waited for by then
    level = {False: -1, True: -1}
    for i, op in enumerate(group.local.ops):
        dma = op.kind is not OpKind.LAYER
        level[dma] = max(level[dma], op.after)
        at[op.kind, op.tile], done[op.kind, op.tile] = i, level[dma]
    for p in range(1, group.tiling.count):
        assert at[OpKind.LOAD, p] < at[OpKind.LAYER, p - 1]
        assert done[OpKind.STORE, p - 1] == at[OpKind.LAYER, p - 1]
        assert at[OpKind.LOAD, p] <= done[OpKind.LAYER, p] < at[OpKind.LAYER, p]


def test_batches_are_cut_before_rows() -> None:
    group = only_group(chain([local_layer()], (8, 64, 128, 128)))
    assert counts(group) == (4, 1, 1)


def test_wide_rows_are_cut_over_w_at_last() -> None:
    group = only_group(chain([local_layer()], (1, 640, 1, 60000)))
    assert counts(group)[:2] == (1, 1)
    assert counts(group)[2] > 1


def test_can_inplace_lets_the_output_take_the_inputs_memory() -> None:
    apart = only_group(chain([local_layer()], BIG))
    inplace = only_group(chain([local_layer(can_inplace=True)], BIG))
    assert all(a != b for a, b in zip(*(v.offsets for v in apart.local.values), strict=True))
    x, y = inplace.local.values
    assert x.offsets == y.offsets
    assert counts(inplace)[1] < counts(apart)[1]


def test_can_inplace_is_asked_with_the_type() -> None:
    toolkit = FakeToolkit(local_layer(can_inplace=True))
    graph = Graph(toolkit=toolkit)
    graph.add_input("x", (1, 3, 8, 8), "int32")
    graph.add_tpu_layer(0, ["x"], None, ["y"])
    only_group(graph)
    assert ("can_inplace", (6,)) in toolkit.fake_plugins.asked


def test_an_input_that_is_needed_later_is_not_overwritten() -> None:
    a = FakeLayer("TPU_A", 0, says={"can_inplace": True})
    graph = Graph(toolkit=FakeToolkit(a))
    graph.add_input("x", (1, 3, 8, 8))
    graph.add_tpu_layer("TPU_A", ["x"], None, ["y"])
    graph.add_tpu_layer("TPU_A", ["y", "x"], None, ["z"])
    group = only_group(graph)
    x, y, z = (next(v for v in group.local.values if v.tensor == t) for t in "xyz")
    assert x.offsets != y.offsets
    assert z.offsets == y.offsets


def test_can_split_local_h_w_false_leaves_only_batches() -> None:
    group = only_group(chain([local_layer(can_split_local_h_w=False)], (8, 64, 128, 128)))
    assert counts(group) == (4, 1, 1)
    segments, _ = planned(chain([local_layer(can_split_local_h_w=False)], BIG))
    assert [type(s) for s in segments] == [Alone]


@pytest.mark.parametrize(("splits", "slices"), [(False, (2, 1, 1)), (True, (2, 4, 1))])
def test_no_more_slices_than_may_be_whatever_parts_of_a_group_need(
    splits: bool, slices: tuple[int, int, int]
) -> None:
    """The search asks for as many as a part of the group has, of which more may be cut."""
    graph = chain([local_layer(can_split_local_h_w=splits)], (8, 64, 32, 32))
    described = gather_attributes(infer_shapes(graph), graph.toolkit)
    group = fit_group(described, (0,), least=(2, 4, 1))
    assert isinstance(group, Group) and group.counts == slices


def test_force_use_global_layer_and_missing_local_functions() -> None:
    for layer, reason in (
        (local_layer(force_use_global_layer=True), "force_use_global_layer"),
        (global_layer(), "no local function"),
    ):
        segments, plan = planned(chain([layer], (1, 3, 8, 8)))
        (alone,) = segments
        assert isinstance(alone, Alone) and alone.reason == reason
        assert [s.opcode for s in program_of(plan).steps] == [StepOp.GLOBAL]


def test_get_local_buffer_size_takes_room_and_makes_more_slices() -> None:
    plain = only_group(chain([local_layer()], BIG))
    asked: list[tuple[int, ...]] = []

    def size(shape: tuple[int, ...]) -> int:
        asked.append(shape)
        return shape[2] * shape[3] * 4

    buffered = only_group(chain([local_layer(get_local_buffer_size=size)], BIG))
    assert counts(buffered)[1] > counts(plain)[1]
    assert (1, 64, 512 // counts(buffered)[1], 512) in asked


def test_work_buffers_of_dynamic_nets_are_for_any_smaller_batch() -> None:
    """A layer that splits what is left differently may want more for less."""
    odd = local_layer(get_local_buffer_size=lambda shape: (0, 1280, 256, 3840, 512)[shape[0]])
    for dynamic, want in ((False, 512), (True, 3840)):
        _, plan = planned(chain([odd], (4, 3, 8, 8)), opt=1, dynamic=dynamic)
        (step,) = (s for s in program_of(plan).steps if s.opcode is StepOp.LOCAL)
        assert step.buffer_bytes == want


def test_tiles_of_dynamic_nets_name_their_tensors() -> None:
    """Which the firmware needs to cut them where the batch ends."""
    _, plan = planned(chain([local_layer(), global_layer(), local_layer()], (4, 64, 200, 200)), dynamic=True)
    program = program_of(plan)
    tiles = [t for t in program.tensors if t.kind is TensorKind.LOCAL]
    assert len({t.tensor.processed for t in tiles}) > 1
    for t in tiles:
        assert program.tensors[t.alias_of].tensor.shape == t.tensor.shape
    for step in program.steps:
        if step.opcode in (StepOp.LOAD, StepOp.STORE):
            source, goal = step.inputs[0], step.outputs[0]
            tile, whole = (goal, source) if step.opcode is StepOp.LOAD else (source, goal)
            assert program.tensors[tile].alias_of == whole
    heads = [(at, s) for at, s in enumerate(program.steps) if s.opcode is StepOp.GROUP]
    for at, head in heads:
        calls = program.steps[at + 1 + head.local_steps :][: head.global_steps]
        assert [s.opcode for s in calls] == [StepOp.GLOBAL] * head.global_steps
    assert len(heads) == 2 and sum(s.opcode is StepOp.GLOBAL for s in program.steps) == 3


def test_a_layer_that_cannot_be_placed_leaves_the_group() -> None:
    huge = local_layer("TPU_HUGE", 1, get_local_buffer_size=600_000)
    segments, _ = planned(chain([local_layer(), huge, local_layer()], (1, 3, 8, 8)))
    assert [type(s) for s in segments] == [Group, Alone, Group]


def test_halo_rows_are_loaded_and_padding_is_announced() -> None:
    conv = window_layer("TPU_CONV", 0, kernel=3, pad=1, axes="h")
    segments, plan = planned(chain([conv], BIG))
    program = program_of(plan)
    local = [s for s in program.steps if s.opcode == StepOp.LOCAL]
    first, second = (program.tensors[s.inputs[0]].tensor for s in local[:2])
    made = [program.tensors[s.outputs[0]].tensor for s in local[:2]]
    assert first.slice_pad[2] == 1 and first.processed[2] == 0
    assert first.slice_shape[2] == made[0].slice_shape[2] + 1
    assert second.slice_pad[2] == 0 and second.processed[2] == made[1].processed[2] - 1
    assert second.slice_shape[2] == made[1].slice_shape[2] + 2
    assert isinstance(segments[0], Group)


def test_backward_w_is_used_when_columns_are_cut() -> None:
    conv = window_layer("TPU_CONV", 0, kernel=3, pad=1, axes="w")
    segments, plan = planned(chain([conv], (1, 640, 1, 60000)))
    group = segments[0]
    assert isinstance(group, Group) and counts(group)[2] > 1
    loads = loaded(plan)
    overlap = region_of(loads[0])[3], region_of(loads[1])[3]
    assert overlap[0][0] + overlap[0][1] == overlap[1][0] + 2


def two_readers(a: FakeLayer, b: FakeLayer, shape: tuple[int, ...]) -> Graph:
    """x -> p -> t; a(t) and b(t) are both outputs."""
    graph = Graph(toolkit=FakeToolkit(local_layer("TPU_P", 9), a, b))
    graph.add_input("x", shape)
    graph.add_tpu_layer("TPU_P", ["x"], None, ["t"])
    graph.add_tpu_layer(a.op, ["t"], None, ["u"])
    graph.add_tpu_layer(b.op, ["t"], None, ["v"])
    return graph


def test_two_readers_that_need_the_same_tiles_stay_together() -> None:
    segments, _ = planned(two_readers(local_layer("TPU_A", 0), local_layer("TPU_B", 1), BIG))
    (group,) = segments
    assert isinstance(group, Group) and len(group.nodes) == 3


def test_readers_that_need_different_tiles_are_parted() -> None:
    conv = window_layer("TPU_CONV", 1, kernel=3, pad=1)
    segments, plan = planned(two_readers(local_layer("TPU_A", 0), conv, BIG))
    assert [len(s.nodes) if isinstance(s, Group) else 1 for s in segments] == [2, 1]
    stores = [s for s in program_of(plan).steps if s.opcode is StepOp.STORE]
    assert plan.ddr.address["t"] in {target(plan, s).addr for s in stores}


def test_a_tensor_that_is_also_an_output_is_stored_on_the_way() -> None:
    graph = chain([local_layer("TPU_A", 0), local_layer("TPU_B", 1, can_inplace=True)], BIG)
    graph.add_output("t0")
    graph.add_output("t1")
    group = only_group(graph)
    stored = {v.tensor for v in group.local.values if v.stored}
    assert stored == {"t0", "t1"}


def test_rows_that_no_tile_computes_but_others_read_part_the_group() -> None:
    # The second layer drops rows of t0, which is an output of the net: t0 would be stored with gaps.
    drop = window_layer("TPU_DROP", 1, kernel=1, stride=2, axes="h")
    graph = chain([local_layer("TPU_A", 0), drop], (1, 3, 20, 20))
    graph.add_output("t0")
    graph.add_output("t1")
    segments, _ = planned(graph)
    assert [type(s) for s in segments] == [Group, Group]


def with_constant(layer: FakeLayer, const: tuple[int, ...], shape: tuple[int, ...]) -> Graph:
    import numpy as np

    graph = Graph(toolkit=FakeToolkit(layer))
    graph.add_input("x", shape)
    graph.add_const("k", np.zeros(const, np.float32))
    graph.add_tpu_layer(layer.op, ["x", "k"], None, ["y"])
    return graph


def test_a_compact_constant_is_loaded_once_for_all_tiles() -> None:
    layer = local_layer(input_type=lambda i: TType.COEFF if i == 1 else TType.NEURON)
    segments, plan = planned(with_constant(layer, (1, 64, 1, 1), BIG))
    group = segments[0]
    assert isinstance(group, Group) and group.tiling.count > 1
    loads = [t.tensor for t in loaded(plan)]
    assert [t.ttype for t in loads].count(TType.COEFF) == 1
    assert len(loads) == group.tiling.count + 1


def test_an_aligned_constant_is_cut_like_any_input_and_broadcasts() -> None:
    layer = local_layer()
    segments, plan = planned(with_constant(layer, BIG, BIG))
    group = segments[0]
    assert isinstance(group, Group)
    assert all(len(v.offsets) == group.tiling.count > 1 for v in group.local.values)
    segments, plan = planned(with_constant(layer, (1, 64, 1, 1), BIG))
    loads = loaded(plan)
    assert isinstance(segments[0], Group)
    assert len(loads) == segments[0].tiling.count + 1


def test_input_type_compact_parts_a_group() -> None:
    second = local_layer("TPU_B", 1, input_type=TType.COEFF_NEURON)
    segments, plan = planned(chain([local_layer("TPU_A", 0), second], (1, 3, 8, 8)))
    assert [type(s) for s in segments] == [Group, Group]
    local = [s for s in program_of(plan).steps if s.opcode == StepOp.LOCAL]
    assert program_of(plan).tensors[local[1].inputs[0]].tensor.ttype == TType.COEFF_NEURON


def test_should_input_on_l2mem_copies_there_and_is_not_overlapped() -> None:
    layer = local_layer(should_input_on_l2mem=lambda i: i == 1)
    segments, plan = planned(with_constant(layer, (1, 64, 33, 7), BIG))
    group = segments[0]
    assert isinstance(group, Group) and group.tiling.count > 1
    opcodes = [s.opcode for s in program_of(plan).steps]
    assert not group.local.overlapped and StepOp.PARALLEL_START not in opcodes
    assert opcodes[0] == StepOp.COPY and opcodes.count(StepOp.COPY) == 1


def test_what_is_too_large_for_l2_runs_globally() -> None:
    layer = local_layer(should_input_on_l2mem=lambda i: i == 1)
    segments, _ = planned(with_constant(layer, (1, 64, 200, 200), (1, 64, 20, 20)))
    (alone,) = segments
    assert isinstance(alone, Alone) and "L2" in alone.reason


def test_opt_levels() -> None:
    graph = chain([local_layer(), local_layer(), global_layer(), local_layer()], (1, 3, 8, 8))
    assert [type(s) for s in planned(graph, 0)[0]] == [Alone] * 4
    assert [type(s) for s in planned(graph, 1)[0]] == [Group, Alone, Group]
    assert [type(s) for s in planned(graph, 2)[0]] == [Group, Alone, Group]


def test_tensors_with_five_dimensions_stay_in_ddr() -> None:
    segments, _ = planned(chain([local_layer()], (1, 2, 3, 4, 5)))
    (alone,) = segments
    assert isinstance(alone, Alone) and "5 dimensions" in alone.reason


def test_fewer_dimensions_keep_their_number_in_the_records() -> None:
    _, plan = planned(chain([local_layer()], (6, 70, 9)))
    for t in program_of(plan).tensors:
        assert len(t.tensor.shape) == 3
        assert len(t.tensor.slice_shape) in (0, 3)
