"""What happens inside the private world: `python -m echelon.running.emulator DIR`.

Builds the network, starts the controller, calibrates, then replays every run that `orders.json` asks
for and leaves its raw records in DIR. Progress goes to standard output, one JSON object a line. It is
process 1 of its world: when it ends, however it ends, the kernel ends everything that it started.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.launch import controller_argv
from echelon.running.coordinator_line import CoordinatorLine
from echelonflow.errors import EXIT_FAILED, EXIT_VALID, EchelonError, RunError
from echelonflow.model.dag import Job, job_from_dict
from echelonflow.model.network import Network
from echelonflow.records.calibration import write_calibration
from echelonflow.records.folder import RunFolder, label
from echelonflow.wire.messages import Begin, End
from testbed import world
from testbed.calibrator import Calibrator
from testbed.capture import PacketCapture
from testbed.load import LoadSampler
from testbed.mininet_network import EmulatedNetwork
from testbed.openvswitch import PrivateOpenVSwitch
from traffic.agent.plan import write_plan

START_LIMIT_S = 60.0
"""For the controller and the switches to be there, on a machine that is slow and has compiled nothing yet."""
WATCH_S = 0.5
"""How often the progress of a run is looked at."""
FIRST = ("nice", "-n", "-10")
"""Agents go before other work on the machine: their sleeps stand for computation, and must end in time."""


@dataclass(frozen=True)
class Orders:
    """orders.json: what to run, in this order."""

    folder: RunFolder
    network: Network
    jobs: tuple[Job, ...]
    calibrate: bool
    runs: tuple[dict[str, Any], ...]
    """Each: run_index, policy, repeat, enforcer, expected_s (fluid prediction of the run's length)."""
    datapath: str
    tso: bool | None
    congestion_control: str
    framework: str
    progress_interval_s: float
    max_link_error: float

    @staticmethod
    def read(folder: RunFolder) -> Orders:
        data = json.loads(folder.orders.read_text())
        return Orders(
            folder=folder,
            network=Network.from_dict(json.loads(folder.network.read_text())),
            jobs=tuple(job_from_dict(job) for job in data["jobs"]),
            calibrate=data["calibrate"],
            runs=tuple(data["runs"]),
            datapath=data["datapath"],
            tso=data["tso"],
            congestion_control=data["congestion_control"],
            framework=data["framework"],
            progress_interval_s=data["progress_interval_s"],
            max_link_error=data["max_link_error"],
        )


def say(**progress: Any) -> None:
    """One line of progress for whoever started us."""
    print(json.dumps(progress), flush=True)


@dataclass
class Emulation:
    """The standing parts of an emulation: they outlive single runs."""

    orders: Orders
    ovs: PrivateOpenVSwitch
    net: EmulatedNetwork
    controller: subprocess.Popen[bytes]
    line: CoordinatorLine
    agents: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def check(self) -> None:
        """Raise RunError, naming the log to read, if a process that must live has died."""
        check_controller(self.controller)
        if not self.ovs.alive():
            raise RunError("Open vSwitch died; see logs/ovs-vswitchd.log")
        dead = {host: agent.returncode for host, agent in self.agents.items() if agent.poll() not in (None, 0)}
        if dead:
            # One that was killed is the cause; the others lost their connection to it.
            host = min(dead, key=lambda host: dead[host])
            raise RunError(f"the agent on {host} died (exit {dead[host]}); see logs/agent-{host}.log")

    def run(self, order: dict[str, Any]) -> float:
        """Carry out one run; its raw records are on disk afterwards, also when it fails (RunError).

        Returns the share of the processors that the host took away meanwhile.
        """
        name = label(order["policy"], order["repeat"])
        raw = self.orders.folder.raw(name)
        (raw / "agents").mkdir(parents=True)
        result: dict[str, Any] = {
            "policy": order["policy"], "repeat": order["repeat"], "run_index": order["run_index"], "label": name,
            "enforcer": order["enforcer"], "completed": False, "failure": None, "zero_monotonic_s": None,
            "clock": [_clocks()],
        }  # fmt: skip
        try:
            self._replay(order, raw, result)
            result["completed"] = True
            return float(result["load"]["cpu_stolen"])
        except BaseException as error:
            result["failure"] = str(error) or type(error).__name__
            raise
        finally:
            result["clock"].append(_clocks())
            (raw / "run.json").write_text(json.dumps(result, indent=1))

    def _replay(self, order: dict[str, Any], raw: Path, result: dict[str, Any]) -> None:
        orders = self.orders
        plan = raw / "plan.json"
        write_plan(plan, orders.jobs, orders.network, order["run_index"], orders.progress_interval_s)
        hosts = [h for h in orders.network.hosts if any(h in job.placement for job in orders.jobs)]
        before = self.net.class_counters()
        capture = PacketCapture(self.net, hosts, orders.folder.pcap, result["label"])
        load = LoadSampler(self.ovs.vswitchd_pid)
        try:
            self.line.send(
                Begin(result["label"], order["policy"], order["enforcer"], len(hosts), str(raw / "decisions.jsonl"))
            )
            self._start_agents(hosts, plan, raw)
            ready = self.line.wait_for("ready", 30.0, self.check)
            result["zero_monotonic_s"] = float(ready.detail)
            self.line.wait_for("done", order["expected_s"] * 3 + 30.0, _Watch(self, raw / "agents", hosts[0]))
            self._end_agents()
            self.line.send(End())
            self.line.wait_for("ended", 10.0, self.check)
        finally:
            result["load"] = load.stop()
            self._end_agents()
            result["captures"] = capture.stop()
            result["classes"] = _difference(self.net.class_counters(), before)

    def _start_agents(self, hosts: list[str], plan: Path, raw: Path) -> None:
        for host in hosts:
            with (self.orders.folder.logs / f"agent-{host}.log").open("ab") as log:
                self.agents[host] = self.net.popen(
                    host,
                    [
                        *FIRST, sys.executable, "-m", "traffic.agent", "--plan", str(plan), "--host", host,
                        "--socket", str(self.orders.folder.control_socket),
                        "--records", str(raw / "agents" / f"{host}.jsonl"),
                    ],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                )  # fmt: skip

    def _end_agents(self) -> None:
        for agent in self.agents.values():
            try:
                agent.wait(5.0)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
        self.agents.clear()


class _Watch:
    """Called while a run goes on: checks that all live, and says when the first host enters an iteration."""

    def __init__(self, emulation: Emulation, records: Path, host: str) -> None:
        self._emulation = emulation
        self._file = records / f"{host}.jsonl"
        self._iteration = -1
        self._due_s = time.monotonic() + WATCH_S

    def __call__(self) -> None:
        self._emulation.check()
        if time.monotonic() < self._due_s or not self._file.exists():
            return
        self._due_s = time.monotonic() + WATCH_S
        with self._file.open("rb") as file:
            file.seek(max(self._file.stat().st_size - 4096, 0))
            lines = file.read().splitlines()
        for line in reversed(lines):
            with contextlib.suppress(ValueError, KeyError):
                iteration = int(json.loads(line)["iteration"])
                if iteration > self._iteration:
                    self._iteration = iteration
                    say(stage="iteration", iteration=iteration)
                return


def _clocks() -> dict[str, float]:
    return {"monotonic_s": time.monotonic(), "realtime_s": time.time()}


def _difference(after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Counters of a run: those after it less those before it."""
    return {
        interface: {
            c: {key: value - before[interface][c][key] for key, value in counters.items()}
            for c, counters in classes.items()
        }
        for interface, classes in after.items()
    }


def check_controller(process: subprocess.Popen[bytes]) -> None:
    """Raise RunError, naming the logs to read, if the controller has died."""
    if process.poll() is not None:
        raise RunError(f"the controller died (exit {process.returncode}); see logs/controller.log and controller.out")


@contextlib.contextmanager
def _controller(orders: Orders) -> Iterator[subprocess.Popen[bytes]]:
    folder = orders.folder
    argv = controller_argv(orders.framework, folder.network, folder.control_socket, folder.logs / "controller.log")
    with (folder.logs / "controller.out").open("ab") as log:
        process = subprocess.Popen([sys.executable, *argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(3.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def standing(orders: Orders) -> Iterator[Emulation]:
    """Open vSwitch, controller and network, connected to each other."""
    say(stage="building", hosts=len(orders.network.hosts), switches=len(orders.network.switches))
    folder = orders.folder
    with contextlib.ExitStack() as stack:
        controller = stack.enter_context(_controller(orders))
        ovs = stack.enter_context(PrivateOpenVSwitch(folder.root, folder.logs, orders.datapath, orders.tso))
        net = stack.enter_context(EmulatedNetwork(orders.network, ovs, congestion_control=orders.congestion_control))
        line = CoordinatorLine(folder.control_socket, START_LIMIT_S, lambda: check_controller(controller))
        stack.callback(line.close)
        emulation = Emulation(orders, ovs, net, controller, line)
        line.wait_for("switches", START_LIMIT_S, emulation.check)
        yield emulation


def _calibrator(emulation: Emulation) -> Calibrator:
    """What keeps the links true; every attempt goes to calibration.json, and what is wrong to whoever started us."""
    orders = emulation.orders
    return Calibrator(
        emulation.net,
        orders.max_link_error,
        runs_s=sum(order["expected_s"] for order in orders.runs),
        tell=lambda words: say(stage="warning", reason=words),
        save=lambda calibration: write_calibration(orders.folder.calibration, calibration),
    )


def _carry_out(emulation: Emulation) -> None:
    """All runs, on links that are measured before the first of them and whenever there is reason to."""
    orders = emulation.orders
    calibrator = _calibrator(emulation)
    if orders.calibrate:
        say(stage="calibrating", datapath=emulation.ovs.datapath, tso=emulation.ovs.tso)
        calibrator.begin()
    for number, order in enumerate(orders.runs):
        calibrator.before_run(order["run_index"])
        say(
            stage="running",
            run=number,
            of=len(orders.runs),
            policy=order["policy"],
            repeat=order["repeat"],
            expected_s=order["expected_s"],
        )
        calibrator.after_run(order["run_index"], emulation.run(order))


def main(argv: list[str]) -> int:
    """Carry out DIR/orders.json; returns an exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_FAILED))
    folder = RunFolder(Path(argv[0]).resolve())
    world.enter()
    orders = Orders.read(folder)
    try:
        with standing(orders) as emulation:
            _carry_out(emulation)
    except EchelonError as error:
        say(stage="failed", reason=str(error))
        return EXIT_FAILED
    except KeyboardInterrupt:
        say(stage="interrupted")
        return EXIT_FAILED
    say(stage="done")
    return EXIT_VALID


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
