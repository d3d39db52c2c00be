"""Writes run folders as an emulation would leave them, from fluid runs: known truth for tests of results."""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from echelon.running import explaining
from echelon.running.stages import Asked
from echelonflow.model import topologies
from echelonflow.model.addressing import ip_of
from echelonflow.model.arrangement import staggered
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.measured import Measured, Settings
from echelonflow.model.network import Network
from echelonflow.records.agent_log import AgentLog, Computed, Line, Mark, Received, Sent
from echelonflow.records.assignment import AssignedRun, Assignment, write_assignment
from echelonflow.records.calibration import Calibration, CalibrationAttempt, LinkMeasurement, write_calibration
from echelonflow.records.decisions import DecisionLog
from echelonflow.records.events import EventLog, Opening, PolicyOrdered
from echelonflow.records.folder import RunFolder, policy_labels, run_label
from echelonflow.records.manifest import Manifest, write_manifest
from echelonflow.records.network_file import write_network
from echelonflow.records.outcome import (
    CaptureCounts,
    ClassCounters,
    Classes,
    ClockReading,
    Load,
    RunOutcome,
    write_outcome,
)
from echelonflow.records.placed_job import PlacedJob
from echelonflow.records.plan import write_plan
from echelonflow.records.run_record import DecisionRecord, FlowRecord, RunRecord
from echelonflow.records.runs import save_runs
from echelonflow.scheduling import policies
from simulator.fluid import simulate
from simulator.realism import Realism
from traffic.agent.plan import make_plan

ZERO_MONOTONIC_S = 5000.0
REALTIME_OF_ZERO_S = 1_790_000_000.0
SYN, ACK = 0x02, 0x10
ISN = 0xFFFF_F000
"""Initial sequence number of every connection: it wraps after 4 KiB, so that wrapping is always tested."""


@dataclass(frozen=True)
class Packet:
    """One TCP packet of a capture; `seq` as on the wire."""

    time_ns: int
    src: str
    src_port: int
    dst: str
    dst_port: int
    seq: int
    payload_bytes: int
    dscp: int = 0
    flags: int = ACK


def packet_bytes(packet: Packet, snap: int = 96) -> tuple[bytes, int]:
    """Captured bytes of a packet (Ethernet, IPv4, TCP with 12 bytes of options) and its length on the wire."""
    tcp = struct.pack(
        ">HHIIBBHHH", packet.src_port, packet.dst_port, packet.seq % (1 << 32), 0, 8 << 4, packet.flags, 65535, 0, 0
    )
    total = 20 + 32 + packet.payload_bytes
    address = [bytes(map(int, a.split("."))) for a in (packet.src, packet.dst)]
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, packet.dscp << 2, total, 0, 0, 64, 6, 0, *address)
    head = b"\x02\xec\x00\x00\x00\x02\x02\xec\x00\x00\x00\x01\x08\x00" + ip + tcp + bytes(12)
    wire = 14 + total
    return (head + bytes(max(min(snap, wire) - len(head), 0)))[:snap], wire


def write_pcap(path: Path, packets: Iterable[Packet], order: str = "<", nano: bool = True) -> None:
    """Write `packets` in order of time."""
    with path.open("wb") as file:
        file.write(struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 96, 1))
        for packet in sorted(packets, key=lambda p: p.time_ns):
            data, wire = packet_bytes(packet)
            seconds, nanos = divmod(packet.time_ns, 1_000_000_000)
            file.write(struct.pack(order + "IIII", seconds, nanos // (1 if nano else 1000), len(data), wire) + data)


def paper_network() -> Network:
    return topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e6})


