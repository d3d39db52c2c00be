"""A controller's REST interface, played on a Unix socket: what it says of a run is what the test says; it keeps what is ordered."""

from __future__ import annotations

import contextlib
import http.server
import json
import socketserver
import threading

import msgspec

from echelonflow.wire.live import DecisionBrief, DecisionLive, FlowChanged, FlowInOrder, JobLive, Live
from echelonflow.wire.rest import Agents, PolicyInForce, Refusal, RunStatus

METRICS = "# HELP echelon_clients Clients.\n# TYPE echelon_clients gauge\nechelon_clients 3\n"


def live(job="pipeline", flow="f1", policy="echelonflow", **changes):
    """What a controller says in mid-run, of one job with two flows."""
    fields = {
        "run": RunStatus(
            name="echelonflow-r0", elapsed_s=4.5, policy=policy, enforcer="priority", started=True, failed=False,
            agents=Agents(2, 2, 0), groups=1, flows_in_flight=2,
        ),
        "decisions": 12,
        "swaps": 1,
        "jobs": (
            JobLive(
                job=job, iteration=1, began_s=4.0, lasted_s=2.125, groups=("forward",), groups_in_flight=1,
                flows_in_flight=2, late_s=0.375, ended_groups=2, tardiness_s=0.5, worst_tardiness_s=0.3125,
            ),
        ),
        "jobs_in_all": 1,
        "decision": DecisionLive(
            number=12, time_s=4.25, policy=policy, trigger=f"release {job}/{flow}#1", flows=2, groups=1, policy_ms=0.5,
            total_ms=1.5, changes=1,
            order=(
                FlowInOrder(job=job, iteration=1, flow=flow, rank=0, traffic_class=1, rate_Bps=1.25e6, due_s=4.0),
                FlowInOrder(job=job, iteration=1, flow="f2", rank=1, traffic_class=2, rate_Bps=0.0, due_s=6.0),
            ),
            changed=(FlowChanged(job=job, iteration=1, flow=flow, traffic_class=1, rate_Bps=None),),
        ),
        "recent": (DecisionBrief(number=11, time_s=3.5, trigger=f"finish {job}/f0#1", flows=1, changes=0),),
    }  # fmt: skip
    return Live(**{**fields, **changes})


class FakeController:
    """Answers at a Unix socket while it is entered. A policy whose name is not known is refused, as a real one does."""

    def __init__(self, path, says=None):
        self.path = path
        self.says = live() if says is None else says
        self.asked = []
        self.ordered = []

    def answer(self, method, path, body):
        self.asked.append((method, path))
        if path == "/metrics":
            return 200, METRICS.encode()
        if method == "PUT":
            order = json.loads(body)
            self.ordered.append(order)
            if order["policy"].partition("(")[0] not in ("fair", "coflow"):
                return 422, msgspec.json.encode(Refusal(f"unknown policy '{order['policy']}'; there is: coflow, fair"))
            run = msgspec.structs.replace(self.says.run, policy=order["policy"])
            self.says = msgspec.structs.replace(self.says, run=run)
            return 200, msgspec.json.encode(PolicyInForce(order["policy"], "priority"))
        return 200, msgspec.json.encode(self.says)

    def __enter__(self):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self):
                length = int(self.headers.get("Content-Length") or 0)
                status, body = fake.answer(self.command, self.path, self.rfile.read(length))
                self.send_response_only(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            do_GET = do_PUT = handle_any

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        self._server = Server(str(self.path), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self.path.unlink(missing_ok=True)
