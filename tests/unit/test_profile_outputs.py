"""What profiles are written as: text, JSON and its diff, a page, a picture, a trace for Perfetto."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from firmware_sim.checks.finding import Frame, Issued
from firmware_sim.chip import ALIGN_BYTES, LOCAL_BASE
from firmware_sim.device.trace import TracedRequest
from firmware_sim.errors import MissingError, UsageError
from firmware_sim.instructions.instruction import Engine
from tests.unit.test_profile import LOAD, STORE, Steps, batch
from user_layers.profile.counters import ddr_bandwidth, local_in_use, slices
from user_layers.profile.diff import compare, diff_json, diff_text, read_saved
from user_layers.profile.document import profile_document, profile_json
from user_layers.profile.model import Cause, Profile
from user_layers.profile.page import profile_page
from user_layers.profile.perfetto import profile_trace
from user_layers.profile.picture import profile_picture
from user_layers.profile.text import profile_text
from user_layers.profile.trace import profile_of

PARTS: Steps = [(LOAD, 0, {}), ("ar.mul", 1, {}), (STORE, 1, {}), ("ar.div", 1, {})]


def requested(
    source: Path, parts: Steps = PARTS, *, lines: tuple[int, ...] = (3, 4, 5, 3), streamed: bool = True
) -> TracedRequest:
    """A kernel whose commands come from lines of a file, all of them called from line 8."""
    outer = Frame(str(source), 8, "kernel")
    sites = tuple(
        Issued("", 0, "", (Frame(str(source), line, "step <&>"), outer), "TPU(A)", f"node{line}")
        for line in lines
    )
    return TracedRequest("kernel k", (batch(parts, streamed=streamed),), sites, 0)


def made(source: Path, parts: Steps = PARTS, **more: Any) -> Profile:
    """Of one such request."""
    return profile_of([requested(source, parts, **more)])


def twice(source: Path) -> Profile:
    """Issued by the controller, and read by the engines."""
    return profile_of([requested(source, streamed=False), requested(source)])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.c"
    path.write_text("".join(f"line {n}; /* <b>{n}</b> */\n" for n in range(1, 13)))
    return path


# ---- text ----


def test_text_has_the_lines_with_their_shares(source: Path) -> None:
    profile = made(source)
    text = profile_text(profile)
    assert text.startswith("profile of kernel k\n  time ") and "modelled, median error" in text
    rows = re.findall(r"^ *([\d.]+)%( |>) +[\d,]+ .* (\d+) \| line \3;", text, re.M)
    assert [(int(line), mark) for _, mark, line in rows] == [(3, " "), (4, " "), (5, " "), (8, ">")]
    assert float(rows[-1][0]) == pytest.approx(sum(float(share) for share, _, _ in rows[:-1]), abs=0.2)
    assert "    6 | line 6;" in text and "   11 |" not in text
    assert re.search(r"% *GDMA 1 gdma.copy.s2l, \S*kernel.c:3 in step <&>, node node3$", text, re.M)
    assert "a copy from or to DDR" in text and "waited for GDMA 1 gdma.copy.s2l" in text
    assert "kernel.c" not in profile_text(profile, annotate=False).split("time: share")[1]
    short = profile_text(profile, 1)
    whole = sum(one.critical for one in profile.commands()) / profile.cycles
    [lines] = re.findall(r"([\d.]+)% .*kernel.c:\d in step.*\n2 more rows, ([\d.]+)% of the time", short)[:1]
    assert sum(map(float, lines)) == pytest.approx(whole * 100, abs=0.2)
    assert re.search(r"kernel \S*kernel.c\n1 more row\n", short)  # what is called counts in both


def test_text_of_a_source_that_is_gone(source: Path, tmp_path: Path) -> None:
    text = profile_text(made(tmp_path / "gone.c"))
    assert "gone.c:3 in step" in text and " | " not in text
    assert profile_text(profile_of([])).startswith("profile of nothing\n")


# ---- JSON, diff ----


def test_json_holds_all_and_is_read_again(source: Path, tmp_path: Path) -> None:
    profile = made(source)
    document = json.loads(profile_json(profile, commands=True))
    assert (document["format"], document["version"]) == ("tpulayer profile", 1)
    assert document["lines"][0]["text"].startswith("line ") and document["top"][0]["operands"]
    columns = document["columns"]
    assert {len(column) for column in columns.values()} == {len(profile.columns)} == {4}
    assert document["forms"][columns["form"][0]]["instruction"] == "ar.mul"
    assert document["sites"][columns["site"][0]]["frames"][0]["line"] == 4
    engines = document["engines"]["bd"]
    whole = engines["busy_cycles"] + sum(engines["stall_cycles"].values())
    assert whole == pytest.approx(document["cycles"], abs=1)
    path = tmp_path / "a.json"
    path.write_text(profile_json(profile))
    saved = read_saved(path)
    assert saved.cycles == document["cycles"] and "columns" not in profile_document(profile)
    unknown = tmp_path / "u.json"
    site = (Issued("", 0, "", ()),) * 4
    unknown.write_text(
        profile_json(profile_of([TracedRequest("k", (batch(PARTS, streamed=True),), site, 0)]))
    )
    assert list(read_saved(unknown).tables["lines"]) == ["(no source line)"]
    same = compare(saved, saved)
    assert {one.kind for table in same.changes.values() for one in table} == {"same"}
    assert "1.00 times" in diff_text(same)


def test_diff_says_what_became_faster_and_what_is_new(source: Path, tmp_path: Path) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    before.write_text(profile_json(made(source)))
    # three lines further down, without the quotient, with another copy
    moved = tmp_path / "new" / "kernel.c"
    moved.parent.mkdir()
    moved.write_text("\n\n\n" + source.read_text())
    parts = [*PARTS[:3], (STORE, 1, {})]
    after.write_text(profile_json(made(moved, parts, lines=(6, 7, 8, 10))))
    diff = compare(read_saved(before), read_saved(after))
    lines = {one.name.partition(": ")[2].partition(";")[0]: one for one in diff.changes["lines"]}
    assert {name: one.kind for name, one in lines.items()} == {
        "line 3": "same",
        "line 4": "same",
        "line 5": "same",
        "line 7": "new",
    }
    names = {one.name: one.kind for one in diff.changes["instructions"]}
    assert names["ar.div"] == "gone" and names[STORE] == "slower"
    total = sum(one.slower for one in diff.changes["instructions"])
    launches = 0.0  # the same bytes are read
    assert total + launches == pytest.approx(diff.after.cycles - diff.before.cycles, abs=1)
    text = diff_text(diff)
    assert "gone    ar.div" in text and "new     kernel.c in step <&>: line 7;" in text
    answer = json.loads(diff_json(diff))
    assert answer["lines"][0]["kind"] == "new" and answer["lines"][0]["before"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file"),
        ("{", "no saved profile: Expecting"),
        ("[1]", "does not say that its format"),
        ('{"format": "tpulayer report"}', "does not say that its format"),
        ('{"format": "tpulayer profile", "version": 2}', "of version 2, this toolkit reads version 1"),
        ('{"format": "tpulayer profile", "version": 1, "what": "x"}', "damaged profile: KeyError: 'lines'"),
        ("\xff", "no saved profile"),
    ],
)
def test_files_that_are_no_profiles(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        read_saved(path)
    assert "a.json" in str(error.value)


# ---- pictures ----


class _Balanced(HTMLParser):
    """Every element is closed; which links and sources there are."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [f"{name}={value}" for name, value in attrs if name in ("href", "src", "srcset")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_by_itself(source: Path) -> None:
    page = profile_page(made(source))
    reader = _Balanced()
    reader.feed(page)
    assert not reader.open and not reader.links
    assert "<script" not in page and "url(" not in page.replace("url(#", "") and "@import" not in page
    assert "<b>3</b>" not in page and "&lt;b&gt;3&lt;/b&gt;" in page
    shown = made(source)._repr_html_()
    assert shown.startswith("<iframe") and "Profile of kernel k" in shown


