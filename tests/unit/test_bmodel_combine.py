"""tpu_model --extract, --combine, --combine_dir, --print, --weight, --dump."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import ModelError, UsageError
from tests.support.bmodel_samples import COEFF, dynamic_net, static_net
from tests.support.fake_device import FakeDevice
from user_layers.bmodel import container, read, save
from user_layers.bmodel.combine import combine, combine_dirs, extract
from user_layers.bmodel.directory import INPUT_REFERENCE, OUTPUT_REFERENCE
from user_layers.bmodel.generated.Binary import BinaryT
from user_layers.bmodel.generated.Cascade import CascadeT
from user_layers.bmodel.generated.KernelModule import KernelModuleT
from user_layers.bmodel.generated.Location import LocationT
from user_layers.bmodel.generated.Model import ModelT
from user_layers.bmodel.tool import TpuModelOptions, run
from user_layers.runtime import BModelRuntime

REFERENCES = (INPUT_REFERENCE, OUTPUT_REFERENCE)


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A file with net twice, of two stages, and net grow."""
    path = tmp_path / "three.bmodel"
    save(path, [static_net(2, 3), dynamic_net()], created=0)
    return path


def one(tmp_path: Path, name: str, *rows: int) -> Path:
    """A file with the net `name`, a stage per entry of rows."""
    path = tmp_path / f"{name}{'_'.join(map(str, rows))}.bmodel"
    save(path, static_net(*rows, name=name), created=0)
    return path


def changed(path: Path, change: Callable[[ModelT], None], extra: bytes = b"") -> Path:
    """The file with other objects, and with more binary data behind its own."""
    source = container.unpack(path)
    change(source.model)
    pool = container.Pool()
    pool.add(bytes(source.binary) + extra)
    path.write_bytes(container.pack(source.model, pool))
    return path


def test_extract_and_combine_undo_each_other(three: Path, tmp_path: Path) -> None:
    made = extract(three, tmp_path / "parts")
    assert [p.name for p in made] == [f"bm_net{i}_stage{k}.bmodel" for i, k in ((0, 0), (0, 1), (1, 0))]
    before = read(three)
    for path, (i, k) in zip(made, ((0, 0), (0, 1), (1, 0)), strict=True):
        (net,) = read(path).nets
        assert net.name == before.nets[i].name and net.stages == (before.nets[i].stages[k],)
    combine(made, tmp_path / "again.bmodel")
    assert read(tmp_path / "again.bmodel").nets == before.nets
    # equal pieces are stored once, as in the file that was written at once
    sizes = [len(container.unpack(p).binary) for p in (three, tmp_path / "again.bmodel")]
    assert sizes[0] == sizes[1]


def test_combined_nets_run(tmp_path: Path) -> None:
    combine([one(tmp_path, "a", 2), one(tmp_path, "b", 3), one(tmp_path, "a", 4, 5)], tmp_path / "ab.bmodel")
    constants = np.frombuffer(COEFF, np.float32).reshape(2, 4)
    with FakeDevice() as device, BModelRuntime(device) as runtime:
        assert runtime.load(tmp_path / "ab.bmodel") == ("a", "b")
        for name, rows in (("a", 2), ("a", 4), ("a", 5), ("b", 3)):
            x = np.full((rows, 4), rows, np.float32)
            (y,) = runtime.launch(name, [x])
            assert np.array_equal(y, np.concatenate([x, constants]))


