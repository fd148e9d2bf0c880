"""The C preprocessor (pcpp), with the work on headers shared between the files of a scan.

Every device file starts by including much the same headers. The state after each leading
`#include` (macros, tokens that came out) is kept, keyed by the includes before it, so a header is
read once per different sequence and the result is exactly that of reading it every time.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcpp import Action, OutputDirective, Preprocessor

from user_layers.scan.model import DEVICE_KINDS, KINDS, Problem, display_path
from user_layers.scan.text import Source, braces_balance, prune_bodies, read_source

MARK = "__bm_mark_"  # what a marker expands to: __bm_mark_GLOBAL "TPU_X"
SCANNING = "__TPULAYER_SCAN__"  # defined here only: hides from the scanner what it cannot read
FAKE_LIBC = Path(__file__).parent / "fake_libc"

_PREDEFINED = {
    SCANNING: "1",
    "__STDC__": "1",
    "__STDC_VERSION__": "201112L",
    "__GNUC__": "4",
    "__GNUC_MINOR__": "2",
    "__CHAR_BIT__": "8",
    "__SIZEOF_INT__": "4",
    "__SIZEOF_FLOAT__": "4",
    "__SIZEOF_DOUBLE__": "8",
    "__SIZEOF_LONG_LONG__": "8",
}
_MARKERS = {f"__BM_{kind}__" for kind in KINDS}
_LEADING = re.compile(
    r"(?:\s|/\*.*?\*/|//[^\n]*)*"
    r'(?P<line>\#[ \t]*include[ \t]*(?P<name>"[^"\n]+"|<[^>\n]+>)[ \t]*'
    r"(?://[^\n]*|/\*[^\n]*?\*/[ \t]*)?)(?=\n)",
    re.DOTALL,
)
ReadHeader = Callable[[Path], bytes]


class _Pcpp(Preprocessor):  # type: ignore[misc]  # pcpp has no annotations
    """pcpp with our markers fixed, headers read through one function, and errors collected."""

    def __init__(self, read: ReadHeader) -> None:
        super().__init__()
        self.read = read
        self.prune = True
        self.rewrite_paths: list[tuple[str, str]] = []  # token sources stay absolute
        self.found: list[tuple[str, int, str, str]] = []

    def on_error(self, file: str, line: int, msg: str) -> None:
        self.found.append((file, line, msg.strip(), ""))

    def on_file_open(self, is_system_include: bool, includepath: str) -> io.StringIO:
        text = read_source(self.read(Path(includepath)))
        return io.StringIO(prune_bodies(text) if self.prune else text)

    def on_include_not_found(
        self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str
    ) -> None:
        """A missing <system> header only hides types, which shows where one is used; a missing
        "header" is an error."""
        if not is_system_include:
            where = self.lastdirective
            folders = ", ".join(display_path(Path(p)) for p in dict.fromkeys([*self.temp_path, *self.path]))
            text = (
                f"#include needs a file name, found {includepath}"
                if is_malformed
                else f'cannot find the include file "{includepath}"'
            )
            self.found.append((where.source, where.lineno, text, f"looked in {folders}"))
        raise OutputDirective(Action.IgnoreAndRemove)

    def on_directive_handle(self, directive: Any, toks: Any, ifpassthru: Any, precedingtoks: Any) -> Any:
        self.lastdirective = directive
        needed = directive.value in ("define", "undef", "ifdef", "ifndef", "if", "elif", "include")
        if needed and not toks:
            self.on_error(directive.source, directive.lineno, f"#{directive.value} without its argument")
            raise OutputDirective(Action.IgnoreAndRemove)
        if directive.value in ("define", "undef") and toks[0].value in _MARKERS:
            raise OutputDirective(Action.IgnoreAndRemove)  # ours stay
        return True

    def on_directive_unknown(self, directive: Any, toks: Any, ifpassthru: Any, precedingtoks: Any) -> Any:
        if directive.value == "error":
            self.on_error(directive.source, directive.lineno, "#error " + "".join(t.value for t in toks))
        if directive.value == "pragma":
            return None  # passed on: #pragma pack changes layouts
        return True


@dataclass
class HeaderState:
    """What is known after a sequence of leading includes. `tokens` came out of the last of them;
    `extra` is room for whoever digests the tokens, kept with the state."""

    macros: dict[str, Any]
    once: dict[str, Any]
    parent: HeaderState | None = None
    tokens: list[Any] = field(default_factory=list)
    errors: list[tuple[str, int, str, str]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    prunable: bool = True
    extra: Any = None


@dataclass
class Preprocessed:
    """One file after the preprocessor: tokens of its own part and of includes further down, the
    state its leading includes ended in, errors as (file, line, message, hint), files read."""

    tokens: list[Any]
    state: HeaderState
    problems: list[Problem]
    depends: dict[str, str]


class PreprocessorPool:
    """Preprocesses the files of one scan. Includes are looked for beside the including file, in
    `include_dirs`, then in a small set of fake libc headers."""

    def __init__(self, include_dirs: Sequence[Path], defines: Mapping[str, str]) -> None:
        self._files: dict[Path, bytes] = {}
        self._touched: dict[str, str] = {}
        self._pcpp = _Pcpp(self._read)
        for folder in (*include_dirs, FAKE_LIBC):
            self._pcpp.path.append(str(folder))
        for name, value in {**_PREDEFINED, **defines}.items():
            self._pcpp.define(f"{name} {value}")
        for kind in DEVICE_KINDS:
            self._pcpp.define(f"__BM_{kind}__(...) {MARK}{kind} #__VA_ARGS__")
        self._pcpp.define(f"__BM_DESC__(...) {MARK}DESC #__VA_ARGS__")
        self._root = HeaderState(dict(self._pcpp.macros), {})
        self._states: dict[tuple[int, Path, str], HeaderState] = {}

    def _read(self, path: Path) -> bytes:
        """A header's bytes, remembering that the current file depends on it (or on its absence)."""
        data = self._files.get(path)
        if data is None:
            try:
                data = path.read_bytes()
            except OSError:
                self._touched[str(path)] = ""
                raise
            self._files[path] = data
        self._touched[str(path)] = hashlib.blake2b(data, digest_size=16).hexdigest()
        return data

    def run(self, source: Source) -> Preprocessed:
        """Preprocess one file; see Preprocessed."""
        state, rest = self._leading(source)
        text = prune_bodies(rest) if state.prunable else rest
        self._touched = {}
        tokens, errors = self._expand(text, source.path, state)
        chain: list[HeaderState] = []
        at: HeaderState | None = state
        while at is not None:
            chain.append(at)
            at = at.parent
        depends = dict(self._touched)
        for s in chain:
            depends.update(s.files)
            errors = [*s.errors, *errors]
        problems = [self._problem(source, *e) for e in dict.fromkeys(errors)]
        return Preprocessed(tokens, state, problems, depends)

    def _problem(self, source: Source, file: str, line: int, message: str, hint: str) -> Problem:
        path = Path(file) if file else source.path
        at = source if path == source.path else Source(path, read_source(self._files.get(path, b"")))
        return Problem(at.locate(line, "#"), message, hint)

    def _leading(self, source: Source) -> tuple[HeaderState, str]:
        """Follow the includes that a file starts with; the file's text with them blanked."""
        state, text, at = self._root, source.text, 0
        parts: list[str] = []
        while (m := _LEADING.match(text, at)) is not None:
            key = (id(state), source.path.parent, m["name"])
            following = self._states.get(key)
            if following is None:
                following = self._states[key] = self._include(state, m["name"], source, m.start("line"))
            parts += [text[at : m.start("line")], " " * len(m["line"])]
            state, at = following, m.end()
        return state, "".join([*parts, text[at:]])

    def _include(self, state: HeaderState, name: str, source: Source, offset: int) -> HeaderState:
        self._touched = {}
        line = source.text.count("\n", 0, offset)
        after = HeaderState({}, {}, parent=state)
        after.tokens, after.errors = self._expand("\n" * line + f"#include {name}\n", source.path, state)
        after.macros, after.once = self._pcpp.macros, self._pcpp.include_once
        after.files = dict(self._touched)
        after.prunable = state.prunable and all(
            braces_balance("".join(t.value for t in after.macros[n].value))
            for n in after.macros.keys() - state.macros.keys()
        )
        return after

    def _expand(
        self, text: str, path: Path, state: HeaderState
    ) -> tuple[list[Any], list[tuple[str, int, str, str]]]:
        p = self._pcpp
        p.macros, p.include_once = dict(state.macros), dict(state.once)
        p.temp_path, p.include_depth, p.include_times, p.found = [str(path.parent)], 0, [], []
        p.lastdirective, p.prune = None, state.prunable
        tokens: list[Any] = []
        try:
            tokens.extend(p.parsegen(text, str(path), str(path)))
        except (LookupError, AttributeError, TypeError, ValueError, AssertionError, SyntaxError) as e:
            at = p.lastdirective  # pcpp trips over some malformed directives instead of reporting
            where = (at.source, at.lineno, at.value) if at is not None else (str(path), 1, "")
            p.found.append((where[0], where[1], f"malformed #{where[2]} directive ({e})", ""))
        except RecursionError:
            p.found.append((str(path), 1, "#include files that include each other without end", ""))
        p.include_once.pop(str(path), None)
        return tokens, p.found


def absolute(paths: Sequence[Path]) -> list[Path]:
    """Folders as absolute paths that exist, each once, order kept."""
    return list(dict.fromkeys(Path(os.path.abspath(p)) for p in paths if p.is_dir()))
