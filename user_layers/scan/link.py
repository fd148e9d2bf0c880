"""Facts of all files -> layers: everything of an op brought together and checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from firmware_sim.suggest import closest, did_you_mean
from user_layers.scan.host import scan_host
from user_layers.scan.model import (
    DEVICE_KINDS,
    KINDS,
    FileFacts,
    HostClass,
    HostMethod,
    LayerInfo,
    Location,
    Mark,
    ParamStruct,
    Problem,
    Symbol,
    marker,
)
from user_layers.workspace import sdk_dir

_BASE = "LayerDescriptor"
_FIX = {
    "PARAM": "add `{marker}` before the parameter struct in the device file; a layer without "
    "parameters has an empty one",
    "GLOBAL": "add `{marker}` before the function that works on data in DDR",
    "SHAPE": "add `{marker}` before the function that sets the outputs' shapes and types",
    "DESC": "add `{marker}` before a class derived from bmcompiler::LayerDescriptor in a file of host/",
}


@dataclass(frozen=True)
class Draft:
    """A complete layer that has no number yet."""

    op: str
    param: ParamStruct
    global_fn: Symbol
    local_fn: Symbol | None
    shape_fn: Symbol
    descriptor: Symbol

    def numbered(self, op_type: int) -> LayerInfo:
        """The layer with the op_type that the lock file gives it."""
        return LayerInfo(
            op=self.op,
            name=short_name(self.op),
            op_type=op_type,
            param=self.param,
            global_fn=self.global_fn,
            local_fn=self.local_fn,
            shape_fn=self.shape_fn,
            descriptor=self.descriptor,
        )


def short_name(op: str) -> str:
    """ "crop" for TPU_CROP: what commands and file names use."""
    return (op[4:] if op.startswith("TPU_") and len(op) > 4 else op).lower()


def link(facts: Sequence[FileFacts]) -> tuple[list[Draft], list[str], list[Problem]]:
    """Complete layers in order of op, every op that any marker names, and all problems."""
    problems = [p for f in facts for p in f.problems]
    marks: dict[str, dict[str, list[Mark]]] = {}
    for m in dict.fromkeys(m for f in facts for m in f.marks):  # a shared header's marker counts once
        marks.setdefault(m.op, {}).setdefault(m.kind, []).append(m)
    classes = {c.name: c for f in facts for c in f.classes}
    problems += _misspelled(marks, classes, dict.fromkeys(m for f in facts for m in f.methods))
    drafts: list[Draft] = []
    for op in sorted(marks):
        draft, found = _layer(op, marks[op], classes, [other for other in marks if other != op])
        problems += found
        if draft:
            drafts.append(draft)
    problems += _clashes(drafts)
    return drafts, sorted(marks), problems


def _layer(
    op: str, marks: dict[str, list[Mark]], classes: dict[str, HostClass], others: Sequence[str]
) -> tuple[Draft | None, list[Problem]]:
    problems = _twice(op, marks)
    at = min(m.location for found in marks.values() for m in found)
    only_host = not any(kind in marks for kind in DEVICE_KINDS)
    if only_host:
        problems.append(
            Problem(
                at,
                f"layer {op} has a descriptor but nothing in device/{did_you_mean(op, others)}",
                f"write its device file (`tpulayer add_layer {short_name(op)}` shows one), or remove "
                f"{marker('DESC', op)}",
            )
        )
    else:
        for kind, fix in _FIX.items():
            if kind not in marks:
                here = next(marks[k][0].location for k in KINDS if k in marks)
                have = ", ".join(marker(k, op) for k in KINDS if k in marks)
                problems.append(
                    Problem(
                        here,
                        f"layer {op} has no {marker(kind, op)} (found {have})",
                        fix.format(marker=marker(kind, op)),
                    )
                )
    for m in marks.get("DESC", ()):
        if m.symbol:
            problems += _derives(op, m, m.symbol, classes)
    first = {kind: found[0] for kind, found in marks.items()}
    complete = all(k in first and first[k].symbol for k in _FIX) and (
        "LOCAL" not in first or first["LOCAL"].symbol
    )
    if problems or not complete:
        return None, problems
    param = first["PARAM"].param
    shape, glob, desc = (first[k].symbol for k in ("SHAPE", "GLOBAL", "DESC"))
    assert param and shape and glob and desc
    local = first["LOCAL"].symbol if "LOCAL" in first else None
    return Draft(op, param, glob, local, shape, desc), problems


def _twice(op: str, marks: dict[str, list[Mark]]) -> list[Problem]:
    """Markers that occur more than once; when all of a layer do, it is two layers with one name."""
    doubled = {k: found for k, found in marks.items() if len(found) > 1}
    if not doubled:
        return []
    glob = doubled.get("GLOBAL", [])
    if len({m.location.file for m in glob}) > 1:
        first, second = min(m.location for m in glob), max(m.location for m in glob)
        return [
            Problem(
                second,
                f"two layers have the name {op}; the other is at {first}",
                "give one of them another name in all its markers",
            )
        ]
    problems = []
    for kind, found in doubled.items():
        first, *others = sorted(m.location for m in found)
        problems += [
            Problem(at, f"{marker(kind, op)} a second time; the first is at {first}", "remove one of the two")
            for at in others
        ]
    return problems


def _derives(op: str, mark: Mark, symbol: Symbol, classes: dict[str, HostClass]) -> list[Problem]:
    """Check that a descriptor derives publicly from LayerDescriptor, perhaps through own classes."""
    hidden: list[str] = []
    bases: list[str] = []
    for c in _lineage(symbol.name, classes):
        if any(b.split("::")[-1] == _BASE for b in c.bases):
            return []
        hidden += [b for b in c.hidden_bases if b.split("::")[-1] == _BASE]
        bases += [*c.bases, *c.hidden_bases]
    if hidden:
        found = f"does not derive publicly from {hidden[0]}"
        fix = f"write `: public {hidden[0]}`"
    else:
        found = f"derives from {', '.join(bases)}" if bases else "has no base class"
        fix = "derive it from the base class: `: public bmcompiler::LayerDescriptor`"
    message = f"class {symbol.name} behind {marker('DESC', op)} {found}, expected bmcompiler::LayerDescriptor"
    return [Problem(symbol.location, message, fix)]


def _misspelled(
    marks: dict[str, dict[str, list[Mark]]], classes: dict[str, HostClass], methods: Iterable[HostMethod]
) -> list[Problem]:
    """Methods of descriptors whose names are nearly those of LayerDescriptor's: nobody would call them."""
    described = {
        c.name
        for found in marks.values()
        for m in found.get("DESC", ())
        if m.symbol
        for c in _lineage(m.symbol.name, classes)
    }
    problems = []
    known = descriptor_methods()
    for m in methods:
        if m.of not in described or m.name == m.of.split("::")[-1]:
            continue
        if m.data and m.name in known:
            message = f"{m.name} is a data member here; the compiler asks the method of that name"
            problems.append(Problem(m.location, message, "write it as a method, or give it another name"))
        elif m.called and m.name not in known and (meant := _meant(m, known)):
            problems.append(
                Problem(
                    m.location,
                    f"LayerDescriptor has no method {m.name}; did you mean {meant}?",
                    "the compiler calls the methods of LayerDescriptor only; give one of your own a name "
                    "that is less like one of them, or make it private",
                )
            )
    return problems


