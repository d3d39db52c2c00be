"""Disks of our own that are small, or fill up at a given moment: what benchmarks of full disks have."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from echelonflow.errors import RunError

_CLONE_NEWNS = 0x00020000
ROOMY = "64m"
PAGE_BYTES = 4096


def private_mounts() -> None:
    """Mount for this process alone from here on; the kernel unmounts everything when it ends. RunError without root."""
    if os.geteuid() != 0:
        raise RunError("disks are mounted, which takes root")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        raise RunError(f"no mounts of one's own: {os.strerror(ctypes.get_errno())}")
    mount("--make-rprivate", "/")


@contextmanager
def disk(place: Path, size: str) -> Iterator[None]:
    """A disk in memory of this size (bytes, or with a unit) at `place`."""
    place.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def mount(*arguments: str) -> None:
    """Call mount with these arguments."""
    subprocess.run(["mount", *arguments], check=True)


@contextmanager
def filling(filler: Path, after_s: float) -> Iterator[None]:
    """Take all room on the disk from `after_s` on, as long as the block lasts."""
    over = threading.Event()

    def fill() -> None:
        if over.wait(after_s):
            return
        with filler.open("wb", buffering=0) as file:
            while not over.is_set():
                for size in (1 << 20, PAGE_BYTES):
                    _take(file.fileno(), bytes(size), over)
                over.wait(0.002)  # what others delete is taken, too

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _take(descriptor: int, piece: bytes, over: threading.Event) -> None:
    while not over.is_set():
        try:
            os.write(descriptor, piece)
        except OSError:
            return
