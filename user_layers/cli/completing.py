"""Completion: what may stand next on a command line, one candidate per line; nothing means file names."""

from __future__ import annotations

from collections.abc import Sequence

from firmware_sim.errors import TpulayerError
from user_layers.commands import COMMANDS, TOOLS, find

_BASH = """_tpulayer() {
    local IFS=$'\\n'
    COMPREPLY=($(tpulayer __complete "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
}
complete -o default -o bashdefault -F _tpulayer NAMES
"""

_ZSH = """if (( ! $+functions[compdef] )); then
    autoload -Uz compinit && compinit -i -D
fi
_tpulayer() {
    local -a found
    found=("${(@f)$(tpulayer __complete "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _tpulayer NAMES
"""


def script(shell: str) -> str:
    """The completion script for bash or zsh; it covers `tpulayer` and the bare names."""
    names = " ".join(("tpulayer", *TOOLS))
    return (_BASH if shell == "bash" else _ZSH).replace("NAMES", names)


def candidates(words: Sequence[str]) -> list[str]:
    """Candidates for the last of the words that the shell gives; the first is `tpulayer` or a bare name."""
    if not words:
        return []
    head, *rest = words
    head = head.rsplit("/", 1)[-1]
    if head == "tpulayer":
        if len(rest) <= 1:
            start = rest[0] if rest else ""
            return [name for name in (*COMMANDS, "--help", "--version") if name.startswith(start)]
        head, *rest = rest
    command = find(head)
    if command is None:
        return []
    last = rest[-1] if rest else ""
    if last.startswith("-"):
        from user_layers.cli.adapter import click_command

        options = [name for parameter in click_command(command).params for name in parameter.opts]
        options.append("--help")
        return sorted(name for name in options if name.startswith(last) and name.startswith("--"))
    place = sum(not word.startswith("-") for word in rest[:-1])
    values = command.values[place] if place < len(command.values) else ()
    if command.layers:
        values = _layer_names()
    return [value for value in values if value.startswith(last)]


def _layer_names() -> tuple[str, ...]:
    from user_layers.workspace import Workspace

    try:
        folder = Workspace.find().device_dir
    except TpulayerError:
        return ()
    return tuple(sorted(path.stem.removeprefix("bm_device_") for path in folder.glob("bm_device_*.c")))
