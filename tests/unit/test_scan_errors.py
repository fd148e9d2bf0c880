"""Every message of the scanner: place, what was found, what is expected, the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmware_sim.errors import SourceError
from tests.support.layer_sources import (
    ARGS,
    DDR,
    HEAD,
    LOCAL,
    OUT,
    Sources,
    device,
    global_,
    host,
    local,
    param,
    shape,
)
from user_layers.scan import ScanError


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def only(sources: Sources, text: str, host_text: str | None = None) -> tuple[str, str]:
    """The one problem of a device file: "line:column: message" and the hint."""
    sources.layer(text, host_text)
    (problem,) = sources.problems()
    at = problem.location
    assert (sources.root / "device/x.c") == at.file
    return f"{at.line}:{at.column}: {problem.message}", problem.hint


# ---- what belongs to a layer ----


def test_parts_that_are_missing(sources: Sources) -> None:
    text, hint = only(sources, HEAD + param("TPU_X") + shape("TPU_X"))
    assert (
        text == "2:1: layer TPU_X has no __BM_GLOBAL__(TPU_X) (found __BM_PARAM__(TPU_X), "
        "__BM_SHAPE__(TPU_X), __BM_DESC__(TPU_X))"
    )
    assert hint == "add `__BM_GLOBAL__(TPU_X)` before the function that works on data in DDR"
    text, hint = only(sources, HEAD + param("TPU_X") + global_("TPU_X"))
    assert text.startswith("2:1: layer TPU_X has no __BM_SHAPE__(TPU_X)")
    assert "sets the outputs' shapes and types" in hint
    text, hint = only(sources, HEAD + shape("TPU_X") + global_("TPU_X"))
    assert text.startswith("3:1: layer TPU_X has no __BM_PARAM__(TPU_X)")
    assert "a layer without parameters has an empty one" in hint
    text, hint = only(sources, device(), "")
    assert text.startswith("2:1: layer TPU_X has no __BM_DESC__(TPU_X)")
    assert "derived from bmcompiler::LayerDescriptor in a file of host/" in hint


def test_a_descriptor_alone(sources: Sources) -> None:
    sources.write("host/x.h", host())
    assert sources.texts() == ["host/x.h:2:1: layer TPU_X has a descriptor but nothing in device/"]
    assert "tpulayer add_layer x" in sources.problems()[0].hint


def test_a_name_that_does_not_fit_the_firmwares_records(sources: Sources) -> None:
    op = "TPU_" + "X" * 61
    sources.write("device/x.c", device().replace("TPU_X", op))
    sources.write("host/x.h", host().replace("TPU_X", op))
    assert len(sources.problems()) == 4
    for problem in sources.problems():
        assert problem.message.endswith("has 65 characters") and "at most 64" in problem.hint
    for path in ("device/x.c", "host/x.h"):
        text = (sources.root / path).read_text()
        sources.write(path, text.replace(op, op[:-1]))
    assert [x.op for x in sources.table().layers] == [op[:-1]]


def test_a_marker_twice(sources: Sources) -> None:
    text, hint = only(sources, device() + "\n  " + shape("TPU_X", "again"))
    assert text.startswith("6:3: __BM_SHAPE__(TPU_X) a second time; the first is at ")
    assert text.endswith("device/x.c:3:1") and hint == "remove one of the two"


def test_two_layers_with_one_name(sources: Sources) -> None:
    sources.layer(device())
    sources.write("device/y.c", device().replace(" x_", " y_"))
    (problem,) = sources.problems()
    assert problem.location.file.name == "y.c"
    assert problem.message.startswith("two layers have the name TPU_X; the other is at ")
    assert problem.hint == "give one of them another name in all its markers"


def test_two_functions_with_one_name(sources: Sources) -> None:
    sources.layer(device(), host() + host("TPU_Y", "YDescriptor"))
    y = HEAD + param("TPU_Y", "typedef struct { int a; } y_t;") + shape("TPU_Y", "y_shape")
    sources.write("device/y.c", y + global_("TPU_Y", "x_global"))
    (text,) = sources.texts()
    assert text.startswith("device/y.c:4:26: function x_global is also defined at ")


def test_one_name_for_two_types(sources: Sources) -> None:
    sources.layer(device(), host() + host("TPU_Y", "YDescriptor"))
    y = HEAD + param("TPU_Y", "typedef struct { int b; } tpu_x_param_t;")
    sources.write("device/y.c", y + shape("TPU_Y", "y_shape") + global_("TPU_Y", "y_global"))
    (text,) = sources.texts()
    assert text.startswith("device/y.c:2:47: tpu_x_param_t is defined differently at ")
    assert "share one header, bmtpu.h" in sources.problems()[0].hint


def test_an_enumerator_with_the_name_of_a_layer(sources: Sources) -> None:
    text, hint = only(sources, device(struct="typedef struct { enum e { TPU_X } a; } tpu_x_param_t;"))
    assert "TPU_X is a member of a parameter struct's types and the name of a layer" in text
    assert "both are constants in bmtpu.h" in hint


# ---- the three functions ----

_EXPECTED = {
    "SHAPE": "expected `int f(const void *param, const int param_size, const tpu_tensor_t *in_tensors, "
    "const int in_num, tpu_tensor_t *out_tensors, const int out_num)`",
    "GLOBAL": "expected `int f(const void *param, const int param_size, const tpu_tensor_t "
    "*in_tensors, const int "
    "in_num, const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t "
    "*out_tensors, const int out_num)`",
    "LOCAL": "expected `int f(const void *param, const int param_size, const tpu_tensor_t "
    "*in_tensors, const int "
    "in_num, u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num)`",
}


@pytest.mark.parametrize(
    ("kind", "head", "finding"),
    [
        ("SHAPE", f"void f({ARGS}{OUT})", "it returns void, expected int"),
        ("SHAPE", f"int f({ARGS}{DDR}{OUT})", "it has 8 parameters, expected 6"),
        ("SHAPE", "int f(void)", "it has 0 parameters, expected 6"),
        ("SHAPE", "int f()", "it has 0 parameters, expected 6"),
        (
            "GLOBAL",
            f"int f({ARGS}{OUT})",
            "parameter 5 `out_tensors` is `tpu_tensor_t *`, expected `const bm_addr_t",
        ),
        (
            "GLOBAL",
            f"int f({ARGS}int a, bm_size_t b, {OUT})",
            "parameter 5 `a` is `int`, expected `const bm_addr_t",
        ),
        (
            "GLOBAL",
            f"int f({ARGS}{DDR}const {OUT})",
            "parameter 7 `out_tensors` is `const tpu_tensor_t *`, expected",
        ),
        (
            "LOCAL",
            f"int f({ARGS}u64 a, unsigned b, {OUT})",
            "parameter 6 `b` is `unsigned int`, expected `u64",
        ),
        (
            "LOCAL",
            f"int f({ARGS.replace('const void', 'void')}{LOCAL}{OUT})",
            "parameter 1 `param` is `void *`",
        ),
        (
            "LOCAL",
            f"int f({ARGS.replace('const tpu', 'tpu')}{LOCAL}{OUT})",
            "parameter 3 `in_tensors` is `tpu_tensor_t *`",
        ),
        (
            "LOCAL",
            f"int f({ARGS}{LOCAL}tpu_tensor_t *o, ...)",
            "parameter 8 is `...`, expected `const int out_num`",
        ),
        ("SHAPE", "int f(a, b, c, d, e, f)", "parameter 1 `a` has no type, expected `const void *param`"),
    ],
)
def test_wrong_signatures(sources: Sources, kind: str, head: str, finding: str) -> None:
    parts = {"SHAPE": shape("TPU_X"), "GLOBAL": global_("TPU_X"), "LOCAL": local("TPU_X")}
    parts[kind] = f"__BM_{kind}__(TPU_X) {head} {{ return 0; }}\n"
    text, hint = only(sources, HEAD + param("TPU_X") + "".join(parts.values()))
    line = {"SHAPE": 3, "GLOBAL": 4, "LOCAL": 5}[kind]
    column = parts[kind].index("f(") + 1
    assert text.startswith(f"{line}:{column}: function f behind __BM_{kind}__(TPU_X): ")
    assert finding in text
    assert hint == _EXPECTED[kind]


@pytest.mark.parametrize("word", ["static", "inline"])
def test_functions_that_the_entry_cannot_reach(sources: Sources, word: str) -> None:
    text, hint = only(sources, device().replace(") int x_global", f") {word} int x_global"))
    assert text.endswith(f"function x_global behind __BM_GLOBAL__(TPU_X) is {word}")
    assert hint == f"remove `{word}`: the generated entry calls the function by its name"


def test_a_marker_before_a_prototype(sources: Sources) -> None:
    text, hint = only(sources, device().replace("{ return 0; }", ";", 1))
    assert text.endswith("__BM_SHAPE__(TPU_X) stands before a declaration of x_shape")
    assert "the one with the body" in hint


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("typedef struct { int a; } a_t;", "a typedef (a_t)"),
        ("struct s { int a; };", "struct s"),
        ("enum { A };", "enum {...}"),
        ("int v = 3;", "a variable (v)"),
    ],
)
def test_function_markers_before_something_else(sources: Sources, target: str, found: str) -> None:
    text, hint = only(sources, HEAD + param("TPU_X") + shape("TPU_X") + f"__BM_GLOBAL__(TPU_X) {target}\n")
    assert text == f"4:1: __BM_GLOBAL__(TPU_X) stands before {found}, expected a function definition"
    assert hint == "put the marker directly before the definition that it marks"


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("int f(void) { return 0; }", "a function (f)"),
        ("typedef int a_t;", "a typedef (a_t)"),
        ("typedef union { int a; } a_t;", "a typedef (a_t)"),
        ("struct { int a; } v;", "a variable (v)"),
    ],
)
def test_param_markers_before_something_else(sources: Sources, target: str, found: str) -> None:
    text, _ = only(sources, device(struct=target))
    assert text.startswith(f"2:1: __BM_PARAM__(TPU_X) stands before {found}, expected a struct definition")


def test_markers_in_wrong_places(sources: Sources) -> None:
    text = device() + "int f(void) { __BM_LOCAL__(TPU_X) return 0; }\nint g __BM_LOCAL__(TPU_X) (void);\n"
    sources.layer(text + "__BM_LOCAL__(TPU_X)\n")
    assert sources.texts() == [
        "device/x.c:5:15: __BM_LOCAL__(TPU_X) inside a declaration or a body",
        "device/x.c:6:7: __BM_LOCAL__(TPU_X) inside a declaration or a body",
        "device/x.c:7:1: __BM_LOCAL__(TPU_X) has nothing behind it, expected a function definition",
    ]


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("", "__BM_LOCAL__ without the layer's name"),
        ("TPU-X", "`TPU-X` in __BM_LOCAL__ is not a C identifier"),
        ("1ST", "`1ST` in __BM_LOCAL__ is not a C identifier"),
        ("A, B", "`A, B` in __BM_LOCAL__ is not a C identifier"),
        ("int", "`int` in __BM_LOCAL__ is a C keyword"),
        ("class", "`class` in __BM_LOCAL__ is a C++ keyword"),
    ],
)
def test_names_that_are_none(sources: Sources, op: str, message: str) -> None:
    text, hint = only(sources, device() + local(op))
    assert text == f"5:1: {message}"
    assert hint


def test_a_descriptor_marker_in_a_device_file(sources: Sources) -> None:
    text, hint = only(sources, device() + "__BM_DESC__(TPU_X) int f(void) { return 0; }\n")
    assert text.endswith("__BM_DESC__(TPU_X) in a device file") and "file in host/" in hint


# ---- parameter structs ----


@pytest.mark.parametrize(
    ("member", "column", "message", "hint"),
    [
        ("int *p;", 6, "member p: a pointer", "put the values themselves into the struct"),
        ("void (*f)(int);", 8, "member f: a function pointer", "array of fixed size"),
        (
            "long n;",
            6,
            "member n of type long, which has 8 bytes on the host and 4 on the controller",
            "int32_t",
        ),
        (
            "size_t n;",
            8,
            "member n of type size_t (unsigned long), which has 8 bytes",
            "use a type of one size",
        ),
        ("ptr_t n[2];", 7, "member n: a pointer", "put the values"),
        (
            "long double d;",
            13,
            "member d of type long double, which has 16 bytes on the host and 8",
            "double",
        ),
        ("unsigned f : 3;", 10, "bit-field f", "use a whole integer and masks"),
        ("int a[];", 5, "member a: an array without a size", "a constant size"),
        ("int a[0];", 5, "member a: an array of 0 elements", "positive constant"),
        ("int a[count];", 7, "a size that is not a constant (count)", "a const variable is not a constant"),
        ("int a[1 / 0];", 5, "member a: a division by zero in a constant", ""),
        ("int class;", 5, "member name class is a C++ keyword", "bmtpu.h is included by C and C++"),
        ("enum { new } e;", 8, "enumerator name new is a C++ keyword", "choose another name"),
        ("struct delete { int a; } b;", 8, "struct name delete is a C++ keyword", "choose another name"),
        ("struct none n;", 8, "struct none is declared but never defined", "define struct none"),
        ("enum none n;", 6, "enum none is not defined", "define the enum before the struct"),
        ("struct { } n;", 12, "member n: an empty struct", "add a member `int reserved;`"),
        ("__fp16 h;", 8, "member h: type __fp16, which bmtpu.h cannot express", "uint16_t for the bits"),
        ("__typeof__(1) t;", 15, "member t: type typeof(...), which bmtpu.h cannot express", "plain type"),
        ("enum { A = 1LL << 40 } e;", 8, "enumerator A = 1099511627776, which is not an int", "32 bits"),
        ("void v;", 6, "member v: type void, which is not known here", "include the header"),
        (
            "struct { int a; } __attribute__((aligned(8))) s;",
            47,
            "member s: a struct with __attribute__((aligned))",
            "packed",
        ),
        (
            "enum __attribute__((packed)) { A } e;",
            36,
            "member e: an enum with __attribute__((packed))",
            "integer of the wanted size",
        ),
        ("odd_t o;", 7, "member o: type odd_t with __attribute__((aligned))", "only packed on a struct"),
    ],
)
def test_types_that_bmtpu_cannot_hold(
    sources: Sources, member: str, column: int, message: str, hint: str
) -> None:
    extra = (
        "#include <stddef.h>\ntypedef int *ptr_t; typedef int odd_t "
        "__attribute__((aligned(16)));\nstatic const int count = 3;\n"
    )
    text, found = only(sources, device(struct=f"typedef struct {{\n{member}\n}} tpu_x_param_t;", extra=extra))
    assert text.startswith(f"6:{column}: parameter struct of TPU_X: {message}"), text
    assert hint in found


@pytest.mark.parametrize(
    "struct", ["typedef struct {} tpu_x_param_t;", "typedef struct x { } tpu_x_param_t;"]
)
def test_an_empty_parameter_struct_is_a_layer_without_parameters(sources: Sources, struct: str) -> None:
    param = sources.layer(device(struct=struct)).table(0).layers[0].param
    assert (param.size, param.fields) == (0, ())


def test_unnamed_struct_in_a_packed_one(sources: Sources) -> None:
    struct = "typedef struct __attribute__((packed)) { char c; struct { int x; } p; } tpu_x_param_t;"
    text, hint = only(sources, device(struct=struct))
    assert "a struct without a name inside a packed one" in text and "with a typedef" in hint


def test_a_packed_struct_without_a_name(sources: Sources) -> None:
    struct = "typedef struct { char c; struct __attribute__((packed)) { int x; } p; } tpu_x_param_t;"
    text, hint = only(sources, device(struct=struct))
    assert "member p: a packed struct without a name inside another type" in text and "with a typedef" in hint


def test_a_member_with_an_attribute_of_its_own(sources: Sources) -> None:
    struct = "typedef struct { int a; int b __attribute__((aligned(16))); } tpu_x_param_t;"
    text, hint = only(sources, device(struct=struct))
    # the place is the brace of the struct that has the member
    assert text.startswith("2:20: ") and "a member with __attribute__((aligned))" in text
    assert "only packed" in hint


def test_an_unknown_type(sources: Sources) -> None:
    text, hint = only(sources, device(struct="typedef struct {\n  int a;\n  real_t b;\n} tpu_x_param_t;"))
    assert text == "4:3: type real_t behind __BM_PARAM__(TPU_X) is not known"
    assert hint.startswith("include the header that defines it")


def test_c_that_cannot_be_read(sources: Sources) -> None:
    text, hint = only(sources, device(struct="typedef struct { int a b; } tpu_x_param_t;"))
    assert "cannot read the declaration behind __BM_PARAM__(TPU_X): " in text
    assert "`#ifndef __TPULAYER_SCAN__`" in hint


# ---- the preprocessor ----


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('#include "none.h"', 'cannot find the include file "none.h"'),
        ("#error no such board", "#error no such board"),
        ("#define", "#define without its argument"),
        ("#if 1", "Unterminated #if 1"),
        ("#endif", "Misplaced #endif"),
    ],
)
def test_preprocessor_errors(sources: Sources, line: str, message: str) -> None:
    for before in ("", "static int a;\n"):  # among the leading includes, and behind other text
        sources.layer(device(extra=before + line + "\n"))
        text = sources.texts()[0]
        assert text == f"device/x.c:{3 if before else 2}:1: {message}"
    sources.write("include/bad.h", f"\n{line}\n")
    sources.layer(device(extra='#include "bad.h"\n'))
    assert sources.texts()[0] == f"include/bad.h:2:1: {message}"


def test_a_missing_header_says_where_it_was_looked_for(sources: Sources) -> None:
    sources.layer(device(extra='#include "none.h"\n'))
    assert "looked in" in sources.problems()[0].hint and "include" in sources.problems()[0].hint


def test_headers_that_include_each_other(sources: Sources) -> None:
    sources.write("include/a.h", '#include "b.h"\n')
    sources.write("include/b.h", '#include "a.h"\n')
    sources.layer(device(extra='#include "a.h"\n'))
    assert "include each other without end" in sources.texts()[0]


# ---- descriptors ----


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "int x;",
            "1:1: __BM_DESC__(TPU_X) stands before `int`, expected the definition of a class",
            "put it directly",
        ),
        (
            "class D;",
            "1:1: __BM_DESC__(TPU_X) stands before `class D` without a body, expected",
            "directly before",
        ),
        ("", "1:1: __BM_DESC__(TPU_X) stands before the end of the file, expected", "directly before"),
        (
            "template <class T> class D : public bmcompiler::LayerDescriptor {};",
            "1:1: __BM_DESC__(TPU_X) stands before a template",
            "ordinary class",
        ),
        (
            "class D {};",
            "2:7: class D behind __BM_DESC__(TPU_X) has no base class, expected",
            "`: public bmcompiler::LayerDescriptor`",
        ),
        (
            "class D : public Other {};",
            "2:7: class D behind __BM_DESC__(TPU_X) derives from Other, expected",
            ": public",
        ),
        (
            "class D : bmcompiler::LayerDescriptor {};",
            "2:7: class D behind __BM_DESC__(TPU_X) does not derive publicly from "
            "bmcompiler::LayerDescriptor",
            "write `: public",
        ),
        (
            "class : public bmcompiler::LayerDescriptor {} d;",
            "1:1: __BM_DESC__(TPU_X) stands before an unnamed class",
            "a name",
        ),
    ],
)
def test_bad_descriptors(sources: Sources, text: str, message: str, hint: str) -> None:
    sources.layer(device(), f"__BM_DESC__(TPU_X)\n{text}\n")
    (problem,) = sources.problems()
    at = problem.location
    assert f"{at.line}:{at.column}: {problem.message}".startswith(message)
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("member", "meant"),
    [
        ("public: virtual bool must_dynamicrun() const { return true; }", "must_dynamic_run"),
        ("virtual u64 global_buffer_size() const;", "get_global_buffer_size"),
        ("public:\n  int backward_hindex(int h) const { return h - 1; }", "backward_hidx"),
        ("public: bool force_global_layer() const;", "force_use_global_layer"),
        ("public: bool must_run_dynamic() const;", "must_dynamic_run"),
        ("public: int x{3}; std::string get_nam() const { if (x) { return {}; } return {}; }", "get_name"),
        (
            "struct In { int f() { return 1; } }; public: u32 get_local_buffersize(const int *) const;",
            "get_local_buffer_size",
        ),
    ],
)
def test_a_method_that_is_nearly_one_of_the_base_class(sources: Sources, member: str, meant: str) -> None:
    text = f"__BM_DESC__(TPU_X) class D : public bmcompiler::LayerDescriptor {{\n{member}\n}};\n"
    sources.layer(device(), text)
    (problem,) = sources.problems()
    assert problem.location.line == 2 + ("public:\n" in member)
    assert problem.message.startswith("LayerDescriptor has no method ")
    assert problem.message.endswith(f"; did you mean {meant}?") and "private" in problem.hint


def test_a_data_member_with_the_name_of_a_method(sources: Sources) -> None:
    member = " bool must_dynamic_run = true; };\n"
    sources.layer(device(), f"__BM_DESC__(TPU_X) class D : public bmcompiler::LayerDescriptor {{\n{member}")
    (found,) = sources.texts()
    assert (
        found
        == "host/x.h:2:7: must_dynamic_run is a data member here; the compiler asks the method of that name"
    )


def test_a_misspelled_method_of_a_base_class_of_the_users(sources: Sources) -> None:
    base = (
        "class Base : public bmcompiler::LayerDescriptor {\n protected: virtual int backward_hslide(int);\n};"
    )
    sources.write("host/base.hpp", base)
    sources.layer(device(), '#include "base.hpp"\n__BM_DESC__(TPU_X) class D : public Base {};\n')
    (text,) = sources.texts()
    assert text.startswith("host/base.hpp:2:") and "did you mean backward_hslice" in text


def test_markers_that_do_not_exist(sources: Sources) -> None:
    text = device().replace("__BM_GLOBAL__", "__BM_GLOABL__")
    line = next(i for i, part in enumerate(text.splitlines(), 1) if "GLOABL" in part)
    sources.layer(
        "/* __BM_NOTE__(x) */ " + text, "__BM_DECS__(TPU_X)\nclass D : public bmcompiler::LayerDescriptor {};"
    )
    found = sources.texts()
    assert f"device/x.c:{line}:1: unknown marker __BM_GLOABL__; did you mean __BM_GLOBAL__?" in found
    assert "host/x.h:1:1: unknown marker __BM_DECS__; did you mean __BM_DESC__?" in found
    assert not any("NOTE" in text for text in found)


def test_a_name_in_the_host_file_that_is_nearly_the_layers(sources: Sources) -> None:
    sources.layer(device(), "__BM_DESC__(TPU_BOXX)\nclass D : public bmcompiler::LayerDescriptor {};")
    sources.write("device/box.c", device().replace("TPU_X", "TPU_BOX").replace("x_", "box_"))
    assert any(
        text.endswith("layer TPU_BOXX has a descriptor but nothing in device/; did you mean TPU_BOX?")
        for text in sources.texts()
    )


def test_methods_of_the_users_own(sources: Sources) -> None:
    text = """class Other { public: virtual bool must_dynamicrun() const; };
