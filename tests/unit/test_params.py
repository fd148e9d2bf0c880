"""Parameter structs from Python: bytes as the C compiler lays them out, and every refusal."""

from __future__ import annotations

import math
from pathlib import Path
from struct import pack as struct_bytes
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import MissingError, SourceError, UsageError
from tests.support.layer_sources import Sources, compile_text, compiler, device
from user_layers.codegen import generate
from user_layers.params import FieldError, ParamTypes

TYPES = (
    "#include <stdint.h>\n#include <stdbool.h>\ntypedef enum { NEAREST, LINEAR = 5 } mode_e;\n"
    "struct inner { uint8_t a; double d; };\ntypedef union { float f; int32_t i; } either_t;\n"
    "typedef struct __attribute__((packed)) { char tag; int16_t s; } tight_t;\n"
)
STRUCT = (
    "typedef struct { int8_t i8; uint16_t u16; int i32[3]; u64 big; bool on; float f[2][2]; "
    "double d; mode_e mode;"
    " struct inner in[2]; either_t u; tight_t tight; char name[6]; DATA_TYPE_T type; } tpu_x_param_t;"
)


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = Sources(tmp_path_factory.mktemp("params"))
    sources.layer(device(struct=STRUCT, extra=TYPES))
    generate(sources.table(), sources.root / "generated")
    return sources.root / "generated" / "bmtpu.h"


@pytest.fixture(scope="module")
def params(header: Path) -> ParamTypes:
    return ParamTypes.from_record(header.with_suffix(".json"))


def test_names_sizes_and_fields(params: ParamTypes) -> None:
    assert params.names() == ["TPU_X"] and params.op_type("TPU_X") == 0
    assert params.sizeof("TPU_X") == 120
    assert params.fields("TPU_X")["f"] == "float[2][2]"
    for call in (params.op_type, params.sizeof, params.param_bytes):
        with pytest.raises(UsageError, match=r"no layer TPU_Z; known are TPU_X"):
            call("TPU_Z")


def test_text_may_fill_its_array(params: ParamTypes) -> None:
    for text in ("six ch", b"six ch"):
        assert params.param_values("TPU_X", params.param_bytes("TPU_X", {"name": text}))["name"] == list(
            b"six ch"
        )


def test_bytes_are_those_of_the_compiler(header: Path, params: ParamTypes, tmp_path: Path) -> None:
    import ctypes
    import subprocess

    text = (
        f'#include "{header}"\nconst tpu_x_param_t x = {{.i8 = -3, .u16 = 65535, .i32 = '
        "{1, -2}, .big = 1ull << 63, "
    )
    text += ".on = true, .f = {{1, 2}, {3}}, .d = 0.1, .mode = LINEAR, .in = {{7, 1.5}}, .u.i = -1, "
    text += ".tight = {'q', -300}, .name = \"abc\", .type = DTYPE_INT8};\n"
    (tmp_path / "x.c").write_text(text)
    library = tmp_path / "x.so"
    subprocess.run(
        [*compiler("c"), "-shared", "-fPIC", "-o", library, tmp_path / "x.c"], check=True, timeout=840
    )
    size = params.sizeof("TPU_X")
    expected = bytes((ctypes.c_char * size).in_dll(ctypes.CDLL(str(library)), "x"))
    values = {
        "i8": -3,
        "u16": 65535,
        "i32": [1, -2],
        "big": 1 << 63,
        "on": True,
        "f": [[1, 2], [3]],
        "d": 0.1,
        "mode": "LINEAR",
        "in": [{"a": 7, "d": 1.5}],
        "u": {"i": -1},
        "tight": {"tag": "q", "s": -300},
        "name": "abc",
        "type": 2,
    }
    assert params.param_bytes("TPU_X", values) == expected
    back = params.param_values("TPU_X", expected)
    assert back["i32"] == [1, -2, 0] and back["in"][0] == {"a": 7, "d": 1.5} and back["mode"] == 5
    assert back["tight"]["s"] == -300 and back["type"] == 2


def test_nothing_given_is_all_zero(params: ParamTypes) -> None:
    assert params.param_bytes("TPU_X") == params.param_bytes("TPU_X", {}) == bytes(params.sizeof("TPU_X"))


