"""What the machine is like at this moment: a probe of a second, before anything is built.

Timers are waited for at the agents' priority on every core. Meanwhile a small piece of our own kind of network is filled:
two namespaces, a pair of interfaces, our queues. Shared machines have pauses, in which the host lets others have a core.
A pause shows as one wait that ends late. What ends at some moment of its own, as a computation does, falls into a pause by
chance, and is late by what is left of it. So the mean lateness of such an end is the sum of all pauses' squares, halved,
over the time probed. That is more than the mean lateness of waits (the inspection paradox).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from echelonflow.model.units import payload_rate_Bps
from testbed import queues, timers
from testbed.load import busy_share, read_sample, stolen_share
from testbed.world import sysctl_script

PROBE_S = 1.0
START_S = 0.6
"""For the programs to start; on a busy machine the window begins before they are there, which is found out by them."""
WARM_UP_S = 0.25
BURST_S = 0.008
"""What a link of the probe may pass at once: in the middle of what calibration chooses."""
SPUN_S = 0.0003
"""Agents spin for so long before a computation ends (`traffic.agent.waiting`): what is late by less costs nothing."""
LIMIT_S = 10.0
_PORT = 5000
_PRIORITY = ("nice", "-n", "-10")
_RATE_BPS, _MTU_BYTES = 50e6, 1500
_SCRIPT = (sys.executable, "-I", "-S")
_NAMESPACES = ("unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc")
_PROBE = Path(__file__).with_name("probe.py")
_TIMERS = Path(timers.__file__)


@dataclass(frozen=True)
class Moment:
    """What was found; shares are 0 to 1."""

    late_mean_s: float
    """How late something ends on average that ends at a moment of its own."""
    late_square_s2: float
    """Mean square of that: its spread."""
    late_max_s: float
    """The longest pause."""
    stolen_share: float
    """Of all cores, taken away by the host."""
    others_share: float
    """Of all cores, used by other programs."""
    link_error: float | None
    """What a link carried, off its declaration; None where that could not be tried."""
    lost_share: float = 0.0
    """Of a link's time, lost in pauses that are longer than the longest burst that calibration gives it."""

    @staticmethod
    def of(lateness: timers.Lateness, stolen: float, others: float, link_error: float | None) -> Moment:
        """The moment at which waits were so late."""
        pauses_s = [max(late_s - SPUN_S, 0.0) for late_s in lateness.late_s]
        return Moment(
            late_mean_s=math.fsum(pause_s**2 for pause_s in pauses_s) / 2 / lateness.probed_s,
            late_square_s2=math.fsum(pause_s**3 for pause_s in pauses_s) / 3 / lateness.probed_s,
            late_max_s=max(pauses_s),
            stolen_share=stolen,
            others_share=others,
            link_error=link_error,
            lost_share=lateness.lost_share(timers.BURSTS_S[-1]),
        )

    def words(self) -> str:
        """What was found, in a line."""
        link = "" if self.link_error is None else f", a link carried {self.link_error:+.1%} of what it should"
        return (
            f"{self.stolen_share:.0%} of the processors stolen, {self.others_share:.0%} used by others, "
            f"pauses of up to {self.late_max_s * 1e3:.1f} ms{link}"
        )


def probe(probe_s: float = PROBE_S) -> Moment:
    """Look at the machine for `probe_s`, after a moment for programs to start.

    Without root timers are waited for at ordinary priority, and no link is tried.
    """
    root = os.geteuid() == 0
    sample, ours_s = read_sample(), _ours_s()
    begin_s = time.monotonic() + START_S
    end_s = begin_s + probe_s
    window = ["--begin", str(begin_s), "--end", str(end_s)]
    argv = [*(_PRIORITY if root else ()), *_SCRIPT, str(_TIMERS), *window, "--core"]
    with contextlib.ExitStack() as stack:
        link = stack.enter_context(_started([*_NAMESPACES, "sh", "-e"])) if root else None
        if link is not None:
            _feed(link, _link_script(begin_s, end_s))
        waits = [stack.enter_context(_started([*argv, str(core)])) for core in timers.cores()]
        outputs = [_output(process, end_s) for process in waits]
        found = "" if link is None else _output(link, end_s)
    after = read_sample()
    lateness = timers.pooled([output for output in outputs if output])
    busy, stolen = busy_share(sample, after), stolen_share(sample, after)
    ours = (_ours_s() - ours_s) / max(after.total_s - sample.total_s, 1e-9)
    return Moment.of(lateness, stolen, max(busy - stolen - ours, 0.0), _link_error(found))


def _ours_s() -> float:
    """CPU time of this process and of all that it has started and waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextlib.contextmanager
def _started(argv: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is ended with the block."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _feed(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(text)
        process.stdin.close()
    process.stdin = None


def _output(process: subprocess.Popen[str], end_s: float) -> str:
    """What a process printed by its end; empty where it failed, as then nothing was found out."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        text, _ = process.communicate(timeout=max(end_s - time.monotonic(), 0.0) + LIMIT_S)
        return text if process.returncode == 0 else ""
    return ""


def _link_script(begin_s: float, end_s: float) -> str:
    """Shell lines, for a world of their own: two namespaces, our queues at both ends, and what is received in the window."""
    near, far = (
        "\n".join(queues.tree_lines(name, _RATE_BPS, _MTU_BYTES, queues.frame_bytes(_MTU_BYTES), burst_s=BURST_S))
        for name in ("probe0", "probe1")
    )
    probe = shlex.join([*_SCRIPT, str(_PROBE)])
    off = "tso off gso off gro off >/dev/null 2>&1 || true"
    return f"""
unshare --net sleep {end_s - begin_s + START_S + LIMIT_S:.0f} &
peer=$!
other=$(readlink /proc/self/ns/net)
until here=$(readlink /proc/$peer/ns/net) && [ "$here" != "$other" ]; do sleep 0.01; done
{sysctl_script()}
ip link add probe0 type veth peer name probe1 netns $peer
ethtool -K probe0 {off}
tc -batch - <<'.'
{near}
.
ip addr add 10.0.0.1/24 dev probe0
ip link set probe0 up
nsenter --net=/proc/$peer/ns/net sh -e <<'.' &
{sysctl_script()}
ethtool -K probe1 {off}
tc -batch - <<'..'
{far}
..
ip addr add 10.0.0.2/24 dev probe1
ip link set probe1 up
{probe} receive --port {_PORT} --begin {begin_s + WARM_UP_S} --end {end_s}
.
receiver=$!
{probe} send --to 10.0.0.2 --port {_PORT} --end {end_s} >/dev/null
wait $receiver
kill $peer
"""


def _link_error(printed: str) -> float | None:
    """What the link of the probe carried off what it should, from what its receiver printed; None if it printed nothing."""
    if not printed:
        return None
    found = json.loads(printed)
    if not found["span_s"] > 0:
        return None
    payload_Bps = payload_rate_Bps(_RATE_BPS, _MTU_BYTES)
    return float(found["received_bytes"] / found["span_s"] / payload_Bps - 1)