def test_context_directories(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data: dict[str, dict[str, bytes]] = {}
    for folder, rows, name in (("p", (2, 3), "a"), ("q", (7,), "b"), ("r", (5,), "a")):
        (tmp_path / folder).mkdir()
        one(tmp_path, name, *rows).rename(tmp_path / folder / "compilation.bmodel")
        sizes = ([16 * n for n in rows], [16 * n + 32 for n in rows])
        data[folder] = {
            ref: b"".join(rng.bytes(n) for n in size) for ref, size in zip(REFERENCES, sizes, strict=True)
        }
        for ref, content in data[folder].items():
            (tmp_path / folder / ref).write_bytes(content)
    combine_dirs([tmp_path / f for f in "pqr"], tmp_path / "all")
    model = read(tmp_path / "all" / "compilation.bmodel")
    assert [(net.name, len(net.stages)) for net in model.nets] == [("a", 3), ("b", 1)]
    for ref in REFERENCES:  # net a: those of p, then r's; then net b
        assert (tmp_path / "all" / ref).read_bytes() == b"".join(data[f][ref] for f in "prq")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            INPUT_REFERENCE,
            b"1234",
            r"input_ref_data\.dat has 4 bytes; the nets of .* need 32",
        ),
        (OUTPUT_REFERENCE, None, r"cannot read .*output_ref_data\.dat: No such file"),
        ("compilation.bmodel", b"\x7fELF", "not a bmodel"),
    ],
)
def test_context_directories_that_do_not_fit(
    tmp_path: Path, file: str, content: bytes | None, message: str
) -> None:
    for folder in "pq":
        (tmp_path / folder).mkdir()
        one(tmp_path, folder, 2).rename(tmp_path / folder / "compilation.bmodel")
        for ref, size in zip(REFERENCES, (32, 64), strict=True):
            (tmp_path / folder / ref).write_bytes(bytes(size))
    wrong = tmp_path / "q" / file
    wrong.unlink()
    if content is not None:
        wrong.write_bytes(content)
    with pytest.raises(ModelError, match=message):
        combine_dirs([tmp_path / "p", tmp_path / "q"], tmp_path / "all")
    assert not (tmp_path / "all").exists()


def _cascade(model: ModelT) -> None:
    model.net[0].cascade = CascadeT()


def _one_block(model: ModelT) -> None:
    model.bmodelType = 1


def _set(name: str, value: Any, part: str = "net") -> Callable[[ModelT], None]:
    def change(model: ModelT) -> None:
        net = model.net[0]
        objects = {"net": net, "parameter": net.parameter[0], "input": net.parameter[0].inputTensor[0]}
        setattr(objects[part], name, value)

    return change


def with_module(path: Path, content: bytes) -> Path:
    start = len(container.unpack(path).binary)

    def change(model: ModelT) -> None:
        module = KernelModuleT()
        module.fileName = "firmware.so"
        module.binary = BinaryT()
        module.binary.start, module.binary.size = start, len(content)
        model.kernelModule = module

    return changed(path, change, content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_cascade, "net 'a' is one part of a net for several devices"),
        (_one_block, "its nets share one block of constants"),
        (_set("addrMode", 1), "cannot be stages of one net: their address modes are 1 and 0"),
        (_set("isDynamic", 1, "parameter"), "one is static, the other dynamic"),
        (_set("name", "z", "input"), r"their inputs are z \(float32\) and x \(float32\)"),
        (_set("scale", 0.5, "input"), r"x \(float32, scale 0\.5, zero point 0\)"),
        (_set("gmemStmode", 2, "input"), r"x \(float32, mode 2\)"),
    ],
)
def test_files_that_cannot_be_combined(
    tmp_path: Path, change: Callable[[ModelT], None], message: str
) -> None:
    good, bad = one(tmp_path, "a", 2), changed(one(tmp_path, "a", 3), change)
    with pytest.raises(ModelError, match=message):
        combine([good, bad], tmp_path / "new.bmodel")
    assert not (tmp_path / "new.bmodel").exists()


def test_stages_of_the_same_shapes(tmp_path: Path) -> None:
    message = r"a3\.bmodel, stage 0, and of .*a2_3\.bmodel, stage 1, .* their inputs have the same shapes"
    with pytest.raises(ModelError, match=message):
        combine([one(tmp_path, "a", 2, 3), one(tmp_path, "a", 3)], tmp_path / "new.bmodel")


@pytest.mark.parametrize("contents", [(b"one", b"one"), (b"", b"one"), (b"one", b"two")])
def test_modules(tmp_path: Path, contents: tuple[bytes, bytes]) -> None:
    paths = [with_module(one(tmp_path, n, 2), content) for n, content in zip("ab", contents, strict=True)]
    if contents == (b"one", b"two"):
        with pytest.raises(ModelError, match=r"a2\.bmodel and .*b2\.bmodel carry different modules"):
            combine(paths, tmp_path / "new.bmodel")
        return
    combine(paths, tmp_path / "new.bmodel")
    module = read(tmp_path / "new.bmodel").kernel_module
    assert module is not None and (module.file_name, module.data) == ("firmware.so", b"one")