__BM_DESC__(TPU_X) class D : public bmcompiler::LayerDescriptor {
    int size = f(1);
  public:
    D() : size(2) { if (size) return; }
    ~D() override;
    int kernel_h() const { return input_type(0) + size; }
    int backward_kw(int out_kw) const { return out_kw; }
    int backward_lslice(int n) const { return n; }
    int backward_stride_w(int) const { return 1; }
    virtual int rounds() const;
    int operator()(int input_types) const;
  private:
    int backward_hindex(int h) const { return h; }
};
void must_dynamic_runn();
"""
    sources.layer(device(), text)
    assert list(sources.problems()) == []


def test_a_class_inside_a_function(sources: Sources) -> None:
    inner = "__BM_DESC__(TPU_X) class D : public bmcompiler::LayerDescriptor {};"
    sources.layer(device(), f"void f() {{ {inner} }}\n")
    assert "stands before class D inside a function" in sources.texts()[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__BM_GLOBAL__(TPU_Y)", "__BM_GLOBAL__(TPU_Y) in a host file"),
        ("__BM_DESC__ class D {};", "__BM_DESC__ without the layer's name"),
        ("__BM_DESC__(TPU-Y) class D {};", "`TPU-Y` in __BM_DESC__ is not a C identifier"),
    ],
)
def test_bad_markers_in_host_files(sources: Sources, text: str, message: str) -> None:
    sources.layer(device(), host() + text + "\n")
    assert sources.texts() == [f"host/x.h:4:1: {message}"]


# ---- the lock file ----


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("TPU_X\n", ":1:1: found `TPU_X`, expected a name and a number like `TPU_CROP 0`", "version control"),
        ("# c\nTPU_X one\n", ":2:1: found `TPU_X one`, expected", "version control"),
        ("TPU_X -1\n", ":1:1: found `TPU_X -1`, expected", "version control"),
        ("TPU_X 65536\n", ":1:1: TPU_X has the number 65536, outside 0..65535", "stored in bmodels"),
        ("TPU_X 0\nTPU_X 1\n", ":2:1: TPU_X is listed a second time (numbers 0 and 1)", "remove one line"),
        (
            "TPU_X 0\nTPU_Y 0\n",
            ":2:1: TPU_Y and TPU_X (line 1) both have the number 0; two branches",
            "the next free number",
        ),
        ("<<<<<<< ours\nTPU_X 0\n", ":1:1: an unresolved merge conflict", "keep the lines of both sides"),
    ],
)
def test_a_damaged_lock_file(sources: Sources, text: str, message: str, hint: str) -> None:
    sources.layer(device()).write("config/op_types.lock", text)
    with pytest.raises(SourceError) as e:
        sources.table()
    assert f"op_types.lock{message}" in e.value.message and hint in e.value.hint
    assert sources.lock.read_text() == text


def test_a_binary_lock_file(sources: Sources) -> None:
    sources.layer(device()).write("config/op_types.lock", b"\xff\xfe\x00")
    with pytest.raises(SourceError, match="not a text file"):
        sources.table()


# ---- all together ----


def test_all_errors_come_at_once_and_sorted(sources: Sources) -> None:
    sources.layer(HEAD + shape("TPU_X") + global_("TPU_X").replace("int x_global", "void x_global"))
    with pytest.raises(ScanError) as e:
        sources.table()
    places = [(p.location.line, p.location.column) for p in e.value.problems]
    assert places == sorted(places) and len(places) == 2
    lines = str(e.value).splitlines()
    assert lines[0] == "2 errors in the layer sources"
    assert lines[2].startswith("  hint: ") and e.value.exit_code == 1
    assert not sources.lock.exists()


def test_sound_layers_beside_broken_ones(sources: Sources) -> None:
    sources.layer(device())
    sources.write("device/y.c", HEAD + shape("TPU_Y", "y_shape"))
    result = sources.result()
    assert [x.op for x in result.table.layers] == ["TPU_X"]
    assert result.ops == ("TPU_X", "TPU_Y") and len(result.problems) == 3
