"""copy.c and program.c of the delegates' core as a library by themselves, with all their names."""

from __future__ import annotations

import ctypes

from user_layers.delegates.build import Library, build_libraries, delegate_dir
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.workspace import sdk_dir


def core_copies() -> ctypes.CDLL:
    """Built when it is first asked for."""
    sdk, folder = sdk_dir(), delegate_dir() / "core"
    headers = (sdk / "include", sdk / "generated", sdk / "host", builtin_artifacts().directory)
    sources = (folder / "copy.c", folder / "program.c", folder / "error.c")
    library = Library("libcopies.so", sources, headers=headers, defines=('TPULAYER_VERSION="0"',))
    loaded = ctypes.CDLL(str(build_libraries("copies", [library]) / "libcopies.so"))
    loaded.core_copy_in.restype = loaded.core_is_plain.restype = ctypes.c_bool
    loaded.tpld_last_error.restype = ctypes.c_char_p
    return loaded


def read_program(library: ctypes.CDLL, program: bytes, name: str | None) -> tuple[int, str]:
    """The status of core_read_program, and the error's text."""
    room = ctypes.create_string_buffer(256)
    text = None if name is None else name.encode()
    status = library.core_read_program(program, ctypes.c_size_t(len(program)), text, room)
    if status == 0:
        library.core_free_program(room)
    return status, library.tpld_last_error().decode(errors="replace")
