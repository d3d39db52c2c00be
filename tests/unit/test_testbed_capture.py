"""Captures against a tcpdump of our own that says what the real one says. No root needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from echelonflow.errors import RunError
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import CaptureCounts
from testbed.capture import PacketCapture

# Statistics as tcpdump prints them: on one line for SIGUSR1, on three at the end.
TCPDUMP = """
import os, signal, sys, time
def say(text):  # a signal may come while print() prints, which print() does not stand
    os.write(2, (text + "\\n").encode())
captured, received, dropped = map(int, sys.argv[1:4])
def now(*_):
    global captured
    say(f"tcpdump: {captured} packets captured, {received} packets received by filter, {dropped} packets dropped by kernel")
    captured = min(captured + 40, received - dropped)
def end(*_):
    say(f"{captured} packets captured\\n{received} packets received by filter\\n{dropped} packets dropped by kernel")
    sys.exit(0)
signal.signal(signal.SIGUSR1, now)
signal.signal(signal.SIGINT, end)
say("tcpdump: listening on h1-eth0, link-type EN10MB (Ethernet), snapshot length 96 bytes")
while True:
    time.sleep(1)
"""


class FakeHosts:
    """Hosts on which every command is the given Python program."""

    def __init__(self, program, *arguments):
        self.argv = [sys.executable, "-c", program, *map(str, arguments)]
        self.asked = {}
        self.started = []

    def popen(self, host, argv, **options):
        self.asked[host] = argv
        self.started.append(subprocess.Popen(self.argv, **options))
        return self.started[-1]

    def end(self):
        for process in self.started:
            process.kill()
            process.wait()


@pytest.fixture
def hosts_with(tmp_path):
    """Makes `FakeHosts`, whose processes are ended with the test."""
    made = []
    (tmp_path / "pcap").mkdir()

    def make(*arguments):
        made.append(FakeHosts(*arguments))
        return made[-1]

    yield make
    for hosts in made:
        hosts.end()


def test_a_capture_waits_until_all_that_was_received_is_written(hosts_with, tmp_path):
    hosts = hosts_with(TCPDUMP, 10, 100, 0)
    found = PacketCapture(hosts, ["h1", "h2"], RunFolder(tmp_path), "fair-r0").stop()
    assert found == ({h: CaptureCounts(f"fair-r0-{h}.pcap", 100, 0) for h in ("h1", "h2")}, [])
    assert all(process.returncode == 0 for process in hosts.started)


def test_packets_the_kernel_dropped_are_reported(hosts_with, tmp_path):
    assert PacketCapture(hosts_with(TCPDUMP, 10, 100, 5), ["h1"], RunFolder(tmp_path), "x").stop()[0]["h1"].dropped == 5


def test_each_host_captures_its_own_interface_in_nanoseconds(hosts_with, tmp_path):
    hosts = hosts_with(TCPDUMP, 0, 0, 0)
    PacketCapture(hosts, ["h2"], RunFolder(tmp_path), "x").stop()
    argv = hosts.asked["h2"]
    assert argv[argv.index("-Z") + 1] == "nobody"  # root is for listening only
    assert argv[argv.index("-i") + 1] == "h2-eth0"
    assert argv[argv.index("--time-stamp-precision") + 1] == "nano"
    assert argv[argv.index("-w") + 1] == "-"
    assert (tmp_path / "pcap" / "x-h2.pcap").exists()


def test_a_capture_that_does_not_start_is_an_error_with_its_reason(hosts_with, tmp_path):
    hosts = hosts_with("import sys; sys.exit('tcpdump: h1-eth0: No such device')")
    with pytest.raises(RunError, match=r"h1 does not listen.*No such device"):
        PacketCapture(hosts, ["h1"], RunFolder(tmp_path), "x")


def test_a_capture_that_died_is_named_and_the_others_are_counted(hosts_with, tmp_path):
    hosts = hosts_with(TCPDUMP, 10, 10, 0)
    capture = PacketCapture(hosts, ["h1", "h2"], RunFolder(tmp_path), "x")
    capture.check()
    hosts.started[0].kill()
    hosts.started[0].wait()
    with pytest.raises(RunError, match=r"the capture on h1 ended early \(exit -9\)"):
        capture.check()
    counts, faults = capture.stop()
    assert counts == {"h2": CaptureCounts("x-h2.pcap", 10, 0)}
    assert [fault.startswith("the capture on h1 ended early (exit -9)") for fault in faults] == [True]
    assert all(process.poll() is not None for process in hosts.started)


FULL_DISK = """
import sys
print("tcpdump: listening on h1-eth0", file=sys.stderr, flush=True)
sys.stdin.readline()
sys.exit("tcpdump: x-h1.pcap: No space left on device")
"""


def test_why_a_capture_ended_is_in_its_own_words(hosts_with, tmp_path):
    hosts = hosts_with(FULL_DISK)
    capture = PacketCapture(hosts, ["h1"], RunFolder(tmp_path), "x")
    hosts.started[0].wait()
    with pytest.raises(RunError, match=r"h1 ended early \(exit 1\): tcpdump: x-h1.pcap: No space left on device"):
        capture.check()
    capture.stop()


def test_a_capture_whose_file_cannot_be_made_is_an_error_with_its_reason(hosts_with, tmp_path):
    (tmp_path / "pcap" / "x-h1.pcap").mkdir()
    with pytest.raises(RunError, match=r"the capture on h1 cannot begin: .*Is a directory"):
        PacketCapture(hosts_with(TCPDUMP, 0, 0, 0), ["h1"], RunFolder(tmp_path), "x")
