"""The controller under orders: policy swaps on packets, registrations by the thousand, REST under load.

Swaps run in a private world on a real Open vSwitch; the others on a controller process alone. Latencies of
decisions are from an agent's release to its setting, over the control socket.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from controller import client
from controller.launch import controller_argv
from echelon.benchmarks import Figure, Say
from echelon.benchmarks._ports import unused_port
from echelonflow.child_process import module_argv
from echelonflow.errors import RunError
from echelonflow.wire import unix_socket
from echelonflow.wire.line import Kind, Line
from echelonflow.wire.messages import (
    Decide,
    Declare,
    Finish,
    FlowDeclaration,
    Hello,
    Message,
    Ready,
    Release,
    Start,
)
from testbed import preflight, world

GROUPS, FLOWS = 1000, 100
REQUESTS_PER_S, LOAD_S = 200, 10.0
SWAP_LIMIT_MS = 20.0
DISTURBED = 1.5
"""Decisions that take so many times longer under load (and a millisecond more) are disturbed."""
START_LIMIT_S = 20.0
HOSTS = {f"h{i}": f"10.0.0.{i}" for i in range(1, 5)}


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` times 20 policy swaps, `repeat` rounds of registrations, one period of load."""
    figures = []
    say(f"{20 * repeat} policy swaps while flows run, on packets")
    try:
        figures.append(swaps(20 * repeat))
    except RunError as error:
        figures.append(
            Figure(
                "policy swap to first packet under the new policy",
                str(error),
                f"median < {SWAP_LIMIT_MS:g} ms",
                ok=False,
            )
        )
    say(f"{GROUPS} groups of {FLOWS} flows")
    figures += registrations(repeat)
    say(f"{REQUESTS_PER_S} requests/s for {LOAD_S:g} s")
    figures.append(load())
    return figures


def swaps(times: int) -> Figure:
    """Request to the first packet under the new policy, in a private world."""
    preflight.require()
    with tempfile.TemporaryDirectory(prefix="bench-") as name, world.machine_lock():
        folder = Path(name)
        argv = module_argv("echelon.benchmarks._northbound_world", str(folder), str(times))
        with world.spawn(argv, folder / "world.log") as inside:
            assert inside.stdout is not None
            output = inside.stdout.read()
            inside.wait()
        if inside.returncode != 0:
            raise RunError(f"the world of the swaps failed: {(folder / 'world.log').read_text()[-500:].strip()}")
    found_ms = sorted(json.loads(output))
    median_ms = statistics.median(found_ms)
    measured = f"median {median_ms:.1f} ms, 95 % {found_ms[int(0.95 * len(found_ms))]:.1f} ms (n = {times})"
    what = "policy swap while flows run: request to first packet under the new policy"
    return Figure(what, measured, f"median < {SWAP_LIMIT_MS:g} ms", median_ms < SWAP_LIMIT_MS)


def registrations(repeat: int) -> list[Figure]:
    """Groups declared one after the other (each confirmed), and all at once."""
    per_s, each_ms, best_per_s = [], list[float](), []
    for _ in range(repeat):
        with serving() as control:
            line = join(control, "h1")
            ask(line, Ready(), Start)
            began_s = time.monotonic()
            for number in range(GROUPS):
                sent_s = time.monotonic()
                # A Ready after it is answered at once, so its answer says that the group is known.
                line.send(_group(f"job{number}", number, FLOWS))
                ask(line, Ready(), Start)
                each_ms.append((time.monotonic() - sent_s) * 1e3)
            per_s.append(GROUPS / (time.monotonic() - began_s))
        with serving() as control:
            line = join(control, "h1")
            ask(line, Ready(), Start)  # it listens before it is warm
            for number in range(GROUPS):
                line.put(_group(f"job{number}", number, FLOWS))
            began_s = time.monotonic()
            ask(line, Ready(), Start)
            best_per_s.append(GROUPS / (time.monotonic() - began_s))
    what = f"registrations of {GROUPS:,} groups of {FLOWS} flows"
    return [
        Figure(
            f"{what}, one at a time",
            f"{statistics.median(per_s):.0f} per second, median {statistics.median(each_ms):.2f} ms",
            "reported",
            None,
        ),
        Figure(f"{what}, all at once", f"{statistics.median(best_per_s):.0f} per second", "reported", None),
    ]


