"""The limits of a valid run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from echelonflow.errors import InputError


@dataclass(frozen=True, slots=True)
class Limits:
    """What a valid run keeps; an experiment may change each (`emulation.limits`). Shares are 0 .. 1.

    A run is judged by effect: by how much its machine moved its times, beyond what chance does. Limits of load, lateness, calibration and prediction
    hold where no effect is known: in runs from before budgets, and where planned faults are beyond simulation.
    """

    max_moved_iteration: float = 0.02
    """By how much late computations, decisions hindered by others' work, and link rates may move a job's iteration time."""
    max_moved_exposed: float = 0.03
    """The same of exposed communication."""
    max_unexplained_iteration: float = 0.02
    """Iteration time off the simulation with all measured causes, either way."""
    max_unexplained_exposed: float = 0.03
    """The same of exposed communication."""
    max_scatter_iteration: float = 0.1
    """By how much iterations may scatter by chance: twice their deviation over their mean, in simulations that differ by next to nothing.
    Four jobs that share uplinks under strict orders scatter by 2 to 6 %. Beyond this, one run says nothing of its machine."""
    max_link_error: float = 0.03
    """Calibrated payload rate off its declaration: beyond this every transfer time is wrong by as much, which is
    the accuracy that results are to have. Links that are off are measured again, whatever their effect."""
    max_carried_error: float = 0.1
    """What a link carried while flows waited for it, off its declaration, either way. Valid runs were 1 % off, on a busy
    machine too; a link that slowed down after it was calibrated is off by as much as it slowed down."""
    max_cpu_busy: float = 0.95
    """Mean over the run, all cores. Above this, agents and switch wait for each other's turns."""
    max_switch_thread_busy: float = 0.90
    """Mean over the run of Open vSwitch's busiest thread. A saturated switch forwards slower than its queues say,
    and idle cores beside it hide that."""
    max_cpu_busy_max: float = 0.99
    """The same over the worst two seconds: at 100 % nobody knows how much more was wanted. An instant of other work on
    the machine does no harm, and shows in lateness if it does."""
    max_switch_thread_busy_max: float = 0.98
    """The same of that thread. Its clock counts in hundredths of a second, so that 100 % may read 98."""
    max_core_busy: float = 0.99
    """Mean over the run of the busiest core: one that is never free serves interrupts and timers late. Work of low
    priority ("nice") gives way and is not counted."""
    max_late_p99_s: float = 0.005
    """Compute steps end late by less, 99 of 100: a tenth of the shortest flow that is not warned about (50 ms)."""
    max_late_share: float = 0.02
    """The latest compute step, as a share of its rank's work per iteration: it delays the iteration by as much."""
    max_queue_drop_share: float = 0.02
    """Packets that queues dropped. TCP fills a queue until it drops, so drops are normal; beyond this share
    it is in recovery for much of the time and rates are no longer the network's."""
    max_capture_drops: float = 0.0
    """Packets that a capture missed: with any, bytes cannot be counted."""
    max_stray_share: float = 0.01
    """Bytes in a class that nobody decided (in packets, and in queue counters). A flow's first segments can pass
    while its first rule is on the way to the switch; more means that decisions are not what was measured."""
    max_stray_packet_share: float = 0.05
    """Packets, of any size, in a data class that nobody decided. Acknowledgements that are not in the control class are
    10 to 20 % of all packets and few of the bytes. Behind all data they starve, and with them the flows that they
    acknowledge."""
    max_disobedient_share: float = 0.02
    """Bytes that arrived with another mark than was in force for their flow. Where first segments overtook their first
    rule, or rules came late, it was 0.5 % at most, on a machine that was full of other work."""
    max_prediction_error: float = 0.2
    """Iteration time of a job off the fluid simulation, either way. Valid runs strayed up to 15 %, where an answer hung
    on a tie. A link at 60 % of its rate made 47 %."""
    max_log_pcap_median_s: float = 0.002
    """Flow finish by the agent's log and by packets, median: both are used, so both must tell the same story."""
    max_log_pcap_p99_s: float = 0.010
    """The same, 99th percentile; more in long iterations, where it is not told from none (0.5 % of the shortest)."""

    @staticmethod
    def with_changes(changes: Mapping[str, float]) -> Limits:
        """The default limits with some changed (InputError for an unknown name or an impossible value)."""
        known = [field.name for field in dataclasses.fields(Limits)]
        for name, value in changes.items():
            if name not in known:
                raise InputError(f"there is no limit {name!r}; there is: {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value < 0:
                raise InputError(f"limit {name} is {value!r}; a limit is a number that is not negative")
        return Limits(**{name: float(value) for name, value in changes.items()})

    def to_dict(self) -> dict[str, float]:
        return dataclasses.asdict(self)
