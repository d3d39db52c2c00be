"""The folder of an experiment: made at one stroke, held by one process at a time, gone again where nothing came of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from echelon.running import ownership
from echelonflow.errors import InputError
from echelonflow.files import PART
from echelonflow.records.folder import RunFolder

RUNS = Path("results/runs")
_MOST_NAMES = 10_000
_MODE = 0o755
"""Of a run folder that is made: nobody else writes there, whatever the umask."""


@contextlib.contextmanager
def reserved(out: Path | None, name: str, parent: Path = RUNS) -> Iterator[Path]:
    """`out`, or a new empty folder parent/<time>-<name>, which nobody else gets; removed again if it stays empty."""
    if out is not None:
        yield out
        return
    made = _new_folder(parent, name)
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):  # it holds something
            made.rmdir()


def _new_folder(parent: Path, name: str) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    for number in range(1, _MOST_NAMES):
        folder = parent / (f"{stamp}-{name}" if number == 1 else f"{stamp}-{name}-{number}")
        try:
            parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(_MODE)
        except FileExistsError:
            continue
        except OSError as error:
            raise _cannot_be_made(folder, error) from None
        return folder
    raise InputError(f"{parent} holds {_MOST_NAMES} folders {stamp}-{name}-*; name another folder with --out")


@contextlib.contextmanager
def opened(root: Path, *, again: bool = False) -> Iterator[RunFolder]:
    """The run folder `root`, for this process alone as long as it is entered.

    It is made if need be, and has to be empty, except `again`. Where an error leaves the block before anything was
    finished, all that was made is removed, so that nothing is in the way of the next try. Raises InputError for a folder
    that cannot be made or is in use.
    """
    found = root.exists()
    try:
        root.mkdir(_MODE, parents=True, exist_ok=True)
        held = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _cannot_be_made(root, error) from None
    try:
        _hold(held, root)
        ownership.check_not_others(root)
        if not again and any(not path.match(f".*{PART}") for path in root.iterdir()):
            raise InputError(
                f"{root} exists and is not empty; name another folder with --out, or go on there with --resume"
            )
        folder = RunFolder(root.resolve())
        try:
            yield folder
        except BaseException:
            if not again and not _holds_work(folder):
                _empty(folder.root, remove=not found)
            raise
    finally:
        os.close(held)


def make_parts(folder: RunFolder) -> None:
    """The folders in a run folder."""
    for path in (folder.root, folder.logs, folder.pcap, folder.raw):
        path.mkdir(parents=True, exist_ok=True)


def remove_parts_of_files(folder: RunFolder) -> None:
    """Remove files that were being written when their writer was killed."""
    for path in folder.root.rglob(f".*{PART}"):
        path.unlink(missing_ok=True)


def _hold(held: int, root: Path) -> None:
    """Keep other processes out; the kernel lets them in again when this one ends, however it does."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{root}: another process is at work there; wait for it, or name another folder") from None
    except OSError:  # a file system without locks
        return


def _holds_work(folder: RunFolder) -> bool:
    """Whether there is anything in it that took time."""
    kept = (folder.failure, folder.simulated_runs, folder.coflow_runs, folder.calibration)
    return any(path.exists() for path in kept) or bool(folder.runs())


def _empty(root: Path, *, remove: bool) -> None:
    with contextlib.suppress(OSError):  # what cannot be removed stays, and is named by the error that led here
        for path in root.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        if remove:
            root.rmdir()


def _cannot_be_made(root: Path, error: OSError) -> InputError:
    return InputError(f"{root} cannot be made: {error.strerror}; name another folder with --out")
