"""Layer sources for tests: small folders with device/, host/ and include/, and a scan of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from user_layers.scan import LayerTable, Problem, ScanResult, scan, scan_layers
from user_layers.workspace import sdk_dir

HEAD = '#include "bmcompiler_tpulayer_device.h"\n'
ARGS = "const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num, "
OUT = "tpu_tensor_t *out_tensors, const int out_num"
DDR = "const bm_addr_t buffer_addr, const bm_size_t buffer_size, "
LOCAL = "u64 buffer_offset, u64 buffer_size, "


def param(op: str, struct: str = "typedef struct { int reserved; } tpu_x_param_t;") -> str:
    return f"__BM_PARAM__({op}) {struct}\n"


def shape(op: str, name: str = "x_shape") -> str:
    return f"__BM_SHAPE__({op}) int {name}({ARGS}{OUT}) {{ return 0; }}\n"


def global_(op: str, name: str = "x_global") -> str:
    return f"__BM_GLOBAL__({op}) int {name}({ARGS}{DDR}{OUT}) {{ return 0; }}\n"


def local(op: str, name: str = "x_local") -> str:
    return f"__BM_LOCAL__({op}) int {name}({ARGS}{LOCAL}{OUT}) {{ return 0; }}\n"


def device(op: str = "TPU_X", struct: str | None = None, extra: str = "") -> str:
    """A complete device file on five lines: include, (extra), param, shape, global."""
    text = param(op) if struct is None else param(op, struct)
    return HEAD + extra + text + shape(op) + global_(op)


def host(op: str = "TPU_X", name: str = "XDescriptor") -> str:
    return (
        '#include "bmcompiler_tpulayer_host.hpp"\n'
        f"__BM_DESC__({op})\nclass {name} : public bmcompiler::LayerDescriptor {{}};\n"
    )


class Sources:
    """A folder of layer sources; `device`, `host` and `include` write one file each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("device", "host", "include", "config"):
            (root / name).mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def layer(self, device_text: str, host_text: str | None = None) -> Sources:
        """device/x.c and host/x.h."""
        self.write("device/x.c", device_text)
        self.write("host/x.h", host() if host_text is None else host_text)
        return self

    @property
    def includes(self) -> list[Path]:
        return [self.root / "include", sdk_dir() / "include"]

    @property
    def lock(self) -> Path:
        return self.root / "config" / "op_types.lock"

    def result(self) -> ScanResult:
        return scan(
            self.root / "device",
            self.root / "host",
            self.includes,
            cache_dir=self.root / "build",
            op_lock=self.lock,
        )

    def table(self, op_base: int = 0) -> LayerTable:
        return scan_layers(
            self.root / "device",
            self.root / "host",
            self.includes,
            cache_dir=self.root / "build",
            op_lock=self.lock,
            op_base=op_base,
        )

    def problems(self) -> tuple[Problem, ...]:
        return self.result().problems

    def texts(self) -> list[str]:
        """Problems as "device/x.c:2:5: message"."""
        return [
            f"{p.location.file.relative_to(self.root).as_posix()}:{p.location.line}:{p.location.column}: "
            f"{p.message}"
            for p in self.problems()
        ]


def compiler(language: str) -> list[str]:
    """A compiler for "c" or "c++": the system's, else zig's."""
    system = shutil.which({"c": "gcc", "c++": "g++"}[language])
    # As the build calls it: without the checks that zig adds to a debug build.
    zig = [sys.executable, "-m", "ziglang", {"c": "cc", "c++": "c++"}[language], "-fno-sanitize=all"]
    return [system] if system else zig


def compile_text(language: str, argv: Sequence[str]) -> None:
    """Run the compiler; its messages are the failure."""
    run = subprocess.run([*compiler(language), *argv], capture_output=True, text=True, timeout=840)
    assert run.returncode == 0, f"{' '.join(run.args)}\n{run.stderr}"
