"""Writing files so that nobody ever sees half of one, also after a power failure; reading what users name."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

_KINDS = {stat.S_IFCHR: "a character device", stat.S_IFBLK: "a block device", stat.S_IFSOCK: "a socket"}
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EROFS)  # of file systems that cannot do it


def check_input(path: Path) -> None:
    """Refuse a device where a user should name a file: it may be endless. OSError."""
    kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    if kind is not None:
        raise OSError(errno.EINVAL, f"it is {kind}", str(path))


def read_input(path: Path) -> bytes:
    """The content of a file that a user names, or of a pipe. OSError as from check_input."""
    check_input(path)
    return path.read_bytes()


class _AsItStands(SourceFileLoader):
    """Never from __pycache__, which passes for new where a file changed within a second and kept its size."""

    def get_code(self, fullname: str) -> CodeType:
        """The source, compiled."""
        return self.source_to_code(self.get_data(self.path), self.path)


def run_python(path: Path, name: str) -> ModuleType:
    """Run a Python file that a user names, as the module `name`. Errors: whatever the file raises."""
    spec = spec_from_file_location(name, path, loader=_AsItStands(name, str(path)))
    assert spec is not None and spec.loader is not None  # a loader is given
    module = sys.modules[name] = module_from_spec(spec)  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module


def write_atomic(path: Path, data: bytes | str, *, durable: bool = True) -> None:
    """Put data in path's place in one step; folders are made as needed. OSError when that fails: then
    nothing has changed.

    durable: it is on the disk when this returns. Without, for what is made again when it is damaged, a power
    failure may leave an empty file.
    """
    write_together({path: data}, durable=durable)


def write_together(
    files: Mapping[Path, bytes | str],
    gone: Iterable[Path] = (),
    *,
    executable: frozenset[Path] = frozenset(),
    durable: bool = True,
) -> None:
    """Put files in their places and remove those in `gone`; folders are made as needed.

    All are written aside before the first takes its place. OSError, which has the path, when anything fails:
    then all is as it was. durable: see write_atomic.
    """
    leaving = list(gone)
    with contextlib.ExitStack() as folders, contextlib.ExitStack() as tidy, contextlib.ExitStack() as undo:
        staged: dict[Path, Path] = {}
        for path, data in files.items():
            place = _place(path)
            raw = data.encode() if isinstance(data, str) else data
            if _is_special(place):
                with _naming(place):
                    place.write_bytes(raw)
                continue
            _make_folder(place.parent, folders)
            temporary = staged[place] = _temporary(place)
            tidy.callback(_remove, temporary)
            with _naming(place):
                _write(temporary, raw, durable, executable=path in executable)
        several = len(staged) + len(leaving) > 1
        for place, temporary in staged.items():
            with _naming(place):
                if several:
                    _keep(place, undo, tidy)
                os.replace(temporary, place)
        for path in leaving:
            with _naming(path):
                if os.path.lexists(path):
                    _keep(path, undo, tidy)
                    path.unlink()
        if durable:
            for folder in {path.parent for path in (*staged, *leaving)}:
                _sync(folder)
        undo.pop_all()
        folders.pop_all()


def write_if_changed(path: Path, data: bytes | str) -> bool:
    """Write what can be made again, and only when the content differs, so that builds see unchanged time
    stamps; True when written. OSError when that fails."""
    raw = data.encode() if isinstance(data, str) else data
    try:
        if path.read_bytes() == raw:
            return False
    except FileNotFoundError:
        pass
    write_atomic(path, raw, durable=False)
    return True


def replace_copy(source: Path, target: Path) -> None:
    """Put a copy of source, with its mode and times, in target's place in one step."""
    import shutil  # slow to import, and only builds copy

    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(target)
    try:
        with _naming(target):
            shutil.copy2(source, temporary)
            _sync(temporary)
            os.replace(temporary, target)
            _sync(target.parent)
    finally:
        _remove(temporary)


def replace_folder(source: Path, target: Path) -> None:
    """Give a folder the name of one that is not there, after all in it is on the disk."""
    for base, _, names in os.walk(source):
        for name in names:
            _sync(Path(base, name))
        _sync(Path(base))
    os.replace(source, target)
    _sync(target.parent)


def _place(path: Path) -> Path:
    """Where to write: a link like /dev/stdout is never replaced itself."""
    system = path.is_symlink() and path.is_relative_to("/dev")
    return path.resolve() if system and path.is_file() else path


def _is_special(path: Path) -> bool:
    """A device or a pipe, which is written to, not replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _make_folder(folder: Path, undo: contextlib.ExitStack) -> None:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        with contextlib.suppress(FileExistsError):  # somebody else made it
            new.mkdir()
            undo.callback(_remove_folder, new)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def _remove_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _keep(path: Path, undo: contextlib.ExitStack, tidy: contextlib.ExitStack) -> None:
    """Make sure that undoing brings back what is at path now."""
    if not os.path.lexists(path):
        undo.callback(_remove, path)
        return
    old = path.with_name(f"{_temporary(path).stem}.old.tmp")
    tidy.callback(_remove, old)
    try:
        os.link(path, old, follow_symlinks=False)
    except OSError:  # a file system without links
        old.write_bytes(path.read_bytes())
    undo.callback(_bring_back, old, path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _bring_back(old: Path, path: Path) -> None:
    with contextlib.suppress(OSError):
        os.replace(old, path)


def _write(path: Path, data: bytes, durable: bool, *, executable: bool) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        if executable:
            os.fchmod(file.fileno(), 0o755)
        if durable:
            _fsync(file.fileno())


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors name the file that is meant, not the one beside it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _sync(path: Path) -> None:
    """Wait until a file, or what a folder lists, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _fsync(descriptor)
    finally:
        os.close(descriptor)


def _fsync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _temporary(path: Path) -> Path:
    """A name beside path that no other process or thread uses, hidden and unlike any source file."""
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
