"""add_layer, del_layer and list_layers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from firmware_sim.errors import UsageError
from user_layers.files import write_together
from user_layers.scaffold.made import Made, render, write_all
from user_layers.scan import LayerInfo, Problem, scan
from user_layers.scan.link import short_name
from user_layers.scan.names import is_identifier
from user_layers.workspace import Workspace, sdk_dir

DTYPES = {"fp32": "layer", "int8": "int8"}
"""What a new layer takes, and the folder of the templates of such."""
NAME_LIMIT = 40  # characters; op names travel in records of 64 bytes
_TAKEN = frozenset(["tpu", "okk", "bm", "fw", "builtin"])  # first words of the firmware's own names


def layer_paths(root: Path, name: str) -> tuple[Path, Path, Path, Path]:
    """The files of a layer: device C, host header, host C++, test."""
    return (
        root / "device" / f"bm_device_{name}.c",
        root / "host" / f"bm_host_{name}.h",
        root / "host" / f"bm_host_{name}.cpp",
        root / "tests" / f"test_{name}.py",
    )


def caffe_paths(root: Path, name: str) -> tuple[Path, Path]:
    """Where it stands what becomes of a layer of Caffe's: in Python, or in C++."""
    return root / "caffe" / f"{name}.py", root / "imp_bmnetu" / f"{name}_layer.cpp"


def builtin_names() -> list[str]:
    """Short names of the toolkit's own layers."""
    from user_layers.scan import oplock

    lock = sdk_dir() / "layers" / "config" / "op_types.lock"
    from firmware_sim.wire import BUILTIN_OP_BASE

    return [short_name(op) for op in oplock.read(lock, BUILTIN_OP_BASE)]


def check_name(name: str) -> None:
    """Refuse a layer name that cannot become file, function and type names. UsageError with advice."""
    if not is_identifier(name):
        better = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
        better = better if is_identifier(better) else ""
        raise UsageError(
            f"{name!r} cannot be a layer's name: it becomes part of C names, so letters, digits and _ only",
            hint=f"for example {better}" if better else "for example crop or my_layer",
        )
    if name != name.lower():
        better = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("TPU_")).lower()
        raise UsageError(
            f"{name!r} cannot be a layer's name: names are lower case, and the rest is derived "
            f"(TPU_{better.upper()}, {better}_global, ...)",
            hint=f"use {better}",
        )
    if name.startswith("_") or name.endswith("_") or "__" in name:
        better = re.sub("_+", "_", name).strip("_")
        raise UsageError(
            f"{name!r} cannot be a layer's name: C keeps names with leading or double underscores for itself",
            hint=f"use {better}" if better else "for example crop",
        )
    if name in _TAKEN:
        raise UsageError(
            f"{name!r} cannot be a layer's name: the firmware's own functions begin with {name}_",
            hint=f"for example my_{name}",
        )
    if len(name) > NAME_LIMIT:
        raise UsageError(f"the layer's name has {len(name)} characters, at most {NAME_LIMIT} are possible")
    if name in builtin_names():
        raise UsageError(
            f"{name!r} is a built-in layer",
            hint=f"use it directly, or name yours my_{name}",
        )


def add_layer(
    ws_root: Path,
    name: str,
    has_local: bool = False,
    *,
    dtype: str = "fp32",
    caffe: str | None = None,
    cpp: bool = False,
    force: bool = False,
    dry_run: bool = False,
) -> Made:
    """Write the files of a new layer, which builds and runs as a copy of its input.

    has_local: with a local function too. dtype: what it takes, of DTYPES. caffe: a type of layers of Caffe's
    that become this layer; cpp: what reads them is in C++. Errors: UsageError for a bad name or type and,
    unless force, when any of the files exists (then nothing is written).
    """
    check_name(name)
    check_dtype(dtype, caffe)
    if caffe is not None:
        check_caffe_type(caffe)
    *_, test = layer_paths(ws_root, name)
    if test.exists() and not _is_layer_test(test):
        raise UsageError(
            f"{test.relative_to(ws_root)} is there already, and is not a test of a layer",
            hint="choose another name for the layer, or for that file",
        )
    paths = layer_paths(ws_root, name)
    reader = caffe_paths(ws_root, name)[cpp]
    existing = [p for p in (*paths, *([reader] if caffe else ())) if p.exists()]
    if existing and not force:
        raise UsageError(
            f"layer {name} exists already: {', '.join(str(p.relative_to(ws_root)) for p in existing)}",
            hint="choose another name, or overwrite these files with --force",
        )
    values = {
        "name": name,
        "op": f"TPU_{name.upper()}",
        "param": f"tpu_{name}_param_t",
        "descriptor": "".join(word.capitalize() for word in name.split("_")) + "Descriptor",
        "has_local": has_local,
        "type": caffe,
        "class": f"{caffe}Layer",
    }
    templates = (f"{DTYPES[dtype]}/{part}.j2" for part in ("device.c", "host.h", "host.cpp", "test.py"))
    files = {path: render(t, **values) for path, t in zip(paths, templates, strict=True)}
    if caffe is not None:
        files[reader] = render(f"caffe/layer.{'cpp' if cpp else 'py'}.j2", **values)
        makefile = reader.with_name("Makefile")
        if cpp and not makefile.exists():
            files[makefile] = render("caffe/Makefile.j2")
    if not dry_run:
        write_all(files)
    return Made(tuple(files), next_command=f"build_layers && test_layers {name}")


