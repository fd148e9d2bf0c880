"""Firmware pairs that load_firmware recorded: what a device boots when nobody says otherwise.

The images are copied, as loading them onto a card would, into a folder per device, with record.json beside
them: which they are, where they came from and when. A workspace keeps its own in .tpulayer; outside any they
are the user's, in $XDG_STATE_HOME/tpulayer, else ~/.local/state/tpulayer. $TPULAYER_STATE names another place
for both. Who uses such a folder holds a lock on it until the process ends: load_firmware leaves it there
then, because a device that runs may have to boot it again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from firmware_sim.errors import MissingError
from firmware_sim.firmware.workspace_root import FIRMWARE_DIR, workspace_built, workspace_root

STATE_VARIABLE = "TPULAYER_STATE"
WORKSPACE_STATE = ".tpulayer"  # not in build/: what a device boots does not change with `clean`
RECORD_NAME = "record.json"
_held: set[Path] = set()  # folders on which this process has a lock


@dataclass(frozen=True)
class Record:
    """A recorded pair.

    folder: with the copies, which stay until this process ends. sha256: of each image by name; what they are.
    files: what load_firmware was given. built_in: the workspace whose build installed those, or None.
    workspace: the one that load_firmware ran in, or None. when: local time, for messages.
    """

    dev_id: int
    folder: Path
    sha256: Mapping[str, str]
    files: tuple[Path, ...]
    built_in: Path | None
    workspace: Path | None
    when: str

    def is_built_in(self, root: Path) -> bool:
        """Whether these images are what is installed in a workspace now."""
        return all(_hash_of(root / FIRMWARE_DIR / name) == known for name, known in self.sha256.items())

    def text(self, using: Path | None) -> str:
        """For the user of a device, in a workspace or outside any: what it boots."""
        text = f"the firmware recorded by load_firmware on {self.when} from {self.files[0]}"
        other = using is not None and not self.is_built_in(using)
        return f"device {self.dev_id} runs {text}{f' (not the one built in {using})' if other else ''}"

    def problem(self, using: Path | None) -> str:
        """Why nobody in that workspace (None: outside any) means to run this; empty where somebody may.

        Images that were loaded from elsewhere on purpose may be meant; those of a build that there is a newer
        one of are not, nor is what was loaded in another workspace.
        """
        if using is not None and self.is_built_in(using):
            return ""
        what = f"the firmware that load_firmware recorded for device {self.dev_id} on {self.when}"
        if using is not None and self.workspace is not None and self.workspace != using.resolve():
            return f"{what} belongs to another workspace, {self.workspace}, not to {using}"
        home = self.built_in
        if home is None or not home.is_dir():
            return ""
        if self.is_built_in(home):
            return ""
        built = all((home / FIRMWARE_DIR / name).is_file() for name in self.sha256)
        now = "has been built again since" if built else "is not built now"
        return f"{what} is not the one last built: {home}, where it comes from, {now}"


@dataclass(frozen=True)
class Records:
    """The pairs recorded in a workspace, or (None) outside any."""

    workspace: Path | None

    @classmethod
    def here(cls) -> Records:
        """Those that the current folder, or TPULAYER_WORKSPACE, means."""
        return cls(workspace_root())

    def devices(self) -> list[int]:
        """The numbers of the devices that have one."""
        try:
            names = [entry.name for entry in self._devices.iterdir()]
        except OSError:
            return []
        return sorted(int(name) for name in names if name.isdecimal())

    def of(self, dev_id: int) -> Record | None:
        """What is recorded for a device, None without any. MissingError when it cannot be understood."""
        folder = self._folder(dev_id)
        return None if folder is None else _read(folder, dev_id)

    def usable(self, dev_id: int) -> Record | None:
        """`of`, where a record that would be run by mistake is a MissingError that says what to do."""
        record = self.of(dev_id)
        if record is not None and (problem := record.problem(self.workspace)):
            folder = None if self.workspace is None else self.workspace / FIRMWARE_DIR
            files = record.files if folder is None else [folder / name for name in record.sha256]
            raise MissingError(problem, hint=_ways_out(dev_id, *map(str, files)))
        return record

    def keep(self, dev_id: int, files: Mapping[str, bytes], given: Mapping[str, Path]) -> Record:
        """Keep these files for a device, in place of those recorded before; other processes see all or none.

        given: the images among them, and the files that they were read from. MissingError when they cannot be
        written: then what was recorded before stays.
        """
        place = self._place(dev_id)
        kept = place.parent / f"{dev_id}-{os.getpid()}-{os.urandom(4).hex()}"
        fresh, link = place.parent / f".{kept.name}", place.parent / f".link.{kept.name}"
        homes = {workspace_built(path) for path in given.values()}
        about = Record(
            dev_id,
            kept,
            {name: hashlib.sha256(files[name]).hexdigest() for name in given},
            tuple(path.resolve() for path in given.values()),
            homes.pop() if len(homes) == 1 else None,
            None if self.workspace is None else self.workspace.resolve(),
            time.strftime("%Y-%m-%d %H:%M:%S"),
        )
        with self._explained(f"the firmware of device {dev_id} cannot be recorded"), ExitStack() as stack:
            stack.callback(shutil.rmtree, fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            self._ignored_by_git()
            lock = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_SH)  # nobody removes it between the next two steps
            for name, data in (*files.items(), (RECORD_NAME, _written(about))):
                (fresh / name).write_bytes(data)
            os.replace(fresh, kept)
            try:
                # A folder cannot be replaced by another: a link to it can.
                link.symlink_to(kept.name)
                os.replace(link, place)
            except BaseException:
                link.unlink(missing_ok=True)
                shutil.rmtree(kept, ignore_errors=True)
                raise
        self._remove_unused(dev_id)
        return about

    def forget(self, dev_id: int) -> bool:
        """Remove what is recorded for a device; False when nothing was. MissingError when it cannot be."""
        place = self._place(dev_id)
        if not place.is_symlink():
            return False
        with self._explained(f"what is recorded for device {dev_id} cannot be removed"):
            place.unlink()
        self._remove_unused(dev_id)
        return True

    # ---- the folders ----

    @property
    def _root(self) -> Path:
        named = os.environ.get(STATE_VARIABLE)
        if named:
            return Path(named).expanduser()
        if self.workspace is not None:
            return self.workspace / WORKSPACE_STATE
        base = os.environ.get("XDG_STATE_HOME")
        return (Path(base) if base else Path.home() / ".local" / "state") / "tpulayer"

    @property
    def _devices(self) -> Path:
        return self._root / "devices"

    def _place(self, dev_id: int) -> Path:
        return self._devices / str(dev_id)

    def _ignored_by_git(self) -> None:
        """Records are of one machine: a workspace's own are not to be committed."""
        if self.workspace is not None and self._root == self.workspace / WORKSPACE_STATE:
            (self._root / ".gitignore").write_text("*\n")

    def _folder(self, dev_id: int) -> Path | None:
        """The folder that a device's link names, locked."""
        place = self._place(dev_id)
        while place.is_dir():
            folder = place.resolve()
            if folder in _held:
                return folder
            try:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:  # replaced just now
                continue
            except OSError:
                return folder  # whoever reads the files says why that is not possible
            fcntl.flock(lock, fcntl.LOCK_SH)
            if place.resolve() == folder and folder.is_dir():
                _held.add(folder)
                return folder
            os.close(lock)
        return None

    def _remove_unused(self, dev_id: int) -> None:
        """Remove what was recorded for a device before, unless somebody uses it."""
        place = self._place(dev_id)
        current = place.resolve()
        for folder in place.parent.glob(f"{dev_id}-*"):
            if folder.resolve() == current:
                continue
            try:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            except BlockingIOError:
                pass
            finally:
                os.close(lock)

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise MissingError(
                f"{doing} in {self._root}: {error.strerror}",
                hint=f"set {STATE_VARIABLE} to a folder that can be written",
            ) from None


