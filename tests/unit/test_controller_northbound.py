"""REST in plain data: every request and its answer, without a network."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.metrics import Counters, exposition
from controller.northbound import MOST_BODY_BYTES, Answer, Request, SwapPolicy, body_length, refused, respond, swapped
from echelonflow.errors import InputError, PolicyError, RunError
from echelonflow.records.run_record import DecisionRecord
from echelonflow.wire.live import JobLive, Live
from echelonflow.wire.rest import Agents, GroupStatus, RunStatus, Status, Switches, decoded

JOB = JobLive(
    job="j", iteration=3, began_s=0.5, lasted_s=None, groups=("g",), groups_in_flight=1, flows_in_flight=2, late_s=None,
    ended_groups=4, tardiness_s=0.25, worst_tardiness_s=0.125,
)  # fmt: skip


class View:
    def __init__(self):
        self.counters = Counters()
        self.run = RunStatus(
            name="r", elapsed_s=1.0, policy='a"b\\c', enforcer="rate", started=True, failed=False,
            agents=Agents(2, 2, 0), groups=3, flows_in_flight=2,
        )  # fmt: skip

    def status(self, now_s):
        return Status(network="n", hosts=2, switches=Switches(("s1", "s2"), ("s1",)), clients=4, run=self.run)

    def live(self, now_s):
        return Live(run=self.run, jobs=(JOB,) if self.run else ())

    def groups(self):
        return [GroupStatus(job="j", group="g", kind="pp", weight=1.0, flows=1, size_bytes=9)]


def ask(method, path, body=b"", view=None):
    return respond(Request(method, path, body), view or View(), 1.0)


def test_what_is_asked_for_is_answered():
    status = json.loads(ask("GET", "/status").body)
    assert (status["clients"], status["decisions"], status["run"]["name"]) == (4, 0, "r")
    assert decoded(ask("GET", "/groups/?x=1").body, list[GroupStatus]) == View().groups()
    assert decoded(ask("GET", "/live").body, Live) == View().live(1.0)
    assert b'echelon_job_iteration{job="j"} 3' in ask("GET", "/metrics").body
    assert json.loads(ask("GET", "/policy").body) == {"policy": 'a"b\\c', "enforcer": "rate"}
    policies = {p["name"]: p for p in json.loads(ask("GET", "/policies").body)}
    assert "grouping" in policies["coflow"]["options"]
    assert {"fair", "echelonflow"} <= set(policies)


def test_an_order_for_a_policy_is_passed_on():
    assert ask("PUT", "/policy", b'{"policy": "fair"}') == SwapPolicy("fair", None)
    assert ask("PUT", "/policy", b'{"policy": "fair", "enforcer": "rate"}') == SwapPolicy("fair", "rate")
    assert swapped(View(), 1.0).status == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 30_000, "expected object"),
        (b'{"policy": ' + b"[" * 30_000, "expected str"),
        (b"[]", "expected object, not array"),
        (b'{"policy": 3}', "policy: expected str, not int"),
        (b'{"policy": "fair", "x": 1}', "unknown field x"),
        (b'{"policy": "fair", "enforcer": "magic"}', "unknown enforcer 'magic'; there is: priority, rate, weighted"),
        (b'{"policy": ""}', "policy: expected str of length >= 1"),
        (b'{"policy": "fa\\u0000ir"}', "policy: expected str matching"),
        (b'{"policy": "%s"}' % (b"x" * 5000), "policy: expected str of length <= 4096"),
        (b'{"policy": "fair", "enforcer": []}', "enforcer: expected str | null, not array"),
    ],
)
def test_a_body_that_is_not_understood_is_400(body, words):
    answer = ask("PUT", "/policy", body)
    assert answer.status == 400
    assert words in json.loads(answer.body)["error"]


@pytest.mark.parametrize(
    ("method", "path", "allow"), [("DELETE", "/policy", "HEAD, GET, PUT"), ("PUT", "/status", "HEAD, GET")]
)
def test_a_wrong_method_is_405_and_says_what_is_right(method, path, allow):
    answer = ask(method, path)
    assert (answer.status, answer.headers["Allow"]) == (405, allow)


def test_an_unknown_path_is_404_and_names_those_there_are():
    answer = ask("GET", "/nothing")
    assert answer.status == 404
    assert "/metrics" in json.loads(answer.body)["error"]


def test_a_body_is_read_only_if_its_length_is_known_and_small():
    assert body_length(None, "GET") == 0
    assert body_length("12", "PUT") == 12
    for header, status in ((None, 411), ("x", 400), ("-1", 400), (str(MOST_BODY_BYTES + 1), 413), ("9" * 5000, 413)):
        answer = body_length(header, "PUT")
        assert isinstance(answer, Answer)
        assert answer.status == status


def test_policies_that_cannot_be_used_are_422_and_what_does_not_fit_the_moment_409():
    assert [refused(e).status for e in (InputError("x"), PolicyError("x"), RunError("x"))] == [422, 422, 409]


def test_metrics_are_prometheus_text():
    """Read by Prometheus' own library: every family with its kind, every sample with its labels."""
    view = View()
    for total_ms in (0.2, 3.0, 3.0, 5000.0):
        view.counters.decision(DecisionRecord(0.0, "t", 1, 1, "d", 0.1, total_ms))
    view.counters.request(404)
    families = list(text_string_to_metric_families(exposition(view.counters, view.status(0.0), (JOB,))))
    assert all(family.documentation and family.samples for family in families)
    kinds = {family.name: family.type for family in families}
    assert set(kinds.values()) == {"counter", "gauge", "histogram"}
    assert (kinds["echelon_http_requests"], kinds["echelon_decision_seconds"]) == ("counter", "histogram")
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }
    bucket = "echelon_decision_seconds_bucket"
    found = [values[bucket, ("le", bound)] for bound in ("0.0005", "0.005", "1.0", "+Inf")]
    assert found == [1, 3, 3, 4]
    assert values["echelon_decision_seconds_count",] == 4
    assert values["echelon_decision_seconds_sum",] == pytest.approx(5.0062)
    assert values["echelon_http_requests_total", ("code", "404")] == 1
    assert values["echelon_policy_info", ("enforcer", "rate"), ("policy", 'a"b\\c')] == 1
    of_job = {name: values[f"echelon_job_{name}", ("job", "j")] for name in ("iteration", "tardiness_seconds_total")}
    assert of_job == {"iteration": 3, "tardiness_seconds_total": 0.25}
    assert values["echelon_job_late_seconds", ("job", "j")] == 0
    view.run = None
    assert "echelon_run_active 0" in exposition(view.counters, view.status(0.0))