def test_pictures_are_bounded(source: Path) -> None:
    few = profile_picture(made(source))
    assert ElementTree.fromstring(few).tag.endswith("svg")
    assert "gdma.copy.s2l" in few and "Each command" in few
    many: Steps = []
    for i in range(3000):
        many += [(LOAD, i, {}), ("ar.mul", i + 1, {})]
    long = made(source, many)
    picture, page = profile_picture(long), profile_page(long)
    assert "Each command" not in picture and len(picture) < 150_000 and len(page) < 250_000
    assert ElementTree.fromstring(profile_picture(profile_of([]))) is not None


def test_slices_add_up(source: Path) -> None:
    profile = made(
        source, [*PARTS, *((name, wait + 1, fields) for name, wait, fields in PARTS)], streamed=False
    )
    for number in (1, 7, 100):
        found = slices(profile, number)
        width = profile.cycles / number
        for engine in Engine:
            does = found.does[engine]
            assert np.sum(list(does.values()), axis=0) == pytest.approx(np.ones(number))
            assert does[Cause.NONE].sum() * width == pytest.approx(profile.busy[engine])
            for cause, cycles in profile.stalls[engine].items():
                assert does[cause].sum() * width == pytest.approx(cycles, abs=1e-6)
        moved = sum(one.moved.ddr for one in profile.commands())
        assert found.ddr.sum() * width / 550e6 * 1e9 == pytest.approx(moved)