def way_out(path: Path) -> str:
    """For hints: what helps when this file, of a recorded pair, is of no use. Empty for any other file."""
    if not (path.parent / RECORD_NAME).is_file():
        return ""
    return f"load_firmware recorded it: {_ways_out(int(path.parent.name.partition('-')[0]))}"


def _ways_out(dev_id: int, *files: str) -> str:
    words = " ".join((*(files or ("firmware_tcm.bin", "firmware_ddr.bin")), str(dev_id)))
    return f"run load_firmware again: load_firmware {words}; or end it: load_firmware --forget {dev_id}"


def _hash_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _written(record: Record) -> bytes:
    known = {
        "sha256": dict(record.sha256),
        "files": [str(path) for path in record.files],
        "built_in": None if record.built_in is None else str(record.built_in),
        "workspace": None if record.workspace is None else str(record.workspace),
        "when": record.when,
    }
    return json.dumps(known, indent=1).encode()


def _read(folder: Path, dev_id: int) -> Record:
    def path(text: str | None) -> Path | None:
        return None if text is None else Path(text)

    try:
        known = json.loads((folder / RECORD_NAME).read_bytes())
        if not known["sha256"] or not known["files"]:
            raise ValueError
        return Record(
            dev_id,
            folder,
            {str(name): str(value) for name, value in known["sha256"].items()},
            tuple(Path(text) for text in known["files"]),
            path(known["built_in"]),
            path(known["workspace"]),
            str(known["when"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise MissingError(
            f"what is recorded for device {dev_id} does not say where it comes from: {folder / RECORD_NAME} "
            "is missing or damaged",
            hint=_ways_out(dev_id),
        ) from None
