"""Experiment files: what is accepted, and that every fault is reported at once, by its path."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from echelon.experiment import schema
from echelon.places import EXPERIMENTS
from echelon.running import attempts, runner
from echelonflow.errors import InputError
from echelonflow.model import topologies
from testbed.mininet_network import EmulatedNetwork
from tests.unit.synthetic_run import paper_job, paper_network

FILES = sorted(EXPERIMENTS.glob("*.yaml"))

GOOD = {
    "name": "good",
    "network": {"topology": "single-switch", "hosts": 2, "rate": "10 Mbit/s"},
    "jobs": [
        {"name": "job", "paradigm": "pipeline", "stages": 2, "micro_batches": 2, "forward": "1 s", "activation": "1 MB"}
    ],
    "policies": ["fair"],
}


def changed(**paths):
    """GOOD with values replaced; a key is a path such as jobs__0__stages; None removes."""
    data = copy.deepcopy(GOOD)
    for path, value in paths.items():
        *way, last = [int(p) if p.isdigit() else p for p in path.split("__")]
        place = data
        for part in way:
            place = place[part]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return data


def faults(data):
    with pytest.raises(InputError) as caught:
        schema.check(data, Path("file.yaml"))
    assert caught.value.exit_code == 2
    heading, *lines = str(caught.value).splitlines()
    return lines or [heading]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_experiments_can_be_read_and_simulated(path):
    experiment = schema.load(path)
    for policy in experiment.policies:
        assert runner.predict(experiment, policy).computes


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"polices": ["fair"]}, "polices: unknown key"),
        ({"network": None}, "network: missing"),
        (
            {"network__topology": "nowhere"},
            f"network.topology: unknown topology 'nowhere'; there is: {', '.join(topologies.names())}",
        ),
        ({"network__rate": "10"}, "network.rate: '10' is not a rate"),
        ({"network__rate": "0 Mbit/s"}, "network.rate: '0 Mbit/s' must be greater than 0"),
        ({"network__hosts": 0}, "network.hosts: 0 is not a whole number of at least 1"),
        ({"network__mbit": 3}, "network.mbit: unknown key; there is: hosts, rate, mtu, topology"),
        ({"jobs__0__paradigm": "magic"}, "jobs.0.paradigm: unknown paradigm 'magic'"),
        ({"jobs__0__stages": 2.5}, "jobs.0.stages: 2.5 is not a whole number of at least 1"),
        ({"jobs__0__forward": "1 MB"}, "jobs.0.forward: '1 MB': unknown unit 'MB'; write a duration such as '1 s'"),
        ({"jobs__0__activation": None}, "jobs.0.activation: missing (a size such as 25 MB or a list of such)"),
        ({"jobs__0__profile": "nothing"}, "jobs.0.profile: there is no file 'nothing'"),
        (
            {"jobs__0__placement": ["h1", "h7"]},
            "jobs.0.placement: unknown host 'h7'; there is: h1, h2",
        ),
        ({"jobs__0__placement": ["h1"]}, "jobs.0.placement: 1 host for 2 ranks; name one for each rank"),
        ({"policies": ["best"]}, "policies.0: unknown policy 'best'; there is: aalo, cassini, clock, coflow, crux,"),
        ({"policies": ["coflow(grouping=all)"]}, "grouping: 'all' is not one of collective, group"),
        ({"policies": ["fair", "fair"]}, "policies.1: 'fair' is listed twice"),
        ({"emulation": {"limits": {"max_luck": 1}}}, "there is no limit 'max_luck'"),
        ({"repeats": 0}, "repeats: 0 is not a whole number from 1 to 10,000; write such as `repeats: 5`"),
    ],
)
def test_each_fault_is_named_by_its_path(change, line):
    assert any(line in found for found in faults(changed(**change)))


def test_all_faults_are_reported_at_once():
    bad = changed(network__rate="fast", jobs__0__start="soon", policies=["best"])
    assert {line.split(": ")[1] for line in faults(bad)} == {"network.rate", "policies.0", "jobs.0.start"}


def test_a_fault_of_structure_hides_no_other():
    bad = changed(
        repeats=0, network__rate="fast", jobs__0__iterations="two", jobs__0__start="soon", policies=["best", 5]
    )
    assert {line.split(": ")[1] for line in faults(bad)} == {
        "repeats", "network.rate", "jobs.0.iterations", "jobs.0.start", "policies.0", "policies.1",
    }  # fmt: skip


def test_a_size_can_be_given_in_time_of_the_link():
    experiment = schema.check(changed(jobs__0__activation="2 s of link"), Path("file.yaml"))
    transfer = experiment.jobs[0].dag.transfers[0]
    assert transfer.size_bytes == round(2 * experiment.network.capacity_Bps[0])


def test_the_command_line_overrides_the_file(tmp_path):
    path = tmp_path / "e.yaml"
    YAML().dump(GOOD, path)
    experiment = schema.load(path, {"policies": ["coflow"], "repeats": 7})
    assert experiment.policies == ("coflow",)
    assert experiment.repeats == 7


def test_a_mapping_from_the_command_line_leaves_its_other_keys(tmp_path):
    path = tmp_path / "e.yaml"
    YAML().dump(changed(emulation={"tso": False, "datapath": "kernel"}), path)
    emulation = schema.load(path, {"emulation": {"datapath": "userspace"}}).emulation
    assert (emulation.datapath, emulation.tso) == ("userspace", False)


def test_a_mapping_from_the_command_line_hides_no_fault(tmp_path):
    path = tmp_path / "e.yaml"
    YAML().dump(changed(emulation=5), path)
    with pytest.raises(InputError, match="emulation: "):
        schema.load(path, {"emulation": {"datapath": "userspace"}})


@pytest.mark.parametrize("text", ["", "- a\n", "name: [", "\x00"])
def test_files_that_are_no_experiment(tmp_path, text):
    path = tmp_path / "e.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"e\.yaml"):
        schema.load(path)


def test_policies_take_turns_in_an_order_that_the_seed_decides():
    experiment = schema.check(changed(policies=["fair", "coflow", "echelonflow"], repeats=6), Path("f"))
    predictions = {name: runner.predict(experiment, name) for name in experiment.policies}
    runs = attempts.runs_of(experiment, predictions)
    assert runs == attempts.runs_of(experiment, predictions)
    for repeat in range(6):
        assert {r.policy for r in runs if r.repeat == repeat} == set(experiment.policies)
    assert len({tuple(r.policy for r in runs if r.repeat == k) for k in range(6)}) > 1


def test_a_fluid_run_needs_nothing_of_the_machine(tmp_path):
    experiment = schema.check(changed(policies=["fair", "echelonflow"]), Path("f"))
    code, summary = runner.run(experiment, tmp_path / "out", "fluid", lambda _: None)
    assert code == 0
    assert summary.backend == "fluid"
    assert (tmp_path / "out" / "report.html").exists()


def test_a_folder_in_use_is_not_touched(tmp_path):
    (tmp_path / "precious").write_text("x")
    experiment = schema.check(GOOD, Path("f"))
    with pytest.raises(InputError, match="not empty"):
        runner.run(experiment, tmp_path, "fluid", lambda _: None)
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def allocate(snapshot):\n    while True: pass\n", r"had not decided after 1 s of computing"),
        ("def allocate(snapshot):\n    return 1 / 0\n", r"mine\.py, line 2: ZeroDivisionError"),
        ("def allocate(snapshot)\n", "line 1"),
        ("x = 1\n", "no function allocate"),
    ],
)
def test_a_users_policy_that_does_not_work_is_refused_before_anything_starts(tmp_path, body, words):
    mine = tmp_path / "mine.py"
    mine.write_text(body)
    with pytest.raises(InputError, match=words):
        experiment = schema.check(changed(policies=[str(mine)]), Path("f"))
        runner.run(experiment, tmp_path / "out", "fluid", lambda _: None)
    assert not (tmp_path / "out").exists()


def test_the_name_of_a_policy_file_may_be_any(tmp_path):
    """What matplotlib takes for mathematics, a shell for a variable, HTML for a tag."""
    mine = tmp_path / "$x^{$ <b>&'\".py"
    mine.write_text(Path(schema.policies.__file__).with_name("fair.py").read_text())
    experiment = schema.check(changed(policies=[str(mine)]), Path("f"))
    code, _ = runner.run(experiment, tmp_path / "out", "fluid", lambda _: None)
    assert code == 0
    assert "$x^{$ &lt;b&gt;" in (tmp_path / "out" / "report.html").read_text()


def test_a_users_policy_file_is_a_policy_like_any_other(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(Path(schema.policies.__file__).with_name("fair.py").read_text())
    experiment = schema.check(changed(policies=[str(mine), "fair"]), Path("f"))
    own, fair = (runner.predict(experiment, name) for name in experiment.policies)
    assert own.computes == fair.computes


@pytest.mark.parametrize("name", ["cubic\n.\nid > FILE\n", "cubic; id", "$(id)", "`id`", "", "Cubic", "a" * 16, "a b"])
def test_a_congestion_control_is_a_name_and_nothing_that_a_shell_would_run(name):
    """It reached a here-document for a shell of root: "cubic\\n.\\nid > FILE" ran id on the machine itself."""
    data = YAML(typ="safe", pure=True).load((EXPERIMENTS / "pipeline.yaml").read_text())
    data["emulation"] = {"congestion_control": name}
    with pytest.raises(InputError, match=r"emulation\.congestion_control: .* is not the name of a congestion control"):
        schema.check(data, EXPERIMENTS / "pipeline.yaml")
    with pytest.raises(InputError, match="is not the name of a congestion control"):
        EmulatedNetwork(topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e8}), None, congestion_control=name)


def test_a_size_beyond_counting_is_a_fault_of_the_file():
    with pytest.raises(InputError, match=r"jobs\.0\.activation: '1e308 s' is beyond the bound of a time"):
        schema.check(changed(jobs__0__activation="1e308 s of link"), EXPERIMENTS / "good.yaml")


def test_a_job_that_agents_cannot_follow_is_refused_before_anything_is_made(tmp_path):
    """The paper's job with its next iteration begun on another host than its last step: no transfer tells that host."""
    network = paper_network()
    job = paper_job(network, iterations=2)
    experiment = dataclasses.replace(schema.load(EXPERIMENTS / "pipeline.yaml"), network=network, jobs=(job,))
    with pytest.raises(InputError, match="waits for 'c2', which only h2 can notice"):
        runner.run(experiment, tmp_path / "out", "emulation", lambda _: None)
    assert not (tmp_path / "out").exists()