def load() -> Figure:
    """Decisions while REST is asked `REQUESTS_PER_S` times a second, against decisions in peace."""
    with serving() as control:
        line = join(control, "h1")
        line.send(_group("job", 0, FLOWS))
        zero = ask(line, Ready(), Start)
        receiver = join(control, "h2")
        time.sleep(max(zero.zero_s - time.monotonic(), 0))
        iteration = _decisions_ms(line, receiver, 1.0, 0)[1]  # warm
        peace_ms, iteration = _decisions_ms(line, receiver, LOAD_S, iteration)
        stop, answered = threading.Event(), list[bool]()
        asking = threading.Thread(target=_ask, args=(control.with_name("rest.sock"), stop, answered))
        asking.start()
        loaded_ms, _ = _decisions_ms(line, receiver, LOAD_S, iteration)
        stop.set()
        asking.join()
    before, under = statistics.median(peace_ms), statistics.median(loaded_ms)
    ok = under < before * DISTURBED + 1.0 and all(answered) and len(answered) > 0.9 * REQUESTS_PER_S * LOAD_S
    measured = (
        f"median {under:.2f} ms (in peace {before:.2f}), 99 % {_part(loaded_ms, 0.99):.1f} ms (in peace "
        f"{_part(peace_ms, 0.99):.1f}), {len(answered)} requests, {answered.count(False)} failed"
    )
    what = f"decision latency at {REQUESTS_PER_S} REST requests/s"
    return Figure(what, measured, f"median < {DISTURBED:g} x + 1 ms, none failed", ok)


def _decisions_ms(line: Line, receiver: Line, period_s: float, iteration: int) -> tuple[list[float], int]:
    """Milliseconds from release to setting, some 100 a second for `period_s`; and the next iteration."""
    found = []
    until_s = time.monotonic() + period_s
    while time.monotonic() < until_s:
        began_s = time.monotonic()
        ask(line, Release("job", "f0", iteration, began_s), Decide)
        found.append((time.monotonic() - began_s) * 1e3)
        receiver.send(Finish("job", "f0", iteration, time.monotonic()))
        iteration += 1
        time.sleep(max(began_s + 0.01 - time.monotonic(), 0.0))
    return found, iteration


def _ask(rest: Path, stop: threading.Event, answered: list[bool]) -> None:
    """Ask for status and metrics in turn, at a steady rate, until told to stop."""
    began_s = time.monotonic()
    while not stop.is_set():
        try:
            client.status(rest)
            answered.append(True)
        except RunError:
            answered.append(False)
        stop.wait(max(began_s + len(answered) / REQUESTS_PER_S - time.monotonic(), 0.0))


def _part(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def _group(job: str, number: int, flows: int) -> Declare:
    hosts = list(HOSTS)
    declared = []
    for i in range(flows):
        place = number * flows + i
        src, dst = (hosts[0], hosts[1]) if i == 0 else (hosts[place % 4], hosts[(place + 1 + place // 4 % 3) % 4])
        ports = 10_000 + place % 50_000, 5001 + place // 50_000
        declared.append(FlowDeclaration(f"f{i}", i, f"c{i // 10}", src, dst, 10**6, i / 10, *ports))
    return Declare(job, "group", "benchmark", 1.0, tuple(declared))


def join(control: Path, host: str) -> Line:
    """A client on the control socket, which has said who it is."""
    line = Line(unix_socket.connect(control, START_LIMIT_S))
    line.send(Hello("benchmark", host))
    return line


def ask(line: Line, message: Message, kind: type[Kind]) -> Kind:
    """Send a message and wait for one of `kind` (RunError for another)."""
    line.send(message)
    return line.expect(kind, START_LIMIT_S)


@contextlib.contextmanager
def serving() -> Iterator[Path]:
    """A controller process alone, with four hosts and no switches: the path of its control socket."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        (folder / "hosts.json").write_text(json.dumps({"rate": "1 Gbit/s", "hosts": HOSTS}))
        control = folder / "control.sock"
        argv = controller_argv("ryu", None, control, folder / "log", f"127.0.0.1:{unused_port()}")
        process = subprocess.Popen([*argv, "--hosts", str(folder / "hosts.json")])
        try:
            yield control
        finally:
            process.kill()
            process.wait()
