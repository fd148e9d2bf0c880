"""Programs with one mistake each, which the compiler must not let pass, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from firmware_sim.errors import CompileError
from firmware_sim.wire import Program, Step, StepOp, TensorRecord, TType
from tests.support.compiler_fakes import FakeToolkit, global_layer, local_layer, window_layer
from tests.unit.test_compiler_groups import LAYERS
from tpulayer import Graph
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.emit_static import emit_static
from user_layers.compiler.fitting import Group, fit_group
from user_layers.compiler.pipeline import plan_net
from user_layers.compiler.plan import Plan
from user_layers.compiler.verify import verify
from user_layers.graph.shapes import infer_shapes

Change = Callable[[Program], None]


def planned(graph: Graph, opt: int = 2) -> tuple[Plan, Program]:
    plan = plan_net(gather_attributes(infer_shapes(graph), graph.toolkit), opt=opt)
    (program,) = plan.programs
    assert program is not None
    return plan, program


def tiled() -> tuple[Plan, Program]:
    """A window layer in several tiles, then a global layer."""
    layers = window_layer("TPU_WIN", 0, kernel=3, pad=1, get_local_buffer_size=128), global_layer()
    graph = Graph(toolkit=FakeToolkit(*layers))
    graph.add_input("x", (1, 64, 300, 300))
    graph.add_tpu_layer("TPU_WIN", ["x"], None, ["t"])
    graph.add_tpu_layer("TPU_GLOB", ["t"], None, ["y"])
    return planned(graph)


def joined() -> tuple[Plan, Program]:
    """A concatenation in local memory, of which one part is copied; all in one group, whatever costs less."""
    graph = Graph(toolkit=FakeToolkit(*LAYERS, local_layer("TPU_LAST", 30)))
    graph.add_input("x", (1, 64, 8, 8))
    for i, op in enumerate(("TPU_C64", "TPU_C96", "TPU_C16")):
        graph.add_tpu_layer(op, ["x"], None, [f"p{i}"])
    graph.add_tpu_layer("TPU_JOIN", ["p0", "p1", "p2"], None, ["j"])
    graph.add_tpu_layer("TPU_LAST", ["j"], None, ["y"])
    plan, _ = planned(graph)
    group = fit_group(plan.described, tuple(range(len(plan.described.attrs))))
    assert isinstance(group, Group)
    (part,) = plan.schedule.parts
    schedule = replace(plan.schedule, parts=(replace(part, segments=(group,)),))
    program = emit_static(plan.described, (group,), plan.ddr)
    return replace(plan, schedule=schedule, programs=(program,)), program


def on_l2() -> tuple[Plan, Program]:
    """A layer that reads its second input in L2."""
    graph = Graph(toolkit=FakeToolkit(local_layer(should_input_on_l2mem=lambda i: i == 1)))
    for name in ("x", "k"):
        graph.add_input(name, (1, 64, 33, 7))
    graph.add_tpu_layer("TPU_LOC", ["x", "k"], None, ["y"])
    return planned(graph)


def by_the_firmware() -> tuple[Plan, Program]:
    """The layers of `tiled` in a dynamic net."""
    static, _ = tiled()
    plan = plan_net(static.described, dynamic=True)
    (program,) = plan.programs
    assert program is not None
    return plan, program


def of(program: Program, opcode: StepOp, number: int = 0) -> int:
    """The place of a step of this kind."""
    return [at for at, step in enumerate(program.steps) if step.opcode is opcode][number]


def drop(opcode: StepOp, number: int = 0) -> Change:
    def change(program: Program) -> None:
        del program.steps[of(program, opcode, number)]

    return change


def swap(opcode: StepOp, other: StepOp) -> Change:
    """The first two steps of these kinds change places."""

    def change(program: Program) -> None:
        a, b = of(program, opcode), of(program, other)
        program.steps[a], program.steps[b] = program.steps[b], program.steps[a]

    return change


def another(opcode: StepOp, number: int = 0, **values: int | tuple[int, ...]) -> Change:
    """A step with other values."""

    def change(program: Program) -> None:
        at = of(program, opcode, number)
        program.steps[at] = replace(program.steps[at], **values)  # type: ignore[arg-type]

    return change


def put(opcode: StepOp, step: Step) -> Change:
    """A step before the first one of a kind."""

    def change(program: Program) -> None:
        program.steps.insert(of(program, opcode), step)

    return change


def record(
    opcode: StepOp, change: Callable[[TensorRecord], TensorRecord], number: int = 0, *, output: bool = False
) -> Change:
    """One step's first input or output is another one."""

    def changed(program: Program) -> None:
        at = of(program, opcode, number)
        step = program.steps[at]
        [first, *rest] = step.outputs if output else step.inputs
        tensor = program.tensors[first]
        given = (program.add(replace(tensor, tensor=change(tensor.tensor))), *rest)
        program.steps[at] = replace(step, outputs=given) if output else replace(step, inputs=given)

    return changed


