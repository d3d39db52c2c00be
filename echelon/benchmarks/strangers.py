"""Strangers and broken clients at a controller's doors, while others use it: broken messages, and REST by Schemathesis.

A real controller process serves two trainers whose flows come and go all the while. Beside them, some tens of clients at a
time send broken messages, with a host's token, a wrong one or none. Then Schemathesis sends requests over TCP that it makes
of docs/openapi.json, without the token and with it. What the trainers are told is compared with what they are told in peace.
"""

from __future__ import annotations

import contextlib
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from controller import client
from controller.launch import controller_argv
from echelon.benchmarks import Figure, Say
from echelon.benchmarks._ports import unused_port
from echelon.cases.broken_messages import Broken
from echelon.places import DOCS
from echelonflow.errors import EchelonError, RunError
from echelonflow.files import write_whole
from echelonflow.records.tokens_file import make_tokens, write_tokens
from echelonflow.wire import unix_socket
from echelonflow.wire.line import Line
from echelonflow.wire.messages import (
    Decide,
    Declare,
    Fault,
    Finish,
    FlowDeclaration,
    Hello,
    Ready,
    Release,
    Start,
    decode,
    encode,
)

OF_A_REPEAT = 2_000
"""Messages, and requests without and with the token: the 5 repeats of `echelon bench` make 10,000 of each."""
HOSTS = {f"h{i}": f"10.0.0.{i}" for i in range(1, 27)}
BROKEN_HOSTS = tuple(HOSTS)[2:]
AT_ONCE = 32
MOST_LINES = 6
"""Of one broken client."""
LIMIT_S = 30.0
STEP_S = 0.004
"""Between one flow of the trainers and the next."""
MOST_EXAMPLES = 1_000
"""Of each operation, in one run of Schemathesis."""
PHASES = "examples,coverage,fuzzing"
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,ignored_auth"
)
_COUNTED = re.compile(r'^echelon_http_requests_total\{code="(\d+)"\} (\d+)$', re.MULTILINE)
FLOWS = tuple(FlowDeclaration(f"f{i}", i, f"f{i}", "h1", "h2", 10**6, float(i), 10_000 + i, 5001) for i in range(2))


def run(repeat: int, say: Say) -> list[Figure]:
    """2,000 messages and 2 x 2,000 requests for each `repeat`."""
    figures = [messages(OF_A_REPEAT * repeat, say)]
    figures += [requests(OF_A_REPEAT * repeat, say, with_token=shown) for shown in (False, True)]
    return figures


@dataclass
class Controller:
    """A standing controller process, its doors and its tokens."""

    process: subprocess.Popen[bytes]
    folder: Path
    tokens: dict[str, str]
    http_port: int
    asked: int = 0
    """Requests of this benchmark's own, by the Unix socket; all of them are answered with 200."""

    @property
    def control(self) -> Path:
        return self.folder / "control.sock"

    @property
    def rest(self) -> Path:
        return self.folder / "rest.sock"

    @property
    def rest_token(self) -> str:
        return (self.folder / "rest.token").read_text().strip()


