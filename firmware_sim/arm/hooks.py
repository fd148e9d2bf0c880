"""What the ARM emulator calls while it runs, as machine code: counting, and the check for alignment.

Python functions there would cost a microsecond per access. The code is LLVM's own language, compiled by
llvmlite in some milliseconds.

The counters, four 64-bit words: bytes of the blocks run; address and size of an unaligned access (size 0:
none), after which the emulator stops before it does the access; a pointer to the word that gets the address
of the newest block, plus 1 as if it were a return address. ARMv5 rotates what it loads from an
unaligned address, so such an access is always a mistake.
"""

from __future__ import annotations

import ctypes
from functools import cache

import llvmlite.binding as llvm

BYTES, BAD_ADDRESS, BAD_SIZE, PC_POINTER = range(4)
WORDS = 4

_IR = """
declare i32 @uc_emu_stop(ptr)

define void @on_block(ptr %uc, i64 %address, i32 %size, ptr %words) {
  %count = load i64, ptr %words
  %more = zext i32 %size to i64
  %sum = add i64 %count, %more
  store i64 %sum, ptr %words
  %slot = getelementptr i64, ptr %words, i64 3
  %pc = load ptr, ptr %slot
  %next = add i64 %address, 1
  store i64 %next, ptr %pc
  ret void
}

define void @on_access(ptr %uc, i32 %kind, i64 %address, i32 %size, i64 %value, ptr %words) {
  %wide = zext i32 %size to i64
  %top = icmp ugt i64 %wide, 4
  %unit = select i1 %top, i64 4, i64 %wide
  %mask = sub i64 %unit, 1
  %low = and i64 %address, %mask
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %done, label %bad
bad:
  %at = getelementptr i64, ptr %words, i64 1
  store i64 %address, ptr %at
  %length = getelementptr i64, ptr %words, i64 2
  store i64 %wide, ptr %length
  %ignored = call i32 @uc_emu_stop(ptr %uc)
  br label %done
done:
  ret void
}
"""


@cache
def _compiled(emu_stop: int) -> tuple[object, dict[str, int]]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.add_symbol("uc_emu_stop", emu_stop)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_IR), machine)
    engine.finalize_object()
    return engine, {name: engine.get_function_address(name) for name in ("on_block", "on_access")}


def addresses(emu_stop: int) -> tuple[int, int]:
    """Addresses of the functions for UC_HOOK_BLOCK and for UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE.

    emu_stop: address of unicorn's uc_emu_stop. They live as long as the process.
    """
    _, found = _compiled(emu_stop)
    return found["on_block"], found["on_access"]


def address_of(function: object) -> int:
    """The address of a function of a loaded library."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
