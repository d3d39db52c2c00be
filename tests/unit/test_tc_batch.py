"""The tc that stays: what it is told, when it has carried that out, and how it fails."""

from __future__ import annotations

import contextlib
import select

import pytest

from echelonflow.errors import RunError
from echelonflow.model import topologies
from echelonflow.tc_batch import TcBatch
from echelonflow.wire.classes import CLASSES, DATA_CLASSES
from echelonflow.wire.egress import LONGEST_TURN, Egress
from echelonflow.wire.messages import ClassShare, Queues, Weigh
from tests.unit.fake_tc import FakeTc
from traffic.agent.weights import HostWeights

EGRESS = Egress("h1-eth0", 100e6, 1514, 12_500, 0.004)


def confirmed(tc, batches):
    """Waits until tc has carried out so many batches."""
    found = 0
    while found < batches:
        assert select.select([tc], [], [], 20)[0], "tc says nothing"
        found += tc.confirmed()
    return found


def words_after(lines, word):
    return [line.split()[line.split().index(word) + 1] for line in lines]


def test_it_is_told_lines_and_says_when_it_has_carried_out_a_batch(tmp_path):
    fake = FakeTc(tmp_path)
    with contextlib.closing(fake()) as tc:
        tc.put(["one", "two"])
        tc.put(["three"])
        assert confirmed(tc, 2) == 2
        assert fake.told == ["one", "two", "three"]


def test_what_is_left_is_carried_out_before_it_ends(tmp_path):
    fake = FakeTc(tmp_path)
    tc = fake()
    tc.put([f"line {i}" for i in range(1000)])
    tc.close()
    assert len(fake.told) == 1000
    tc.close()


def test_a_line_that_fails_is_told_with_what_tc_said(tmp_path):
    tc = FakeTc(tmp_path, bad="classid 1:99")()
    tc.put(["class change dev x classid 1:99"])
    with pytest.raises(RunError, match=r"tc failed: Error: no such class\. / Command failed -:1"):
        confirmed(tc, 1)
    with pytest.raises(RunError, match="tc failed"):
        tc.put(["more"])
    with pytest.raises(RunError, match="tc failed"):
        tc.close()


def test_a_tc_that_there_is_not():
    with pytest.raises(RunError, match=r"^no-such-program cannot be started: No such file or directory$"):
        TcBatch(("no-such-program",))


def test_one_that_takes_nothing_is_not_waited_for(tmp_path):
    tc = TcBatch(("sh", "-c", "read line; exec sleep 30"))
    with pytest.raises(RunError, match="does not keep up"):
        tc.put(["x" * 100] * 100_000)
    with pytest.raises(RunError, match="did not end"):
        tc.close()


class TestEgress:
    def test_in_order_every_class_has_its_own_priority_and_by_weights_data_classes_have_one(self):
        assert words_after(EGRESS.in_order()[1:], "prio") == [str(c) for c in range(CLASSES)]
        assert words_after(EGRESS.equal(), "prio") == [str(DATA_CLASSES[0])] * len(DATA_CLASSES)
        assert words_after(EGRESS.equal(), "quantum") == ["12500"] * len(DATA_CLASSES)
        assert words_after(EGRESS.equal(), "classid") == [f"1:{10 + c:x}" for c in DATA_CLASSES]

    def test_turns_are_as_long_as_weights_and_the_lightest_is_a_segment(self):
        lines = EGRESS.weighted({2: 0.6, 5: 0.2})
        assert words_after(lines, "classid") == ["1:c", "1:f"]
        assert words_after(lines, "quantum") == ["37500", "12500"]
        assert words_after(EGRESS.weighted({1: 1.0, 2: 1e-5}), "quantum")[0] == str(LONGEST_TURN * 12_500)
        assert EGRESS.weighted({}) == []

    def test_nothing_else_differs(self):
        strict = {line.split("classid ")[1].split()[0]: line for line in EGRESS.in_order()[1:]}
        for line in [*EGRESS.equal(), *EGRESS.weighted({1: 0.5, 2: 0.1})]:
            was = strict[line.split("classid ")[1].split()[0]]
            assert line.split(" prio ")[0] == was.split(" prio ")[0]

    def test_of_a_network(self):
        network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e8})
        found = [Egress.of(network, link, Queues(3000, 0.002)) for link in network.links]
        assert {egress.interface for egress in found} == {"h1-eth0", "h2-eth0", "s1-eth1", "s1-eth2"}
        assert {(egress.rate_bps, egress.segment_bytes) for egress in found} == {(1e8, 3000)}


class TestHostWeights:
    def test_weights_are_put_in_force_and_taken_back(self, tmp_path):
        fake = FakeTc(tmp_path)
        weights = HostWeights("h1", EGRESS, fake)
        assert weights.weigh(Weigh()) is not None
        assert weights.weigh(Weigh((ClassShare(1, 0.75), ClassShare(2, 0.25)))) is None
        weights.weigh(Weigh(None))
        weights.end()
        assert fake.told == [
            *EGRESS.equal(), *EGRESS.weighted({1: 0.75, 2: 0.25}), *EGRESS.in_order(), *EGRESS.in_order()
        ]  # fmt: skip
        weights.drop()

    def test_nothing_is_started_where_nothing_is_weighed(self, tmp_path):
        weights = HostWeights("h1", None, FakeTc(tmp_path))
        weights.end()
        weights.drop()
        with pytest.raises(RunError, match="the plan says nothing of the queues of h1"):
            weights.weigh(Weigh())

    def test_a_failure_names_the_host(self, tmp_path):
        weights = HostWeights("h1", EGRESS, FakeTc(tmp_path, bad="quantum"))
        descriptor = weights.weigh(Weigh())
        assert select.select([descriptor], [], [], 20)[0]
        with pytest.raises(RunError, match="weights of classes at h1 cannot be changed: tc failed: Error: no such"):
            weights.hear()
        weights.drop()