def paper_job(network: Network, iterations: int = 1, unit_s: float = 1.0) -> Job:
    """The paper's Fig. 2 on a slow link (few packets); the next iteration begins when the last one has ended."""
    size_bytes = round(2 * unit_s * network.capacity_Bps[0])
    steps: list[Compute | Transfer] = []
    for m in range(3):
        steps.append(Compute(f"p{m}", 0, unit_s, (f"p{m - 1}",) if m else (), "forward"))
        steps.append(Transfer(f"x{m}", 0, 1, size_bytes, f"x{m}", (f"p{m}",)))
        steps.append(Compute(f"c{m}", 1, unit_s, (f"x{m}", f"c{m - 1}") if m else ("x0",), "forward"))
    group = Group("pp", "pp-forward", ("x0", "x1", "x2"), staggered(3, unit_s))
    dag = JobDag(2, tuple(steps), (group,), (("c2", "p0"),))
    return Job("pipeline", dag, ("h1", "h2"), iterations)


@dataclass
class SyntheticRun:
    """One emulated run made up from a fluid one: every flow is sent at constant rate from start to finish."""

    record: RunRecord
    outcome: RunOutcome
    segment_bytes: int = 10_000
    wire_dscp: dict[str, int] = field(default_factory=dict)
    """Mark on the wire per flow where it is not the decided one."""
    missing_tail: set[str] = field(default_factory=set)
    """Flows of whose last segment no capture tells."""
    retransmit: set[str] = field(default_factory=set)
    """Flows whose second segment is sent twice; the first copy never arrives."""
    log_later_s: float = 0.0
    """By how much the agents' log puts every finish later than the packets do."""
    settings: Settings = field(default_factory=Settings)
    """When settings came, and when the ends of flows were noticed."""

    def real_ns(self, run_s: float) -> int:
        return round((REALTIME_OF_ZERO_S + run_s) * 1e9)

    def packets(self, network: Network) -> dict[str, list[Packet]]:
        """Packets per host's capture."""
        found: dict[str, list[Packet]] = {host: [] for host in network.hosts}
        for f in self.record.flows:
            src, dst = ip_of(network, f.src_host), ip_of(network, f.dst_host)

            def packet(at_s, seq, size, dscp, flags=ACK, *, f=f, src=src, dst=dst) -> Packet:
                return Packet(self.real_ns(at_s), src, f.src_port, dst, f.dst_port, ISN + seq, size, dscp, flags)

            if f.iteration == 0:
                for host in (f.src_host, f.dst_host):
                    found[host].append(packet(-0.2, 0, 0, 0, SYN))
            mark = self.wire_dscp.get(f.flow, f.dscp or 0)
            base = 1 + f.iteration * f.size_bytes
            places = list(range(0, f.size_bytes, self.segment_bytes))
            for n, place in enumerate(places):
                size = min(self.segment_bytes, f.size_bytes - place)
                left = f.start_s + (f.finish_s - f.start_s) * place / f.size_bytes
                came = f.start_s + (f.finish_s - f.start_s) * (place + size) / f.size_bytes
                again = f.flow in self.retransmit and n == 1
                if f.flow in self.missing_tail and n == len(places) - 1:
                    continue
                found[f.src_host].append(packet(left, base + place, size, 0))
                if again:
                    left = came = f.finish_s + 0.01
                    found[f.src_host].append(packet(left, base + place, size, 0))
                found[f.dst_host].append(packet(came, base + place, size, mark))
        return found

    def agents(self, network: Network) -> dict[str, list[Line]]:
        """Lines of every agent's log."""
        lines: dict[str, list[Line]] = {host: [] for host in network.hosts}
        for c in self.record.computes:
            line = {k: v for k, v in asdict(c).items() if k != "host"}
            lines[c.host].append(Computed(**line))
        for f in self.record.flows:
            flow, key = {"job": f.job, "iteration": f.iteration, "flow": f.flow}, (f.job, f.iteration, f.flow)
            first_s = f.release_s + self.settings.first_s.get(key, 0.0)
            acked_s = f.finish_s + self.settings.acknowledged_s.get(key, 0.0)
            sent = Sent(
                **flow, release_s=f.release_s, start_s=min(first_s, f.start_s), acked_s=acked_s, sent_bytes=f.sent_bytes,
                retransmissions=f.retransmissions, marks=(Mark(first_s, f.dscp or 0, None),),
                ready_s=f.ready_s,
            )  # fmt: skip
            finish_s = f.finish_s + self.log_later_s + self.settings.arrival_s.get(key, 0.0)
            received = Received(**flow, first_s=f.start_s, finish_s=finish_s, received_bytes=f.received_bytes)
            lines[f.src_host].append(sent)
            lines[f.dst_host].append(received)
        return lines


