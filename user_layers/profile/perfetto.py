"""A profile as a trace for Perfetto (ui.perfetto.dev, or any of its tools): tracks of both engines, of the
controller, of launches and of layers, counters of DDR and local memory, arrows from what was waited for.

The package `perfetto` has the classes of the format; it is an optional extra, loaded when a trace is written.
Slices on one track follow one another, so each engine and the controller has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from firmware_sim.checks.finding import Issued
from firmware_sim.checks.text import place
from firmware_sim.chip import CLOCK_HZ
from firmware_sim.errors import MissingError
from firmware_sim.isa import timing
from user_layers.profile.counters import Steps, ddr_bandwidth, local_in_use
from user_layers.profile.model import ENGINES, Cause, Profile

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

_SEQUENCE = 1684  # one writer
_PROCESS = 1
_TRACKS = {"BD": 2, "GDMA": 3, "controller": 4, "launches": 5, "layers": 6, "DDR": 7, "local memory": 8}
_UNITS = {"DDR": "GB/s", "local memory": "bytes per lane"}
"""Of the tracks that are counters."""
_NS = 1e9 / CLOCK_HZ
_STATE_CLEARED, _NEEDS_STATE = 1, 2  # flags of a packet of a sequence


def classes() -> tuple[Any, Any]:
    """The package's builder, and its class of events. MissingError without it."""
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    except ImportError as error:
        raise MissingError(
            f"traces for Perfetto need the package perfetto: {error}",
            hint="pip install 'tpulayer[profile]'",
        ) from None
    return TraceProtoBuilder, TrackEvent


def profile_trace(profile: Profile) -> bytes:
    """The trace's bytes. Cycles become nanoseconds, rounded. MissingError without the package."""
    builder, event = classes()
    writer = _Writer(builder(), event)
    writer.tracks(profile.what)
    writer.launches(profile)
    writer.controller(profile)
    writer.commands(profile)
    writer.layers(profile)
    writer.counter("DDR", ddr_bandwidth(profile))
    writer.counter("local memory", local_in_use(profile))
    data: bytes = writer.builder.serialize()
    return data


