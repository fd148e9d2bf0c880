"""Random parameter structs: our sizes, offsets and packed bytes beside those of cffi and of the compilers."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from cffi import FFI
from hypothesis import Phase, given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.layer_sources import HEAD, Sources, compiler, global_, host, shape
from user_layers.codegen import generate
from user_layers.params import ParamTypes
from user_layers.scan.ctype import (
    Array,
    CType,
    Enumeration,
    Member,
    Record,
    align_of,
    record_of,
    size_of,
    type_from_json,
    type_to_json,
    without_typedefs,
)
from user_layers.scan.record import RecordedLayer, read_layer_record
from user_layers.toolchain.arm import arm_compiler
from user_layers.toolchain.compilers import zig_environment

NUMBERS = (
    *("char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long long"),
    *("unsigned long long", "float", "double", "bool", "int8_t", "uint16_t", "int32_t", "uint64_t"),
)
INCLUDES = "#include <stdbool.h>\n#include <stdint.h>\n"


@dataclass
class Structs:
    """Definitions of types in C, each on what came before. scanned: as device files have them; plain: for
    cffi, the limit of members' alignment (0: none) and the text without pragmas and attributes."""

    scanned: list[str] = field(default_factory=list)
    plain: list[tuple[int, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, name: str, text: str, pragma: int = 0, packed: bool = False) -> None:
        """text: with a * where an attribute may stand."""
        self.names.append(name)
        self.plain.append((1 if packed else pragma, text.replace("*", "")))
        text = text.replace("*", "__attribute__((packed))" if packed else "")
        self.scanned.append(f"#pragma pack(push, {pragma})\n{text}\n#pragma pack(pop)" if pragma else text)


@st.composite
def structs(draw: st.DrawFn, prefix: str = "") -> Structs:
    """Numbers, enums, arrays, structs and unions inside each other; the last is the struct PREFIXparam_t."""
    made = Structs()
    words = iter(range(1000))

    def fresh(word: str) -> str:
        return f"{prefix}{word}{next(words)}"

    def members(depth: int) -> str:
        """depth: how far structs without a name may nest."""
        return " ".join(member(depth) for _ in range(draw(st.integers(1, 4))))

    def member(depth: int) -> str:
        name = fresh("m") + "".join(f"[{n}]" for n in draw(st.lists(st.integers(1, 3), max_size=2)))
        if depth and draw(st.sampled_from([False, False, True])):
            kind, name = draw(st.sampled_from(["struct", "union"])), draw(st.sampled_from(["", name]))
            return f"{kind} {{ {members(depth - 1)} }} {name};"
        return f"{draw(st.sampled_from([*NUMBERS, *made.names]))} {name};"

    def record(kind: str, name: str) -> None:
        pragma, packed = (
            draw(st.sampled_from([0, 0, 1, 2, 4, 8, 16])),
            draw(st.sampled_from([False, False, False, True])),
        )
        body = members(0 if packed or pragma else 2)
        if name:
            made.add(name, f"typedef {kind} * {{ {body} }} {name};", pragma, packed)
        else:
            tag = fresh("tag")
            made.add(f"{kind} {tag}", f"{kind} * {tag} {{ {body} }};", pragma, packed)

    for _ in range(draw(st.integers(0, 4))):
        name = fresh("t")
        what = draw(st.sampled_from(["struct", "union", "enum", "array"]))
        if what == "enum":
            start = draw(st.sampled_from([1 - (1 << 31), -5, 0, 7, (1 << 31) - 2]))
            made.add(name, f"typedef enum {{ {fresh('E')} = {start}, {fresh('E')} }} {name};")
        elif what == "array":
            of = draw(st.sampled_from([*NUMBERS, *made.names]))
            made.add(name, f"typedef {of} {name}[{draw(st.integers(1, 3))}];")
        else:
            record(what, draw(st.sampled_from(["", name])))
    record("struct", f"{prefix}param_t")
    return made


def values(t: CType) -> st.SearchStrategy[Any]:
    """What can be given for a type: fields and items may be left out."""
    t = without_typedefs(t)
    if isinstance(t, Array):
        return st.lists(values(t.item), max_size=t.count)
    if isinstance(t, Enumeration):
        return st.sampled_from([number for _, number in t.values])
    if isinstance(t, Record):
        given_ = [
            values(m.type) if not m.name else st.fixed_dictionaries({}, optional={m.name: values(m.type)})
            for m in t.members
        ]
        if t.kind == "union":
            return st.one_of(given_)
        return st.tuples(*given_).map(lambda parts: {k: v for part in parts for k, v in part.items()})
    if t.base in ("float", "double"):
        return st.floats(width=32 if t.base == "float" else 64, allow_nan=False)
    if t.base in ("_Bool", "char"):
        return st.booleans() if t.base == "_Bool" else st.integers(-128, 255)
    bits = 8 * size_of(t)
    low = -(1 << (bits - 1)) if t.signed else 0
    return st.integers(low, low + (1 << bits) - 1)


def leaves(t: CType, given_: Any = None, path: str = "") -> Iterator[tuple[str, int, Any]]:
    """Path in C, offset and value (None: not given) of every number that a type holds."""
    t = without_typedefs(t)
    if isinstance(t, Array):
        items = given_ or ()
        for i in range(t.count):
            inner = leaves(t.item, items[i] if i < len(items) else None, f"{path}[{i}]")
            yield from ((where, i * size_of(t.item) + at, value) for where, at, value in inner)
    elif isinstance(t, Record):
        for m in t.members:
            value = (given_ or {}).get(m.name) if m.name else given_
            inner = leaves(m.type, value, f"{path}.{m.name}" if m.name else path)
            yield from ((where, m.offset + at, value) for where, at, value in inner)
    else:
        yield path, 0, given_


def named(t: Record, at: int = 0) -> list[Member]:
    """Members with those of unnamed ones in their place, as cffi lists them."""
    found: list[Member] = []
    for m in t.members:
        inner = named(record_of(m.type), at + m.offset) if not m.name else [replace(m, offset=at + m.offset)]
        found += inner
    return found


def check_layout(ffi: FFI, t: CType, reference: Any) -> None:
    t = without_typedefs(t)
    assert (size_of(t), align_of(t)) == (ffi.sizeof(reference), ffi.alignof(reference))
    if isinstance(t, Array):
        assert t.count == reference.length
        check_layout(ffi, t.item, reference.item)
    elif isinstance(t, Record):
        assert t.kind == reference.kind
        members = named(t)
        assert [(m.name, m.offset) for m in members] == [(name, f.offset) for name, f in reference.fields]
        for m, (_, f) in zip(members, reference.fields, strict=True):
            check_layout(ffi, m.type, f.type)
    elif isinstance(t, Enumeration):
        assert dict(t.values) == reference.relements
    else:
        assert (reference.kind, t.name) == ("primitive", reference.cname.replace("_Bool", "bool"))


def fill(target: Any, given_: Mapping[str, Any] | list[Any]) -> None:
    """Put values into a struct or an array of cffi."""
    for key, value in given_.items() if isinstance(given_, Mapping) else enumerate(given_):
        if isinstance(value, (Mapping, list)):
            fill(target[key] if isinstance(key, int) else getattr(target, key), value)
            continue
        try:
            put(target, key, value)
        except TypeError:  # a char
            put(target, key, bytes([value & 0xFF]))


def put(target: Any, key: str | int, value: Any) -> None:
    if isinstance(key, int):
        target[key] = value
    else:
        setattr(target, key, value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ctype")


def scanned(folder: Path, many: list[Structs], prefixes: list[str]) -> list[RecordedLayer]:
    """The record of a generated header with one layer for each."""
    sources = Sources(folder)
    for i, (made, prefix) in enumerate(zip(many, prefixes, strict=True)):
        op, text = f"TPU_{i}", INCLUDES + "\n".join(made.scanned[:-1]) + "\n"
        marked = made.scanned[-1].replace("typedef struct", f"__BM_PARAM__({op}) typedef struct", 1)
        functions = shape(op, f"{prefix}shape") + global_(op, f"{prefix}global")
        sources.write(f"device/x{i}.c", HEAD + text + marked + "\n" + functions)
        sources.write(f"host/x{i}.h", host(op, f"D{i}"))
    generate(sources.table(), folder / "generated")
    return read_layer_record(folder / "generated" / "bmtpu.json")


@examples(20)
@given(data=st.data())
def test_cffi_agrees(folder: Path, data: st.DataObject) -> None:
    made = data.draw(structs())
    layer = scanned(folder, [made], ["x_"])[0]
    assert type_from_json(json.loads(json.dumps(type_to_json(layer.param)))) == layer.param
    ffi = FFI()
    for limit, text in made.plain:
        ffi.cdef(text, pack=limit) if limit else ffi.cdef(text)
    check_layout(ffi, layer.param, ffi.typeof("param_t"))
    given_ = data.draw(values(layer.param))
    reference = ffi.new("param_t *")
    fill(reference[0], given_)
    packed = ParamTypes([layer]).param_bytes(layer.op, given_)
    assert packed == bytes(ffi.buffer(reference))
    assert holds(ParamTypes([layer]).param_values(layer.op, packed), given_)


def holds(found: Any, given_: Any) -> bool:
    """Whether what was unpacked has the values that were given; a char comes back as its byte."""
    if isinstance(given_, Mapping):
        return all(holds(found[key], value) for key, value in given_.items())
    if isinstance(given_, list):
        return all(holds(f, g) for f, g in zip(found, given_, strict=False))
    return bool(found == given_) or found == given_ & 0xFF


COUNT = 8
PREFIXES = [f"p{i}_" for i in range(COUNT)]


@examples(5, phases=[Phase.generate])  # shrinking would compile for minutes
@given(many=st.tuples(*(structs(prefix) for prefix in PREFIXES)), data=st.data())
def test_compilers_agree(folder: Path, many: tuple[Structs, ...], data: st.DataObject) -> None:
    """Sizes and offsets as both machines' compilers have them, bytes as the host's code writes them."""
    layers = scanned(folder, list(many), PREFIXES)
    given_ = [data.draw(values(layer.param)) for layer in layers]
    text = '#include "generated/bmtpu.h"\n'
    for i, (layer, of) in enumerate(zip(layers, given_, strict=True)):
        name = f"{PREFIXES[i]}param_t"
        found = list(leaves(layer.param, of))
        text += f'_Static_assert(sizeof({name}) == {size_of(layer.param)}, "size");\n'
        text += f'_Static_assert(_Alignof({name}) == {align_of(layer.param)}, "align");\n'
        for path, at, _ in found:
            text += f'_Static_assert(offsetof({name}, {path[1:]}) == {at}, "{path}");\n'
        body = "".join(f"    x{i}{path} = {literal(v)};\n" for path, _, v in found if v is not None)
        text += f"{name} x{i};\nvoid fill{i}(void) {{\n{body}}}\n"
    source, library = folder / "x.c", folder / "x.so"
    source.write_text(text)
    arm = arm_compiler()
    for argv in (
        [*compiler("c"), "-w", "-shared", "-fPIC", "-o", str(library), str(source)],
        [*arm.argv, "-w", *arm.flags, "-c", "-o", str(folder / "x.o"), str(source)],
    ):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=840, env=zig_environment())
        assert done.returncode == 0, done.stderr
    loaded = ctypes.CDLL(str(library.rename(folder / f"{abs(hash(text))}.so")))
    for i, (layer, of) in enumerate(zip(layers, given_, strict=True)):
        loaded[f"fill{i}"]()
        written = bytes((ctypes.c_char * size_of(layer.param)).in_dll(loaded, f"x{i}"))
        assert ParamTypes(layers).param_bytes(layer.op, of) == written


def literal(value: float) -> str:
    """A number in C; an integer by its bits, which any integer type takes."""
    if isinstance(value, float):
        return value.hex() if abs(value) != float("inf") else f"{'-' if value < 0 else ''}__builtin_inf()"
    return f"{value & (1 << 64) - 1}ull"