def test_local_memory_in_use(source: Path) -> None:
    """A tile that is loaded, computed in place and stored; a second one, half of which nobody reads."""
    at = LOCAL_BASE + 0x8000
    local = dict.fromkeys(("res0_addr", "opd0_addr", "opd1_addr"), at)
    half = {"src_hsize": 8, "dst_hsize": 8}
    to = {"dst_start_addr_l32": at}
    away = {"src_start_addr_l32": at}
    parts: Steps = [(LOAD, 0, to), ("ar.mul", 1, local), (STORE, 1, away)]
    parts += [(LOAD, 1, to), (STORE, 1, away | half)]
    profile = made(source, parts)
    mul, load, store, again, last = profile.commands()
    times, values = local_in_use(profile)
    tile = 256 * 4  # bytes of each lane: 16 x 16 words
    assert dict(zip(times.tolist(), values.tolist(), strict=True)) == {
        load.start: tile,
        mul.end: tile,
        store.end: tile // 2,
        last.end: 0,
    }
    assert store.end == again.start and tile % ALIGN_BYTES == 0
    rates = ddr_bandwidth(profile)
    assert rates[0][0] == load.start and rates[1][-1] == 0 and 20 < max(rates[1]) < 28


# ---- Perfetto ----


@pytest.fixture(scope="module")
def proto() -> Any:
    return pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the extra `profile` is not installed"
    )


class _Read:
    """A trace read back by the format's own classes: slices of each track, flows, counters."""

    def __init__(self, data: bytes, proto: Any) -> None:
        trace = proto.Trace()
        trace.ParseFromString(data)
        names: dict[int, str] = {}
        said: dict[str, dict[int, str]] = defaultdict(dict)
        self.slices: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.counters: dict[str, list[tuple[int, float]]] = defaultdict(list)
        open_: dict[str, list[dict[str, Any]]] = defaultdict(list)
        assert trace.packet[0].sequence_flags & 1 and not any(p.sequence_flags & 1 for p in trace.packet[1:])
        for packet in trace.packet:
            assert packet.sequence_flags & 2
            for kind in ("event_names", "debug_annotation_names", "debug_annotation_string_values"):
                for entry in getattr(packet.interned_data, kind):
                    assert entry.iid not in said[kind]
                    said[kind][entry.iid] = entry.str.decode() if kind.endswith("values") else entry.name
            if packet.HasField("track_descriptor"):
                d = packet.track_descriptor
                assert d.uuid not in names
                names[d.uuid] = d.name or d.process.process_name
                continue
            event = packet.track_event
            track = names[event.track_uuid]
            if event.type == event.TYPE_COUNTER:
                self.counters[track].append((packet.timestamp, event.double_counter_value))
            elif event.type == event.TYPE_SLICE_END:
                one = open_[track].pop()
                assert one["start"] <= packet.timestamp
                one["end"] = packet.timestamp
                self.slices[track].append(one)
            else:
                arguments = {
                    said["debug_annotation_names"][a.name_iid]: said["debug_annotation_string_values"].get(
                        a.string_value_iid, a.double_value or a.int_value
                    )
                    for a in event.debug_annotations
                }
                open_[track].append(
                    {
                        "name": said["event_names"][event.name_iid],
                        "start": packet.timestamp,
                        "to": list(event.flow_ids),
                        "from": list(event.terminating_flow_ids),
                        "args": arguments,
                        "depth": len(open_[track]),
                    }
                )
        assert not any(open_.values())