def classes_of(record: RunRecord) -> Classes:
    """HTB counters of the receiving switch port that agree with the decisions."""
    counters = {c: ClassCounters() for c in range(8)}
    for f in record.flows:
        number = 7 - (f.dscp or 0) // 8
        one = counters[number]
        counters[number] = ClassCounters(one.bytes + f.size_bytes, one.packets + f.size_bytes // 10_000 + 1, one.drops)
    return {"s1-eth2": counters}


@functools.cache
def _fluid_run(jobs: tuple[Job, ...], network: Network, policy: str) -> RunRecord:
    return simulate(jobs, network, policies.load(policy))


def fluid_run(jobs: Sequence[Job], network: Network, policy: str, repeat: int = 0) -> RunRecord:
    """The simulation, made once for all tests; what is returned may be changed."""
    known = _fluid_run(tuple(jobs), network, policy)
    return RunRecord(policy, repeat, [*known.computes], [*known.flows], [*known.decisions], {**known.counters})


def synthetic_run(
    jobs: Sequence[Job],
    network: Network,
    policy: str,
    repeat: int,
    run_index: int = 0,
    measured: Measured | None = None,
) -> SyntheticRun:
    """A run that keeps every limit; flow i is marked with class 1 + i % 3, by one decision.

    With what it `measured` it is late by that, as the testbed is that has seven classes.
    """
    if measured is None:
        record = fluid_run(jobs, network, policy, repeat)
    else:
        record = simulate(jobs, network, policies.load(policy), repeat, realism=Realism(classes=7), measured=measured)
    flows: list[FlowRecord] = []
    for f in record.flows:
        dscp = 48 - 8 * (int(f.flow[-1]) % 3)
        flows.append(replace(f, dst_port=5001 + run_index, dscp=dscp))
    record.flows = flows
    record.decisions = [
        DecisionRecord(f.release_s, "release", 1, 1, "00", 0.2, 0.5, ((f.job, f.iteration, f.flow, f.dscp or 0, None),))
        for f in flows
    ]
    end_s = max(each.finish_s for each in (*record.computes, *flows)) + 0.5
    outcome = RunOutcome(
        policy=policy, repeat=repeat, run_index=run_index, label=_label(policy, repeat), enforcer="priority",
        completed=True, zero_monotonic_s=ZERO_MONOTONIC_S,
        clock=[ClockReading(ZERO_MONOTONIC_S + s, REALTIME_OF_ZERO_S + s) for s in (-1.0, end_s)],
        captures={h: CaptureCounts(f"{_label(policy, repeat)}-{h}.pcap", 100, 0) for h in network.hosts},
        load=Load(cpu_busy=0.3, cpu_busy_max=0.5, switch_thread_busy=0.2, switch_thread_busy_max=0.4),
        classes=classes_of(record),
    )  # fmt: skip
    settings = None if measured is None else measured.settings
    return SyntheticRun(record, outcome, settings=settings or Settings())


def synthetic_runs(jobs: Sequence[Job], network: Network, names: Sequence[str], repeats: int) -> list[SyntheticRun]:
    """A run of every policy in every repeat, in the order of an experiment."""
    asked = [(name, repeat) for repeat in range(repeats) for name in names]
    return [synthetic_run(jobs, network, name, repeat, index) for index, (name, repeat) in enumerate(asked)]


def explain_runs(root: Path, network: Network, jobs: Sequence[Job]) -> Path:
    """Explain the runs of a folder, as the runner does; returns it."""
    explaining.explain(RunFolder(root), Asked(jobs, network), processes=1)
    return root


def write_experiment(
    root: Path, network: Network, jobs: Sequence[Job], names: Sequence[str], runs: Sequence[SyntheticRun]
) -> Path:
    """A whole run folder; returns it."""
    repeats = max((r.record.repeat for r in runs), default=0) + 1
    folder = RunFolder(root)
    folder.pcap.mkdir(parents=True)
    manifest = Manifest(
        name="synthetic", title="A made-up run", backend="emulation", policies=tuple(names), repeats=repeats,
        experiment={"name": "synthetic"}, experiment_file="synthetic.yaml", time_unit_s=1.0,
        jobs=tuple(map(PlacedJob.of, jobs)), network=network, congestion_control="cubic", framework="ryu", git="abc",
        versions={"python": "3.11"}, machine={"cpus": 2},
    )  # fmt: skip
    write_manifest(folder.manifest, manifest)
    write_network(folder.network, network)
    write_assignment(folder.assignment, assignment(network, jobs, names, repeats))
    write_calibration(folder.calibration, calibration(-0.01))
    save_runs(folder.prediction, [fluid_run(jobs, network, name) for name in names])
    for run in runs:
        write_run(root, network, jobs, run)
    return root


def assignment(network: Network, jobs: Sequence[Job], names: Sequence[str], repeats: int) -> Assignment:
    """Every policy once in every repeat, in the order of `names`."""
    pairs = [(name, repeat) for repeat in range(repeats) for name in names]
    labels = policy_labels(names)
    runs = [
        AssignedRun(index, name, run_label(labels[name], repeat), repeat, "priority", 10.0)
        for index, (name, repeat) in enumerate(pairs)
    ]
    return Assignment(network=network, jobs=tuple(map(PlacedJob.of, jobs)), runs=tuple(runs))


def write_swap(root: Path, synthetic: SyntheticRun, at_s: float, policy: str) -> None:
    """Let the log of a run's events tell that `policy` was swapped in at `at_s`."""
    path = RunFolder(root).run(synthetic.outcome.label).events
    with contextlib.closing(EventLog(path, Opening(paper_network()))) as log:
        log.append(ZERO_MONOTONIC_S + at_s, PolicyOrdered(policy))


def calibration(*errors: float) -> Calibration:
    """One attempt for each error, the first before run 0, the next before run 1, and so on."""
    attempts = []
    for run, error in enumerate(errors):
        link = LinkMeasurement(
            kind="edge", path="h1->h2", declared_Bps=1e5, measured_Bps=1e5 * (1 + error), error=error, rtt_ms=0.3
        )
        attempts.append(CalibrationAttempt(first_run=run, burst_s=0.004, links=(link,)))
    return Calibration(datapath="userspace", tso=True, openvswitch="3.1.0", attempts=tuple(attempts))


def write_run(root: Path, network: Network, jobs: Sequence[Job], synthetic: SyntheticRun) -> None:
    folder, name = RunFolder(root), synthetic.outcome.label
    files = folder.run(name)
    files.agents.mkdir(parents=True)
    write_plan(files.plan, make_plan(jobs, network, synthetic.outcome.run_index))
    write_outcome(files.outcome, synthetic.outcome)
    for host, lines in synthetic.agents(network).items():
        with contextlib.closing(AgentLog(files.agent(host))) as log:
            for line in lines:
                log.write(line)
    with contextlib.closing(DecisionLog(files.decisions)) as decisions:
        for decision in synthetic.record.decisions:
            decisions.write(decision)
    for host, packets in synthetic.packets(network).items():
        write_pcap(folder.capture(name, host), packets)


def _label(policy, repeat):
    return run_label(policy_labels([policy])[policy], repeat)
