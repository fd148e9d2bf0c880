"""What the ARM emulator calls while it runs, as machine code: counting, and the check for alignment.

Python functions there would cost a microsecond per access. The code is LLVM's own language, compiled by
llvmlite in some milliseconds.

The counters, 64-bit words: bytes of the blocks run; address and size of an access that is not to be (size 0:
none), after which the emulator stops before it does the access; a pointer to the word that gets the address
of the newest block, plus 1 as if it were a return address; from where to where only the firmware's own code
may write, and from where to where that lies; a pointer to the word that says whether blocks count. ARMv5
rotates what it loads from an unaligned address, so such an access is always a mistake.

Of watched memory (watcher.py) another table says which bytes were read and written since its number was
last changed; only accesses to others are worth a Python function. Its 64-bit words: the number; the
function's address; then, for each of SEEN_SLOTS places that many words of memory share, which of them it is
about, and the number with a bit for each byte read and, above, written.
"""

from __future__ import annotations

import ctypes
import signal
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
from unicorn import Uc, UcError
from unicorn.unicorn_const import UC_ERR_OK
from unicorn.unicorn_py3.unicorn import uclib

U64 = npt.NDArray[np.uint64]

(
    BYTES,
    BAD_ADDRESS,
    BAD_SIZE,
    PC_POINTER,
    OWN_START,
    OWN_BYTES,
    CODE_START,
    CODE_BYTES,
    ASIDE_POINTER,
) = range(9)
WORDS = 9
SEEN_NUMBER, SEEN_FUNCTION, SEEN_FIRST = range(3)
SEEN_SLOTS = 1 << 15
SEEN_WORDS = SEEN_FIRST + 2 * SEEN_SLOTS
SEEN_WORD = 8  # bytes of memory
_WRITE = 17  # UC_MEM_WRITE

_IR = f"""
@stop = global i32 0

declare i32 @uc_emu_stop(ptr)

define void @on_block(ptr %uc, i64 %address, i32 %size, ptr %words) {{
  %aside_slot = getelementptr i64, ptr %words, i64 {ASIDE_POINTER}
  %aside_pointer = load ptr, ptr %aside_slot
  %aside = load i32, ptr %aside_pointer
  %counts = icmp eq i32 %aside, 0
  %count = load i64, ptr %words
  %counted = select i1 %counts, i32 %size, i32 0
  %more = zext i32 %counted to i64
  %sum = add i64 %count, %more
  store i64 %sum, ptr %words
  %slot = getelementptr i64, ptr %words, i64 {PC_POINTER}
  %pc = load ptr, ptr %slot
  %next = add i64 %address, 1
  store i64 %next, ptr %pc
  %stop = load volatile i32, ptr @stop
  %going = icmp eq i32 %stop, 0
  br i1 %going, label %on, label %ends
ends:
  %ignored = call i32 @uc_emu_stop(ptr %uc)
  br label %on
on:
  ret void
}}

define void @on_abort(i32 %signal) {{
  store volatile i32 1, ptr @stop
  ret void
}}

define void @on_access(ptr %uc, i32 %kind, i64 %address, i32 %size, i64 %value, ptr %words) {{
  %wide = zext i32 %size to i64
  %top = icmp ugt i64 %wide, 4
  %unit = select i1 %top, i64 4, i64 %wide
  %mask = sub i64 %unit, 1
  %low = and i64 %address, %mask
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %owner, label %bad
owner:
  %writes = icmp eq i32 %kind, {_WRITE}
  br i1 %writes, label %written, label %done
written:
  %own_slot = getelementptr i64, ptr %words, i64 {OWN_START}
  %own = load i64, ptr %own_slot
  %into = sub i64 %address, %own
  %own_bytes_slot = getelementptr i64, ptr %words, i64 {OWN_BYTES}
  %own_bytes = load i64, ptr %own_bytes_slot
  %is_own = icmp ult i64 %into, %own_bytes
  br i1 %is_own, label %who, label %done
who:
  %pc_slot = getelementptr i64, ptr %words, i64 {PC_POINTER}
  %pc_pointer = load ptr, ptr %pc_slot
  %pc = load i64, ptr %pc_pointer
  %code_slot = getelementptr i64, ptr %words, i64 {CODE_START}
  %code = load i64, ptr %code_slot
  %inside = sub i64 %pc, %code
  %code_bytes_slot = getelementptr i64, ptr %words, i64 {CODE_BYTES}
  %code_bytes = load i64, ptr %code_bytes_slot
  %by_own = icmp ule i64 %inside, %code_bytes
  br i1 %by_own, label %done, label %bad
bad:
  %at = getelementptr i64, ptr %words, i64 1
  store i64 %address, ptr %at
  %length = getelementptr i64, ptr %words, i64 2
  store i64 %wide, ptr %length
  %ignored = call i32 @uc_emu_stop(ptr %uc)
  br label %done
done:
  ret void
}}

define void @on_watched(ptr %uc, i32 %kind, i64 %address, i32 %size, i64 %value, ptr %words) {{
  %wide = zext i32 %size to i64
  %word = lshr i64 %address, 3
  %first = and i64 %address, {SEEN_WORD - 1}
  %last = add i64 %first, %wide
  %within = icmp ule i64 %last, {SEEN_WORD}
  br i1 %within, label %look, label %new
look:
  %place = and i64 %word, {SEEN_SLOTS - 1}
  %twice = shl i64 %place, 1
  %index = add i64 %twice, {SEEN_FIRST}
  %about_slot = getelementptr i64, ptr %words, i64 %index
  %about = load i64, ptr %about_slot
  %marks_slot = getelementptr i64, ptr %about_slot, i64 1
  %marks = load i64, ptr %marks_slot
  %number = load i64, ptr %words
  %its_number = lshr i64 %marks, {2 * SEEN_WORD}
  %same_word = icmp eq i64 %about, %word
  %same_number = icmp eq i64 %its_number, %number
  %same = and i1 %same_word, %same_number
  %its_bytes = and i64 %marks, {(1 << 2 * SEEN_WORD) - 1}
  %known = select i1 %same, i64 %its_bytes, i64 0
  %above = shl i64 1, %wide
  %ones = sub i64 %above, 1
  %writes = icmp eq i32 %kind, {_WRITE}
  %side = select i1 %writes, i64 {SEEN_WORD}, i64 0
  %shift = add i64 %first, %side
  %bits = shl i64 %ones, %shift
  %had = and i64 %known, %bits
  %all = icmp eq i64 %had, %bits
  br i1 %all, label %done, label %mark
mark:
  %now = or i64 %known, %bits
  %high = shl i64 %number, {2 * SEEN_WORD}
  %entry = or i64 %high, %now
  store i64 %word, ptr %about_slot
  store i64 %entry, ptr %marks_slot
  br label %new
new:
  %function_slot = getelementptr i64, ptr %words, i64 {SEEN_FUNCTION}
  %function = load ptr, ptr %function_slot
  call void %function(ptr %uc, i32 %kind, i64 %address, i32 %size, i64 %value, ptr null)
  br label %done
done:
  ret void
}}
"""


