"""The C side of the table: bmcompiler's headers, and the functions of libbmcompiler.so.

Each function puts its arguments into a message in their order and sends it; server.py reads it by the same
table. The message is little endian: int and float 4 bytes each, arrays and texts a count (NULL: 0xFFFFFFFF)
and then their parts.
"""

from __future__ import annotations

import textwrap

from user_layers.bmcompiler.calls import (
    BOOL,
    FLOAT,
    FUNCTIONS,
    HANDLE,
    INT,
    TEXT,
    Arrays,
    Bytes,
    Floats,
    Function,
    Ints,
    Parameter,
    Result,
    Shapes,
    Term,
    Texts,
    Unread,
    parse_term,
)
from user_layers.bmcompiler.codes import CODES

_WIDTH = 110
HEADERS = ("bmcompiler_if.h", "bmcompiler_op_code.h", "bmcompiler_defs.h")  # which `headers` makes
CALLS = "bmcompiler_calls.c"  # which `calls_source` makes
_BANNER = "/* Generated with the toolkit from user_layers/bmcompiler; changes here are lost. */"

_HEAD = """\
/* bmcompiler's functions: a graph of layers, compiled into a bmodel. Link with -lbmcompiler; the library
 * hands the graph to the compiler in a process of its own, one for each p_bmcpl.
 *
 * A tensor that no layer made is an input of the net, of the shape given where it is first used, and fp32
 * where no type is given; tensors that no layer uses are its outputs. Each compile call ends one net; the
 * next layer begins another. Shapes are arrays of as many numbers as the parameter beside them says. Data
 * is copied before a function returns.
 *
 * A call that fails says why on stderr, with its function and what it was about. create_bmcompiler and
 * create_bmcompiler_dir then return NULL; after any other, p_bmcpl takes no further layers and
 * finish_bmcompiler writes nothing. bmcompiler_errors counts the calls that failed in this program.
 *
 * p_bmcpl is for one thread at a time. TPULAYER_WORKSPACE names the workspace whose layers there are;
 * without it, it is the one that the library is installed in, else the one around the current folder.
 */
"""

_MAPS = """\
#ifdef __cplusplus
#include <map>
#include <string>
#include <vector>

/* compile_with_result_check and compile_ir_with_result_check with data by name. */
typedef std::map<std::string, float *> bmcompiler_data;

inline void bmcompiler_compile_checked(void *p_bmcpl, bmcompiler_data *input_data,
                                       bmcompiler_data *references, const char *net_name, bool dynamic) {
    std::vector<char *> names[2];
    std::vector<float *> data[2];
    bmcompiler_data *const maps[2] = {input_data, references};
    for (int i = 0; i < 2; i++) {
        for (bmcompiler_data::iterator it = maps[i]->begin(); it != maps[i]->end(); ++it) {
            names[i].push_back(const_cast<char *>(it->first.c_str()));
            data[i].push_back(it->second);
        }
    }
    (dynamic ? compile_ir_with_result_check : compile_with_result_check)(
        p_bmcpl, names[0].data(), data[0].data(), (int)names[0].size(), names[1].data(), data[1].data(),
        (int)names[1].size(), net_name);
}

inline void __compile_with_result_check(void *p_bmcpl, bmcompiler_data *input_data,
                                        bmcompiler_data *layer_top_references, const char *net_name) {
    bmcompiler_compile_checked(p_bmcpl, input_data, layer_top_references, net_name, false);
}

inline void __compile_ir_with_result_check(void *p_bmcpl, bmcompiler_data *input_data,
                                           bmcompiler_data *layer_top_references, const char *net_name) {
    bmcompiler_compile_checked(p_bmcpl, input_data, layer_top_references, net_name, true);
}
#endif
"""

_ERRORS = """\
/* How many calls have failed in this program so far. (An addition: the vendor's functions have no result.) */
int bmcompiler_errors(void);
"""


