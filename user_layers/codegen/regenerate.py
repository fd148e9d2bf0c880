"""Writes what is made ahead of builds: `python -m user_layers.codegen.regenerate`, in a checkout.

Headers in sdk/generated come from the tables of the chip and of messages, the table of
docs/built-in-layers.md from the layers' C, that of docs/isa.md from the instruction table, that of
docs/checking.md from the rules of checks, the scripts in tool/ from the table of commands,
docs/kernel-api.md and the comments of okk.h and bm_atomic.h from the table of the kernel API.
"""

from __future__ import annotations

from pathlib import Path

from firmware_sim import wire_c
from firmware_sim.isa.c_header import c_headers
from user_layers.codegen import isa_page, kernel_page, rules_page
from user_layers.codegen.layer_page import layer_table
from user_layers.codegen.page_table import with_table
from user_layers.commands import TOOLS
from user_layers.files import write_if_changed
from user_layers.kernel_api.prototypes import HEADERS
from user_layers.workspace import sdk_dir


def generated() -> dict[Path, str]:
    """The files and their texts."""
    sdk = sdk_dir()
    docs = sdk.parent / "docs"
    layers, instructions = docs / "built-in-layers.md", docs / "isa.md"
    headers = {sdk / "generated" / name: text for name, text in c_headers().items()}
    headers[sdk / "generated" / "fw_wire.h"] = wire_c.c_header()
    for name in HEADERS:
        path = sdk / "include" / name
        headers[path] = kernel_page.with_comments(path.read_text())
    functions = docs / "kernel-api.md"
    checking = docs / "checking.md"
    tools = {sdk.parent / "tool" / name: command.script for name, command in TOOLS.items()}
    return {
        **headers,
        **tools,
        checking: rules_page.with_rules(checking.read_text()),
        functions: kernel_page.with_reference(functions.read_text()),
        layers: with_table(layers.read_text(), 4, layer_table(sdk / "layers" / "device")),
        instructions: with_table(instructions.read_text(), isa_page.COLUMNS, isa_page.rows()),
    }


def main() -> None:
    """Write the files that would change."""
    for path, text in generated().items():
        write_if_changed(path, text)
        if text.startswith("#!"):
            path.chmod(0o755)


if __name__ == "__main__":
    main()
