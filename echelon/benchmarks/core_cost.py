"""What holding transfers back costs an agent: its own processor time for each partition, with and without a discipline.

An agent's replay of one worker is driven without a network, by a clock of the benchmark's own. All partitions of a pass
are ready at once, so that the core has as many to choose from. Each is acknowledged and answered in turn. One in four
has a size of its own, as the last of a tensor has. The same job without a discipline is what an agent does anyway.
Processor time of this thread is counted, nothing else.
"""

from __future__ import annotations

import gc
import random
import time
from collections import deque
from collections.abc import Sequence

from echelon.benchmarks import Figure, Say
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.discipline import Discipline, TaskSpec, Window
from results.analysis.statistics import Estimate, estimate
from traffic.agent.replay import Action, Released, Replay

PARTITIONS_PER_S = 100
MOST_SHARE = 0.01
"""Of a core, at that rate."""
WAITING = (10, 100, 1000)
"""Partitions that are ready at once."""
TRANSFERS = 4000
"""Partitions that are sent in one measurement, over as many iterations as that takes."""
SIZE_BYTES = 4_000_000
WINDOWS = (
    ("credit of 4 partitions", Window(credit_bytes=4 * SIZE_BYTES)),
    ("one at a time", Window(slots=1)),
    ("credit of 4.5, never overdrawn", Window(credit_bytes=9 * SIZE_BYTES // 2, overdraw=False)),
)


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` measurements of each window at each number of partitions, in turn with the job that holds nothing back."""
    figures = []
    for waiting in WAITING:
        jobs = {name: worker(waiting, window) for name, window in (("none", None), *WINDOWS)}
        found: dict[str, list[float]] = {name: [] for name in jobs}
        for _ in range(repeat):
            for name, job in jobs.items():
                found[name].append(cost_s(job))
        say(f"{waiting} partitions ready at once: measured {repeat} times")
        figures += [figure(f"{waiting} ready at once, {name}", found[name], found["none"]) for name, _ in WINDOWS]
    return figures


def figure(what: str, with_s: Sequence[float], without_s: Sequence[float]) -> Figure:
    """The cost of holding back, from pairs of seconds for each partition, and whether it keeps its bound."""
    extra = estimate([a - b for a, b in zip(with_s, without_s, strict=True)])
    assert extra is not None  # something was measured
    share = extra.median * PARTITIONS_PER_S
    measured = f"{_us(extra)} µs a partition more than {min(without_s) * 1e6:.1f}: {share:.3%} of a core"
    return Figure(what, measured, f"under {MOST_SHARE:.0%} at {PARTITIONS_PER_S} a second", share < MOST_SHARE)


def _us(found: Estimate) -> str:
    interval = "" if found.low is None or found.high is None else f" [{found.low * 1e6:.1f}, {found.high * 1e6:.1f}]"
    return f"{found.median * 1e6:.1f}{interval}"


def worker(partitions: int, window: Window | None) -> Job:
    """A worker (h1) and a server (h2): one pass, after which all partitions are pushed and pulled; None: nothing is held."""
    priorities = list(range(partitions))
    random.Random(partitions).shuffle(priorities)
    steps: list[Compute | Transfer] = [Compute("pass", 0, 1.0)]
    sizes = [SIZE_BYTES - (n * SIZE_BYTES // partitions if n % 4 == 3 else 0) for n in range(partitions)]
    for n, size_bytes in enumerate(sizes):
        steps.append(Transfer(f"push {n}", 0, 1, size_bytes, f"{n}", ("pass",)))
        steps.append(Transfer(f"pull {n}", 1, 0, size_bytes, f"{n}", (f"push {n}",)))
    flows = tuple(step.name for step in steps if isinstance(step, Transfer))
    again = tuple((f"pull {n}", "pass") for n in range(partitions))
    dag = JobDag(2, tuple(steps), (Group("gradients", "dp", flows, (0.0,) * len(flows)),), (*again, ("pass", "pass")))
    tasks = tuple(TaskSpec(f"{n}", 0, sizes[n], priorities[n], (f"push {n}",)) for n in range(partitions))
    discipline = None if window is None else Discipline("by hand", window, tasks)
    return Job("job", dag, ("h1", "h2"), max(TRANSFERS // partitions, 1), discipline=discipline)


def cost_s(job: Job) -> float:
    """Processor seconds for each partition of `job`, of all that the worker's replay does about it."""
    replay = Replay([job], "h1")
    replay.begin(0.0)
    gc.collect()
    gc.disable()  # as in an agent
    try:
        began_s = time.thread_time()
        sent = _drive(replay)
        return (time.thread_time() - began_s) / sent
    finally:
        gc.enable()


def _drive(replay: Replay) -> int:
    """Let the network of the benchmark carry what is released, in order, one after the other; returns how many."""
    released: deque[Released] = deque()
    now_s, sent = 0.0, 0

    def take(actions: list[Action]) -> None:
        released.extend(action for action in actions if isinstance(action, Released))

    while not replay.done:
        if not released:
            now_s = max(now_s, replay.next_due_s)
            take(replay.advance(now_s))
            continue
        flow = released.popleft()
        now_s += 1 / PARTITIONS_PER_S
        take(replay.acknowledged(flow.job, flow.iteration, flow.flow, now_s))
        take(replay.arrived(flow.job, flow.iteration, flow.flow.replace("push", "pull"), now_s))
        sent += 1
    return sent