def _meant(m: HostMethod, known: Sequence[str]) -> str:
    """The method of LayerDescriptor that a name is nearly one of; "" when it is a name of its own: other
    words, or the same method of another axis (backward_kw)."""
    words = sorted(m.name.split("_"))
    swapped = next((name for name in known if sorted(name.split("_")) == words), "")
    meant = swapped or closest(m.name, known, 0.75 if m.virtual else 0.87)
    return "" if meant and not swapped and _of_another_axis(m.name, meant) else meant


def _of_another_axis(name: str, method: str) -> bool:
    """Whether the names differ in a letter that stands for an axis."""
    different = [(a, b) for a, b in zip(name, method, strict=False) if a != b]
    return len(name) == len(method) and len(different) == 1 and set(different[0]) <= set("nhwl")


@lru_cache(maxsize=1)
def descriptor_methods() -> tuple[str, ...]:
    """The virtual methods of bmcompiler::LayerDescriptor, from the header that declares them."""
    path = sdk_dir() / "include" / "bmcompiler_tpulayer_host.hpp"
    found = scan_host(path, path.read_bytes()).methods
    return tuple(m.name for m in found if m.virtual and m.of == f"bmcompiler::{_BASE}" and m.name != _BASE)


def _lineage(name: str, classes: dict[str, HostClass]) -> list[HostClass]:
    """The class and those of the user's that it derives from."""
    todo, found = [name], list[HostClass]()
    while todo:
        c = _find(todo.pop(), classes)
        if c is not None and c not in found:
            found.append(c)
            todo += c.bases
    return found


def _find(name: str, classes: dict[str, HostClass]) -> HostClass | None:
    bare = name.removeprefix("::")
    if bare in classes:
        return classes[bare]
    last = bare.split("::")[-1]
    return next((c for c in classes.values() if c.name.split("::")[-1] == last), None)


def _clashes(drafts: Sequence[Draft]) -> list[Problem]:
    """Different functions with one name, and different definitions for one name in bmtpu.h."""
    problems: list[Problem] = []
    functions: dict[str, Location] = {}
    names: dict[str, tuple[str, str, Location]] = {}
    for d in drafts:
        for s in (d.global_fn, d.local_fn, d.shape_fn):
            if s is None:
                continue
            first = functions.setdefault(s.name, s.location)
            if first != s.location:
                problems.append(
                    Problem(
                        s.location,
                        f"function {s.name} is also defined at {first}",
                        "all layers are linked into one firmware: give one of them another name",
                    )
                )
        for need in d.param.needs:
            for name in need.names:
                key, text, where = names.setdefault(name, (need.key, need.text, need.location))
                if (key, text) != (need.key, need.text):
                    problems.append(
                        Problem(
                            need.location,
                            f"{name} is defined differently at {where}",
                            "the parameter structs of all layers share one header, bmtpu.h: give one "
                            "of the two another name, or define it once in a header of include/",
                        )
                    )
    ops = {d.op: d for d in drafts}
    problems += [
        Problem(
            where,
            f"{name} is a member of a parameter struct's types and the name of a layer",
            "rename one of them: both are constants in bmtpu.h",
        )
        for name, (_, _, where) in names.items()
        if name in ops
    ]
    return problems
