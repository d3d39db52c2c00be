"""One process per emulated host: replays the host's part of the jobs over real TCP.

    python -m traffic.agent --plan DIR/raw/<label>/plan.json --host h1 --socket DIR/control.sock --records FILE

Opens all connections, reports Ready, waits for Start, replays, reports Done. One thread and one epoll loop;
what to do is decided in `traffic.agent.replay`, how bytes move in `traffic.agent.sender` and `traffic.agent.receiver`.
Ends with 0; with 2 for a plan that cannot be carried out; with 1 for anything that went wrong on the way. Then one line
on standard error says why, and what was recorded until then is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from echelonflow.errors import EXIT_FAILED, EXIT_VALID, EchelonError, InputError, RunError
from echelonflow.files import refusal
from echelonflow.model.dag import Job
from echelonflow.model.faults import Slowdown, Slowdowns, ended_jobs
from echelonflow.model.flow_key import FlowKey
from echelonflow.model.slots import Slots
from echelonflow.records.agent_log import AgentLog
from echelonflow.records.plan import Plan, read_plan
from echelonflow.wire import unix_socket
from echelonflow.wire.declare import DATA_PORT
from echelonflow.wire.graph import graph_of
from echelonflow.wire.messages import FlowDeclaration, HoldBack, Setting, Weigh
from traffic.agent import connections
from traffic.agent.api import connect
from traffic.agent.connections import FlowLostError, FlowName
from traffic.agent.lasting import Callbacks, LastingClient
from traffic.agent.log_lines import computed_line, held_line, received_line, sent_line
from traffic.agent.plan import check_observable
from traffic.agent.planned_ends import PlannedEnds
from traffic.agent.receiver import IncomingFlow, ReceivedFlow, wake_bytes
from traffic.agent.replay import Action, Computed, HeldBack, Replay, Steps
from traffic.agent.sender import ACK_POLL_S, OutgoingFlow, Payload, SentFlow
from traffic.agent.waiting import wait
from traffic.agent.weights import HostWeights

CONNECT_TIMEOUT_S = 20.0
FAREWELL_S = 5.0
"""How long the last messages may take to leave."""
FRESH_S = 0.002
"""Progress that was reported no longer ago need not be reported again: where many flows end at once, each would ask."""


class Agent:
    """The replay of `plan` on `host`, told by and telling the coordinator at `socket_path`."""

    incoming_kind: type[IncomingFlow] = IncomingFlow

    def __init__(
        self, plan: Plan, host: str, socket_path: Path, records: AgentLog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if host not in plan.addresses:
            raise InputError(f"the plan has no host {host!r}; there is: {', '.join(plan.addresses)}")
        self._plan = plan
        self._host = host
        self._clock = clock
        self._records = records
        jobs = plan.jobs
        for job in jobs:
            check_observable(job)
        slow = any(isinstance(fault, Slowdown) and fault.host == host for fault in plan.faults)
        self._replay = self._make_steps(jobs, Slowdowns(plan.faults, host) if slow else None)
        self._ends = PlannedEnds(ended_jobs(plan.faults, jobs))
        # One that holds flows back by itself does otherwise than its graph says.
        ours = (job for job in jobs if job.placement[0] == host and job.discipline is None)
        self._graphs = [graph_of(job) for job in ours]
        self._iterations = {job.name: job.iterations for job in jobs}
        self._groups = plan.groups
        self._zero_s: float | None = None
        self._progress_due_s = math.inf
        self._progress_reported_s = -math.inf
        self._outgoing: dict[FlowName, OutgoingFlow] = {}
        self._incoming: dict[FlowName, IncomingFlow] = {}
        self._active: dict[FlowName, OutgoingFlow] = {}
        """Those of `_outgoing` that have something to send or to be acknowledged."""
        self._later: dict[FlowKey, dict[FlowName, Setting]] = {}
        """By flow: settings of others that hold as soon as all of it has left."""
        self._heeded: dict[int, int] = {}
        """What descriptors of `_active` flows are in the poll set for."""
        self._handlers: dict[int, Callable[[], None]] = {}
        self._weights = HostWeights(host, plan.egress.get(host))
        # Made before all connections, so that its descriptor is low enough for select.
        self._poll = select.epoll()
        self._client = LastingClient(
            self._connect(socket_path),
            host,
            plan.faults,
            Callbacks(
                self._apply,
                self._begin,
                self._unattended,
                self._attended,
                self._state_of,
                self._hold_back,
                self._weigh,
            ),
            clock,
        )

    # What another kind of agent has of its own

    def _make_steps(self, jobs: Sequence[Job], slowdowns: Slowdowns | None) -> Steps:
        """What says when steps of this host start."""
        return Replay(jobs, self._host, slowdowns, self._plan.repeat)

    def _payload_of(self, flow: FlowName) -> Payload | None:
        """What an outgoing flow sends; None for zeros."""
        return None

    def _keep_quiet(self) -> None:
        """Collections would cost milliseconds in the middle of a run, and nothing here makes cycles."""
        gc.freeze()
        gc.disable()

    @property
    def lost_messages(self) -> int:
        """Control messages that were lost as planned."""
        return self._client.lost

    def run(self) -> None:
        """Replay to the end (InputError or RunError if that cannot be)."""
        self._declare()
        self._open()
        self._client.ready()
        self._loop(lambda: self._zero_s is not None)
        self._keep_quiet()
        self._loop(lambda: self._replay.done and not self._active)
        self._weights.end()
        self._records.close()
        self._client.done()
        self._say_farewell()

    def _connect(self, socket_path: Path) -> Callable[[], socket.socket]:
        """What makes connections: a coordinator that is not there yet is waited for, one that has gone is not."""
        return lambda: connect(socket_path) if self._zero_s is None else unix_socket.connect(socket_path)

    def close(self) -> None:
        """Close all sockets and the records."""
        for outgoing in self._outgoing.values():
            outgoing.close()
        for incoming in self._incoming.values():
            incoming.close()
        self._weights.drop()
        self._client.close()
        self._poll.close()
        self._records.close()

    def _declare(self) -> None:
        for group in self._groups:
            if any(flow.src_host == self._host for flow in group.flows):
                self._client.declare(group, is_ours=group.flows[0].src_host == self._host)
        for graph in self._graphs:
            self._client.tell_graph(graph)
        self._client.flush()
        self._watch(self._client.fileno(), self._client.on_readable)

    def _flows(self, wanted: Callable[[FlowDeclaration], bool]) -> dict[FlowName, FlowDeclaration]:
        return {(g.job, f.flow): f for g in self._groups for f in g.flows if wanted(f)}

    def _open(self) -> None:
        """Open all connections of this host, in both directions."""
        addresses = self._plan.addresses
        deadline_s = time.monotonic() + CONNECT_TIMEOUT_S
        gather_bytes = wake_bytes(self._plan.send_buffer_bytes)
        listener = connections.listen(addresses[self._host], DATA_PORT + self._plan.run_index, gather_bytes)
        try:
            outgoing = self._flows(lambda flow: flow.src_host == self._host)
            for (job, name), connection in connections.connect_all(
                outgoing, addresses, deadline_s, self._check_coordinator
            ).items():
                flow = OutgoingFlow(
                    job,
                    outgoing[job, name],
                    connection,
                    send_buffer_bytes=self._plan.send_buffer_bytes,
                    on_acknowledged=self._on_acknowledged,
                    payload=self._payload_of((job, name)),
                )
                self._outgoing[job, name] = flow
                self._handlers[flow.fileno()] = lambda flow=flow: self._on_event(flow)  # type: ignore[misc]
            incoming = self._flows(lambda flow: flow.dst_host == self._host)
            for (job, name), connection in connections.accept_all(
                listener, incoming, addresses, deadline_s, self._check_coordinator
            ).items():
                self._receive(
                    self.incoming_kind(
                        job,
                        incoming[job, name],
                        connection,
                        iterations=self._iterations[job],
                        wake_bytes=gather_bytes,
                        clock=self._clock,
                        on_finished=self._on_finished,
                    )
                )
        finally:
            listener.close()

    def _check_coordinator(self) -> None:
        self._client.flush()
        self._client.on_readable()

    def _watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.EPOLLIN)

    def _receive(self, flow: IncomingFlow) -> None:
        def read() -> None:
            if not flow.read():
                self._poll.unregister(flow.fileno())
                flow.close()

        self._incoming[flow.job, flow.declaration.flow] = flow
        self._watch(flow.fileno(), read)

    def _loop(self, finished: Callable[[], bool]) -> None:
        """Handle events until `finished`."""
        while True:
            self._client.flush()
            if finished():
                return
            ready = wait(self._poll, self._next_tick_s(), self._replay.next_due_s, self._clock)
            self._carry_out(self._replay.advance(self._clock()))
            # The coordinator first: where it is gone, connections to other agents end as well, and it is the cause.
            for descriptor, _ in sorted(ready, key=lambda event: event[0] != self._client.fileno()):
                self._tolerating_ends(self._handlers.get(descriptor, _nothing))
            self._tolerating_ends(lambda: self._tick(self._clock()))

    def _next_tick_s(self) -> float:
        now_s = self._clock()
        tick_s = min(self._progress_due_s, self._client.next_due_s, self._ends.next_s)
        tick_s = min([tick_s, *(flow.next_piece_s for flow in self._active.values())])
        awaiting_s = [flow.poll_s for flow in self._active.values() if flow.awaits_acknowledgement]
        if awaiting_s:
            tick_s = min(tick_s, now_s + min(awaiting_s))
        if self._client.wants_write:
            tick_s = min(tick_s, now_s + ACK_POLL_S)
        return tick_s

    def _begin(self, zero_s: float) -> None:
        self._zero_s = zero_s
        self._ends.begin(zero_s)
        self._replay.begin(zero_s)

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Computed):
                self._records.write(computed_line(action, self._zero))
                continue
            if isinstance(action, HeldBack):
                self._records.write(held_line(action, self._zero))
                continue
            name = (action.job, action.flow)
            flow = self._outgoing[name]
            by = flow.release(action.iteration, action.release_s, action.ready_s)
            if by:  # what was decided ahead is not to wait until that has been told
                self._write(flow)
            self._refresh_progress()
            self._client.release(action.job, action.flow, action.iteration, action.release_s, by)
            self._client.flush()
            if not self._active:
                self._progress_due_s = action.release_s + self._plan.progress_interval_s
            self._active[name] = flow
            if not self._client.attended:
                flow.go_on_alone(action.release_s)
                self._write(flow)

    def _hold_back(self, message: HoldBack) -> None:
        self._replay.hold_back({one.job: Slots(one.first_s, one.every_s, one.tolerance_s) for one in message.slots})

    def _weigh(self, message: Weigh) -> None:
        started = self._weights.weigh(message)
        if started is not None:
            self._watch(started, self._weights.hear)

    def _apply(self, setting: Setting) -> None:
        flow = self._outgoing.get((setting.job, setting.flow))
        if self._ends.has_ended(setting.job):  # said before the coordinator heard of its end
            return
        if flow is None:
            raise RunError(
                f"the coordinator sent a setting for flow {setting.flow!r} of job {setting.job!r}, not sent from here"
            )
        if setting.after is not None and self._is_for_later(setting, setting.after):
            return
        flow.apply(setting, self._clock())
        self._write(flow)

    def _is_for_later(self, setting: Setting, after: FlowKey) -> bool:
        """Keep a setting that holds from the end of another flow on, if that is still to come."""
        job, iteration, name = after
        awaited = self._outgoing.get((job, name))
        if awaited is not None and awaited.has_left(iteration):
            return False
        self._later.setdefault(after, {})[setting.job, setting.flow] = setting
        return True

    def _follow(self, left: FlowKey) -> None:
        """Put in force what was to hold from the end of a flow on; a later decision on the same flow goes before it.

        All of that flow has left: its last segments are on their way, and the link is free for what follows them.
        """
        for (job, name), setting in self._later.pop(left, {}).items():
            flow = self._outgoing.get((job, name))
            if flow is not None:
                flow.apply(setting, self._clock())
                self._write(flow)

    def _write(self, flow: OutgoingFlow) -> None:
        """Write what TCP takes."""
        flow.write(self._clock())
        self._heed(flow)

    def _heed(self, flow: OutgoingFlow) -> None:
        """Wait for TCP to take more only if there is more that may be sent, and for acknowledgements only if one is awaited."""
        descriptor, wanted = flow.fileno(), flow.wanted_events
        heeded = self._heeded.get(descriptor)
        if wanted == heeded:
            return
        if wanted is None:
            self._poll.unregister(descriptor)
            del self._heeded[descriptor]
            return
        if heeded is None:
            self._poll.register(descriptor, wanted)
        else:
            self._poll.modify(descriptor, wanted)
        self._heeded[descriptor] = wanted

    def _on_event(self, flow: OutgoingFlow) -> None:
        """TCP takes more, or has something to announce; whether a flow has ended is looked for in every round."""
        flow.take_announcements()
        self._write(flow)

    def _tick(self, now_s: float) -> None:
        """Look for ends of flows, and report progress when that is due."""
        self._client.tick(now_s)
        for job in self._ends.due(now_s):
            self._end_job(job)
        progress_due = now_s >= self._progress_due_s
        for flow in list(self._active.values()):
            if flow.next_piece_s <= now_s:
                self._write(flow)
            if self._later and (active := flow.active) is not None and flow.has_left(active.iteration):
                self._follow((flow.job, active.iteration, flow.declaration.flow))
            if flow.awaits_acknowledgement or progress_due:
                flow.poll(now_s)
        if progress_due:
            self._report_progress()
            self._progress_due_s = now_s + self._plan.progress_interval_s if self._active else math.inf

    # Planned faults

    def _unattended(self, descriptor: int) -> None:
        """The coordinator has gone: every flow goes on by what is known of it."""
        del self._handlers[descriptor]  # the poll set has forgotten it with its closing
        self._later.clear()
        for flow in self._outgoing.values():
            flow.forget_decisions()
        for flow in self._active.values():
            flow.go_on_alone(self._clock())
            self._write(flow)

    def _attended(self) -> None:
        """There is a coordinator again."""
        self._watch(self._client.fileno(), self._client.on_readable)

    def _state_of(self, key: FlowKey) -> tuple[int, int | None] | None:
        job, iteration, name = key
        flow = self._outgoing.get((job, name))
        return None if flow is None else flow.state_of(iteration)

    def _tolerating_ends(self, action: Callable[[], None]) -> None:
        """Do something; a connection that is lost by a planned crash ends its job, and nothing else."""
        try:
            action()
        except FlowLostError as lost:
            if not self._ends.explain_loss(lost.job, self._clock()):
                raise
            self._end_job(lost.job)

    def _end_job(self, job: str) -> None:
        """A host of the job has crashed: drop all of it here."""
        self._ends.note(job)
        self._replay.end_job(job)
        for name, outgoing in [(n, flow) for n, flow in self._outgoing.items() if n[0] == job]:
            self._handlers.pop(outgoing.fileno(), None)
            self._heeded.pop(outgoing.fileno(), None)
            outgoing.abort()
            del self._outgoing[name]
            self._active.pop(name, None)
        for name, incoming in [(n, flow) for n, flow in self._incoming.items() if n[0] == job]:
            self._handlers.pop(incoming.fileno(), None)
            incoming.close()
            del self._incoming[name]

    def _refresh_progress(self) -> None:
        """Report progress for a decision that is about to be asked for, unless that has just been done."""
        if self._clock() - self._progress_reported_s >= FRESH_S:
            self._report_progress()

    def _report_progress(self) -> None:
        self._progress_reported_s = self._clock()
        for (job, name), flow in self._active.items():
            active = flow.active
            if active is not None and active.start_s is not None:
                self._client.progress(job, name, active.iteration, flow.acknowledged_bytes())

    def _on_acknowledged(self, flow: OutgoingFlow, sent: SentFlow, now_s: float) -> None:
        name = flow.declaration.flow
        self._follow((flow.job, sent.iteration, name))
        self._records.write(sent_line(flow.job, name, sent, now_s, self._zero))
        if flow.active is None:
            del self._active[flow.job, name]
            self._heed(flow)
        else:
            self._write(flow)
        self._carry_out(self._replay.acknowledged(flow.job, sent.iteration, name, now_s))

    def _on_finished(self, flow: IncomingFlow, received: ReceivedFlow) -> None:
        name = flow.declaration.flow
        self._refresh_progress()
        self._client.finish(flow.job, name, received.iteration, received.finish_s)
        self._client.flush()
        self._records.write(received_line(flow.job, name, received, self._zero))
        self._carry_out(self._replay.arrived(flow.job, received.iteration, name, received.finish_s))

    @property
    def _zero(self) -> float:
        assert self._zero_s is not None  # nothing is computed or sent before the start
        return self._zero_s

    def _say_farewell(self) -> None:
        """Send what is left and read what has crossed it, so that closing does not look like a failure."""
        deadline_s = self._clock() + FAREWELL_S
        while self._client.wants_write:
            if self._clock() > deadline_s:
                raise RunError(f"the coordinator did not take the last messages within {FAREWELL_S:.0f} s")
            self._client.flush()
            select.select([], [self._client], [], 0.05)
        with contextlib.suppress(EchelonError):
            self._client.on_readable()


def _nothing() -> None:
    """What an event of a connection leads to that was closed since."""


def main(argv: list[str]) -> int:
    """Replay one host's part; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m traffic.agent", description=__doc__.split("\n")[0])
    parser.add_argument("--plan", type=Path, required=True, help="plan.json of the run")
    parser.add_argument("--host", required=True, help="the host to replay, as the plan names it")
    parser.add_argument("--socket", type=Path, required=True, help="the coordinator's Unix socket")
    parser.add_argument("--records", type=Path, required=True, help="file to write what happened to, as JSON lines")
    options = parser.parse_args(argv)
    connections.allow_one_for_every_flow()
    try:
        plan = read_plan(options.plan)
        with contextlib.closing(AgentLog(options.records)) as records:
            agent = Agent(plan, options.host, options.socket, records)
            try:
                agent.run()
            finally:
                agent.close()
            if agent.lost_messages:
                print(
                    f"agent {options.host}: {agent.lost_messages} control messages were lost, as planned",
                    file=sys.stderr,
                )
    except EchelonError as error:
        print(f"agent {options.host}: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:  # a full disk, no descriptors
        print(f"agent {options.host}: {refusal(error)}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_FAILED
    return EXIT_VALID