class _Writer:
    """Packets of one trace."""

    def __init__(self, builder: Any, event: Any) -> None:
        self.builder = builder
        self._event = event
        self._known: dict[str, dict[str, int]] = {}
        self._begun = False

    def tracks(self, what: str) -> None:
        """Their names, and what counters count."""
        packet = self._packet()
        packet.track_descriptor.uuid = _PROCESS
        packet.track_descriptor.process.pid = _SEQUENCE
        packet.track_descriptor.process.process_name = f"BM1684: {what} ({timing.modelled()})"
        for name, number in _TRACKS.items():
            track = self._packet().track_descriptor
            track.uuid, track.parent_uuid, track.name = number, _PROCESS, name
            if unit := _UNITS.get(name):
                track.name, track.counter.unit_name = f"{name}, {unit}", unit

    def launches(self, profile: Profile) -> None:
        """Each with its batches, and what it costs beside its commands."""
        batches = {of: list(found) for of, found in groupby(profile.batches, lambda one: one.request)}
        for number, one in enumerate(profile.requests):
            self._begin("launches", one.begin, one.what, {"cycles": one.cycles})
            for batch in batches.get(number, ()):
                name = f"command group {batch.group}" if batch.group else "batch"
                self._slice("launches", batch.begin, batch.end, name, {})
            self._slice("launches", one.end - one.launch, one.end, "launch", {"cycles": one.launch})
            self._end("launches", one.end)

    def controller(self, profile: Profile) -> None:
        """Issuing the commands of a batch, one behind the other."""
        counts = np.bincount(profile.columns.batch, minlength=len(profile.batches)).tolist()
        for batch, count in zip(profile.batches, counts, strict=True):
            if batch.issued and count:
                end = min(batch.begin + count * timing.issue(), batch.end)
                self._slice("controller", batch.begin, end, "issues commands", {"commands": count})

    def commands(self, profile: Profile) -> None:
        """A slice each, with arrows from those that others waited for."""
        # at most one command waits for each: those behind it begin later, on the same engine
        waiters = {blocker: i for i, blocker in enumerate(profile.columns.blocker.tolist()) if blocker >= 0}
        c, forms = profile.columns, profile.forms
        sites = [_site(one) for one in profile.sites]
        columns = zip(c.engine.tolist(), c.form.tolist(), c.start.tolist(), c.end.tolist(), strict=True)
        for index, (engine, form, start, end) in enumerate(columns):
            track = ENGINES[engine].value
            arguments = {**sites[int(c.site[index])], **self._arguments(profile, index)}
            event = self._begin(track, start, forms[form].name, arguments)
            if c.blocker[index] >= 0:
                event.track_event.terminating_flow_ids.append(index + 1)
            if index in waiters:
                event.track_event.flow_ids.append(waiters[index] + 1)
            self._end(track, end)

    def _arguments(self, profile: Profile, index: int) -> Mapping[str, object]:
        c = profile.columns
        form, cause = profile.forms[int(c.form[index])], Cause(int(c.cause[index]))
        found: dict[str, object] = {"id": int(c.id[index]), "critical cycles": float(c.time[index])}
        if cause is not Cause.NONE:
            found |= {"waited for": cause.words, "waited cycles": float(c.stall[index])}
        if form.moved.ddr:
            found |= {"DDR bytes": form.moved.ddr}
        return found | {one.partition("=")[0]: one.partition("=")[2] for one in form.operands}

    def layers(self, profile: Profile) -> None:
        """Which node both engines are at: from its first command of a stretch to the end of its last."""
        for start, end, node, layer in _stretches(profile):
            self._slice("layers", start, end, node, {"layer": layer} if layer else {})

    def counter(self, name: str, steps: Steps) -> None:
        """Its values, from the begin on."""
        times, values = steps
        for time, value in zip([0.0, *times.tolist()], [0.0, *values.tolist()], strict=True):
            event = self._packet(time)
            event.track_event.type = self._event.TYPE_COUNTER
            event.track_event.track_uuid = _TRACKS[name]
            event.track_event.double_counter_value = value

    def _slice(
        self, track: str, begin: float, end: float, name: str, arguments: Mapping[str, object]
    ) -> None:
        self._begin(track, begin, name, arguments)
        self._end(track, end)

    def _begin(self, track: str, time: float, name: str, arguments: Mapping[str, object]) -> TracePacket:
        packet = self._packet(time)
        event = packet.track_event
        event.type, event.track_uuid = self._event.TYPE_SLICE_BEGIN, _TRACKS[track]
        event.name_iid = self._iid(packet, "event_names", name)
        for word, value in arguments.items():
            note = event.debug_annotations.add()
            note.name_iid = self._iid(packet, "debug_annotation_names", word)
            if isinstance(value, int):
                note.int_value = value
            elif isinstance(value, float):
                note.double_value = round(value, 4)
            else:
                note.string_value_iid = self._iid(packet, "debug_annotation_string_values", str(value))
        return packet

    def _iid(self, packet: TracePacket, kind: str, text: str) -> int:
        """The number of a text; the first packet with it says what it means."""
        known = self._known.setdefault(kind, {})
        number = known.get(text)
        if number is None:
            number = known[text] = len(known) + 1
            entry = getattr(packet.interned_data, kind).add()
            entry.iid = number
            if kind == "debug_annotation_string_values":
                entry.str = text.encode()
            else:
                entry.name = text
        return number

    def _end(self, track: str, time: float) -> None:
        packet = self._packet(time)
        packet.track_event.type = self._event.TYPE_SLICE_END
        packet.track_event.track_uuid = _TRACKS[track]

    def _packet(self, time: float = 0.0) -> TracePacket:
        packet: TracePacket = self.builder.add_packet()
        packet.timestamp = round(time * _NS)
        packet.trusted_packet_sequence_id = _SEQUENCE
        # the first one: nothing was lost before; all: they need what earlier ones said
        packet.sequence_flags = _NEEDS_STATE if self._begun else _NEEDS_STATE | _STATE_CLEARED
        self._begun = True
        return packet


def _site(issued: Issued) -> dict[str, object]:
    """Who issued a command, as arguments of its slice."""
    named = (("layer", issued.layer), ("node", issued.node), ("tile", issued.tile))
    found: dict[str, object] = {word: value for word, value in named if value}
    return found | ({"line": "\n".join(map(place, issued.frames))} if issued.frames else {})


def _stretches(profile: Profile) -> Iterator[tuple[float, float, str, str]]:
    """Begin, end, node and layer of commands of one node that begin one behind the other."""
    c = profile.columns
    start, end, site = c.start.tolist(), c.end.tolist(), c.site.tolist()
    now: tuple[float, float, str, str] | None = None
    for i in np.lexsort((c.end, c.start)).tolist():
        issued = profile.sites[site[i]]
        if not issued.node and not issued.layer:
            continue
        key = issued.node or issued.layer, issued.layer
        if now is not None and now[2:] == key:
            now = now[0], max(now[1], end[i]), *key
            continue
        if now is not None:
            yield now[0], max(now[0], min(now[1], start[i])), now[2], now[3]
        now = start[i], end[i], *key
    if now is not None:
        yield now
