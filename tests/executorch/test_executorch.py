"""Programs of ExecuTorch with partitions on the BM1684, run by its own runtime."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")
pytest.importorskip("executorch", reason="needs executorch: pip install executorch==1.5.1")

from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner  # noqa: E402
from executorch.devtools import Inspector  # noqa: E402
from executorch.exir import to_edge, to_edge_transform_and_lower  # noqa: E402
from executorch.exir.backend.compile_spec_schema import CompileSpec  # noqa: E402
from executorch.exir.backend.partitioner import (  # noqa: E402
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from executorch.exir.lowered_backend_module import get_lowered_backend_modules  # noqa: E402

from firmware_sim.errors import UsageError  # noqa: E402
from tests.support.workspaces import built_workspace  # noqa: E402
from tpulayer.executorch import (  # noqa: E402
    TpuLayerBackend,
    TpuLayerPartitioner,
    backend_library,
    counters,
    runner,
    runtime,
)
from user_layers.delegates.program import unpack  # noqa: E402
from user_layers.executorch.command import count_partitions  # noqa: E402
from user_layers.executorch.options import Options  # noqa: E402

nn = torch.nn
Module: Any = nn.Module


@pytest.fixture(scope="module", autouse=True)
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The device of this process has the layers of this repository."""
    with pytest.MonkeyPatch.context() as patch:
        root = built_workspace(
            tmp_path_factory, folder="delegate_layers"
        ).root  # as other files: one firmware
        patch.setenv("TPULAYER_WORKSPACE", str(root))
        yield


class Net(Module):  # type: ignore[misc]
    """A net with an operation in the middle for which there is no layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = torch.atan(torch.relu(self.norm(self.conv(x))))
        return torch.softmax(self.linear(x.mean((2, 3))), -1)


X = torch.randn(2, 3, 9, 11, generator=torch.Generator().manual_seed(0))


def _lowered(module: Any, inputs: Any, *partitioners: Any, **given: Any) -> Any:
    program = torch.export.export(module.eval(), inputs, dynamic_shapes=given.pop("shapes", None))
    return to_edge_transform_and_lower(
        program, partitioner=list(partitioners) or [TpuLayerPartitioner()], **given
    )


def _method(edge: Any, folder: Path, **given: Any) -> Any:
    path = folder / "program.pte"
    path.write_bytes(bytes(edge.to_executorch().buffer))
    return runtime().load_program(path, **given).load_method("forward")


def _same(got: Any, want: Any) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype
    assert (got - want).abs().max() <= 1e-4 * want.abs().max()


def test_partitions_run_on_the_device_and_the_rest_stays(tmp_path: Path) -> None:
    partitioner = TpuLayerPartitioner(report=tmp_path / "report.txt")
    edge = _lowered(Net(), (X,), partitioner)
    assert count_partitions(edge) == "2 partitions" and partitioner.counted == (6, 7)
    report = (tmp_path / "report.txt").read_text()
    assert "aten.atan.default: there is no layer" in report
    assert 'test_executorch.py", line ' in report and "torch.atan(torch.relu" in report
    method = _method(edge, tmp_path)
    before = counters()
    _same(method.execute([X])[0], Net().eval()(X).detach())
    after = counters()
    assert after["runs"] - before["runs"] == 2 and after["commands"] > before["commands"]
    assert after["bytes_in"] - before["bytes_in"] == 4 * X.numel() + 4 * 2 * 8 * 9 * 11


def test_only_the_operators_asked_for_go() -> None:
    partitioner = TpuLayerPartitioner(operators=["relu", "aten.mean.dim"], inspect=True)
    _lowered(Net(), (X,), partitioner)
    assert partitioner.counted[0] == 2 and "-->" in partitioner.report()
    assert "not among the operators" in partitioner.report()


@pytest.mark.parametrize("ours_first", [True, False])
def test_beside_xnnpack_in_one_program(ours_first: bool, tmp_path: Path) -> None:
    ours = TpuLayerPartitioner(operators=["convolution", "relu", "_native_batch_norm_legit_no_training"])
    order = [ours, XnnpackPartitioner()]
    edge = _lowered(Net(), (X,), *(order if ours_first else order[::-1]))
    _same(_method(edge, tmp_path).execute([X])[0], Net().eval()(X).detach())
    text = edge.exported_program().graph_module.code
    assert text.count("executorch_call_delegate(") >= 2
    assert count_partitions(edge).startswith("1" if ours_first else "0")  # XNNPACK takes all of these


def test_two_calls_of_to_backend(tmp_path: Path) -> None:
    edge = to_edge(torch.export.export(Net().eval(), (X,)))
    edge = edge.to_backend(TpuLayerPartitioner(operators=["relu"])).to_backend(TpuLayerPartitioner())
    assert count_partitions(edge) == "3 partitions"
    _same(_method(edge, tmp_path).execute([X])[0], Net().eval()(X).detach())


class Both(Partitioner):  # type: ignore[misc]
    """Sums to XNNPACK, and what else we take to us."""

    def __init__(self) -> None:
        self.ours = TpuLayerPartitioner()
        self.theirs = DelegationSpec("XnnpackBackend", [])
        self.delegation_spec = self.ours.delegation_spec

    def partition(self, program: Any) -> PartitionResult:
        tags = {}
        supported = self.ours.supported(program)
        for number, node in enumerate(node for node in program.graph.nodes if node in supported):
            tag = f"{'xnnpack' if 'add' in node.name else 'tpu'}_{number}"
            node.meta["delegation_tag"] = tag
            tags[tag] = self.theirs if "add" in node.name else self.ours.delegation_spec
        return PartitionResult(tagged_exported_program=program, partition_tags=tags)


def test_one_partitioner_for_two_backends(tmp_path: Path) -> None:
    class Sums(Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.sigmoid(torch.relu(x) + x) + x

    edge = _lowered(Sums(), (X,), Both())
    found = [
        lowered.backend_id for lowered in get_lowered_backend_modules(edge.exported_program().graph_module)
    ]
    assert sorted(found) == ["TpuLayerBackend"] * 2 + ["XnnpackBackend"] * 2
    before = counters()["runs"]
    _same(_method(edge, tmp_path).execute([X])[0], Sums()(X))
    assert counters()["runs"] - before == 2


def test_more_inputs_and_outputs_than_a_net_has(tmp_path: Path) -> None:
    class Many(Module):  # type: ignore[misc]
        def forward(self, *given: Any) -> Any:
            total = given[0]
            for one in given[1:]:
                total = total + one
            return [torch.relu(total * (number + 1)) for number in range(20)]

    given = tuple(torch.randn(3, 5) for _ in range(18))
    partitioner = TpuLayerPartitioner()
    edge = _lowered(Many(), given, partitioner)
    assert count_partitions(edge) in ("2 partitions", "3 partitions")
    assert partitioner.counted[0] == partitioner.counted[1]
    for mine, theirs in zip(_method(edge, tmp_path).execute(list(given)), Many()(*given), strict=True):
        _same(mine, theirs)


def test_more_inputs_inside_than_a_net_has(tmp_path: Path) -> None:
    class Wide(Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.cat([torch.relu(x * (number + 1)) for number in range(20)], 1)

    edge = _lowered(Wide(), (X,))
    assert count_partitions(edge) == "1 partition"
    _same(_method(edge, tmp_path).execute([X])[0], Wide()(X))


def test_free_extents_are_those_of_the_call(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", max=4)
    edge = _lowered(Net(), (torch.cat([X, X]),), shapes=({0: batch},))
    method = _method(edge, tmp_path)
    for count in (4, 1, 3):
        x = torch.randn(count, 3, 9, 11)
        _same(method.execute([x])[0], Net().eval()(x).detach())


class Shaped(Module):  # type: ignore[misc]
    """What could take the number of an extent, and what is counted from an end."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Any) -> Any:
        wide = x[:, None].expand(-1, 3, -1, -1, -1) * 1.5
        normal = nn.functional.group_norm(x, 2)
        free, count = self.axis, x.shape[self.axis]
        return x[:, :, -1], wide, normal, x.sum(free) / count, x.var(free), x.clamp(max=count / 8)