def headers(sdk_types: str) -> dict[str, str]:
    """The headers by name.

    sdk_types: the enumerations that the layer headers have too, with their guard's #define.
    """
    return {
        "bmcompiler_if.h": _functions_header(),
        "bmcompiler_op_code.h": _codes_header(),
        "bmcompiler_defs.h": "\n".join(
            (
                _BANNER,
                "#ifndef BMCOMPILER_DEFS_H_",
                "#define BMCOMPILER_DEFS_H_",
                "",
                '#define ARCH_BM1684 "BM1684"',
                "",
                "#ifndef BMCOMPILER_TYPES_DEFINED",
                sdk_types,
                "#endif",
                "#endif",
                "",
            )
        ),
    }


def calls_source() -> str:
    """bmcompiler_calls.c: the functions."""
    parts = [_BANNER, '#include "bmcompiler_internal.h"', ""]
    parts += [_definition(function) for function in FUNCTIONS.values()]
    return "\n".join(parts)


# ---- headers ----


def _functions_header() -> str:
    lines = [
        _BANNER,
        _HEAD,
        "#ifndef BMCOMPILER_IF_H_",
        "#define BMCOMPILER_IF_H_",
        "",
        "#include <stdbool.h>",
        "",
    ]
    lines += ["#ifdef __cplusplus", "#define BMCOMPILER_DEFAULT(value) = value", 'extern "C" {', "#else"]
    lines += ["#define BMCOMPILER_DEFAULT(value)", "#endif", ""]
    for function in FUNCTIONS.values():
        lines += [_comment(function.summary), _prototype(function, defaults=True) + ";", ""]
    lines += [
        _ERRORS,
        "#ifdef __cplusplus",
        "}",
        "",
        "/* The vendor's newer headers have them in a namespace. */",
    ]
    lines += [
        "namespace bmcompiler {",
        *(f"using ::{name};" for name in FUNCTIONS),
        "}",
        "#endif",
        "",
        _MAPS,
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _codes_header() -> str:
    lines = [_BANNER, "#ifndef BMCOMPILER_OP_CODE_H", "#define BMCOMPILER_OP_CODE_H", ""]
    names = []
    for enumeration, members in CODES.items():
        body = ",\n".join(f"    {name} = {value}" for name, value in members.items())
        lines += [f"typedef enum {{\n{body}\n}} {enumeration};", ""]
        names += [enumeration, *members]
    lines += [
        "#ifdef __cplusplus",
        "namespace bmcompiler {",
        *(f"using ::{name};" for name in names),
        "}",
        "#endif",
    ]
    return "\n".join([*lines, "#endif", ""])


def _comment(text: str) -> str:
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    wrapped = "\n".join("\n".join(textwrap.wrap(part, _WIDTH)) for part in paragraphs).split("\n")
    return "/* " + "\n * ".join(wrapped) + " */"


def _prototype(function: Function, *, defaults: bool = False) -> str:
    parameters = [_declaration(function, p, defaults) for p in function.parameters]
    if isinstance(function.result, Result):
        parameters += [f"void **{function.result.data}", f"unsigned int *{function.result.size}"]
    returned = {HANDLE: "void *", INT: "int "}.get(str(function.result), "void ")
    start = f"{returned}{function.name}("
    whole = ", ".join(p.replace(" ", _GLUE) for p in parameters) + ")"
    lines = textwrap.wrap(whole, _WIDTH, initial_indent=start.replace(" ", _GLUE), subsequent_indent="    ")
    return "\n".join(lines).replace(_GLUE, " ")


_GLUE = "\x01"  # a space at which no line ends

_TYPES = {HANDLE: "void *", INT: "int ", FLOAT: "float ", TEXT: "const char *", BOOL: "bool "}
_ARRAYS: dict[type, str] = {
    Ints: "const int *",
    Texts: "const char *const *",
    Shapes: "const int *const *",
    Floats: "const float *",
    Bytes: "const void *",
    Arrays: "float **",
}


def _declaration(function: Function, parameter: Parameter, defaults: bool) -> str:
    kind = parameter.kind
    if isinstance(kind, str):
        plain = _TYPES[kind]
    elif isinstance(kind, Unread):
        plain = kind.c_type
    else:
        plain = "char **" if _names_arrays(function, parameter) else _ARRAYS[type(kind)]
    value = f" BMCOMPILER_DEFAULT({parameter.default})" if defaults and parameter.default is not None else ""
    return f"{plain}{parameter.name}{value}"


def _names_arrays(function: Function, parameter: Parameter) -> bool:
    """The vendor has names of data to compare with as char **; C has no conversion to const char *const *."""
    return any(isinstance(p.kind, Arrays) and p.kind.names == parameter.name for p in function.parameters)


# ---- functions ----


def _definition(function: Function) -> str:
    lines = [f"{_prototype(function)} {{", "    message m = message_begin(__func__);"]
    lines += [f"    {_put(function, p)}" for p in function.parameters if p.kind != HANDLE]
    if isinstance(function.result, Result):
        end = f"message_data(p_bmcpl, &m, {function.result.data}, {function.result.size})"
    elif function.result == HANDLE:
        end = "return message_create(&m)"
    elif function.result == INT:
        end = "return message_value(p_bmcpl, &m)"
    else:
        end = "message_end(p_bmcpl, &m)" if function.ends else "message_call(p_bmcpl, &m)"
    lines.append(f"    {end};")
    for p in function.parameters:
        if isinstance(p.kind, Shapes) and p.kind.made:
            lines.append(
                f"    if ({p.name} != NULL && {p.kind.dims} == NULL) "
                f"message_shapes(p_bmcpl, __func__, {p.name}, {p.kind.count});"
            )
    return "\n".join([*lines, "}", ""])


def _put(function: Function, parameter: Parameter) -> str:
    name, kind = parameter.name, parameter.kind
    if isinstance(kind, str):
        return {INT: "put_int", BOOL: "put_int", FLOAT: "put_float", TEXT: "put_text"}[
            kind
        ] + f"(&m, {name});"
    if isinstance(kind, Ints):
        return f"put_ints(&m, {name}, {kind.count});"
    if isinstance(kind, Texts):
        cast = "(const char *const *)" if _names_arrays(function, parameter) else ""
        return f"put_texts(&m, {cast}{name}, {kind.count});"
    if isinstance(kind, Shapes):
        return f"put_shapes(&m, {name}, {kind.dims}, {kind.count});"
    if isinstance(kind, Bytes):
        return f"put_bytes(&m, {name}, {kind.size});"
    if isinstance(kind, Arrays):
        names = function.parameter(kind.names)
        assert isinstance(names.kind, Texts)
        return f"put_arrays(&m, p_bmcpl, (const char *const *){kind.names}, {name}, {names.kind.count});"
    if isinstance(kind, Unread):
        return f"(void){name};"
    assert isinstance(kind, Floats)
    terms = ", ".join(_term(function, parse_term(text)) for text in kind.terms)
    count = f"product_of(&m, (int64_t[]){{{terms}}}, {len(kind.terms)}, {kind.per or '1'})"
    if kind.single:
        count = f"{kind.single} ? 1 : {count}"
    given = f"{kind.when} ? {name} : NULL" if kind.when else name
    return f"put_floats(&m, {given}, {count});"


def _term(function: Function, term: Term) -> str:
    if not term.call and term.index is None:
        return term.name
    kind = function.parameter(term.name).kind
    if isinstance(kind, Shapes):  # the first of them
        values, count = f"first_shape({term.name}, {kind.count})", f"first_int({kind.dims}, {kind.count})"
    else:
        assert isinstance(kind, Ints)
        values, count = term.name, kind.count
    if term.call == "prod":
        return f"extents({values}, {count}, 0, -1)"
    if term.call == "span":
        return f"extents({values}, {count}, {', '.join(term.arguments)})"
    return f"extents({values}, {count}, {term.index}, 1)"
