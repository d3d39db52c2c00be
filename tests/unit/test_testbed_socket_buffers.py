"""Which descriptors of a daemon are packet sockets, on a /proc of our own. No root needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.socket_buffers import packet_descriptors

PACKET = """sk               RefCnt Type Proto  Iface R Rmem   User   Inode
0000000079dda15f 3      3    0003   3     1 0      0      501
00000000ff4e305b 3      3    0000   0     0 0      0      502
"""


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "packet").write_text(PACKET)
    descriptors = tmp_path / "7" / "fd"
    descriptors.mkdir(parents=True)
    for number, target in {
        "0": "/dev/null",
        "12": "socket:[501]",
        "5": "socket:[502]",
        "6": "socket:[777]",
        "8": "pipe:[501]",
    }.items():
        (descriptors / number).symlink_to(target)
    return tmp_path


def test_packet_sockets_are_told_from_other_sockets_files_and_pipes(proc):
    assert packet_descriptors(7, proc) == [5, 12]


def test_a_descriptor_that_is_closed_meanwhile_is_left_out(proc, monkeypatch):
    readlink = Path.readlink

    def closed(path):
        if path.name == "5":
            raise FileNotFoundError(path)
        return readlink(path)

    monkeypatch.setattr(Path, "readlink", closed)
    assert packet_descriptors(7, proc) == [12]
