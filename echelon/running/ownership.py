"""Under sudo, results belong to the user who called it, and what needs no root does without.

sudo says who called it (SUDO_UID, SUDO_GID). Without it, or called by root, only run folders of other users matter here:
root does not write there.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import echelonflow
from echelonflow.errors import InputError
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest
from echelonflow.records.plain_files import check_plain

_PACKAGES = Path(echelonflow.__file__).resolve().parents[1]


@dataclass(frozen=True)
class User:
    """The user who called sudo, or to whom a folder belongs."""

    uid: int
    gid: int

    @property
    def name(self) -> str:
        """Their name; their number where the system does not know them."""
        return _name(self.uid) or str(self.uid)

    @property
    def home(self) -> Path | None:
        """Their home; None where the system does not know them."""
        try:
            return Path(pwd.getpwuid(self.uid).pw_dir)
        except KeyError:
            return None


def caller() -> User | None:
    """Who called sudo; None where this is not root, or root called."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not uid.isdecimal() or not gid.isdecimal() or int(uid) == 0:
        return None
    return User(int(uid), int(gid))


def stop_being_root(folder: Path | None = None) -> bool:
    """Become the caller for good; whether that is so.

    Not where the caller could not go on: may not read this program, or not write to `folder` or where it would be made.
    """
    found = caller()
    return found is not None and _become(found, folder)


def become_owner(folder: Path) -> None:
    """Become, for good, the user to whom the run folder belongs that is to be read and written; a caller comes first.

    InputError where that user may not read this program, or where every user may write there.
    """
    owner = None if stop_being_root(folder) else _owner_among_strangers(folder)
    if owner is None or not _become(owner, folder):
        check_not_others(folder)


def check_not_others(folder: Path) -> None:
    """InputError where we are root and others may write to the run folder: they could lay links under root's hands."""
    owner = _owner_among_strangers(folder)
    if owner is not None:
        raise InputError(
            f"{folder}: belongs to the user {owner.name}, and root does not write there; use a copy or another folder"
        )
    if os.geteuid() == 0 and folder.is_dir() and folder.stat().st_mode & stat.S_IWOTH:
        raise InputError(
            f"{folder}: every user may write there, so root does not; take that right away: chmod o-w {folder}"
        )


def _owner_among_strangers(folder: Path) -> User | None:
    """To whom `folder` belongs, where we are root, and that is neither root nor who called sudo."""
    if os.geteuid() != 0 or not folder.is_dir():
        return None
    found, called = folder.stat(), caller()
    if found.st_uid in (0, None if called is None else called.uid):
        return None
    return User(found.st_uid, found.st_gid)


def _become(user: User, folder: Path | None) -> bool:
    """Become `user` for good, if they could go on; whether that is so."""
    written = None if folder is None else _existing(folder)
    name = _name(user.uid)
    groups = os.getgrouplist(name, user.gid) if name else [user.gid]
    before = os.getgroups()
    os.setgroups(groups)
    os.setegid(user.gid)
    os.seteuid(user.uid)
    able = all(_may(path, os.R_OK | os.X_OK) for path in (_PACKAGES, Path(sys.prefix)))
    able = able and (written is None or _may(written, os.W_OK | os.X_OK))
    os.seteuid(0)
    os.setegid(0)
    if not able:
        os.setgroups(before)
        return False
    os.setgid(user.gid)  # for root: the real, the effective and the saved one
    os.setuid(user.uid)
    if user.home is not None:  # where caches are kept
        os.environ["HOME"] = str(user.home)
    return True


@contextlib.contextmanager
def to_caller(path: Path, *, ours: bool = False) -> Iterator[None]:
    """What the block makes at `path`, and folders above it that it makes, belong to the caller afterwards.

    Also where the block fails or is interrupted. What holds other things than results stays whose it is, unless it is
    known to be `ours`. Where the sources are the caller's, so is what is cached beside them.
    """
    found = caller()
    if found is None:
        yield
        return
    path = path.absolute()
    ours = ours or _is_for_results(path)
    new = [above for above in path.parents if not above.exists()]
    try:
        yield
    finally:
        for above in new:
            _give(above, found)
        if ours:
            give_all(path, found)
        _give_caches(found)


def _is_for_results(path: Path) -> bool:
    """Whether nothing is at `path`, an empty folder, or an earlier run: never give /etc away because somebody named it."""
    if not path.is_dir():
        return not path.exists()
    return _is_run(path) or not any(path.iterdir())


def _is_run(path: Path) -> bool:
    """Whether an experiment was begun in `path`: other programs' folders hold a manifest.json too."""
    try:
        check_plain(path)
        read_manifest(RunFolder(path).manifest)
    except InputError:
        return False
    return True


def give_all(path: Path, to: User) -> None:
    """Give `path`, and all that is in it, to somebody, as far as it is root's. Links are not followed."""
    for folder, _, names, here in os.fwalk(path, topdown=False, follow_symlinks=False):
        for name in names:
            _give(name, to, here)
        _give(folder, to)
    _give(path, to)


def _give(path: str | Path, to: User, here: int | None = None) -> None:
    """One file or folder; `here` is the open folder that a relative one is in. A file of two names is left alone."""
    with contextlib.suppress(OSError):
        found = os.stat(path, dir_fd=here, follow_symlinks=False)
        if found.st_uid == 0 and (stat.S_ISDIR(found.st_mode) or found.st_nlink == 1):
            os.chown(path, to.uid, to.gid, dir_fd=here, follow_symlinks=False)


def _give_caches(to: User) -> None:
    """Byte code and compiled loops, where whoever owns the sources is the caller."""
    if _PACKAGES.stat().st_uid != to.uid:
        return
    for package in (path for path in _PACKAGES.iterdir() if (path / "__init__.py").exists()):
        for cache in package.rglob("__pycache__"):
            give_all(cache, to)


def _existing(path: Path) -> Path:
    """The nearest of a path and the folders above it that exists."""
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def _may(path: Path, what: int) -> bool:
    return os.access(path, what, effective_ids=True)


def _name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
