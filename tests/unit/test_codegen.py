"""The generated files: golden texts, and that compilers accept them as C and C++."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.layer_sources import (
    HEAD,
    Sources,
    compile_text,
    device,
    global_,
    host,
    local,
    param,
    shape,
)
from user_layers.codegen import generate
from user_layers.plugin.methods import METHODS
from user_layers.workspace import sdk_dir

STRUCT = (
    "typedef struct __attribute__((packed)) { int n[MAX_SHAPE_DIMS]; mode_e mode; struct inner "
    "in[2]; DATA_TYPE_T type;"
    " u64 k; bool on; float table[2][3]; union { float f; int i; } u; } tpu_x_param_t;"
)
TYPES = (
    "#include <stdbool.h>\n#include <stdint.h>\n"
    "typedef enum { NEAREST, LINEAR } mode_e;\nstruct inner { uint8_t a; double d; };\n"
)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """Two layers: TPU_X with local and many types, TPU_Y without local, its descriptor in a namespace."""
    s = Sources(tmp_path)
    named = STRUCT.replace("union { float f; int i; } u", "either_t u")
    types = TYPES + "typedef union { float f; int i; } either_t;\n"
    s.layer(device(struct=named, extra=types) + local("TPU_X"))
    y = HEAD + param("TPU_Y", "struct tpu_y { int reserved; };") + shape("TPU_Y", "y_shape")
    s.write("device/y.c", y + global_("TPU_Y", "y_global"))
    base = host("TPU_Y", "YDescriptor").replace("__BM", "namespace n {\n__BM") + "}\n"
    s.write("host/y.hpp", "#pragma once\n" + base)
    s.write("host/x.h", "#pragma once\n" + host())
    return s


def flags(sources: Sources, out: Path, *, build: bool = False) -> list[str]:
    includes = [sdk_dir() / "include", sources.root / "host", out]
    return [
        "-c",
        *([] if build else ["-o", str(sources.root / "checked.o")]),
        "-Wall",
        "-Wextra",
        "-Werror",
        *(f"-I{p}" for p in includes),
    ]


def test_golden(sources: Sources, golden: Callable[[str, str], None]) -> None:
    out = sources.root / "generated"
    written = generate(sources.table(), out)
    assert [p.name for p in written] == [
        "bmtpu.h",
        "bmtpu_device_entry.c",
        "bmtpu_host_entry.cpp",
        "bmtpu.json",
    ]
    for path in written:
        golden(f"codegen/{path.name}", path.read_text())
        assert str(sources.root) not in path.read_text()


@pytest.mark.parametrize("prefix", ["bmtpu", "bmbuiltin"])
def test_compilers_accept_them(sources: Sources, prefix: str) -> None:
    out = sources.root / "generated"
    generate(sources.table(), out, prefix=prefix)
    common = flags(sources, out)
    for standard in ("c11", "gnu17"):
        for name in (f"{prefix}.h", f"{prefix}_device_entry.c"):
            compile_text("c", [*common, f"-std={standard}", "-pedantic", "-x", "c", str(out / name)])
    for standard in ("c++11", "c++17"):
        for name in (f"{prefix}.h", f"{prefix}_host_entry.cpp"):
            compile_text("c++", [*common, f"-std={standard}", "-x", "c++", str(out / name)])


def test_the_header_goes_with_the_layer_headers_in_any_order(sources: Sources) -> None:
    out = sources.root / "generated"
    generate(sources.table(), out)
    names = ("bmtpu.h", "bmcompiler_tpulayer_host.hpp")
    for order in (names, names[::-1]):
        path = sources.write("order.cpp", "".join(f'#include "{n}"\n' for n in order))
        compile_text("c++", [*flags(sources, out), "-std=c++17", str(path)])


def test_a_wrong_layout_fails_to_compile(sources: Sources) -> None:
    out = sources.root / "generated"
    generate(sources.table(), out)
    header = out / "bmtpu.h"
    header.write_text(header.read_text().replace("    uint8_t a;", "    uint8_t a, b[8];"))
    with pytest.raises(AssertionError, match="size of tpu_x_param_t"):
        compile_text("c", [*flags(sources, out), "-x", "c", str(header)])


def test_no_layers(tmp_path: Path) -> None:
    sources, out = Sources(tmp_path), tmp_path / "generated"
    generate(sources.table(), out)
    compile_text("c", [*flags(sources, out), "-std=c11", "-pedantic", str(out / "bmtpu_device_entry.c")])
    compile_text("c++", [*flags(sources, out), "-std=c++17", str(out / "bmtpu_host_entry.cpp")])


def test_written_only_when_changed(sources: Sources) -> None:
    out = sources.root / "generated"
    assert len(generate(sources.table(), out)) == 4
    before = {p: p.stat().st_mtime_ns for p in out.iterdir()}
    assert generate(sources.table(), out) == []
    assert before == {p: p.stat().st_mtime_ns for p in out.iterdir()}
    (out / "bmtpu.h").write_text("damaged")
    assert [p.name for p in generate(sources.table(), out)] == ["bmtpu.h"]


def test_a_descriptor_in_a_cpp_file_is_included(sources: Sources) -> None:
    (sources.root / "host/x.h").unlink()
    sources.write("host/x.cpp", host())
    table = sources.table()
    out = sources.root / "generated"
    generate(table, out)
    assert '#include "x.cpp"' in (out / "bmtpu_host_entry.cpp").read_text()
    assert [p.name for p in table.included_sources] == ["x.cpp"]


def test_builtin_names_and_numbers(sources: Sources) -> None:
    out = sources.root / "generated"
    generate(sources.table(op_base=0x10000), out, prefix="bmbuiltin")
    entry = (out / "bmbuiltin_device_entry.c").read_text()
    defined = re.findall(
        r"^(?:int|const [\w ]+) (\w+)(?:\[\])?(?:\(.*\{| =)", entry.replace("\n    ", " "), re.M
    )
    assert defined == [
        "bmbuiltin_layers",
        "bmbuiltin_layer_count",
        "bmbuiltin_functions",
        "builtin_shape_infer_entry",
        "builtin_global_calculate_entry",
        "builtin_local_calculate_entry",
    ]
    header = (out / "bmbuiltin.h").read_text()
    assert "TPU_X = 65536" in header and "bmbuiltin_op_type_t" in header and "tpu_op_type_t;" not in header


def test_the_table_of_methods_is_the_headers() -> None:
    abi = (sdk_dir() / "include/bmplugin_abi.h").read_text()
    body = re.search(r"enum \{\s*(BMPLUGIN_MUST_DYNAMIC_RUN = 1.*?)\}", abi, re.DOTALL)
    assert body is not None
    constants = [c.split("=")[0].strip() for c in body[1].split(",") if c.strip()]
    assert constants == [m.constant for m in METHODS]
    assert [m.number for m in METHODS] == list(range(1, len(METHODS) + 1))
    virtual = re.findall(
        r"virtual [\w:<>]+ (\w+)\(", (sdk_dir() / "include/bmcompiler_tpulayer_host.hpp").read_text()
    )
    apart = ["get_name", "prepared_shape", "prepared_dtype", "prepare"]
    assert sorted(virtual) == sorted([*(m.name for m in METHODS), *apart])
