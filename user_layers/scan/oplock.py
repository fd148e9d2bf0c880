"""config/op_types.lock: the number of every layer, for ever.

A number is stored in bmodels, so it is never given twice and never changes; a deleted layer keeps
its line. One `NAME NUMBER` per line, `#` starts a comment.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from firmware_sim.errors import SourceError
from firmware_sim.wire import BUILTIN_OP_BASE
from user_layers.files import write_atomic
from user_layers.scan.model import display_path
from user_layers.scan.names import is_identifier

_HEAD = """\
# op_type numbers of this workspace's layers, kept by `tpulayer gen_entry`. Commit this file.
# A number never changes and is never used again, so that compiled bmodels keep working:
# the line of a deleted layer stays.
"""


def read(path: Path, op_base: int = 0) -> dict[str, int]:
    """Numbers by op name; {} when the file does not exist yet. SourceError for a damaged file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as e:
        raise SourceError(
            f"{display_path(path)}: not a text file ({e})", hint="restore it from version control"
        ) from None
    numbers: dict[str, int] = {}
    owner: dict[int, tuple[str, int]] = {}
    for at, line in enumerate(text.splitlines(), 1):
        where = f"{display_path(path)}:{at}:1"
        if line.startswith(("<<<<<<<", "=======", ">>>>>>>")):
            raise SourceError(
                f"{where}: an unresolved merge conflict",
                hint="keep the lines of both sides; where a number occurs twice, give the layer whose "
                "bmodels nobody uses yet the next free number",
            )
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2 or not is_identifier(words[0]) or not words[1].isdecimal():
            raise SourceError(
                f"{where}: found `{line.strip()}`, expected a name and a number like `TPU_CROP 0`",
                hint="restore the line from version control; numbers are stored in bmodels",
            )
        name, number = words[0], int(words[1])
        limit = BUILTIN_OP_BASE if op_base < BUILTIN_OP_BASE else 1 << 31
        if not op_base <= number < limit:
            raise SourceError(
                f"{where}: {name} has the number {number}, outside {op_base}..{limit - 1}",
                hint="restore the line from version control; numbers are stored in bmodels",
            )
        if name in numbers:
            raise SourceError(
                f"{where}: {name} is listed a second time (numbers {numbers[name]} and {number})",
                hint="remove one line; bmodels compiled with the number that goes must be compiled again",
            )
        if number in owner:
            other, other_line = owner[number]
            raise SourceError(
                f"{where}: {name} and {other} (line {other_line}) both have the number {number}; two "
                "branches have probably added a layer each",
                hint="give one of them the next free number (bmodels that use that layer must be "
                "compiled again): the number after the highest in this file",
            )
        numbers[name] = number
        owner[number] = (name, at)
    return numbers


def assign(numbers: dict[str, int], ops: Iterable[str], op_base: int = 0) -> dict[str, int]:
    """`numbers` with the next free number for every new op, in the order given."""
    result = dict(numbers)
    following = max(result.values(), default=op_base - 1) + 1
    for op in ops:
        if op not in result:
            result[op] = following
            following += 1
    return result


def write(path: Path, numbers: dict[str, int]) -> None:
    """Write the lock file, ordered by number."""
    lines = [f"{op} {number}\n" for op, number in sorted(numbers.items(), key=lambda x: x[1])]
    write_atomic(path, _HEAD + "".join(lines))
