"""tpu_model: one action of the vendor's tool at a time, with its words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from firmware_sim.errors import UsageError
from user_layers.bmodel import combine, contents, info

_DUMP_WORDS = 3


@dataclass(frozen=True)
class TpuModelOptions:
    """One of the paths but `output` says what to do with which file; see the command's help.

    more: the words behind that file. json: for `info`. output: what extract, combine and combine_dir make.
    """

    more: tuple[str, ...] = ()
    info: Path | None = None
    json: bool = False
    print: Path | None = None
    weight: Path | None = None
    extract: Path | None = None
    combine: Path | None = None
    combine_dir: Path | None = None
    dump: Path | None = None
    output: Path | None = None


def run(options: TpuModelOptions) -> str:
    """Do it; returns what to print. UsageError for words that do not fit, ModelError for bad files."""
    names = ("info", "print", "weight", "extract", "combine", "combine_dir", "dump")
    given = [name for name in names if getattr(options, name) is not None]
    if len(given) != 1:
        found = f"not both --{given[0]} and --{given[1]}" if given else "none is given"
        raise UsageError(
            f"tpu_model does one thing at a time: {found}",
            hint="one of " + ", ".join(f"--{name}" for name in names),
        )
    (action,) = given
    path: Path = getattr(options, action)
    _check(options, action)
    if action == "info":
        return info.run(path, as_json=options.json)
    if action == "print":
        return contents.as_json(path)
    if action == "weight":
        return contents.weights(path)
    if action == "dump":
        return _dump(path, options.more)
    if action == "extract":
        made = combine.extract(path, options.output or Path())
        return "\n".join(f"wrote {target}" for target in made)
    assert options.output is not None  # _check
    (combine.combine if action == "combine" else combine.combine_dirs)(
        [path, *map(Path, options.more)], options.output
    )
    return f"wrote {options.output}"


def _check(options: TpuModelOptions, action: str) -> None:
    if options.json and action != "info":
        raise UsageError(f"--json is for --info, not for --{action}")
    if options.output is not None and action not in ("extract", "combine", "combine_dir"):
        raise UsageError(f"-o is not for --{action}, which makes no bmodel")
    if action in ("combine", "combine_dir"):
        if options.output is None:
            raise UsageError(f"--{action} needs -o", hint=f"--{action} ONE TWO ... -o NEW")
    elif action != "dump" and options.more:
        raise UsageError(f"--{action} takes one file; what is {options.more[0]!r}?")


def _dump(path: Path, words: tuple[str, ...]) -> str:
    numbers = [word for word in words[:2] if word.isascii() and word.isdigit()]
    if len(words) != _DUMP_WORDS or len(numbers) != 2:
        raise UsageError("--dump takes a file, two numbers and a file", hint="--dump FILE START SIZE NEW")
    contents.dump(path, int(words[0]), int(words[1]), Path(words[2]))
    return f"wrote {words[2]}"
