"""Jobs that are training programs, in experiment files, and jobs made of what was seen of them; PyTorch is not needed."""

import json
import re

import pytest

from echelon.experiment import schema
from echelon.experiment.programs import learned_data, programs_of
from echelon.running import living
from echelonflow.errors import InputError
from echelonflow.records.assignment import LiveProgram
from echelonflow.records.phases import Phase
from traffic.workloads import formats
from traffic.workloads.formats import live

REST = {"name": "x", "policies": ["fair"]}
NETWORK = {"topology": "single-switch", "hosts": 4, "rate": "50 Mbit/s"}


@pytest.fixture
def path(tmp_path):
    (tmp_path / "train.py").write_text("")
    return tmp_path / "live.yaml"


def job(**changes):
    return {"name": "gpt", "program": "train.py", "ranks": 2, **changes}


def test_ranks_get_hosts_of_their_own(path):
    data = {**REST, "network": NETWORK, "jobs": [job(), job(name="other", placement=["h1", "h3"], ranks=None)]}
    _, programs = programs_of(data, path)
    assert [each.placement for each in programs] == [("h2", "h4"), ("h1", "h3")]
    assert programs[0].profiled is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"program": "none.py"}, "is no file"),
        ({"ranks": 5}, "5 ranks need as many hosts, and 4 are free"),
        ({"ranks": True}, "ranks: True is not a whole number"),
        ({"placement": ["h1", "h9"]}, "no host 'h9'"),
        ({"placement": ["h1", "h1"]}, "host h1 has two ranks"),
        ({"placement": ["h1"]}, "ranks: is 2, and 1 hosts are listed"),
        ({"compute": {"profiled": "fast"}}, "compute.profiled"),
        ({"compute": 3}, "neither `measured` nor such as"),
        ({"arguments": "--steps 3"}, "is not a list"),
        ({"stages": 2}, "stages: there is no such key"),
        ({"scheduler": "bytesheduler"}, "scheduler: "),
        ({"scheduler": "p3"}, "scheduler: p3 does not go with all-reduce"),
    ],
)
def test_what_is_wrong_with_a_program_is_said_in_one_line(path, changes, words):
    with pytest.raises(InputError, match=re.escape(words)) as error:
        programs_of({**REST, "network": NETWORK, "jobs": [job(**changes)]}, path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"jobs": [job(name="../../elsewhere")]}, "jobs.0.name"),
        ({"jobs": [job(name=None)]}, "jobs.0.name"),
        ({"jobs": 3}, "jobs"),
        ({"network": {"hosts": 4}}, "network.topology"),
        ({"network": None}, "network"),
        ({"jobs": [{"name": "x", "paradigm": "gpipe"}]}, "`echelon run` runs it"),
    ],
)
def test_what_is_wrong_with_the_file_is_said_before_anything_runs(path, changes, words):
    with pytest.raises(InputError, match=re.escape(words)) as error:
        programs_of({**REST, "network": NETWORK, "jobs": [job()], **changes}, path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policies": ["fair", "echelonflw"]}, "policies.1: .*echelonflw.*echelonflow"),
        ({"policies": ["clock(until=never)"]}, "policies.0: "),
        ({"against": "coflow"}, "against: 'coflow' is none of the policies"),
        ({"time_unit": "5 MB"}, "time_unit: "),
        ({"emulation": {"limits": {"max_link_eror": 1}}}, "max_link_eror"),
        ({"emulation": {"enforcer": "prioriti"}}, "emulation.enforcer: "),
    ],
)
def test_what_is_wrong_beside_the_programs_is_said_before_they_are_learned(path, tmp_path, changes, words):
    path.write_text(json.dumps({**REST, "network": NETWORK, "jobs": [job()], **changes}))
    with pytest.raises(InputError, match=words):
        living.learn(path, {}, tmp_path / "out", print)
    assert not (tmp_path / "out").exists()


