"""One scan: which files to read, what the cache knows of them, and the parser for the rest."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from user_layers.scan import oplock
from user_layers.scan.cache import Cache, digest
from user_layers.scan.host import scan_host
from user_layers.scan.link import link
from user_layers.scan.model import FileFacts, LayerTable, Problem

DEVICE_SUFFIXES = (".c",)
HOST_SUFFIXES = (".h", ".hpp", ".hh", ".hxx", ".cpp", ".cc", ".cxx")
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\w+))', re.MULTILINE)


@dataclass(frozen=True)
class ScanResult:
    """The layers that are complete, every op that occurs, and all problems (sorted). `parsed`
    counts the files that the cache did not answer."""

    table: LayerTable
    ops: tuple[str, ...]
    problems: tuple[Problem, ...]
    parsed: int


def scan(
    device_dir: Path,
    host_dir: Path,
    include_dirs: Sequence[Path],
    *,
    cache_dir: Path,
    op_lock: Path,
    op_base: int = 0,
    defines: Mapping[str, str] | None = None,
    write_lock: bool = True,
) -> ScanResult:
    """Like scan_layers, but problems are returned and the sound layers come with them.

    The lock file is written only when there are no problems.
    """
    dirs = list(dict.fromkeys(Path(os.path.abspath(d)) for d in include_dirs))
    settings = repr((list(map(str, dirs)), sorted((defines or {}).items())))
    host_dir = Path(os.path.abspath(host_dir))
    device_dir = Path(os.path.abspath(device_dir))
    cache = Cache(cache_dir / f"scan-{digest(str(device_dir).encode())[:8]}.json", settings)
    device = _Device(dirs, defines or {})
    facts: list[FileFacts] = []
    parsed = 0
    for folder, suffixes, read in (
        (device_dir, DEVICE_SUFFIXES, device.scan),
        (host_dir, HOST_SUFFIXES, _scan_host),
    ):
        for path in _files(folder, suffixes):
            data = path.read_bytes()
            known = cache.get(path, data)
            if known is None:
                known = read(path, data)
                cache.put(path, data, known)
                parsed += 1
            facts.append(known)
    cache.save()
    drafts, ops, problems = link(facts)
    numbers = oplock.read(op_lock, op_base)
    assigned = oplock.assign(numbers, [d.op for d in drafts], op_base)
    if not problems and write_lock and assigned != numbers:
        oplock.write(op_lock, assigned)
    layers = sorted((d.numbered(assigned[d.op]) for d in drafts), key=lambda x: x.op_type)
    table = LayerTable(tuple(layers), host_dir, op_base)
    return ScanResult(table, tuple(ops), tuple(sorted(set(problems))), parsed)


def _files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.suffix in suffixes and p.is_file() and p.name[0] != ".")


def _scan_host(path: Path, data: bytes) -> FileFacts:
    """A host file; one without a marker can still hold a base class of a descriptor."""
    if b"__BM_" not in data and b"LayerDescriptor" not in data and b"class" not in data:
        return FileFacts()
    return scan_host(path, data)


class _Device:
    """Device files; the C parser is loaded for the first one that needs it."""

    def __init__(self, include_dirs: Sequence[Path], defines: Mapping[str, str]) -> None:
        self._dirs = include_dirs
        self._defines = defines
        self._scanner: object | None = None

    def scan(self, path: Path, data: bytes) -> FileFacts:
        depends: dict[str, str] = {}
        if not self._may_hold_markers(path.parent, data, depends, set()):
            return FileFacts(depends=depends)
        from user_layers.scan.device import DeviceScanner

        if not isinstance(self._scanner, DeviceScanner):
            self._scanner = DeviceScanner(self._dirs, self._defines)
        return self._scanner.scan(path, data)

    def _may_hold_markers(self, folder: Path, data: bytes, depends: dict[str, str], seen: set[Path]) -> bool:
        """Whether a marker's text occurs in a file or in a header of the user's that it includes (a
        macro of such a header can make whole layers). Fills `depends` with the headers read."""
        if b"__BM_" in data:
            return True
        for quoted, angled, computed in _INCLUDE.findall(data):
            if computed:
                return True
            name = os.fsdecode(quoted or angled)
            for where in ([folder] if quoted else []) + list(self._dirs):
                path = Path(os.path.abspath(where / name))
                if path in seen:
                    break
                if not path.is_file():
                    depends[str(path)] = ""
                    continue
                seen.add(path)
                content = path.read_bytes()
                depends[str(path)] = digest(content)
                if b"define __BM_GLOBAL__(" in content:
                    break  # the toolkit's own header defines the markers
                if self._may_hold_markers(path.parent, content, depends, seen):
                    return True
                break
        return False