@pytest.mark.parametrize("axis", [0, 2])
def test_extents_are_never_those_of_the_bound(axis: int, tmp_path: Path) -> None:
    shape = [8, 4, 8, 6]
    dims = {axis: torch.export.Dim("n", min=2, max=8)}
    method = _method(_lowered(Shaped(axis), (torch.randn(shape),), shapes=(dims,)), tmp_path)
    for count in (8, 4, 3):
        x = torch.randn(*shape[:axis], count, *shape[axis + 1 :])
        for mine, theirs in zip(method.execute([x]), Shaped(axis)(x), strict=True):
            _same(mine, theirs)


class Branches(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(5, 4), nn.Linear(5, 4)
        self.register_buffer("shift", torch.randn(4))

    def forward(self, rows: Any, flag: Any) -> Any:
        return torch.cond(
            flag,
            lambda x: torch.relu(self.first(x)) + self.shift,
            lambda x: torch.sigmoid(self.second(x)) * 2.5,
            (rows,),
        )


class Rows(Branches):
    def forward(self, rows: Any, flag: Any) -> Any:
        from functorch.experimental.control_flow import map as each

        return each(lambda row: torch.relu(self.first(row)), rows)


# One in each module: ExecuTorch itself gets two of them in one program wrong.
@pytest.mark.parametrize(("make", "count", "kind"), [(Branches, 2, "cond"), (Rows, 1, "map_impl")])
def test_parameters_in_control_flow(make: Any, count: int, kind: str, tmp_path: Path) -> None:
    rows = torch.randn(3, 2, 5)
    partitioner = TpuLayerPartitioner()
    edge = _lowered(make(), (rows, torch.tensor(True)), partitioner)
    assert count_partitions(edge).startswith(str(count))
    assert [one.kind for one in partitioner.verdicts if one.reason is not None] == [kind]
    method = _method(edge, tmp_path)
    for flag in (torch.tensor(True), torch.tensor(False)):
        _same(method.execute([rows, flag])[0], make()(rows, flag).detach())


def test_a_torch_operator_is_the_users_layer(tmp_path: Path) -> None:
    @torch.library.custom_op(  # type: ignore[untyped-decorator]
        "tpulayer::crop", mutates_args=(), schema="(Tensor x, int[] before, int[] after) -> Tensor"
    )
    def crop(x: Any, before: Any, after: Any) -> Any:
        raise NotImplementedError("only the device has it")

    @crop.register_fake  # type: ignore[untyped-decorator]
    def _(x: Any, before: Any, after: Any) -> Any:
        return x.new_empty([n - b - a for n, b, a in zip(x.shape, before, after, strict=True)])

    @torch.library.custom_op(  # type: ignore[untyped-decorator]
        "mine::twice", mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    def twice(x: Any) -> Any:
        return x * 2

    twice.register_fake(torch.empty_like)

    class Own(Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return twice(crop(torch.relu(x), [0, 1, 2, 0], [0, 0, 1, 3])) + 1

    partitioner = TpuLayerPartitioner(custom={"mine::twice": "TPU_DOUBLE"})
    edge = _lowered(Own(), (X,), partitioner)
    assert partitioner.counted[0] == partitioner.counted[1] and count_partitions(edge) == "1 partition"
    _same(_method(edge, tmp_path).execute([X])[0], torch.relu(X)[:, 1:, 2:-1, :-3] * 2 + 1)


def test_indices_and_truth_values_are_converted_on_the_way(tmp_path: Path) -> None:
    class Types(Module):  # type: ignore[misc]
        def forward(self, x: Any, mask: Any) -> Any:
            return x.argmax(1), torch.where(mask, x, -x), x > 0

    x, mask = torch.randn(5, 7), torch.randn(5, 7) > 0
    edge = _lowered(Types(), (x, mask))
    assert count_partitions(edge) == "1 partition"
    got = _method(edge, tmp_path).execute([x, mask])
    for mine, theirs in zip(got, Types()(x, mask), strict=True):
        assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)


def test_the_inspector_sees_every_layer_under_its_operators(tmp_path: Path) -> None:
    edge = _lowered(Net(), (X,), generate_etrecord=True)
    program = edge.to_executorch()
    (tmp_path / "net.pte").write_bytes(bytes(program.buffer))
    program.get_etrecord().save(str(tmp_path / "record"))
    loaded = runtime().load_program(tmp_path / "net.pte", enable_etdump=True, debug_buffer_size=1 << 20)
    loaded.load_method("forward").execute([X])
    loaded.write_etdump_result_to_file(str(tmp_path / "dump"), str(tmp_path / "buffer"))
    inspector = Inspector(etdump_path=str(tmp_path / "dump"), etrecord=str(tmp_path / "record"))
    ours = [event for block in inspector.event_blocks for event in block.events if event.is_delegated_op]
    assert [event.op_types for event in ours][:2] == [
        ["aten.convolution.default", "aten._native_batch_norm_legit_no_training.default"],
        ["aten.relu.default"],
    ]
    # A view is a layer that takes no time.
    assert [event.name for event in ours if not event.perf_data.raw[0]] == ["aten_mean_dim/Squeeze"]
    assert any("self.conv(x)" in trace for trace in ours[0].stack_traces.values())


def test_a_program_without_python(tmp_path: Path) -> None:
    (tmp_path / "net.pte").write_bytes(bytes(_lowered(nn.ReLU(), (X,)).to_executorch().buffer))
    X.numpy().tofile(tmp_path / "x.bin")
    words = [runner(), tmp_path / "net.pte", backend_library(), tmp_path / "x.bin", tmp_path / "y"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    got = np.fromfile(tmp_path / "y.0", np.float32).reshape(X.shape)
    np.testing.assert_array_equal(got, torch.relu(X).numpy())


def test_options_travel_as_compile_specs() -> None:
    options = Options(opt=1, dynamic=True, device=2, workspace="/w", custom={"a::b": "TPU_B"})
    assert Options.of(options.specs()) == options
    with pytest.raises(UsageError, match="no compile spec 'speed'"):
        Options.of([CompileSpec("speed", b"9")])
    with pytest.raises(UsageError, match="opt=7"):
        TpuLayerPartitioner(opt=7)


def test_what_is_compiled_has_the_modules_constants_in_it() -> None:
    edge = to_edge(torch.export.export(nn.Linear(4, 3).eval(), (torch.randn(2, 4),)))
    result = TpuLayerBackend.preprocess(edge.exported_program(), Options().specs())
    (partition,) = unpack(result.processed_bytes)
    assert [border.shape for border in partition.inputs] == [(2, 4)]
    assert [border.shape for border in partition.outputs] == [(2, 3)]