def test_numpy_values(params: ParamTypes) -> None:
    values = {
        "i32": np.array([1, 2, 3]),
        "f": np.eye(2, dtype=np.float32),
        "u16": np.uint8(9),
        "on": np.True_,
    }
    back = params.param_values("TPU_X", params.param_bytes("TPU_X", values))
    assert (
        back["i32"] == [1, 2, 3] and back["f"] == [[1, 0], [0, 1]] and back["u16"] == 9 and back["on"] is True
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1], "TPU_X: parameters given as list [1]"),
        ({"i33": 1}, "TPU_X.i33: unknown field; the struct has i8, u16, i32, big,"),
        ({"in": [{"b": 1}]}, "TPU_X.in[0].b: unknown field; the struct has a, d"),
        ({"i8": 128}, "TPU_X.i8: 128 does not fit int8_t (-128..127)"),
        ({"u16": -1}, "TPU_X.u16: -1 does not fit uint16_t (0..65535)"),
        ({"big": 1 << 64}, "TPU_X.big: 18446744073709551616 does not fit unsigned long long"),
        ({"i32": [0, 0, 1 << 31]}, "TPU_X.i32[2]: 2147483648 does not fit int (-2147483648..2147483647)"),
        ({"i32": [1, 2, 3, 4]}, "TPU_X.i32: 4 values, the array has 3"),
        ({"i32": 1}, "TPU_X.i32: expected 3 values, found int 1"),
        ({"i32": "123"}, "TPU_X.i32: expected 3 values, found str '123'"),
        ({"i8": 1.0}, "TPU_X.i8: expected an integer for int8_t, found float 1.0"),
        ({"i8": None}, "TPU_X.i8: expected an integer for int8_t, found NoneType None"),
        ({"on": 2}, "TPU_X.on: 2 does not fit"),
        ({"f": [["1"]]}, "TPU_X.f[0][0]: expected a number for float, found str '1'"),
        ({"f": [[1e39]]}, "TPU_X.f[0][0]: 1e+39 does not fit float (-3.40282e+38..3.40282e+38)"),
        ({"d": 10**400}, "does not fit double"),
        ({"mode": 1}, "TPU_X.mode: 1 is none of "),
        ({"mode": "LINER"}, "TPU_X.mode: 'LINER' is none of "),
        ({"mode": True}, "TPU_X.mode: expected one of "),
        ({"in": [1]}, "TPU_X.in[0]: expected a dict for struct inner, found int 1"),
        ({"tight": 1}, "TPU_X.tight: expected a dict for tight_t, found int 1"),
        ({"u": {"f": 1, "i": 1}}, "TPU_X.u: 2 members of a union given"),
        ({"name": "seven c"}, "TPU_X.name: text of 7 bytes, the array has 6"),
    ],
)
def test_refusals(params: ParamTypes, values: Any, message: str) -> None:
    with pytest.raises(FieldError) as e:
        params.param_bytes("TPU_X", values)
    assert e.value.message.startswith(message) or message in e.value.message
    assert e.value.exit_code == 2


def test_advice(params: ParamTypes) -> None:
    for values, hint in (({"i31": 1}, "did you mean i32?"), ({"mode": "LINER"}, "did you mean LINEAR?")):
        with pytest.raises(FieldError) as e:
            params.param_bytes("TPU_X", values)
        assert e.value.hint == hint
    with pytest.raises(FieldError) as e:
        params.param_bytes("TPU_X", {"i8": 1.5})
    assert "use int(...)" in e.value.hint


def test_unpack_wants_the_right_size(params: ParamTypes) -> None:
    with pytest.raises(UsageError, match="TPU_X: 3 bytes of parameters, the struct has 120"):
        params.param_values("TPU_X", b"abc")


INT = '{"scalar": "int", "name": "int"}'


def record(param: str, op_type: str = "0") -> str:
    return f'{{"format": 1, "layers": [{{"op": "TPU_X", "op_type": {op_type}, "param": {param}}}]}}'


def record_of_struct(member: str) -> str:
    return record(f'{{"struct": "x", "size": 4, "align": 4, "pack": 0, "members": [{member}]}}')


@pytest.mark.parametrize(
    "text",
    [
        "\udcff",
        "typedef int x;",
        "[1]",
        "[" * 100_000,
        '{"layers": []}',
        '{"format": 2, "layers": []}',
        '{"format": 1, "layers": [{"op": "TPU_X", "op_type": 0}]}',
        record_of_struct("").replace('"op_type": 0', '"op_type": "0"'),
        record(INT),
        record("4"),
        record_of_struct(f'["a", 1, {INT}]'),
        record_of_struct(f'["a", -1, {INT}]'),
        record_of_struct('["a", 0, {"scalar": "integer", "name": "int"}]'),
        record_of_struct('["a", 0]'),
    ],
)
def test_records_that_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bmtpu.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(SourceError, match="not a record that this version writes"):
        ParamTypes.from_record(path)


