"""Finds and removes what a run outside a private world may have left: by our own marks, never by a guess.

Runs of this version leave nothing, the kernel sees to that. What an older one, or a run without namespaces, left in the
machine's own network is known by its Ethernet addresses. `echelonflow.model.addressing` gives them (02:ec:...).
Interfaces with any other address, Mininet's own among them, are somebody else's.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from echelonflow.errors import RunError
from echelonflow.wire import unix_socket

OUR_MAC_PREFIX = "02:ec:"
OVS_FOLDER = "openvswitch"


@dataclass(frozen=True)
class Leftover:
    """One thing that was left, and the command that removes it."""

    what: str
    command: tuple[str, ...]


def interfaces(sys_net: Path = Path("/sys/class/net")) -> list[Leftover]:
    """Interfaces in this network namespace that bear our addresses (the other end of a veth goes with it)."""
    found = []
    for entry in sorted(sys_net.iterdir()):
        try:
            address = (entry / "address").read_text().strip()
        except OSError:
            continue  # gone in the meantime, as the other end of a pair is
        if address.startswith(OUR_MAC_PREFIX):
            found.append(Leftover(f"interface {entry.name} ({address})", ("ip", "link", "del", entry.name)))
    return found


def mounts(runs: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> list[Leftover]:
    """Memory file systems of Open vSwitch that are still mounted below the run folders in `runs`."""
    below = str(runs.resolve()) + "/"
    points = [line.split()[4] for line in mountinfo.read_text().splitlines()]
    ours = [point for point in points if point.startswith(below) and Path(point).name == OVS_FOLDER]
    return [Leftover(f"mount {point}", ("umount", point)) for point in ours]


def sockets(runs: Path) -> list[Leftover]:
    """Sockets in run folders on which nobody listens any more."""
    listening = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()}
    return [
        Leftover(f"socket {path}", ("rm", "-f", str(path)))
        for path in sorted(runs.glob("*/*.sock"))
        if path.is_socket() and str(path) not in listening and not _answers(path)
    ]


def remove(leftover: Leftover) -> None:
    """Remove it (RunError with what the command said if that fails)."""
    done = subprocess.run(leftover.command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(f"cannot remove {leftover.what}: {done.stderr.strip() or 'no reason given'}")


def _answers(path: Path) -> bool:
    try:
        return unix_socket.answers(path)
    except OSError:
        return False