def test_a_program_is_not_run_by_run(path):
    data = {"name": "x", "network": NETWORK, "jobs": [job()], "policies": ["fair"]}
    with pytest.raises(InputError, match="echelon live"):
        schema.check(data, path)


def test_what_was_learned_is_an_experiment(path, tmp_path):
    for name, text in live.EXAMPLE_FILES.items():
        (tmp_path / name).write_text(text)
    data = {"name": "x", "network": NETWORK, "jobs": [job(compute={"profiled": "300 ms"})], "policies": ["fair"]}
    _, programs = programs_of(data, path)
    experiment = schema.check(learned_data(data, programs, {"gpt": tmp_path}, {"gpt": [Phase("gpt", 1, 7)]}), path)
    (made,) = experiment.jobs
    assert (made.iterations, made.placement) == (7, ("h1", "h2"))
    assert sum(each.duration_s for each in made.dag.computes if each.rank == 0) == pytest.approx(0.3)


def test_iterations_that_differ_at_the_beginning_are_left_out(tmp_path):
    paths = []
    for name, text in live.EXAMPLE_FILES.items():
        data = json.loads(text)
        other = {**data["iterations"][0], "operations": [], "events": []}
        data["iterations"] = [other, *data["iterations"]]
        paths.append(tmp_path / name)
        paths[-1].write_text(json.dumps(data))
    assert live.certainty(paths).first_alike == 1
    imported = formats.read("live", paths, {})
    assert imported.report.read[0] == (
        "2 files: the last 2 of 3 iterations are alike; what a rank computes in one varies by 0.0% (half the interquartile range, of "
        "the rank where it varies most)"
    )
    assert [(t.src_rank, t.dst_rank, t.size_bytes) for t in imported.dag.transfers] == [(0, 1, 5000), (1, 0, 7000)]


def test_how_far_computation_repeats_itself_is_said(tmp_path):
    paths = []
    for name, text in live.EXAMPLE_FILES.items():
        data = json.loads(text)
        one = {**data["iterations"][0], "events": [], "operations": []}
        rests_s = (0.1, 0.2, 0.3) if name == "rank0.json" else (0.1, 0.1, 0.1)
        data["iterations"] = [{**one, "rest_s": rest_s} for rest_s in rests_s]
        paths.append(tmp_path / name)
        paths[-1].write_text(json.dumps(data))
    found = live.certainty(paths)
    assert (found.iterations, found.alike) == (3, 3)
    assert found.spread == pytest.approx(0.25)  # quartiles 0.15 and 0.25, median 0.2


@pytest.mark.parametrize(("kind", "expected_s"), [("all-reduce", [0.2, 0.2]), ("send", [0.1, 0.3])])
def test_ranks_that_do_the_same_compute_for_the_same_time_but_stages_of_a_pipeline_do_not(tmp_path, kind, expected_s):
    paths = []
    for rank, computed_s in enumerate((0.1, 0.3)):
        exchange = {"name": "x", "sent": {1 - rank: 800}, "received": {1 - rank: 800}}
        iteration = {
            "operations": [{"kind": kind, "ranks": [0, 1], "exchanges": [exchange]}],
            "events": [{"computed_s": computed_s, "call": 0}, {"computed_s": 0, "waits": [0]}],
            "rest_s": 0,
        }
        head = {"schema": "echelon-observed", "version": 1, "rank": rank, "ranks": 2}
        paths.append(tmp_path / f"rank{rank}.json")
        paths[-1].write_text(json.dumps({**head, "iterations": [iteration, iteration]}))
    dag = formats.read("live", paths, {}).dag
    computed_s = [sum(each.duration_s for each in dag.computes if each.rank == rank) for rank in (0, 1)]
    assert computed_s == pytest.approx(expected_s)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    text = live.EXAMPLE_FILES["rank0.json"]
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text(text)
    second.write_text(text)
    with pytest.raises(InputError, match="is of rank 0, as is"):
        formats.read("live", [first, second], {})
    with pytest.raises(InputError, match="the file of rank 1 is missing"):
        formats.read("live", [first], {})
    data = json.loads(text)
    data["iterations"] = data["iterations"][:1]
    first.write_text(json.dumps(data))
    second.write_text(json.dumps({**data, "rank": 1}))
    with pytest.raises(InputError, match="no 2 at the end are alike"):
        formats.read("live", [first, second], {})