def test_the_trace_says_what_the_profile_says(source: Path, proto: Any) -> None:
    profile = twice(source)
    read = _Read(profile_trace(profile), proto)
    commands = read.slices["BD"] + read.slices["GDMA"]
    assert Counter(one["name"] for one in commands) == Counter(one.name for one in profile.commands())
    order = sorted(profile.commands(), key=lambda one: (one.engine.value, one.start))
    for one, command in zip(commands, order, strict=True):
        nanos = 1e9 / 550e6
        assert (one["start"], one["end"]) == (round(command.start * nanos), round(command.end * nanos))
        assert one["args"]["id"] == command.id and "kernel.c:" in one["args"]["line"]
        assert one["args"].get("waited for", "") == command.cause.words
    begun = {flow: one for one in commands for flow in one["to"]}
    waited = [(flow, one) for one in commands for flow in one["from"]]
    assert len(begun) == sum(len(one["to"]) for one in commands) == len(waited) == len(dict(waited))
    assert len(waited) == sum(one.blocker is not None for one in profile.commands()) > 0
    assert all(begun[flow]["end"] <= one["start"] for flow, one in waited)
    [issuing] = read.slices["controller"]
    assert issuing["args"]["commands"] == 4
    assert [one["depth"] for one in read.slices["launches"]] == [1, 1, 0, 1, 1, 0]
    assert {one["name"] for one in read.slices["layers"]} == {"node3", "node4", "node5"}
    ends = [one["end"] for one in read.slices["layers"]]
    assert ends == sorted(ends)
    (ddr,) = (values for name, values in read.counters.items() if name.startswith("DDR"))
    assert 20 < max(value for _, value in ddr) < 28 and ddr[-1][1] == 0
    assert any(name.startswith("local memory") for name in read.counters)


def test_perfettos_own_processor_reads_it(source: Path, tmp_path: Path, proto: Any) -> None:
    """With the program that ui.perfetto.dev and the package's Python interface use."""
    folder = Path.home() / ".local" / "share" / "perfetto" / "prebuilts"
    found = shutil.which("trace_processor_shell") or next(
        map(str, folder.glob("trace_processor_shell*")), None
    )
    if found is None:
        pytest.skip("no trace_processor_shell on PATH or among perfetto's downloads")
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    profile = twice(source)
    path = tmp_path / "k.pftrace"
    path.write_bytes(profile_trace(profile))
    with TraceProcessor(trace=str(path), config=TraceProcessorConfig(bin_path=found)) as processor:

        def one(query: str) -> Any:
            [row] = processor.query(query)
            return row

        tracks = "slice join track on slice.track_id = track.id"
        assert one(f"select count(*) as n from {tracks} where track.name in ('BD', 'GDMA')").n == 8
        waits = sum(c.blocker is not None for c in profile.commands())
        assert one("select count(*) as n from flow").n == waits
        most = one(
            "select max(value) as most from counter join counter_track "
            "on counter.track_id = counter_track.id where counter_track.name like 'DDR%'"
        ).most
        assert 20 < most < 28
        line = one(
            f"select extract_arg(slice.arg_set_id, 'debug.line') as line from {tracks} "
            "where slice.name = 'ar.div' and track.name = 'BD' limit 1"
        ).line
        assert "kernel.c:3" in line
        errors = one("select sum(value) as n from stats where severity = 'error'").n
        assert not errors


def test_without_the_package_one_clear_message(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "perfetto.protos.perfetto.trace.perfetto_trace_pb2", None)
    with pytest.raises(MissingError, match="need the package perfetto") as error:
        profile_trace(made(source))
    assert error.value.hint == "pip install 'tpulayer[profile]'" and error.value.exit_code == 3


def test_a_net_keeps_its_groups_apart(source: Path) -> None:
    part = replace(batch(PARTS, streamed=True), group=2)
    profile = profile_of(
        [TracedRequest("the static network", (part,), (Issued("", 0, "", (), "L", "n"),) * 4, 0)]
    )
    assert profile.batches[0].group == 2 and not profile.batches[0].issued
    assert "the static network" in profile_text(profile)
