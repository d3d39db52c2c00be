"""How files are written: whole or not at all; and what to say where the machine refuses.

A file appears under its name only when all of it is there, so that neither a kill nor a full disk leaves half of one.
Logs, which grow by lines, are the exception: `Appended` never leaves half a line behind unnoticed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import IO

from echelonflow.errors import StorageError

_REMEDIES = MappingProxyType(
    {
        errno.ENOSPC: "free some space there, or name a folder on another disk",
        errno.EDQUOT: "free some of your quota there, or name a folder on another disk",
        errno.EROFS: "name a folder that can be written",
        errno.EACCES: "name a folder that you may write",
        errno.EPERM: "name a folder that you may write",
        errno.EMFILE: "allow a process more open files (ulimit -n)",
        errno.ENFILE: "end programs that hold many files open, or raise the sysctl fs.file-max",
        errno.ENOMEM: "end other programs, or give this machine more memory",
        errno.EAGAIN: "end other programs, or allow more processes (ulimit -u)",
    }
)
PRIVATE_MODE = 0o600
PART = ".part"
"""How the names of files end that are being written, or were when their writer was killed."""


def refusal(error: OSError) -> str:
    """What the machine refused, in one line: the place, its reason, and what to do about it where that is known."""
    reason = error.strerror or str(error) or type(error).__name__
    place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{place}{reason}" + ("" if remedy is None else f"; {remedy}")


@contextlib.contextmanager
def writing(path: Path, *, durable: bool = False) -> Iterator[IO[bytes]]:
    """A file to write that becomes `path` when the block ends well; otherwise nothing is left of it.

    Where `durable`, it is on the disk before it has its name, which outlasts even a loss of power. Raises StorageError,
    naming `path`, where the machine refuses.
    """
    _refuse_link_of_others(path)
    if path.exists() and not path.is_file():  # such as /dev/stdout, which nothing may replace
        with path.open("wb") as file:
            yield file
        return
    # The file behind a link is replaced, not the link.
    with _aside(path.resolve(), durable=durable) as file:
        yield file


def write_whole(path: Path, content: bytes | str, *, durable: bool = False) -> None:
    """Write a file that appears under its name only when all of it is there; text in UTF-8. StorageError as `writing`."""
    with writing(path, durable=durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_private(path: Path, content: bytes) -> None:
    """Write a file for this user alone, whatever the umask (StorageError as `writing`)."""
    with _aside(path, private=True) as file:
        file.write(content)


@contextlib.contextmanager
def _aside(path: Path, *, durable: bool = False, private: bool = False) -> Iterator[IO[bytes]]:
    """A file of another name, which is moved to `path` when the block ends well."""
    # A name of its own: two processes that write the same file at once must not write into each other's.
    part = path.with_name(f".{path.name[:100]}.{os.getpid()}{PART}")
    try:
        with _made_anew(part, private=private) as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        with contextlib.suppress(OSError):  # there only where the block failed
            part.unlink(missing_ok=True)


def _made_anew(part: Path, *, private: bool) -> IO[bytes]:
    """A file that is not there yet: a link that somebody has laid under its name is not followed."""
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE if private else 0o666)
    if private:  # whatever the umask
        os.fchmod(descriptor, PRIVATE_MODE)
    return os.fdopen(descriptor, "wb")


def _refuse_link_of_others(path: Path) -> None:
    """StorageError where root would write through a link that another user has laid: it may lead anywhere."""
    if os.geteuid() == 0 and path.is_symlink() and path.lstat().st_uid != 0:
        raise StorageError("is a link of another user's, and root writes through none: remove it", path)


class Appended:
    """A new file that grows by pieces, each of them in the file when `write` returns. OSError where that fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=0)

    def write(self, data: bytes) -> None:
        """Append `data`. A disk that fills up may take a part of it; the next write says so by OSError."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._file.write(rest) or 0 :]
            except OSError as error:
                error.filename = str(self._path)
                raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _cannot_write(path: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot be written: {refusal(OSError(error.errno, error.strerror))}", path)


def is_file(path: Path) -> bool:
    """Whether `path` is a file; false, too, for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def exists(path: Path) -> bool:
    """Whether there is anything at `path`; false, too, for a name that nothing can have."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def at_home(path: Path) -> Path:
    """`path` with ~ replaced by a user's folder, where there is such a user."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path
