"""The schema text, and the classes generated from it."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from firmware_sim.errors import MissingError
from tests.support.bmodel_samples import static_net
from user_layers.bmodel import regenerate, write
from user_layers.bmodel.schema import bmodel_schema, parse

SCHEMA = Path(regenerate.HERE, "model.fbs")


def test_generated_classes_are_up_to_date() -> None:
    found = regenerate.flatc_version()
    if found != regenerate.FLATC_VERSION:
        pytest.skip(f"needs flatc {regenerate.FLATC_VERSION} (flatbuffers-compiler), found {found}")
    committed = {p.name: p.read_text() for p in (regenerate.HERE / "generated").glob("*.py")}
    assert committed == regenerate.generate(), "run python -m user_layers.bmodel.regenerate"


def test_regenerating_without_flatc_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(MissingError, match=r"flatc .* is needed"):
        regenerate.generate()


def test_flatc_reads_what_is_written(tmp_path: Path) -> None:
    """Another implementation of flatbuffers, given the schema, sees the same values."""
    if shutil.which("flatc") is None:
        pytest.skip("needs flatc (flatbuffers-compiler)")
    data = write(static_net(), created=0)
    table = tmp_path / "model.bin"
    table.write_bytes(data[64 : 64 + struct.unpack_from("<4I", data)[2]])
    command = [
        "flatc",
        "--json",
        "--strict-json",
        "--raw-binary",
        "-o",
        str(tmp_path),
        str(SCHEMA),
        "--",
        str(table),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    found = json.loads((tmp_path / "model.json").read_text())
    parameter = found["net"][0]["parameter"][0]
    assert parameter["input_tensor"][0]["shape"] == [{"dim": [2, 4]}]
    assert parameter["sub_net"][0]["cmd_group"][0]["gdma_num"] == 2
    assert parameter["cmd_group"][0]["binary_gdma"]["size"] == 256
    assert parameter["coeff_mem"]["address"] == 0x1_0510_0000
    assert len(parameter["coeff_mem"]["check_code"]) == 32


def test_schema_fields() -> None:
    schema = bmodel_schema()
    assert schema.root == "Model" and len(schema.tables) == 21
    fields = {f.name: f for f in schema.tables["NetParameter"]}
    assert fields["net_stat"].id == 15 and (fields["net_stat"].kind, fields["net_stat"].size) == (
        "struct",
        16,
    )
    assert fields["ctx_sizes"].vector and fields["ctx_sizes"].size == 8
    assert fields["input_tensor"].required and fields["input_tensor"].type == "Tensor"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("table A { x:int32 (id: 1); } root_type A;", "ids are not 0, 1, 2"),
        ("table A { x:B (id: 0); } root_type A;", "unknown type B"),
        ("table A { x:int32 (deprecated); } root_type A;", "cannot read the schema line"),
        ("struct S { x:uint8; y:uint64; } table A { s:S (id: 0); } root_type A;", "members of one size"),
        ("table A { x:int32 (id: 0); }", "no root_type"),
    ],
)
def test_schema_text_that_is_not_understood(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)
