"""A run of a program on loopback, as the runner makes it: a lesson, a plan of what was learned, and a coordinator of the test's own."""

from __future__ import annotations

from contextlib import contextmanager

from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.records.live_part import PART_VARIABLE, LivePart, read_live_outcome, write_part
from echelonflow.records.phases import Phase, phase_job
from echelonflow.records.plan import write_plan
from tests.live.forked import codes_of, forked
from tests.live.processes import printed
from tests.unit.traffic_fakes import FakeCoordinator, unlimited
from traffic.agent.plan import make_plan
from traffic.workloads import formats
from traffic.workloads.formats import live

WARM_UP = 1


class Rehearsed:
    """What `ranks` processes were seen to do in `folder` when they ran a script."""

    def __init__(self, folder, ranks, script, *argv):
        self.folder, self.ranks, self.script = folder, ranks, script
        with forked(folder, ranks, script, *argv, ECHELON_OBSERVE=str(folder / "seen{rank}.json")) as started:
            assert codes_of(started) == [0] * ranks, [printed(folder, rank) for rank in range(ranks)]
        self.files = sorted(folder.glob("seen*.json"))
        self.imported = formats.read("live", self.files, {})
        self.phases = [
            Phase(phase_job("gpt", number), first, end - first)
            for number, (first, end) in enumerate(
                (max(each.first, WARM_UP), each.end) for each in live.phases(self.files)
            )
        ]

    def jobs(self):
        """The job of each phase, after the one before."""
        before = [None, *(phase.job for phase in self.phases)]
        hosts = tuple(f"h{rank + 1}" for rank in range(self.ranks))
        found = []
        for number, phase in enumerate(self.phases):
            made = formats.read("live", self.files, {"phase": number + 1})
            found.append(
                Job(phase.job, made.dag, hosts, phase.iterations, discipline=made.discipline, after=before[number])
            )
        return found

    def plan(self, run_index):
        jobs = self.jobs()
        network = topologies.build("single-switch", {"hosts": self.ranks, "rate_bps": 1e9})
        addresses = {host: f"127.0.0.{rank + 1}" for rank, host in enumerate(jobs[0].placement)}
        return make_plan(jobs, network, run_index, addresses=addresses)

    @contextmanager
    def run(self, folder, argv, iterations, run_index, answer=unlimited, **parts):
        """Its processes, in a run of so many iterations that count; and the coordinator."""
        assert sum(phase.iterations for phase in self.phases) == iterations
        plan = self.plan(run_index)
        write_plan(folder / "plan.json", plan)
        coordinator = FakeCoordinator(folder / "control.sock", self.ranks, answer)
        for rank, host in enumerate(plan.addresses):
            part = LivePart(
                job="gpt", rank=rank, ranks=self.ranks, host=host, address=plan.addresses[host],
                store=str(folder / "store"), program=str(self.script), arguments=tuple(map(str, argv)),
                plan=str(folder / "plan.json"), lesson=str(self.folder / f"seen{rank}.json"),
                socket=str(folder / "control.sock"), records=str(folder / f"{host}.jsonl"),
                outcome=str(folder / f"outcome{rank}.json"), phases=tuple(self.phases), **parts,
            )  # fmt: skip
            write_part(folder / f"part{rank}.json", part)
        try:
            with forked(folder, self.ranks, **{PART_VARIABLE: str(folder / "part{rank}.json")}) as started:
                yield started, coordinator
        finally:
            coordinator.close()

    def outcomes(self, folder):
        """What each rank found."""
        return [read_live_outcome(folder / f"outcome{rank}.json") for rank in range(self.ranks)]