UNIT = {"name": "layer", "size_bytes": 6000, "priority": 3}


def carried(tmp_path, **ordered):
    """Two ranks that send each other a unit each, for which their next iteration waits."""
    paths = []
    for name, text in live.EXAMPLE_FILES.items():
        data = json.loads(text)
        for iteration in data["iterations"]:
            for operation in iteration["operations"]:
                operation["unit"] = UNIT
            iteration["events"][2] = {"computed_s": 0.01, "carried": [0, 1]}
        data["ordered"] = {
            "scheduler": "mine", "credit_bytes": 9000, "slots": None, "overdraw": True, "whole": False, **ordered
        }  # fmt: skip
        paths.append(tmp_path / name)
        paths[-1].write_text(json.dumps(data))
    return formats.read("live", paths, {})


def test_what_a_job_scheduler_orders_crosses_the_barrier(tmp_path):
    imported = carried(tmp_path)
    discipline = imported.discipline
    assert (discipline.scheduler, discipline.window.credit_bytes) == ("mine", 9000)
    flows = [transfer.name for transfer in imported.dag.transfers]
    assert [task.transfers for task in discipline.tasks] == [(flows[0],), (flows[1],)]
    assert {(task.rank, task.size_bytes, task.priority) for task in discipline.tasks} == {(0, 6000, 3), (1, 6000, 3)}
    assert all(task.ends == task.transfers for task in discipline.tasks)
    later = {later for earlier, later in imported.dag.next_iteration if earlier in flows}
    assert later == {"rank 0 end", "rank 1 end"}  # what is computed after the wait
    assert not any(set(step.after) & set(flows) for step in imported.dag.computes)
    assert len(imported.dag.groups) == 1


def test_a_unit_may_last_until_it_is_over_at_its_rank(tmp_path):
    imported = carried(tmp_path, whole=True, credit_bytes=None, slots=1)
    assert imported.discipline.window.slots == 1
    assert all(len(task.ends) == 1 for task in imported.discipline.tasks)  # one message each


def test_what_is_received_from_whoever_sends_first_is_not_declared(tmp_path):
    paths = []
    for name, text in live.EXAMPLE_FILES.items():
        data = json.loads(text)
        if name == "rank1.json":
            for iteration in data["iterations"]:
                iteration["operations"][1]["from_any"] = True  # what rank 0 sends
        paths.append(tmp_path / name)
        paths[-1].write_text(json.dumps(data))
    dag = formats.read("live", paths, {}).dag
    assert [(each.src_rank, each.dst_rank) for each in dag.transfers] == [(1, 0)]


def test_an_experiment_takes_the_order_from_what_was_learned(tmp_path, path):
    carried(tmp_path)
    data = {"name": "x", "network": NETWORK, "jobs": [job(scheduler="bytescheduler")], "policies": ["fair"]}
    _, programs = programs_of(data, path)
    assert programs[0].scheduler == "bytescheduler"
    (made,) = schema.check(learned_data(data, programs, {"gpt": tmp_path}, {"gpt": [Phase("gpt", 1, 7)]}), path).jobs
    assert made.discipline.scheduler == "mine"


