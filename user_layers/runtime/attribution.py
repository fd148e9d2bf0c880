"""Who issued the commands of static nets: in what was compiled here, or the file beside a bmodel."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from firmware_sim.checks.finding import Attribute, Issued
from firmware_sim.wire import CommandGroup
from user_layers.bmodel.directory import SITES
from user_layers.files import read_input
from user_layers.net.command_map import CommandMap, command_maps, decoded, streams_hash
from user_layers.net.compiled import CompiledNet


class Attribution:
    """The command maps of the nets of one bmodel, found when a finding first wants one.

    bmodel: the file; without its neighbour nothing is known, and with one that is damaged or of other nets a
    line on stderr says so. nets: what was compiled, if it was in this process.
    """

    def __init__(self, bmodel: Path | None = None, nets: Sequence[CompiledNet] = ()) -> None:
        self._file = None if bmodel is None else bmodel.with_name(SITES)
        self._nets = nets
        self._maps: dict[str, CommandMap] | None = None
        self._warned = False

    def of(self, groups: Iterable[CommandGroup]) -> CommandMap | None:
        """The map of one subnet's streams; None where nobody knows."""
        if self._maps is None:
            self._maps = {one.streams: one for one in self._found()}
        found = self._maps.get(streams_hash(groups))
        if found is None and self._maps:
            self._warn("is of another bmodel")
        return found

    def issuer(self, groups: Sequence[CommandGroup]) -> Attribute:
        """What `Device.run_streams` takes as where, for the streams of one subnet."""

        def more(issued: Issued) -> Issued:
            commands = self.of(groups)
            found = commands and commands.issued(issued.group, issued.engine == "BD", issued.id - 1)
            if not found:
                return issued
            return replace(issued, frames=found.frames, layer=found.layer, node=found.node, tile=found.tile)

        return more

    def _found(self) -> list[CommandMap]:
        if self._nets:
            return [one for net in self._nets for one in command_maps(net)]
        if self._file is None:
            return []
        try:
            return list(decoded(read_input(self._file)))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            self._warn(f"cannot be read: {error}")
            return []

    def _warn(self, why: str) -> None:
        if self._file is not None and not self._warned:
            self._warned = True
            print(
                f"{self._file} {why}; the lines that issued commands are not known",
                file=sys.stderr,
                flush=True,
            )