def check_dtype(dtype: str, caffe: str | None = None) -> None:
    """Refuse what no new layer takes, and what none of Caffe's (`caffe`) does. UsageError."""
    if dtype not in DTYPES:
        raise UsageError(
            f"--dtype {dtype}: new layers take {' or '.join(DTYPES)}",
            hint="fp32 is what they take without it",
        )
    if caffe is not None and dtype != "fp32":
        raise UsageError(
            f"--caffe and --dtype {dtype}: Caffe's nets are read in fp32, which such a layer does not take",
            hint="leave one of them out",
        )


def check_caffe_type(type: str) -> None:
    """Refuse a type that no own layer of Caffe's can have. UsageError with advice."""
    from user_layers.caffe.own import check_type

    if not is_identifier(type):
        raise UsageError(
            f"--caffe: {type!r} is no type: letters, digits and _ only", hint="for example TPUCrop"
        )
    check_type(type, "--caffe")


def layer_files(ws_root: Path, name: str) -> list[Path]:
    """The files of a layer that exist; UsageError when there are none."""
    if not is_identifier(name):
        raise UsageError(f"{name!r} is not a layer's name", hint="see list_layers")
    *sources, test = layer_paths(ws_root, name)
    found = [p for p in sources if p.exists()]
    if test.exists() and (found or _is_layer_test(test)):
        found.append(test)
    if found:
        found += [p for p in caffe_paths(ws_root, name) if p.exists()]
    else:
        known = sorted(p.stem.removeprefix("bm_device_") for p in (ws_root / "device").glob("bm_device_*.c"))
        raise UsageError(
            f"there is no layer {name}; the workspace has {', '.join(known) or 'none'}",
            hint="see list_layers",
        )
    return found


def _is_layer_test(path: Path) -> bool:
    from user_layers.testing.collect import is_layer_test  # slow to import, and seldom needed

    return is_layer_test(path)


def del_layer(
    ws_root: Path, name: str, *, confirm: Callable[[Path], bool] | None = None, dry_run: bool = False
) -> list[Path]:
    """Remove a layer's files, each only if `confirm` says so (None: all); the files removed.

    Its op_type number stays reserved in config/op_types.lock.
    """
    chosen = [p for p in layer_files(ws_root, name) if confirm is None or confirm(p)]
    if not dry_run:
        try:
            write_together({}, chosen)
        except OSError as e:
            raise UsageError(f"cannot remove {e.filename}: {e.strerror}; nothing was changed") from e
    return chosen


@dataclass(frozen=True)
class Listing:
    """The layers that are complete, by op_type, and what is wrong with the others."""

    layers: tuple[LayerInfo, ...]
    problems: tuple[Problem, ...]


def list_layers(ws_root: Path) -> Listing:
    """The workspace's layers as their sources say now; nothing is written but the scan's cache.

    A new layer shows the op_type that it will get. Broken layers do not hide the sound ones.
    """
    ws = Workspace(ws_root)
    result = scan(
        ws.device_dir,
        ws.host_dir,
        ws.scan_includes,
        cache_dir=ws.scan_cache_dir,
        op_lock=ws.op_lock,
        write_lock=False,
    )
    return Listing(result.table.layers, result.problems)
