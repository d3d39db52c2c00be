"""What the live view knows: progress in, a drawing and a state out."""

from __future__ import annotations

import pytest

from echelon.live.layout import layout
from echelon.live.watched import BEFORE_ANY, MOST_WARNINGS, Watched
from echelon.running.link_readings import EVERY_S, MOST_SHARE, LinkReadings
from echelonflow.errors import RunError
from echelonflow.model import topologies
from echelonflow.records.progress import (
    Analysing,
    IterationBegun,
    Predicting,
    RunFailed,
    Warned,
    parse_progress,
    progress_line,
)
from tests.unit.watched_experiment import RATE_BPS, RUNNING, carried, experiment


@pytest.fixture
def watched(tmp_path):
    """What is watched, and the experiment."""
    shown = Watched()
    checked = experiment(tmp_path)
    shown.begin(checked, tmp_path)
    return shown, checked


def test_the_drawing_has_nodes_links_jobs_and_where_the_report_will_be(watched, tmp_path):
    shown, checked = watched
    drawing = shown.drawing
    assert (drawing.number, drawing.experiment, drawing.policies) == (1, "watched", ("fair", "echelonflow"))
    assert [link.name for link in drawing.links] == [link.name for link in checked.network.links]
    assert {node.name: node.layer for node in drawing.nodes} == {"h1": 0, "h2": 0, "h3": 0, "h4": 0, "s1": 1, "s2": 1}
    (job,) = drawing.jobs
    assert (job.name, job.iterations, len(job.hosts)) == ("pipeline", 2, 2)
    assert drawing.report == str(tmp_path / "report.html")


def test_the_stage_is_said_in_words(watched):
    shown, _ = watched
    assert shown.state(None, "").stage == BEFORE_ANY
    shown.hear(Predicting())
    assert shown.state(None, "").stage == "predicting by fluid simulation"
    shown.hear(RUNNING)
    shown.hear(IterationBegun(1))
    state = shown.state(None, "nobody")
    assert state.stage == "run 2 of 6: echelonflow, repeat 0, iteration 1"
    assert (state.run.number, state.run.of, state.run.policy, state.silence) == (2, 6, "echelonflow", "nobody")


def test_loads_are_what_was_carried_between_readings(watched):
    shown, checked = watched
    shown.hear(RUNNING)
    shown.hear(carried(checked, 10.0, h1__s1=[1000, 0, 0, 0, 0, 0, 0, 500]))
    assert shown.state(None, "").links is None  # one reading says nothing
    shown.hear(carried(checked, 12.0, h1__s1=[1000, 250_000, 0, 0, 0, 0, 0, 1500]))
    links = shown.state(None, "").links
    assert links.over_s == 2.0
    of = dict(zip((link.name for link in shown.drawing.links), links.by_class_bps, strict=True))
    assert of["h1->s1"] == (0, 1e6, 0, 0, 0, 0, 0, 4000)
    assert sum(of["s1->h1"]) == 0
    name, by_class = next((link.name, sent) for link, sent in shown.carried() if sum(sent))
    assert (name, by_class[1]) == ("h1->s1", 250_000)


def test_loads_of_an_earlier_run_or_network_are_not_shown(watched):
    shown, checked = watched
    shown.hear(RUNNING)
    for time_s, sent in ((1.0, 0), (2.0, 1000)):
        shown.hear(carried(checked, time_s, h1__s1=[sent] + [0] * 7))
    assert shown.state(None, "").links is not None
    shown.hear(carried(checked, 3.0))  # counters that began anew
    assert shown.state(None, "").links.over_s == 1.0
    shown.hear(Analysing())
    assert shown.state(None, "").links is None
    assert shown.carried() == ()


def test_the_last_warnings_are_kept_and_do_not_hide_the_stage(watched):
    shown, _ = watched
    shown.hear(RUNNING)
    for number in range(MOST_WARNINGS + 2):
        shown.hear(Warned(f"w{number}"))
    shown.hear(RunFailed("fair", 0, "the agent on h1 died"))
    state = shown.state(None, "")
    assert len(state.warnings) == MOST_WARNINGS
    assert state.warnings[-1] == "run 2 of 6 failed (fair, repeat 0): the agent on h1 died"
    assert state.warnings[0] == "warning: w3"


def test_another_experiment_is_another_drawing_and_nothing_of_the_first_stays(watched, tmp_path):
    shown, _ = watched
    shown.hear(RUNNING)
    shown.end("over")
    assert shown.ended
    shown.begin(experiment(tmp_path, name="second"), tmp_path / "2")
    state = shown.state(None, "")
    assert (state.number, state.ended, state.run, state.warnings) == (2, "", None, ())
    assert shown.drawing.experiment == "second"
    assert shown.folder.root == tmp_path / "2"


@pytest.mark.parametrize(
    ("topology", "options", "layers"),
    [
        ("single-switch", {"hosts": 3, "rate_bps": RATE_BPS}, [3, 1]),
        ("leaf-spine", {"leaves": 2, "hosts_per_leaf": 3, "spines": 2, "rate_bps": RATE_BPS}, [6, 2, 2]),
    ],
)
def test_hosts_are_below_and_switches_above_by_their_distance(topology, options, layers):
    network = topologies.build(topology, options)
    nodes = layout(network)
    assert [sum(node.layer == layer for node in nodes) for layer in range(len(layers))] == layers
    assert {node.name for node in nodes} == {*network.hosts, *network.switches}
    for layer in range(len(layers)):
        across = sorted(node.across for node in nodes if node.layer == layer)
        assert all(0 < place < 1 for place in across)
        assert len(set(across)) == len(across)


def test_a_leaf_stands_above_its_own_hosts():
    network = topologies.build("leaf-spine", {"leaves": 2, "hosts_per_leaf": 3, "spines": 2, "rate_bps": RATE_BPS})
    across = {node.name: node.across for node in layout(network)}
    leaves = sorted(set(network.edge_switch.values()), key=across.__getitem__)
    for host, leaf in network.edge_switch.items():
        assert abs(across[host] - across[leaf]) < abs(across[host] - across[leaves[1 - leaves.index(leaf)]])


# When links are read


def test_links_are_read_once_a_second_and_less_often_where_that_takes_long():
    now, told, took_s = [100.0], [], [0.0]

    def read():
        now[0] += took_s[0]
        return ((1,) * 8,)

    readings = LinkReadings(read, told.append, lambda: now[0])
    for _ in range(4):
        readings.look()
        now[0] += EVERY_S / 2
    assert [one.time_s for one in told] == [100.0, 100.0 + EVERY_S]
    told.clear()
    took_s[0] = EVERY_S * MOST_SHARE * 3
    for _ in range(10):
        readings.look()
        now[0] += EVERY_S / 2
    assert told[1].time_s - told[0].time_s >= took_s[0] / MOST_SHARE


def test_links_that_cannot_be_read_are_left_out_and_the_run_goes_on(caplog):
    calls = []

    def read():
        calls.append(1)
        raise RunError("reading class counters: no such device")

    readings = LinkReadings(read, calls.append)
    readings.look()
    readings.look()
    assert calls == [1]
    assert "links are not read any more: reading class counters: no such device" in caplog.text


def test_a_reading_crosses_the_pipe_as_it_is(tmp_path):
    said = carried(experiment(tmp_path), 1.5, h1__s1=range(8))
    assert parse_progress(progress_line(said)) == said
