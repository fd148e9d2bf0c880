"""How long a scan of many layers takes: 200 device files of about 200 lines, cold and from the cache.

    python benchmarks/bench_scan.py [FILES]

Targets on two cores: 3 s cold, 0.2 s warm (each in a new process, imports included).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

_SCAN = """
import sys
from pathlib import Path
from user_layers.scan import scan_layers
from user_layers.workspace import sdk_dir
root = Path(sys.argv[1])
table = scan_layers(root / "device", root / "host", [sdk_dir() / "include"], cache_dir=root / "build",
                    op_lock=root / "config" / "op_types.lock")
assert len(table.layers) == int(sys.argv[2])
"""
_ARGS = "const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,"
_BUFFERS = {
    "SHAPE": "",
    "GLOBAL": "const bm_addr_t buffer_addr, const bm_size_t buffer_size,",
    "LOCAL": "u64 buffer_offset, u64 buffer_size,",
}


def device_file(i: int) -> str:
    """A layer with its three functions, 18 statements of three lines in each."""
    steps = "".join(
        f"    /* step {k} */\n    int v{k} = param ? MAX(i, {k}) : DIV_UP(n, {k + 1});\n"
        f"    for (int j = 0; j < v{k}; ++j) {{ okk_gdma_32bit_cpy_S2S(to + j, from, &s, NULL, NULL); }}\n"
        for k in range(18)
    )
    functions = "".join(
        f"__BM_{kind}__(TPU_L{i})\nint l{i}_{kind.lower()}({_ARGS}\n    {buffer}\n"
        f"    tpu_tensor_t *out_tensors, const int out_num) {{\n{steps}    return BM_LAYER_OK;\n}}\n\n"
        for kind, buffer in _BUFFERS.items()
    )
    return (
        '#include <string.h>\n#include "bmcompiler_tpulayer_device.h"\n#include "okk.h"\n\n'
        "#define MAX(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })\n"
        "#define DIV_UP(a, b) (((a) + (b) - 1) / (b))\n\n"
        f"__BM_PARAM__(TPU_L{i})\ntypedef struct {{\n    int before[MAX_SHAPE_DIMS];\n    float scale;\n"
        f"}} tpu_l{i}_param_t;\n\nstatic inline int helper(int a) {{ return a + 1; }}\n\n{functions}"
    )


def make(root: Path, count: int) -> int:
    """Write the sources; lines of one device file."""
    (root / "device").mkdir()
    (root / "host").mkdir()
    for i in range(count):
        (root / "device" / f"bm_device_l{i}.c").write_text(device_file(i))
        (root / "host" / f"bm_host_l{i}.h").write_text(
            f'#include "bmcompiler_tpulayer_host.hpp"\n__BM_DESC__(TPU_L{i})\n'
            f"class L{i}Descriptor : public bmcompiler::LayerDescriptor {{}};\n"
        )
    return device_file(0).count("\n")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        lines = make(Path(name), count)
        for label in ("cold", "warm"):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", _SCAN, name, str(count)], check=True, timeout=300)
            print(f"scan {label}: {time.perf_counter() - begin:.2f} s for {count} files of {lines} lines")


if __name__ == "__main__":
    main()
