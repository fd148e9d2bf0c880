"""Where things are in a workspace, and its configuration.

A workspace is the folder that holds config/Makefile.config, with the layers in device/ and host/. The
configuration may also be a Makefile.config beside device/, or in both places. This repository is a workspace;
`tpulayer init` makes others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from firmware_sim.errors import MissingError, SourceError, UsageError
from firmware_sim.firmware.workspace_root import (
    CONFIG_FILE,
    FIRMWARE_DIR,
    ROOT_CONFIG_FILE,
    WORKSPACE_VARIABLE,
    workspace_root,
)
from firmware_sim.sdk_folder import sdk_dir
from user_layers.files import write_together

__all__ = ["CONFIG_FILE", "ROOT_CONFIG_FILE", "WORKSPACE_VARIABLE", "Config", "Workspace", "sdk_dir"]

HOST_ARCHS = ("x86", "aarch64")
FIRMWARE_ARCHS = ("cmodel", "pcie", "soc")

_ASSIGNMENT = re.compile(r"\s*(?P<key>[A-Za-z_]\w*)\s*(?P<op>[:?]?=)\s*(?P<value>.*?)\s*$")


@dataclass(frozen=True)
class Config:
    """What the configuration says.

    host_arch: the machine that the plugin is built for; firmware_arch: where the firmware runs;
    bmkernel_path: a bmkernel project whose kernels the layers may call, relative to the workspace
    or absolute, or None.
    """

    host_arch: str = "x86"
    firmware_arch: str = "cmodel"
    bmkernel_path: str | None = None


_CHOICES = {"HOST_ARCH": HOST_ARCHS, "FIRMWARE_ARCH": FIRMWARE_ARCHS}
_KEYS = ("HOST_ARCH", "FIRMWARE_ARCH", "BMKERNEL_PATH")


def parse_config(text: str, path: Path) -> Config:
    """Read the lines KEY = VALUE (also := and ?=) with # comments; keys that are absent keep their default.

    Errors: SourceError with file and line for a line, key or value that means nothing, or a key given twice.
    """
    return _config(_parse(text, path))


@dataclass(frozen=True)
class _Value:
    text: str
    path: Path
    line: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


def _parse(text: str, path: Path) -> dict[str, _Value]:
    values: dict[str, _Value] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("#", 1)[0]
        if not line.strip():
            continue
        where = f"{path}:{number}"
        match = _ASSIGNMENT.fullmatch(line)
        if match is None:
            raise SourceError(f"{where}: {line.strip()!r} is not of the form KEY = VALUE")
        key, value = match["key"], match["value"]
        if key not in _KEYS:
            raise SourceError(f"{where}: unknown key {key}", hint=f"the keys are {', '.join(_KEYS)}")
        if key in values:
            raise SourceError(f"{where}: {key} is given twice, first in line {values[key].line}")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise SourceError(
                f"{where}: {key} = {value or '(empty)'}", hint=f"{key} is one of {', '.join(_CHOICES[key])}"
            )
        values[key] = _Value(value, path, number)
    return values


def _config(values: Mapping[str, _Value]) -> Config:
    plain = {key: value.text for key, value in values.items()}
    config = Config(bmkernel_path=plain.get("BMKERNEL_PATH") or None)
    if "HOST_ARCH" in plain:
        config = replace(config, host_arch=plain["HOST_ARCH"])
    if "FIRMWARE_ARCH" in plain:
        config = replace(config, firmware_arch=plain["FIRMWARE_ARCH"])
    return config


def _merge(a: Mapping[str, _Value], b: Mapping[str, _Value]) -> dict[str, _Value]:
    """The values of two files; an empty value says nothing. SourceError where they contradict each other."""
    merged = {**a, **{key: value for key, value in b.items() if value.text or key not in a}}
    for key, value in merged.items():
        other = a.get(key)
        if other is not None and other.text and other.text != value.text:
            raise SourceError(
                f"{value.where}: {key} = {value.text}, but {other.where} says {other.text}",
                hint="keep one of the two lines: both files belong to the workspace's configuration",
            )
    return merged


def edit_config(text: str, values: Mapping[str, str]) -> str:
    """The configuration text with these values; every other line, comments included, stays as it is."""
    left = dict(values)
    lines = []
    for raw in text.splitlines():
        code, mark, comment = raw.partition("#")
        match = _ASSIGNMENT.fullmatch(code)
        if match is not None and match["key"] in left:
            line = f"{match['key']} {match['op']} {left.pop(match['key'])}".rstrip()
            raw = f"{line}  #{comment}" if mark else line
        lines.append(raw)
    lines += [f"{key} = {value}".rstrip() for key, value in left.items()]
    return "\n".join(lines) + "\n"


IMP_LIBRARY = "libimpbmnetu.so"


@dataclass(frozen=True)
class Workspace:
    """The paths of one workspace; nothing is read before it is asked for."""

    root: Path

    @classmethod
    def find(cls, start: Path | None = None) -> Workspace:
        """The workspace around `start` (the current folder), or the one that TPULAYER_WORKSPACE names.

        Errors: UsageError when there is none.
        """
        root = workspace_root(start)
        if root is None:
            raise UsageError(
                f"{(start or Path.cwd()).resolve()} is not in a workspace: no {CONFIG_FILE} here or above",
                hint="make a workspace with `tpulayer init DIR` and work inside it",
            )
        return cls(root)

    @classmethod
    def around(cls) -> Workspace | None:
        """As `find`, None outside any. UsageError when TPULAYER_WORKSPACE names none."""
        root = workspace_root()
        return None if root is None else cls(root)

    @cached_property
    def config(self) -> Config:
        """The configuration; SourceError with file and line when it cannot be understood, or when its two
        files contradict each other."""
        values: dict[str, _Value] = {}
        for path in self.config_files:
            values = _merge(values, _parse(path.read_text(), path))
        return _config(values)

    def set_config(self, **values: str) -> bool:
        """Set keys of the configuration (HOST_ARCH=..., ...) where they stand; True when a file changed."""
        texts = {path: path.read_text() for path in self.config_files}
        known = {path: _parse(text, path) for path, text in texts.items()}
        for path in texts:
            here = {
                key: value
                for key, value in values.items()
                if key in known[path]
                or (path == self.config_file and not any(key in k for k in known.values()))
            }
            texts[path] = edit_config(texts[path], here)
            parse_config(texts[path], path)
        changed = {path: text for path, text in texts.items() if path.read_text() != text}
        write_together(changed)
        return bool(changed)

    @property
    def config_places(self) -> tuple[Path, Path]:
        """Where the configuration may be."""
        return self.root / CONFIG_FILE, self.root / ROOT_CONFIG_FILE

    @property
    def config_files(self) -> tuple[Path, ...]:
        """The files of the configuration that exist; at least one does."""
        return tuple(path for path in self.config_places if path.is_file())

    @property
    def config_file(self) -> Path:
        """The first of them: where new keys are written."""
        return self.config_files[0]

    @property
    def op_lock(self) -> Path:
        """The file that keeps the op_type numbers."""
        return self.root / "config" / "op_types.lock"

    @property
    def device_dir(self) -> Path:
        """The layers' C sources."""
        return self.root / "device"

    @property
    def host_dir(self) -> Path:
        """The layers' C++ descriptors."""
        return self.root / "host"

    @property
    def include_dir(self) -> Path:
        """Headers that layers share."""
        return self.root / "include"

    @property
    def caffe_dir(self) -> Path:
        """What becomes of Caffe layers that Caffe does not have, in Python."""
        return self.root / "caffe"

    @property
    def imp_dir(self) -> Path:
        """The same in C++: sources of `imp_library`."""
        return self.root / "imp_bmnetu"

    @property
    def test_dir(self) -> Path:
        """Programs in C++ that use the host's libraries, one in each file."""
        return self.root / "test"

    @property
    def tests_dir(self) -> Path:
        """Tests of the layers, in Python: test_NAME.py."""
        return self.root / "tests"

    @property
    def generated_dir(self) -> Path:
        """What gen_config and gen_entry write."""
        return self.root / "generated"

    @property
    def build_dir(self) -> Path:
        """Objects and the like, made by the build."""
        return self.root / "build"

    @property
    def install_dir(self) -> Path:
        """What the build is for: firmware, plugin, headers, libraries."""
        return self.root / "install"

    @property
    def scan_includes(self) -> list[Path]:
        """Where the scanner looks for headers: the workspace's, the bmkernel project's, the toolkit's."""
        bmkernel = [self.bmkernel / "include"] if self.bmkernel is not None else []
        return [self.include_dir, *bmkernel, sdk_dir() / "include"]

    @property
    def scan_cache_dir(self) -> Path:
        """What is kept of scanned sources."""
        return self.build_dir / "scan"

    @property
    def bmtpu_header(self) -> Path:
        """The installed bmtpu.h, which belongs to the firmware and plugin beside it."""
        return self.install_dir / "include" / "bmtpu.h"

    @property
    def layer_record(self) -> Path:
        """The installed bmtpu.json: numbers and parameter structs of the layers in bmtpu.h, for Python."""
        return self.bmtpu_header.with_suffix(".json")

    @property
    def firmware(self) -> Path:
        """The native firmware that build_layers installs."""
        return self.root / FIRMWARE_DIR / "firmware.so"

    @property
    def firmware_layer(self) -> Path:
        """The user's objects only, for linking into another firmware."""
        return self.firmware.with_name("firmware_layer.a")

    @property
    def plugin(self) -> Path:
        """The plugin with the user's descriptors that build_layers installs, for the machine HOST_ARCH."""
        return self.install_dir / "plugin" / "libbmplugin_tpulayer.so"

    @property
    def local_plugin(self) -> Path:
        """The plugin that this machine can load: the same file unless HOST_ARCH is another machine."""
        if self.config.host_arch == machine_arch():
            return self.plugin
        return self.build_dir / "out" / "native" / self.plugin.name

    @property
    def imp_library(self) -> Path:
        """The library of own Caffe layers in C++ that build_layers installs, for this machine."""
        return self.plugin.with_name(IMP_LIBRARY)

    @property
    def launcher(self) -> Path:
        """The command test_tpu_layer as a program."""
        return self.install_dir / "test" / "test_tpu_layer"

    @property
    def bmkernel(self) -> Path | None:
        """The bmkernel project's folder, absolute, or None. UsageError when it is set but not one."""
        if self.config.bmkernel_path is None:
            return None
        path = (self.root / Path(self.config.bmkernel_path).expanduser()).resolve()
        check_bmkernel(path, f"{self.config_file}: BMKERNEL_PATH")
        return path


def check_installed(path: Path) -> None:
    """Refuse a file of install/ that no build has made yet. MissingError."""
    if not path.is_file():
        raise MissingError(f"{path} is not built", hint="run `build_layers`")


def check_bmkernel(path: Path, where: str) -> None:
    """Refuse a path that holds no bmkernel project (a folder device/ with C files)."""
    if not path.is_dir():
        raise UsageError(f"{where} names {path}, which is not a folder", hint=_BMKERNEL_HINT)
    if not any((path / "device").glob("*.c")):
        raise UsageError(f"{where} names {path}, which has no device/*.c", hint=_BMKERNEL_HINT)


_BMKERNEL_HINT = (
    "set_bmkernel_path takes the folder of a bmkernel project: kernels in device/*.c, headers in include/"
)


def machine_arch() -> str:
    """This machine in the words of HOST_ARCH (x86, aarch64); another name when it is neither."""
    name = os.uname().machine
    return {"x86_64": "x86", "amd64": "x86", "arm64": "aarch64"}.get(name, name)
