"""Scanning sound sources, however they are written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.support.layer_sources import (
    ARGS,
    DDR,
    HEAD,
    OUT,
    Sources,
    device,
    global_,
    host,
    local,
    param,
    shape,
)
from user_layers.scan import LayerInfo
from user_layers.scan.text import prune_bodies


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def one(sources: Sources) -> LayerInfo:
    assert sources.texts() == []
    (layer,) = sources.table().layers
    return layer


def test_a_layer_with_its_places(sources: Sources) -> None:
    sources.layer(device() + local("TPU_X"))
    layer = one(sources)
    assert (layer.op, layer.name, layer.op_type) == ("TPU_X", "x", 0)
    assert layer.shape_fn.name == "x_shape" and layer.global_fn.name == "x_global"
    assert layer.local_fn is not None and layer.local_fn.name == "x_local"
    assert layer.descriptor.name == "XDescriptor"
    text = (sources.root / "device/x.c").read_text().splitlines()
    for symbol in (layer.shape_fn, layer.global_fn, layer.local_fn):
        at = symbol.location
        assert at.file == sources.root / "device/x.c"
        assert text[at.line - 1][at.column - 1 :].startswith(symbol.name + "(")
    assert layer.files == (sources.root / "device/x.c", sources.root / "host/x.h")
    assert str(layer.descriptor.location).endswith("host/x.h:3:7")


@pytest.mark.parametrize(
    "noise",
    [
        "/* __BM_GLOBAL__(TPU_Y) int y(void) { */\n",
        "// __BM_GLOBAL__(TPU_Y)\n",
        'static const char *text = "__BM_GLOBAL__(TPU_Y) {";\n',
        "#if 0\n__BM_GLOBAL__(TPU_Y) int y(void) { don't { \n#endif\n",
        "#ifdef NEVER\n__BM_GLOBAL__(TPU_Y) int y(void) {\n#else\n#endif\n",
        "#define UNUSED __BM_GLOBAL__(TPU_Y)\n",
        "static char brace(void) { return '{'; }\nstatic char quote(void) { return '\\''; }\n",
        '__asm__(".globl x");\nasm volatile ("nop");\n',
        'static int f(int a) { asm volatile("nop"); return ({ int z = a; z; }); }\n',
        "static inline __attribute__((always_inline)) int g(int a) { return a; }\n",
        "#define MAX(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })\n"
        "static int h(int a) { return MAX(a, 1); }\n",
        "extern __typeof__(1) v;\n__extension__ typedef long long wide;\n",
        "int nested(void) { auto int in(int a) { return a; } return in(1); }\n",
        "static int t[] = { 1, 2, [3] = 4 };\nstatic int *p = (int[]){ 1, 2 };\n",
        "int old(a) int a; { return a; }\n",
        '_Static_assert(sizeof(int) == 4, "int");\n',
        '#pragma GCC optimize("O2")\n_Pragma("GCC poison foo")\n',
        "int switched(int a) {\n#ifdef A\n if (a) {\n#else\n if (!a) {\n#endif\n return 1; } return 0; }\n",
        "#define BEGIN {\n#define END }\nint macro_braces(int a) BEGIN if (a) { return 1; } return 0; END\n",
        "#define LINE \\\n  __BM_GLOBAL__(TPU_Y)\n",
        "#include <math.h>\n#include <stdio.h>\n#include <not/there.h>\n",
        "struct forward; typedef struct forward *handle;\n",
        "long double q(_Complex double z) { return 0; }\n",
        "int variadic(const char *f, ...) { return 0; }\n",
        "??=define TRIGRAPH 1\n",
    ],
)
def test_what_must_not_confuse_it(sources: Sources, noise: str) -> None:
    assert one(sources.layer(device(extra=noise))).op == "TPU_X"
    sources.write("include/noise.h", noise)
    assert one(sources.layer(device(extra='#include "noise.h"\n'))).op == "TPU_X"


def test_kernels_made_by_macros_have_the_place_of_the_call(sources: Sources) -> None:
    kernel = f"#define KERNEL(n) __BM_GLOBAL__(TPU_##n) int n##_global({ARGS}{DDR}{OUT}) {{ return 0; }}\n"
    sources.layer(HEAD + kernel + param("TPU_X") + shape("TPU_X") + "\n  KERNEL(X)\n")
    layer = one(sources)
    assert layer.global_fn.name == "X_global"
    assert str(layer.global_fn.location).endswith("x.c:6:3")


def test_a_header_of_the_user_can_make_whole_layers(sources: Sources) -> None:
    text = f"__BM_GLOBAL__(TPU_X) int x_global({ARGS}{DDR}{OUT}) {{ return 0; }}".replace("\n", " ")
    sources.write("include/make.h", f"#define MAKE {text}\n")
    sources.write("device/part.c", HEAD + '#include "make.h"\nMAKE\n')
    sources.layer(HEAD + param("TPU_X") + shape("TPU_X"))
    assert one(sources).global_fn.location.file.name == "part.c"


def test_a_marker_in_a_header_counts_once(sources: Sources) -> None:
    sources.write("include/shared.h", "#pragma once\n" + param("TPU_X"))
    sources.write("device/y.c", HEAD + '#include "shared.h"\n' + shape("TPU_X"))
    sources.layer(HEAD + '#include "shared.h"\n' + global_("TPU_X"))
    assert one(sources).param.location.file.name == "shared.h"


def test_lines_that_span_and_white_space(sources: Sources) -> None:
    spread = ARGS.replace(", ", "\n  ,\n  /* c */ ")
    text = f"__BM_GLOBAL__( TPU_X ) // c\n\nint\n  x_global\n(\n{spread}{DDR}{OUT}\n)\n{{\n}}\n"
    layer = one(sources.layer(HEAD + param("TPU_X") + shape("TPU_X") + text))
    assert (layer.global_fn.location.line, layer.global_fn.location.column) == (7, 3)


def test_semicolon_after_a_marker_and_a_shared_function(sources: Sources) -> None:
    text = HEAD + "__BM_PARAM__(TPU_X);\n__BM_PARAM__(TPU_Y)\ntypedef struct { int a; } p_t;\n"
    text += shape("TPU_X").replace("__BM_SHAPE__(TPU_X)", "__BM_SHAPE__(TPU_X) __BM_SHAPE__(TPU_Y)")
    text += global_("TPU_X") + global_("TPU_Y", "y_global")
    sources.layer(text, host() + host("TPU_Y", "YDescriptor"))
    x, y = sources.table().layers
    assert x.shape_fn == y.shape_fn and x.param == y.param


@pytest.mark.parametrize(
    "data",
    [
        device().replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + device().encode(),
        b"/* caf\xe9 \xff */\n" + device().encode(),
        device().encode().rstrip(b"\n"),
    ],
    ids=["crlf", "bom", "latin-1", "no newline at the end"],
)
def test_bytes_of_all_kinds(sources: Sources, data: bytes) -> None:
    sources.layer("").write("device/x.c", data)
    assert one(sources).shape_fn.location.column == device().splitlines()[2].index("x_shape") + 1


@pytest.mark.parametrize(
    "pair",
    [
        "u64 a, bm_size_t b, ",
        "unsigned long long a, const long unsigned long int b, ",
        "uint64_t, uint64_t, ",
        "const system_addr_t a, my_u64 b, ",
    ],
)
def test_equivalent_types_in_signatures(sources: Sources, pair: str) -> None:
    extra = "#include <stdint.h>\ntypedef unsigned long long system_addr_t;\ntypedef u64 my_u64;\n"
    text = f"__BM_LOCAL__(TPU_X) int x_local(const void *const p, int n, const tpu_tensor_t in[], int, {pair}"
    assert one(sources.layer(device(extra=extra) + text + f"{OUT}) {{ return 0; }}\n")).local_fn


# ---- parameter structs ----


def laid_out(sources: Sources, struct: str, extra: str = "") -> LayerInfo:
    return one(sources.layer(device(struct=struct, extra=extra)))


def test_types_are_carried_in_order(sources: Sources) -> None:
    extra = (
        "#include <stdint.h>\n#include <stdbool.h>\n#define N 2\n"
        "typedef enum { NEAREST, LINEAR = NEAREST + 4, CUBIC } mode_e;\nenum tag { T0, T1 };\n"
        "struct inner { uint8_t a; double d; };\ntypedef float row_t[N + 1];\n"
        "typedef struct node { struct inner in; mode_e mode; } node_t;\n"
    )
    struct = (
        "typedef struct { node_t nodes[N << 1][CUBIC - LINEAR + 1]; row_t rows[sizeof(int)]; "
        "enum tag tag; u64 k;"
        " bool on; DATA_TYPE_T dtype; union { float f; int i; } value; struct { short s; }; } tpu_x_param_t;"
    )
    p = laid_out(sources, struct, extra).param
    keys = [d.key for d in p.needs]
    assert keys == [
        "struct inner",
        "typedef mode_e",
        "struct node",
        "typedef node_t",
        "typedef row_t",
        "enum tag",
        "typedef u64",
        "sdk types",
        "typedef tpu_x_param_t",
    ]
    assert [(f.name, f.offset) for f in p.fields] == [
        ("nodes", 0),
        ("rows", 192),
        ("tag", 240),
        ("k", 248),
        ("on", 256),
        ("dtype", 260),
        ("value", 264),
        ("", 268),
    ]
    assert (p.size, p.align) == (272, 8)


@pytest.mark.parametrize(
    ("struct", "size", "align"),
    [
        ("typedef struct { char a; long long b; } tpu_x_param_t;", 16, 8),
        ("typedef struct __attribute__((packed)) { char a; long long b; } tpu_x_param_t;", 9, 1),
        ("typedef struct { char a; long long b; } __attribute__((__packed__)) tpu_x_param_t;", 9, 1),
        ("struct tpu_x { char a; int b; };", 8, 4),
        ("typedef struct tag { char a[3]; short b; } tpu_x_param_t;", 6, 2),
        ("typedef struct { const int a; volatile float b __attribute__((unused)); } tpu_x_param_t;", 8, 4),
        ("typedef struct { int a[sizeof(long long) == 8 ? 3 : 1], b; } tpu_x_param_t;", 16, 4),
        ("typedef struct { int a['\\x02' + 0x10 / -5 + 07]; } tpu_x_param_t;", 24, 4),
        ("typedef struct { int a[(unsigned char)257]; } tpu_x_param_t;", 4, 4),
    ],
)
def test_layouts(sources: Sources, struct: str, size: int, align: int) -> None:
    p = laid_out(sources, struct).param
    assert (p.size, p.align) == (size, align)


@pytest.mark.parametrize(
    ("struct", "size", "align"),
    [
        ("typedef struct { char a; int b; } tpu_x_param_t;", 6, 2),
        ("typedef struct __attribute__((packed)) { char a; int b; } tpu_x_param_t;", 5, 1),
        ("typedef struct { char a; int b; } __attribute__((packed)) tpu_x_param_t;", 5, 1),
    ],
)
def test_pragma_pack(sources: Sources, struct: str, size: int, align: int) -> None:
    """Where a struct has the attribute, too, the smaller of both counts."""
    text = HEAD + "#pragma pack(push, 2)\n" + param("TPU_X", struct) + "#pragma pack(pop)\n"
    layer = one(sources.layer(text + shape("TPU_X") + global_("TPU_X")))
    assert (layer.param.size, layer.param.align) == (size, align)


@pytest.mark.parametrize(
    ("pragmas", "attribute", "size", "align"),
    [
        ((2,), "__attribute__((packed))", 9, 1),  # the smaller of two holds
        ((8,), "__attribute__((packed))", 9, 1),
        ((2, 4), "", 12, 4),  # of two pragmas the inner one
        ((4, 2), "", 10, 2),
        ((16,), "", 16, 8),  # no more than a type asks for
    ],
)
def test_the_smaller_of_two_packs(
    sources: Sources, pragmas: tuple[int, ...], attribute: str, size: int, align: int
) -> None:
    struct = f"typedef struct {attribute} {{ char a; long long b; }} in_t;\n"
    extra = (
        "".join(f"#pragma pack(push, {n})\n" for n in pragmas) + struct + "#pragma pack(pop)\n" * len(pragmas)
    )
    p = laid_out(sources, "typedef struct { in_t in[1]; } tpu_x_param_t;", extra).param
    assert (p.size, p.align) == (size, align)


def test_a_typedef_with_the_name_of_the_tag(sources: Sources) -> None:
    extra = "typedef struct in { int a; } in;\ntypedef enum mode { A, B } mode;\n"
    p = laid_out(sources, "typedef struct x { in in; mode m; } x;", extra).param
    assert (p.c_type, p.size, [d.key for d in p.needs]) == (
        "x",
        8,
        ["struct in", "typedef in", "enum mode", "typedef mode", "struct x", "typedef x"],
    )


def test_the_hash_follows_names_types_and_offsets(sources: Sources) -> None:
    def hash_of(struct: str) -> int:
        return laid_out(sources, struct).param.hash

    first = hash_of("typedef struct { int a; float b; } tpu_x_param_t;")
    assert first == hash_of("typedef  struct {\n int a; /* c */ float b; } other_name;")
    assert first != hash_of("typedef struct { int b; float a; } tpu_x_param_t;")
    assert first != hash_of("typedef struct { float b; int a; } tpu_x_param_t;")
    assert first != hash_of("typedef struct { int a; int b; } tpu_x_param_t;")


# ---- host files ----


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("class D : public bmcompiler::LayerDescriptor {};", "D"),
        ("struct D final : bmcompiler::LayerDescriptor {};", "D"),
        (
            "class [[nodiscard]] D\n  : public virtual ::bmcompiler::LayerDescriptor, private "
            "Other<int, 2> {};",
            "D",
        ),
        ("class D : public LayerDescriptor {};", "D"),
        (
            "// class E : public F {\nclass D /* : */ : public bmcompiler::LayerDescriptor { class In {}; };",
            "D",
        ),
    ],
)
def test_descriptors(sources: Sources, text: str, name: str) -> None:
    for suffix in ("h", "hpp", "cpp"):
        sources.layer(device(), "").write(f"host/y.{suffix}", f"__BM_DESC__(TPU_X)\n{text}\n")
        layer = one(sources)
        assert layer.descriptor.name == name
        in_source = sources.table().included_sources
        assert in_source == ((sources.root / "host/y.cpp",) if suffix == "cpp" else ())
        (sources.root / f"host/y.{suffix}").unlink()


def test_descriptor_in_namespaces_and_through_a_base(sources: Sources) -> None:
    sources.write("host/base.hpp", "namespace a { class Base : public bmcompiler::LayerDescriptor {}; }\n")
    text = (
        "#if 0\n__BM_DESC__(TPU_Y) class Y {};\n#else\n#endif\n"
        'const char *s = "__BM_DESC__(TPU_Z) {"; const char *r = R"x(__BM_DESC__(TPU_Z) ")x";\n'
        "template <class T> class Box { T t; };\nenum class Kind { A };\nvoid f() { struct In {}; }\n"
        'extern "C" { int g(); }\nnamespace a::b { inline namespace v1 {\nclass Fwd;\n__BM_DESC__(TPU_X)\n'
        "class D : public a::Base {};\n} }\n"
    )
    assert one(sources.layer(device(), text)).descriptor.name == "a::b::v1::D"


# ---- numbers ----


def test_numbers_are_kept_for_ever(sources: Sources) -> None:
    sources.layer(device("TPU_M"), host("TPU_M"))
    assert sources.table().layer("m").op_type == 0
    a = device("TPU_A").replace("x_", "a_").replace("tpu_a_", "tpu_x_")
    sources.write("device/a.c", a.replace("tpu_x_param_t", "tpu_a_param_t"))
    sources.write("host/a.h", host("TPU_A", "ADescriptor"))
    assert {x.op: x.op_type for x in sources.table().layers} == {"TPU_M": 0, "TPU_A": 1}
    (sources.root / "device/x.c").unlink()
    (sources.root / "host/x.h").unlink()
    assert [x.op_type for x in sources.table().layers] == [1]
    sources.layer(device("TPU_Z"), host("TPU_Z"))
    assert {x.op: x.op_type for x in sources.table().layers} == {"TPU_A": 1, "TPU_Z": 2}
    lines = [line for line in sources.lock.read_text().splitlines() if not line.startswith("#")]
    assert lines == ["TPU_M 0", "TPU_A 1", "TPU_Z 2"]


def test_numbers_start_at_the_base(sources: Sources) -> None:
    assert sources.layer(device()).table(op_base=0x10000).layers[0].op_type == 0x10000


# ---- the cache ----


def test_only_what_changed_is_parsed_again(sources: Sources) -> None:
    sources.write("include/n.h", "#define N 3\n")
    sources.layer(device(struct="typedef struct { int a[N]; } tpu_x_param_t;", extra='#include "n.h"\n'))
    first = sources.result()
    assert first.parsed == 2
    again = sources.result()
    assert again.parsed == 0 and again.table == first.table
    sources.write("include/n.h", "#define N 5\n")
    changed = sources.result()
    assert changed.parsed == 1 and changed.table.layers[0].param.size == 20
    sources.write("device/n.h", "#define N 7\n")  # found before include/n.h from now on
    assert sources.result().table.layers[0].param.size == 28


def test_a_damaged_cache_is_written_anew(sources: Sources) -> None:
    table = sources.layer(device()).table()
    (cache,) = (sources.root / "build").glob("scan-*.json")
    for text in ("", "{", '{"version": 1, "files": 3}', cache.read_text()[:-40]):
        cache.write_text(text)
        assert sources.table() == table


def test_problems_are_cached_too(sources: Sources) -> None:
    sources.layer(HEAD)
    sources.write("device/x.c", HEAD + param("TPU_X"))
    first = sources.problems()
    assert first and sources.result().parsed == 0 and sources.problems() == first


def test_a_cached_scan_imports_no_parser(sources: Sources) -> None:
    sources.layer(device()).table()
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.support.layer_sources import Sources\n"
        f"r = Sources(Path({str(sources.root)!r})).result()\n"
        "assert r.parsed == 0 and r.table.layers, r\n"
        "print([m for m in ('pcpp', 'pycparser', 'jinja2', 'cffi') if m in sys.modules])\n"
    )
    root = ROOT
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert run.stdout == "[]\n", run.stderr


# ---- blanking bodies before the preprocessor is only a speed-up ----


def test_pruning_keeps_lines_and_everything_outside() -> None:
    text = "int a(int x) {\n  if (x) { y('}'); }\n}\nstruct s { int b; };\nint *p = (int[]){1};\n"
    assert prune_bodies(text) == "int a(int x) {\n\n}\nstruct s { int b; };\nint *p = (int[]){1};\n"
    for kept in (
        "int f(void) {\n#if A\n}\n#else\n}\n#endif\n",
        "#define B {\nint f(void) { return 1; }\n",
        "int f(void) { __BM_GLOBAL__(X) }\n",
        "struct __attribute__((packed)) { int a; } s;\n",
        "struct PACKED(1) { int a; } s;\n",
    ):
        assert prune_bodies(kept) == kept