def down(tensor: TensorRecord) -> TensorRecord:
    """A tile one row further."""
    return replace(tensor, processed=(0, 0, tensor.processed[2] + 1, 0))


def far(tensor: TensorRecord) -> TensorRecord:
    return tensor.at(tensor.addr + 0x280000)


WRONG: dict[str, tuple[Callable[[], tuple[Plan, Program]], Change, str]] = {
    "a load is missing": (tiled, drop(StepOp.LOAD), "is not in local memory"),
    "another region is loaded": (tiled, record(StepOp.LOAD, down, 1, output=True), "is not in local memory"),
    "another region is computed": (tiled, record(StepOp.LOCAL, down, 1, output=True), "the window is"),
    "another region is read": (tiled, record(StepOp.LOCAL, down, 1), "is not in local memory"),
    "another region is stored": (tiled, record(StepOp.STORE, down), "none of .* is in local memory"),
    "another layout": (
        tiled,
        record(StepOp.LOCAL, lambda t: replace(t, ttype=TType.COEFF)),
        "is not in local memory",
    ),
    "less padding": (
        tiled,
        record(StepOp.LOCAL, lambda t: replace(t, slice_pad=(0, 0, 0, 0))),
        "padding 0",
    ),
    "a compact output": (
        tiled,
        record(StepOp.LOCAL, lambda t: replace(t, ttype=TType.COEFF), output=True),
        "is not aligned",
    ),
    "a tile is not stored": (tiled, drop(StepOp.STORE, -1), "t is not in DDR"),
    "stored elsewhere": (tiled, record(StepOp.STORE, far, output=True), "none of \\[\\]"),
    "loaded from elsewhere": (tiled, record(StepOp.LOAD, far), "no complete tensor"),
    "the buffer lies over the tile": (
        tiled,
        another(StepOp.LOCAL, 1, buffer_addr=0),
        "is not in local memory",
    ),
    "the buffer has another size": (
        tiled,
        another(StepOp.LOCAL, buffer_bytes=64),
        "a work buffer of 64 bytes, not 128",
    ),
    "outside of local memory": (tiled, another(StepOp.LOCAL, buffer_addr=0x80000), "of local memory"),
    "a wait for what comes later": (tiled, another(StepOp.WAIT, bd_after=999), "waits for step 999"),
    "no wait": (tiled, another(StepOp.WAIT, bd_after=0, gdma_after=0), "without an order"),
    "a section stays open": (tiled, drop(StepOp.PARALLEL_END), "global layer is overlapped"),
    "a section in a section": (tiled, put(StepOp.LOAD, Step(StepOp.PARALLEL_START)), "begins in another one"),
    "a section stays open at the end": (joined, drop(StepOp.PARALLEL_END), "a parallel section stays open"),
    "the result is not stored": (joined, drop(StepOp.STORE), "y is not in DDR when its part"),
    "no section": (tiled, drop(StepOp.PARALLEL_START), "outside of parallel sections"),
    "two ends": (tiled, put(StepOp.GLOBAL, Step(StepOp.PARALLEL_END)), "no parallel section is open"),
    "a global layer reads elsewhere": (tiled, record(StepOp.GLOBAL, far), "t is at another address"),
    "a global layer writes elsewhere": (
        tiled,
        record(StepOp.GLOBAL, far, output=True),
        "y is at another address",
    ),
    "a part is not copied": (joined, drop(StepOp.MOVE), "j .* is not in local memory"),
    "a part is copied elsewhere": (joined, another(StepOp.MOVE, channel=64), "p1 .* is not in local memory"),
    "a part is copied to no part": (joined, another(StepOp.MOVE, channel=65), "no part begins at channel 65"),
    "L2 is not filled": (on_l2, drop(StepOp.COPY), "k is not in L2"),
    "L2 beyond its end": (on_l2, record(StepOp.COPY, far, output=True), "a copy to"),
    "L2 from elsewhere": (on_l2, record(StepOp.COPY, far), "no complete tensor"),
    "dynamic: another region is loaded": (
        by_the_firmware,
        record(StepOp.LOAD, down, 1, output=True),
        "is not in local memory",
    ),
    "dynamic: what is loaded was not made yet": (
        by_the_firmware,
        another(StepOp.LOAD, inputs=(1,)),
        "no complete tensor",
    ),
    "dynamic: a tile is stored twice and another one never": (
        by_the_firmware,
        lambda program: another(StepOp.STORE, -1, inputs=program.steps[of(program, StepOp.STORE)].inputs)(
            program
        ),
        "is not in",
    ),
    "dynamic: the buffer has another size": (
        by_the_firmware,
        another(StepOp.LOCAL, buffer_bytes=64),
        "a work buffer of 64 bytes, not 128",
    ),
    "dynamic: no wait": (
        by_the_firmware,
        lambda program: another(
            StepOp.WAIT, -1, bd_after=of(program, StepOp.LOAD), gdma_after=of(program, StepOp.LOAD)
        )(program),
        "without an order",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_refused(name: str) -> None:
    make, change, said = WRONG[name]
    plan, program = make()
    change(program)
    with pytest.raises(CompileError, match=said):
        verify(plan)


def placed(plan: Plan, **address: int) -> Plan:
    """The plan with tensors at other addresses in DDR."""
    ddr = replace(plan.ddr, address={**plan.ddr.address, **address})
    return replace(plan, ddr=ddr, programs=(emit_static(plan.described, plan.schedule.segments, ddr),))


def test_tensors_that_share_memory_at_the_wrong_time() -> None:
    graph = Graph(toolkit=FakeToolkit(global_layer()))
    graph.add_input("x", (1, 3, 8, 8))
    for source, made in (("x", "a"), ("x", "b"), ("ab", "c"), ("c", "y")):
        graph.add_tpu_layer("TPU_GLOB", list(source), None, [made])
    graph.add_output("b")
    graph.add_output("y")
    plan, _ = planned(graph)
    at = plan.ddr.address
    verify(placed(plan))
    with pytest.raises(CompileError, match="a is not in DDR"):
        verify(placed(plan, b=at["a"]))
    with pytest.raises(CompileError, match="b is not in DDR when its part of the net is done"):
        verify(placed(plan, y=at["b"]))
    with pytest.raises(CompileError, match="a and c share memory"):
        verify(placed(plan, c=at["a"] + 256))


def test_a_window_that_is_never_cut_has_padding() -> None:
    graph = Graph(toolkit=FakeToolkit(window_layer("TPU_WIN", 0, kernel=3, pad=1, can_split_local_h_w=False)))
    graph.add_input("x", (6, 64, 120, 120))
    graph.add_tpu_layer("TPU_WIN", ["x"], None, ["y"])
    plan, program = planned(graph)
    call = program.steps[of(program, StepOp.LOCAL)]
    assert program.tensors[call.inputs[0]].tensor.slice_pad == (0, 0, 1, 1)
    record(StepOp.LOCAL, lambda t: replace(t, slice_pad=(0, 0, 0, 0)))(program)
    with pytest.raises(CompileError, match="padding 0"):
        verify(plan)


def test_a_tile_may_be_in_two_places() -> None:
    plan, program = joined()
    at = of(program, StepOp.LOAD)
    step = program.steps[at]
    tile = program.tensors[step.outputs[0]]
    copy = program.add(replace(tile, tensor=tile.tensor.at(0x60000)))
    program.steps.insert(at + 1, replace(step, outputs=(copy,)))
    for i, one in enumerate(program.steps):
        if one.opcode is StepOp.WAIT:
            after = {"bd_after": one.bd_after, "gdma_after": one.gdma_after}
            moved = {name: number + (number >= at) for name, number in after.items()}
            program.steps[i] = replace(one, **moved)  # type: ignore[arg-type]
    verify(plan)
