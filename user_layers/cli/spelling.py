"""Commands in advice, as the user's shell knows them: `build_layers`, or `tpulayer build_layers`."""

from __future__ import annotations

import re

from user_layers.commands import TOOLS

_SOURCED = "source envsetup.sh"  # behind these words of an advice the bare names exist
_NAMES = "|".join(name for name in TOOLS if "_" in name)  # the others are words of the language, too
_BARE = re.compile(rf"(?<![\w/.-])(?<!tpulayer )(?:{_NAMES})(?![\w/(]|\.\w)")


def runnable(text: str) -> str:
    """The advice with `tpulayer` in front of the bare names that are not on the PATH."""
    from shutil import which

    now, mark, later = text.partition(_SOURCED)
    spelled = _BARE.sub(lambda m: m[0] if which(m[0]) else f"tpulayer {TOOLS[m[0]].name}", now)
    return spelled + mark + later