@cache
def _compiled() -> tuple[object, dict[str, int], ctypes.c_int32]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.add_symbol("uc_emu_stop", address_of(uclib.uc_emu_stop))
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_IR), machine)
    engine.finalize_object()
    names = ("on_block", "on_access", "on_abort", "on_watched")
    stop = ctypes.c_int32.from_address(engine.get_global_value_address("stop"))
    return engine, {name: engine.get_function_address(name) for name in names}, stop


def add(uc: Uc, kinds: int, function: int, words: U64, start: int = 1, last: int = 0) -> int:
    """Have unicorn call the machine code at an address, with `words`, for what happens from start to last
    (start above last: everywhere); the hook's number for `uc.hook_del`. Raises UcError."""
    handle = ctypes.c_size_t()
    status = uclib.uc_hook_add(
        uc._uch,
        ctypes.byref(handle),
        kinds,
        ctypes.c_void_p(function),
        ctypes.c_void_p(words.ctypes.data),
        ctypes.c_uint64(start),
        ctypes.c_uint64(last),
    )
    if status != UC_ERR_OK:
        raise UcError(status)
    uc._callbacks[handle.value] = words  # there as long as the hook is, as hook_del expects
    return int(handle.value)


def addresses() -> tuple[int, int]:
    """Addresses of the functions for UC_HOOK_BLOCK and for UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE. They live as
    long as the process."""
    found = _compiled()[1]
    return found["on_block"], found["on_access"]


def on_watched() -> int:
    """The address of the function for accesses to watched memory."""
    return _compiled()[1]["on_watched"]


def stop_on_abort() -> ctypes.c_int32:
    """From now on SIGABRT does not end this process: the emulator stops at the next block, and the number
    that this returns is 1."""
    _, found, stop = _compiled()
    libc = ctypes.CDLL(None)
    libc.signal(signal.SIGABRT, ctypes.c_void_p(found["on_abort"]))
    return stop


def address_of(function: object) -> int:
    """The address of a function of a loaded library."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
