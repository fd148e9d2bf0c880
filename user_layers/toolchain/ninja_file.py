"""The text of a ninja file: C and C++ sources to objects, archives and shared libraries.

What it compiles it also tells in the words of compile_commands.json, for clangd and editors.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from user_layers.toolchain.compilers import WARNINGS, Compiler


def relative(path: Path, root: Path) -> str:
    """path as the compiler's messages should show it: from root where it lies inside, otherwise absolute."""
    try:
        return str(path.relative_to(root))
    except ValueError:
        return str(path)


@dataclass(frozen=True)
class Objects:
    """Sources that are compiled alike; `folder`, inside the build folder, is for their objects only.

    after: folder of the same sources' objects for another machine. They are compiled first, so that a mistake
    is reported once; those here get no more than the compiler's own warnings. included: further files that
    are no objects of their own, because one of the sources includes them.
    """

    compiler: Compiler
    sources: Sequence[Path]
    includes: Sequence[Path]
    folder: str
    defines: Sequence[str] = ()
    after: str | None = None
    included: Sequence[Path] = ()


@dataclass
class NinjaFile:
    """Collects build statements; paths are written relative to `root`, where ninja is started."""

    root: Path
    build_dir: Path
    rules: dict[str, str] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    _calls: dict[Path, list[str]] = field(default_factory=dict)  # source -> how it is compiled

    def objects(self, group: Objects) -> list[Path]:
        """Statements for each source; the objects."""
        flags = [
            *group.compiler.flags,
            *(WARNINGS if group.after is None else ()),
            *(f"-D{name}" for name in group.defines),
            *(f"-I{relative(folder, self.root)}" for folder in group.includes),
        ]
        command = f"{_shell(*group.compiler.argv, *flags)} -MMD -MF $out.d -c $in -o $out"
        rule = self._rule(
            "compile", command, f"compiling $in{group.compiler.note}", "depfile = $out.d\n  deps = gcc"
        )
        outputs = []
        names: set[str] = set()
        for source in group.sources:
            name = source.name
            while name in names:  # the same file name in two folders
                name = "_" + name
            names.add(name)
            output = self.build_dir / "obj" / group.folder / f"{name}.o"
            first = [output.parents[1] / group.after / output.name] if group.after is not None else []
            self._build(output, rule, [source], [self.identity_file], first)
            outputs.append(output)
        if group.after is None:  # else they are there already, for this machine
            for source in (*group.sources, *group.included):
                self._calls.setdefault(source, [*group.compiler.argv, *flags, "-c", self._name(source)])
        return outputs

    def archive(self, compiler: Compiler, output: Path, objects: Sequence[Path]) -> Path:
        """A statement for a static library, made again each time; the library."""
        command = f"rm -f $out && {_shell(*compiler.ar, 'rcsD')} $out $in"
        self._build(output, self._rule("archive", command, f"archiving {output.name}"), objects, ())
        return output

    def shared(
        self,
        compiler: Compiler,
        output: Path,
        objects: Sequence[Path],
        whole: Sequence[Path] = (),
        note: str = "",
        uses: Path | None = None,
        shows: Path | None = None,
        options: Sequence[str] = (),
    ) -> Path:
        """A shared library of objects and of everything in the archives `whole`. uses: another one that it
        needs, at run time in the same folder. shows: the linker's script with the names that others see.
        options: further words for the linker, behind the objects."""
        tail = "" if uses is None else " " + _shell(relative(uses, self.root), "-Wl,-rpath,$ORIGIN")
        if shows is not None:
            tail += " " + _shell(f"-Wl,--version-script={shows}")
        if whole:
            tail += " " + _shell("-Wl,--whole-archive", *map(str, whole), "-Wl,--no-whole-archive")
        if options:
            tail += " " + _shell(*options)
        call = _shell(*compiler.argv, *compiler.link_flags, f"-Wl,-soname,{output.name}")
        command = f"{call} $in{tail} -lm -o $out"
        rule = self._rule("link", command, f"linking {output.name}{note}")
        needs = [path for path in (uses, shows) if path is not None]
        self._build(output, rule, objects, [*whole, *needs])
        return output

    def program(
        self,
        compiler: Compiler,
        output: Path,
        objects: Sequence[Path],
        whole: Sequence[Path],
        options: Sequence[str],
        needs: Sequence[Path],
    ) -> Path:
        """A program without an operating system; `needs` are further files that it is made from."""
        archives = _shell("-Wl,--whole-archive", *map(str, whole), "-Wl,--no-whole-archive")
        command = f"{_shell(*compiler.argv, *options)} $in {archives} -o $out"
        rule = self._rule("link", command, f"linking {output.name}{compiler.note}")
        self._build(output, rule, objects, [*whole, *needs])
        return output

    def executable(
        self,
        compiler: Compiler,
        output: Path,
        objects: Sequence[Path],
        libraries: Sequence[Path],
        search: str,
        options: Sequence[str] = (),
    ) -> Path:
        """A program for the host that uses shared libraries, found at run time by the path `search`. options:
        more for the link."""
        tail = _shell(*(relative(path, self.root) for path in libraries), f"-Wl,-rpath,{search}")
        command = f"{_shell(*compiler.argv, '-O2', *options)} $in {tail} -o $out"
        rule = self._rule("link", command, f"linking {output.name}{compiler.note}")
        self._build(output, rule, objects, libraries)
        return output

    @property
    def identity_file(self) -> Path:
        """Every object depends on this file, which changes when the compiler does."""
        return self.build_dir / "compilers.txt"

    def text(self) -> str:
        """The file: rules, then the statements in the order in which they were asked for."""
        head = f"# Made for each build; do not edit.\nbuilddir = {_path(self._name(self.build_dir))}\n"
        return "\n".join((head, *self.rules.values(), *self.statements))

    def compile_commands(self) -> str:
        """The text of compile_commands.json: an entry for each source, as the native build compiles it."""
        entries = [
            {"directory": str(self.root), "file": self._name(source), "arguments": call}
            for source, call in self._calls.items()
        ]
        return json.dumps(entries, indent=1) + "\n"

    def _rule(self, kind: str, command: str, description: str, more: str = "") -> str:
        body = f"  command = {command}\n  description = {description}\n" + (f"  {more}\n" if more else "")
        for name, known in self.rules.items():
            if known == f"rule {name}\n{body}":
                return name
        name = f"{kind}_{len(self.rules)}"
        self.rules[name] = f"rule {name}\n{body}"
        return name

    def _build(
        self,
        output: Path,
        rule: str,
        inputs: Iterable[Path],
        implicit: Iterable[Path],
        order: Iterable[Path] = (),
    ) -> None:
        needs = " ".join(_path(self._name(path)) for path in inputs)
        more = " ".join(_path(self._name(path)) for path in implicit)
        tail = f" | {more}" if more else ""
        tail += "".join(f" || {_path(self._name(path))}" for path in order)
        self.statements.append(f"build {_path(self._name(output))}: {rule} {needs}{tail}\n")

    def _name(self, path: Path) -> str:
        return relative(path, self.root)


def _shell(*words: str) -> str:
    """The words quoted for the shell, and then for ninja."""
    return shlex.join(words).replace("$", "$$")


def _path(text: str) -> str:
    if "\n" in text:
        raise ValueError(f"a path with a line break: {text!r}")
    return os.fspath(text).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