def test_no_record(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"bmtpu.json is missing") as e:
        ParamTypes.from_record(tmp_path / "bmtpu.json")
    assert e.value.exit_code == 3


def test_a_record_without_layers(tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    generate(sources.table(), tmp_path)
    assert ParamTypes.from_record(tmp_path / "bmtpu.json").names() == []


@pytest.mark.parametrize(
    "struct",
    [
        "typedef struct tag { int a; } tpu_x_param_t;",
        "typedef struct both { int a; } both;",
        "struct tpu_x { int a; };",
        "typedef in_t tpu_x_param_t;",
        "typedef struct in tpu_x_param_t;",
    ],
)
def test_ways_to_name_a_struct(tmp_path: Path, struct: str) -> None:
    sources = Sources(tmp_path)
    extra = "struct in { int a; };\ntypedef struct in in_t;\n"
    generate(sources.layer(device(struct=struct, extra=extra)).table(), tmp_path)
    assert ParamTypes.from_record(tmp_path / "bmtpu.json").param_bytes("TPU_X", {"a": 5}) == b"\5\0\0\0"
    for language in ("c", "c++"):
        compile_text(language, ["-fsyntax-only", "-x", language, str(tmp_path / "bmtpu.h")])


def test_unnamed_parts(tmp_path: Path) -> None:
    """Their members are reached as if they were the outer struct's; of a union's at most one can be given."""
    sources = Sources(tmp_path)
    struct = (
        "typedef struct { int a; union { float f; struct { short low, high; }; }; "
        "struct { int x; } p[2]; char c; union { char tag; short code; }; } tpu_x_param_t;"
    )
    generate(sources.layer(device(struct=struct)).table(), tmp_path)
    params = ParamTypes.from_record(tmp_path / "bmtpu.json")
    data = params.param_bytes("TPU_X", {"a": 1, "low": 2, "high": 3, "c": "\xff"})
    assert data == struct_bytes("<ihhiibxh", 1, 2, 3, 0, 0, -1, 0)
    assert params.param_values("TPU_X", data)["c"] == 255
    for values, message in (
        ({"f": 1, "high": 1}, "TPU_X: 2 members of a union given (f, high)"),
        ({"tag": 1, "code": 1}, "TPU_X: 2 members of a union given (tag, code)"),
        ({"p": [1]}, "TPU_X.p[0]: expected a dict for struct {...}, found int 1"),
        ({"p": [{"y": 1}]}, "TPU_X.p[0].y: unknown field; the struct has x"),
    ):
        with pytest.raises(FieldError) as e:
            params.param_bytes("TPU_X", values)
        assert e.value.message == message


f32 = st.floats(width=32)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "i8": st.integers(-128, 127),
        "u16": st.integers(0, 65535),
        "i32": st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=3, max_size=3),
        "big": st.integers(0, (1 << 64) - 1),
        "on": st.booleans(),
        "f": st.lists(st.lists(f32, min_size=2, max_size=2), min_size=2, max_size=2),
        "d": st.floats(),
        "mode": st.sampled_from([0, 5]),
        "in": st.lists(
            st.fixed_dictionaries({"a": st.integers(0, 255), "d": st.floats()}), min_size=2, max_size=2
        ),
        "type": st.integers(0, 7),
    },
)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float):
        return struct_bytes("<d", a) == struct_bytes("<d", b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return all(_same(v, b[k]) for k, v in a.items())
    return bool(a == b)


@given(values=VALUES)
def test_pack_and_unpack_are_inverse(params: ParamTypes, values: dict[str, Any]) -> None:
    data = params.param_bytes("TPU_X", values)
    assert len(data) == params.sizeof("TPU_X")
    assert _same(values, params.param_values("TPU_X", data))


@given(value=st.integers(), field=st.sampled_from(["i8", "u16", "big"]))
def test_integers_are_exact_or_refused(params: ParamTypes, value: int, field: str) -> None:
    low, high = {"i8": (-128, 127), "u16": (0, 65535), "big": (0, (1 << 64) - 1)}[field]
    if low <= value <= high:
        assert params.param_values("TPU_X", params.param_bytes("TPU_X", {field: value}))[field] == value
    else:
        with pytest.raises(FieldError):
            params.param_bytes("TPU_X", {field: value})