def observed(tmp_path, *kinds):
    """Two ranks, each iteration of a kind: how many bytes it exchanges, and how long it computes in ms."""
    paths = []
    for rank in (0, 1):
        iterations = []
        for size_bytes, computed_ms in kinds:
            exchange = {"name": "x", "sent": {1 - rank: size_bytes}, "received": {1 - rank: size_bytes}}
            iterations.append(
                {
                    "operations": [{"kind": "all-reduce", "ranks": [0, 1], "exchanges": [exchange]}],
                    "events": [{"computed_s": computed_ms / 1e3, "call": 0}, {"computed_s": 0, "waits": [0]}],
                    "rest_s": 0,
                }
            )
        head = {"schema": "echelon-observed", "version": 1, "rank": rank, "ranks": 2}
        paths.append(tmp_path / f"rank{rank}.json")
        paths[-1].write_text(json.dumps({**head, "iterations": iterations}))
    return paths


A, B, C = (800, 100), (1600, 250), (2400, 100)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([A] * 4, [(0, 4)]),
        ([B, A, A], [(1, 3)]),
        ([A] * 4 + [B] * 3, [(1, 4), (4, 7)]),
        ([A] * 4 + [C] + [B] * 3, [(1, 4), (5, 8)]),  # what is like neither is of none
        ([A] * 2 + [B] * 3, [(2, 5)]),  # of the first one warms up, and one alone is no phase
        ([C, A, A, B, B, A, A, B, B, A, A], [(3, 5), (5, 7), (7, 9), (9, 11)]),  # the last four
    ],
)
def test_iterations_in_a_row_that_are_alike_are_a_phase(tmp_path, kinds, expected):
    assert live.phases(observed(tmp_path, *kinds)) == expected


def test_phases_keep_the_ratio_of_what_they_compute_and_how_certain_each_is_is_said(tmp_path):
    paths = observed(tmp_path, *[A] * 4, C, *[B] * 3)
    made = [formats.read("live", paths, {"compute": "200 ms", "phase": number}) for number in (1, 2)]
    computed_s = [sum(each.duration_s for each in one.dag.computes if each.rank == 0) for one in made]
    assert computed_s == pytest.approx([0.2, 0.5])
    assert [{each.size_bytes for each in one.dag.transfers} for one in made] == [{800}, {1600}]
    assert "of 8 iterations these are alike: 6 to 8 (phase 2);" in made[1].report.read[0]
    alone = formats.read("live", paths, {"compute": "200 ms"})
    assert sum(each.duration_s for each in alone.dag.computes if each.rank == 0) == pytest.approx(0.2)
    said = str(live.certainty(paths, ["gpt", "gpt.2"]))
    assert said.startswith("of 8 iterations these are alike: 2 to 4 (gpt), 6 to 8 (gpt.2); what a rank computes")
    with pytest.raises(InputError, match="phase is 3; the program has 2"):
        formats.read("live", paths, {"phase": 3})


def test_each_phase_is_a_job_that_comes_after_the_one_before(tmp_path, path):
    observed(tmp_path, *[A] * 4, C, *[B] * 3)
    data = {"name": "x", "network": NETWORK, "jobs": [job(start="1 s", weight=2), job(name="z")], "policies": ["fair"]}
    _, programs = programs_of(data, path)
    several = [Phase("gpt", 1, 3), Phase("gpt.2", 5, 3)]
    learned = learned_data(data, programs, {"gpt": tmp_path, "z": tmp_path}, {"gpt": several, "z": [Phase("z", 5, 3)]})
    made = schema.check(learned, path).jobs
    assert [(each.name, each.after, each.iterations, each.start_s, each.weight) for each in made] == [
        ("gpt", None, 3, 1.0, 2),
        ("gpt.2", "gpt", 3, 0.0, 2),
        ("z", None, 3, 0.0, 1),
    ]
    assert [each["import"].get("phase") for each in learned["jobs"]] == [1, 2, None]


def test_a_program_pauses_where_iterations_between_its_phases_are_of_none():
    def pauses(*phases):
        return LiveProgram(job="gpt", program="", arguments=(), placement=(), phases=phases).pauses

    assert pauses(Phase("gpt", 1, 3), Phase("gpt.2", 5, 3))
    assert not pauses(Phase("gpt", 1, 3), Phase("gpt.2", 4, 3))
    assert not pauses(Phase("gpt", 5, 3))