@contextlib.contextmanager
def serving() -> Iterator[Controller]:
    """A controller that learns, with its hosts, a token for each, and REST over TCP."""
    with tempfile.TemporaryDirectory(prefix="strangers-") as name:
        folder = Path(name)
        write_whole(folder / "hosts.json", msgspec.json.encode({"rate": "1 Gbit/s", "hosts": HOSTS}))
        tokens = make_tokens(HOSTS)
        write_tokens(folder / "tokens.json", tokens)
        ports = [unused_port() for _ in range(2)]
        argv = controller_argv(
            "ryu", None, folder / "control.sock", folder / "log", f"127.0.0.1:{ports[0]}", folder / "tokens.json"
        )
        rest = ["--rest-listen", f"127.0.0.1:{ports[1]}"]
        process = subprocess.Popen(
            [*argv, "--hosts", str(folder / "hosts.json"), *rest], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            unix_socket.connect(folder / "rest.sock", LIMIT_S).close()
            yield Controller(process, folder, tokens, ports[1])
        finally:
            process.kill()
            process.wait()


# Those who are not to be disturbed


@dataclass
class Trainers:
    """A sender on h1 and a receiver on h2: one flow after the other is released, decided on and finished."""

    controller: Controller
    told: list[tuple[str, int, float | None]] = field(default_factory=list)
    """Of every flow in turn, what it was told: flow, DSCP, rate."""
    waited_ms: list[float] = field(default_factory=list)
    failure: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)

    def join(self) -> None:
        """Say who they are, declare, and wait for the start."""
        self._sender, self._receiver = self._line("h1"), self._line("h2")
        self._sender.send(Declare("job", "g", "k", 1.0, FLOWS), Ready())
        zero_s = self._sender.expect(Start, LIMIT_S).zero_s
        time.sleep(max(zero_s - time.monotonic(), 0.0))

    def _line(self, host: str) -> Line:
        line = Line(unix_socket.connect(self.controller.control, LIMIT_S))
        line.send(Hello("trainer", host, token=self.controller.tokens[host]))
        return line

    def steps(self, number: int | None = None) -> None:
        """So many flows, or flows until `stop`."""
        try:
            while len(self.told) < number if number is not None else not self._stop.is_set():
                self._step(len(self.told))
        except EchelonError as error:
            self.failure = str(error)

    def _step(self, number: int) -> None:
        flow, iteration = FLOWS[number % 2].flow, number // 2
        began_s = time.monotonic()
        self._sender.send(Release("job", flow, iteration, began_s))
        setting = None
        while setting is None:  # after a swap of the policy, flows are told anew that have ended meanwhile
            told = self._sender.expect(Decide, LIMIT_S).settings
            setting = next((s for s in told if (s.flow, s.iteration) == (flow, iteration)), None)
        self.waited_ms.append((time.monotonic() - began_s) * 1e3)
        self.told.append((setting.flow, setting.dscp, setting.rate_Bps))
        self._receiver.send(Finish("job", flow, iteration, time.monotonic()), Ready())
        self._receiver.expect(Start, LIMIT_S)  # the answer to Ready says that the end is known
        time.sleep(STEP_S)

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Flows come and go while the block runs."""
        thread = threading.Thread(target=self.steps)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()


def in_peace(number: int) -> Trainers:
    """Trainers that nobody disturbs, after so many flows."""
    with serving() as controller:
        trainers = Trainers(controller)
        trainers.join()
        trainers.steps(number)
        trainers.close()
    return trainers


# The control socket


@dataclass
class Tally:
    """What became of the broken clients."""

    sent: int = 0
    told_why: int = 0
    unanswered: Counter[str] = field(default_factory=Counter)
    """Kinds of lines that had to be refused, and whose sender was not told so."""


def messages(number: int, say: Say, seed: int = 1) -> Figure:
    """`number` broken messages in random interleavings, beside two trainers."""
    say(f"{number:,} broken messages, {AT_ONCE} clients at a time")
    tally = Tally()
    with serving() as controller:
        trainers = Trainers(controller)
        trainers.join()
        with trainers.going_on():
            _send_broken(controller, number, random.Random(seed), tally)
        status = client.status(controller.rest)
        unharmed = controller.process.poll() is None and status.run is not None and not status.run.failed
        trainers.close()
    say(f"the trainers' {len(trainers.told):,} flows once more, in peace")
    peace = in_peace(len(trainers.told))
    same = trainers.told == peace.told
    ok = unharmed and same and not (trainers.failure or peace.failure or tally.unanswered)
    measured = (
        f"{tally.told_why:,} clients refused and told why, {tally.unanswered.total()} not told"
        f"{''.join(f' ({kind})' for kind in tally.unanswered)}; {len(trainers.told):,} flows of others: decisions "
        f"{'the same' if same else 'NOT the same'} as in peace, median {statistics.median(trainers.waited_ms):.1f} ms "
        f"(in peace {statistics.median(peace.waited_ms):.1f} ms), longest {max(trainers.waited_ms):.0f} ms"
        f"{trainers.failure and '; ' + trainers.failure}"
    )
    must = "each refused and told why, others never disturbed"
    return Figure(f"{tally.sent:,} broken messages on the control socket", measured, must, ok)


def _send_broken(controller: Controller, number: int, draw: random.Random, tally: Tally) -> None:
    """Keep `AT_ONCE` clients at it, in turns by chance, until `number` messages were sent."""
    clients: list[BrokenClient] = []
    spoken_for: set[str] = set()
    while tally.sent < number or clients:
        if tally.sent < number and len(clients) < AT_ONCE:
            unclaimed = [host for host in BROKEN_HOSTS if host not in spoken_for]
            host = draw.choice(unclaimed) if unclaimed and draw.random() < 0.7 else None
            clients.append(BrokenClient(controller, host, draw))
            spoken_for |= {host} if host else set()
        one = draw.choice(clients)
        if one.say_more():
            tally.sent += 1
            continue
        one.end(tally)
        clients.remove(one)
        spoken_for -= {one.host} if one.host else set()


class BrokenClient:
    """Speaks for `host` by its token, or for nobody (None): then all that it says must be refused."""

    def __init__(self, controller: Controller, host: str | None, draw: random.Random) -> None:
        self.host = host
        self._left = draw.randrange(1, MOST_LINES)
        self._broken = Broken(draw, host or "h3", BROKEN_HOSTS, f"job-{host}", "job")
        self._bad: list[str] = []
        self._socket = unix_socket.connect(controller.control, LIMIT_S)
        self._socket.settimeout(LIMIT_S)
        self._is_open = True
        if host is not None:
            self._send(encode(Hello("broken", host, token=controller.tokens[host])))
        elif draw.random() < 0.5:
            wrong = Hello(
                "impostor", draw.choice(["", *HOSTS]), token=draw.choice(["", "x" * 43, controller.tokens["h4"][:-1]])
            )
            self._send(encode(wrong))
            self._bad.append("impostor")

    def say_more(self) -> bool:
        """Send one more line; False where there is no more to say."""
        if not (self._left and self._is_open):
            return False
        self._left -= 1
        line = self._broken.line()
        if line.bad or self.host is None:
            self._bad.append(line.kind)
        self._send(line.data + b"\n")
        return True

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:  # it was thrown out, and is about to hear why
            self._is_open = False

    def end(self, tally: Tally) -> None:
        """Hear what there is to hear, to the end."""
        heard = b""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while piece := self._socket.recv(1 << 16):
                heard += piece
        self._socket.close()
        last = heard.rstrip(b"\n").rpartition(b"\n")[2]
        refused = bool(last) and isinstance(decode(last), Fault)
        tally.told_why += refused
        if self._bad and not refused:
            tally.unanswered[self._bad[0]] += 1


# REST over TCP


def requests(number: int, say: Say, *, with_token: bool) -> Figure:
    """`number` requests that Schemathesis makes of the description, beside two trainers."""
    shown = "with the token" if with_token else "without a token"
    say(f"{number:,} requests by Schemathesis {shown}")
    with serving() as controller:
        trainers = Trainers(controller)
        trainers.join()
        before = _state(controller)
        codes: Counter[int] = Counter()
        problems = ""
        with trainers.going_on():
            seed = 0
            while codes.total() < number and not problems:
                seed += 1
                examples = min(MOST_EXAMPLES, number - codes.total())
                problems = _schemathesis(controller, examples, seed, with_token=with_token)
                codes = _codes(controller)
                say(f"{codes.total():,} requests answered")
        after = _state(controller)
        failed = after.failed
        trainers.close()
    server_errors = sum(count for code, count in codes.items() if code >= 500)
    unchanged = with_token or (before == after and not any(code < 400 for code in codes))
    ok = not (server_errors or problems or failed or trainers.failure) and unchanged
    measured = (
        f"{server_errors} answers of 5xx, {'nothing' if before == after else 'the policy'} changed; "
        f"{', '.join(f'{count:,} x {code}' for code, count in sorted(codes.items()))}; others waited "
        f"{statistics.median(trainers.waited_ms):.1f} ms for {len(trainers.told):,} decisions, {max(trainers.waited_ms):.0f} ms "
        f"at most{problems and '; ' + problems}{trainers.failure and '; ' + trainers.failure}"
    )
    must = "no 5xx, all as described, others never disturbed" + ("" if with_token else ", nothing told or changed")
    return Figure(f"{codes.total():,} requests {shown}, by Schemathesis", measured, must, ok)


@dataclass(frozen=True)
class State:
    """What requests could have changed."""

    policy: str | None
    enforcer: str | None
    swaps: int
    groups: int
    failed: bool


def _state(controller: Controller) -> State:
    controller.asked += 1
    status = client.status(controller.rest)
    assert status.run is not None  # it stands
    run = status.run
    return State(run.policy, run.enforcer, status.swaps, run.groups, run.failed)


def _codes(controller: Controller) -> Counter[int]:
    """How many requests over TCP were answered with each status so far, by the controller's own count."""
    text = client.metrics(controller.rest)
    found = {int(code): int(count) for code, count in _COUNTED.findall(text)}
    codes = Counter(found) - Counter({200: controller.asked})
    controller.asked += 1
    return codes


def _schemathesis(controller: Controller, examples: int, seed: int, *, with_token: bool) -> str:
    """One run of Schemathesis; what it has found wrong, empty for nothing (RunError where it is not installed)."""
    argv = [
        sys.executable, "-m", "schemathesis.cli", "run", str(DOCS / "openapi.json"),
        "--url", f"http://127.0.0.1:{controller.http_port}", "--phases", PHASES, "--checks", CHECKS,
        "--max-examples", str(examples), "--seed", str(seed), "--continue-on-failure", "--no-shrink", "--no-color",
        "--generation-database", "none", "--request-timeout", "30", "--suppress-health-check", "all",
    ]  # fmt: skip
    if with_token:
        argv += ["--header", f"Authorization: Bearer {controller.rest_token}"]
    done = subprocess.run(argv, cwd=controller.folder, capture_output=True, text=True, check=False)
    if "No module named" in done.stderr:
        raise RunError("Schemathesis is not installed; install this project with [dev]")
    if done.returncode == 0:
        return ""
    said = done.stdout[-1500:] or done.stderr[-1500:]
    return f"Schemathesis found: {' '.join(said.split())}"