def test_pieces_that_the_reader_does_not_need_are_checked_too(tmp_path: Path) -> None:
    place = BinaryT()
    place.start, place.size = 0, 1 << 40
    bad = changed(one(tmp_path, "a", 2), _set("tensorLoc", place, "parameter"))
    with pytest.raises(ModelError, match=r"a2\.bmodel: bytes 0 to 1099511627776 of"):
        extract(bad, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_contexts_of_several_blocks(tmp_path: Path) -> None:
    path = changed(one(tmp_path, "a", 2), _set("ctxSizes", [4096, 96], "parameter"))
    (part,) = extract(path, tmp_path)
    assert read(part).nets[0].stages[0].ctx_sizes == (4096, 96)
    assert container.unpack(part).model.neuronSize == 4192


def test_contexts_that_no_chip_has(tmp_path: Path) -> None:
    path = changed(one(tmp_path, "a", 2), _set("ctxSizes", [1 << 63, 1 << 63], "parameter"))
    with pytest.raises(ModelError, match="net 'a': context of 18446744073709551616 bytes"):
        extract(path, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_print_has_every_field(three: Path) -> None:
    found = json.loads(run(TpuModelOptions(print=three)))
    first = found["net"][0]["parameter"][0]
    assert first["input_tensor"][0]["shape"] == [{"dim": [2, 4]}]
    assert first["cmd_group"][0]["binary_gdma"]["size"] == 256
    assert len(first["coeff_mem"]["check_code"]) == 32
    assert found["net"][1]["parameter"][0]["is_dynamic"] == 1


def test_weight_lists_the_layers_constants(tmp_path: Path) -> None:
    def locations(model: ModelT) -> None:
        place = LocationT()
        place.name, place.offset, place.size = "conv.weight", 16, 8
        model.net[0].parameter[0].coeffMem.location = [place]

    lines = run(TpuModelOptions(weight=changed(one(tmp_path, "a", 2), locations))).splitlines()
    assert lines == ['net 0 : "a", stage:0', "-" * 31, "conv.weight : [0x10, 0x18)", "=" * 42]


def test_dump(tmp_path: Path) -> None:
    path, target = one(tmp_path, "a", 2), tmp_path / "piece"
    stage = json.loads(run(TpuModelOptions(print=path)))["net"][0]["parameter"][0]
    place = stage["coeff_mem"]["binary_coeff"]
    words = (str(place["start"]), str(place["size"]), str(target))
    assert run(TpuModelOptions(dump=path, more=words)) == f"wrote {target}"
    assert target.read_bytes() == COEFF
    with pytest.raises(UsageError, match=r"bytes of binary data; asked for are 99999 from 0"):
        run(TpuModelOptions(dump=path, more=("0", "99999", str(target))))


HERE = Path("a.bmodel")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TpuModelOptions(), "none is given"),
        (TpuModelOptions(info=HERE, print=HERE), "not both --info and --print"),
        (TpuModelOptions(combine=HERE, more=("b",)), "--combine needs -o"),
        (TpuModelOptions(combine=HERE, output=HERE), "at least two files"),
        (TpuModelOptions(extract=HERE, more=("b",)), "--extract takes one file; what is 'b'"),
        (TpuModelOptions(info=HERE, output=HERE), "-o is not for --info"),
        (TpuModelOptions(weight=HERE, json=True), "--json is for --info, not for --weight"),
        (TpuModelOptions(dump=HERE, more=("1", "x", "y")), "--dump takes a file, two numbers and a file"),
        (TpuModelOptions(dump=HERE, more=("1", "2")), "--dump takes a file, two numbers and a file"),
    ],
)
def test_words_that_do_not_fit(
    options: TpuModelOptions, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one(tmp_path, "a", 2).rename(tmp_path / HERE)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        run(options)


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a file; combined context directories make a folder"):
        combine_dirs([tmp_path, tmp_path], one(tmp_path, "a", 2))


def test_combined_metadata_is_of_the_first_file(tmp_path: Path) -> None:
    second = changed(one(tmp_path, "b", 2), lambda model: setattr(model, "version", "2.2+v1.30.2"))
    combine([second, one(tmp_path, "a", 2)], tmp_path / "new.bmodel")
    model = read(tmp_path / "new.bmodel")
    assert model.version == "2.2+v1.30.2" and replace(model, nets=()).chip == "BM1684"
