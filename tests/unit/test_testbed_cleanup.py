from __future__ import annotations

import socket

from testbed import cleanup


def test_only_interfaces_with_our_addresses_are_found(tmp_path):
    for name, mac in (
        ("h1-eth0", "02:ec:00:00:00:01"),
        ("s1-eth1", "ca:fe:00:00:00:01"),
        ("eth0", "02:fc:00:00:00:01"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "address").write_text(mac + "\n")
    (tmp_path / "bonding_masters").mkdir()
    found = cleanup.interfaces(tmp_path)
    assert [leftover.command for leftover in found] == [("ip", "link", "del", "h1-eth0")]


def test_only_mounts_below_run_folders_are_found(tmp_path):
    runs = tmp_path / "runs"
    mountinfo = tmp_path / "mountinfo"
    line = "36 35 98:0 / {} rw - tmpfs tmpfs rw\n"
    mountinfo.write_text(
        line.format(runs / "a" / "openvswitch") + line.format("/run/openvswitch") + line.format(runs / "a" / "other")
    )
    assert [m.command for m in cleanup.mounts(runs, mountinfo)] == [("umount", str(runs / "a" / "openvswitch"))]


def test_a_socket_is_removed_only_when_nobody_listens(tmp_path):
    for name in ("dead", "alive"):
        (tmp_path / name).mkdir()
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "dead" / "control.sock"))
    dead.close()
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(tmp_path / "alive" / "control.sock"))
        alive.listen()
        found = cleanup.sockets(tmp_path)
    assert [leftover.what for leftover in found] == [f"socket {tmp_path / 'dead' / 'control.sock'}"]
    cleanup.remove(found[0])
    assert not (tmp_path / "dead" / "control.sock").exists()
