"""Typical mistakes in experiment files and on the command line: each is answered in one line that says where and what to do."""

from __future__ import annotations

import json

import pytest

from echelon.benchmarks.mutated_experiments import FOREIGN
from echelon.experiment import schema
from echelon.experiment.jobs import PROFILES
from echelonflow.errors import InputError
from traffic.workloads import formats

GOOD = """\
name: good
network:
  topology: single-switch
  hosts: 4
  rate: 10 Mbit/s
jobs:
  - name: a
    paradigm: pipeline
    stages: 2
    micro_batches: 2
    forward: 1 s
    activation: 1 MB
policies: [fair, coflow(grouping=group)]
repeats: 2
"""
"""What is on which line, messages are to say: rate on 5, the job's options from 7 on, policies on 13."""


def message(tmp_path, text):
    """What is said of an experiment file that holds `text`, without its path."""
    path = tmp_path / "e.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        schema.load(path)
    said = str(refused.value)
    assert not FOREIGN.search(said.replace(str(tmp_path), "")), said
    return said.replace(f"{path}:", "")


def test_the_file_that_mistakes_are_made_in_is_right(tmp_path):
    path = tmp_path / "e.yaml"
    path.write_text(GOOD)
    assert schema.load(path).jobs


KEYS = [
    ("repeats: 2", "repeat: 2", "14: repeat: unknown key; did you mean 'repeats'? there is: name, title,"),
    ("policies:", "policy:", "13: policy: unknown key; did you mean 'policies'?"),
    ("network:", "netwrk:", "2: netwrk: unknown key; did you mean 'network'?"),
    ("repeats: 2", "Seed: 2", "14: Seed: unknown key; did you mean 'seed'?"),
    ("    stages: 2", "    stage: 2", "9: jobs.0.stage: unknown key; did you mean 'stages'?"),
    (
        "    stages: 2",
        "    stages: 2\n    iteration: 3",
        "10: jobs.0.iteration: unknown key; did you mean 'iterations'?",
    ),
    (
        "    micro_batches: 2",
        "    micro-batches: 2",
        "10: jobs.0.micro-batches: unknown key; did you mean 'micro_batches'?",
    ),
    ("  hosts: 4", "  host: 4", "4: network.host: unknown key; did you mean 'hosts'?"),
    (
        "  rate: 10 Mbit/s",
        "  bandwidth: 10 Mbit/s",
        "5: network.bandwidth: unknown key; there is: hosts, rate, mtu, topology",
    ),
    ("    stages: 2\n", "", "7: jobs.0.stages: missing (a whole number)"),
    ("  hosts: 4\n", "", "2: network.hosts: missing (a whole number)"),
    ("name: good\n", "", " name: missing; write such as `name: pipeline`"),
    ("  - name: a\n    paradigm", "  - paradigm", "7: jobs.0.name: missing; write such as `name: gpt2`"),
    (
        "    paradigm: pipeline\n",
        "",
        "7: jobs.0: names neither a paradigm nor a trace nor an import; write such as `paradigm: gpipe`",
    ),
    ("repeats: 2", "repeats: 2\nrepeats: 3", "14: repeats: stands twice, on line 14 and on line 15; remove one"),
    (
        "    stages: 2",
        "    stages: 2\n    stages: 3",
        "9: jobs.0.stages: stands twice, on line 9 and on line 10; remove one",
    ),
    ("repeats: 2", "emulation: {data_path: kernel}", "14: emulation.data_path: unknown key; did you mean 'datapath'?"),
    ("repeats: 2", "fluid: {latency: 5 ms}", "14: fluid.latency: unknown key; did you mean 'decision_latency'?"),
    (
        "repeats: 2",
        "emulation: {limits: {max_late_p99: 0.01}}",
        "14: emulation.limits.max_late_p99: there is no limit 'max_late_p99'; did you mean 'max_late_p99_s'?",
    ),
]
VALUES = [
    ("repeats: 2", "repeats: 0", "14: repeats: 0 is not a whole number from 1 to 10,000; write such as `repeats: 5`"),
    ("repeats: 2", "against: fare", "14: against: 'fare' is none of the policies; did you mean 'fair'?"),
    ("repeats: 2", "repeats: two", "14: repeats: 'two' is not a whole number from 1 to 10,000; write such as `repeats: 5`"),
    ("repeats: 2", "repeats: '5'", "14: repeats: '5' is not a whole number from 1 to 10,000"),
    ("repeats: 2", "repeats: 2.5", "14: repeats: 2.5 is not a whole number from 1 to 10,000"),
    ("repeats: 2", "repeats: yes", "14: repeats: 'yes' is not a whole number from 1 to 10,000"),
    ("repeats: 2", "repeats: true", "14: repeats: true is not a whole number from 1 to 10,000"),
    ("repeats: 2", "repeats:", "14: repeats: nothing is not a whole number from 1 to 10,000"),
    ("repeats: 2", "repeats: [2]", "14: repeats: a list is not a whole number from 1 to 10,000"),
    ("repeats: 2", "seed: -1", "14: seed: -1 is not a whole number from 0 on"),
    ("repeats: 2", "title: 2020-99-99", "14: title: a date is no value of an experiment; put it in quotes"),
    ("repeats: 2", "title: 7", "14: title: 7 is not text"),
    ("repeats: 2", "time_unit: 0 s", "14: time_unit: '0 s' must be greater than 0"),
    ("name: good", "name: my experiment", "1: name: 'my experiment' is not a name of letters, digits, '_', '.' and '-'"),
    ("name: good", "name: 5", "1: name: 5 is not a name of letters"),
    ("  rate: 10 Mbit/s", "  rate: 10", "5: network.rate: 10 is not a rate: write a number and a unit, such as '100 Mbit/s'"),
    ("  rate: 10 Mbit/s", "  rate: 10 Mb", "5: network.rate: '10 Mb': unknown unit 'Mb'; write a rate such as '100 Mbit/s'"),
    ("  rate: 10 Mbit/s", "  rate: -10 Mbit/s", "5: network.rate: '-10 Mbit/s' is negative; write a rate such as"),
    ("  rate: 10 Mbit/s", "  rate: 0 Mbit/s", "5: network.rate: '0 Mbit/s' must be greater than 0"),
    ("  rate: 10 Mbit/s", "  rate: 1e300 Tbit/s", "5: network.rate: '1e300 Tbit/s' is beyond the bounds of a rate"),
    ("    forward: 1 s", "    forward: 1", "11: jobs.0.forward: 1 is not a duration: write a number and a unit, such as '1 s'"),
    ("    forward: 1 s", "    forward: 1 sec", "11: jobs.0.forward: '1 sec': unknown unit 'sec'; write a duration such as '1 s'"),
    ("    forward: 1 s", "    forward: -1 s", "11: jobs.0.forward: '-1 s' is negative; write a duration such as '1 s'"),
    ("    forward: 1 s", "    forward: [1 s, 2 s, 3 s]", "11: jobs.0.forward: 3 values for 2 stages; give one value, or one for each"),
    ("    activation: 1 MB", "    activation: 1 s", "12: jobs.0.activation: '1 s': unknown unit 's'; write a size such as '25 MB'"),
    ("    stages: 2", "    stages: '2'", "9: jobs.0.stages: '2' is not a whole number of at least 1; write it without quotes"),
    ("    stages: 2", "    stages: 1", "9: jobs.0.stages: 1 is too few; at least 2 is needed"),
    ("    stages: 2", "    stages: 2\n    iterations: 0", "10: jobs.0.iterations: 0 is not a whole number from 1 to 1,000,000"),
    ("    stages: 2", "    stages: 2\n    weight: .inf", "10: jobs.0.weight: inf is not a number above 0"),
    ("    stages: 2", "    stages: 2\n    start: soon", "10: jobs.0.start: 'soon' is not a duration"),
    ("    stages: 2", "    stages: 2\n    start: 5", "10: jobs.0.start: 5 is not a duration with its unit; write such as `start: 2 s`"),
    (
        "    stages: 2",
        "    stages: 2\n    scaling: 0.1",
        "10: jobs.0.scaling: 0.1 is not a mapping of time and bandwidth; write such as `scaling: {time: 1.2, bandwidth: 12}`",
    ),
    ("    stages: 2", "    stages: 2\n    scaling: {time: 2}", "10: jobs.0.scaling.bandwidth: missing; write such as `bandwidth: 12`"),
    ("    stages: 2", "    stages: 2\n    placement: h1, h2", "10: jobs.0.placement: 'h1, h2' is not a list of hosts"),
    ("    stages: 2", "    stages: 2\n    placement: [h1, host2]", "10: jobs.0.placement: unknown host 'host2'; there is: h1, h2"),
    ("    stages: 2", "    stages: 2\n    placement: [h1]", "10: jobs.0.placement: 1 host for 2 ranks; name one for each rank"),
    ("    stages: 2", "    stages: 2\n    placement: [h1, 5]", "10: jobs.0.placement: [h1, 5] is neither a list of hosts, one for each rank, nor a placement"),
    ("    stages: 2", "    stages: 2\n    placement: []", "10: jobs.0.placement: [] is neither a list of hosts"),
    (
        "    stages: 2",
        "    stages: 2\n    placement: [h1, h1]",
        "10: jobs.0.placement: puts 2 ranks on h1, which has 1 GPU; name another host, or give hosts more: `gpus_per_host: 2` in network",
    ),
    (
        "    stages: 2",
        "    stages: 5",
        "7: jobs.0: 5 ranks need as many GPUs, and 4 hosts with one each have 4; give the network more hosts, or `gpus_per_host: 2`",
    ),
    (
        "    stages: 2",
        "    stages: 5\n    placement: packed",
        "10: jobs.0.placement: 5 GPUs are asked for, one for each rank; 4 of the cluster's 4 are free; give the network more hosts, or `gpus_per_host: 2`",
    ),
    ("  hosts: 4", "  hosts: 4\n  gpus_per_host: 0", "5: network.gpus_per_host: 0 is not a whole number from 1 to 1,000; write such as `gpus_per_host: 8`"),
    ("  hosts: 4", "  hosts: 4\n  rates: 5 Mbit/s", "5: network.rates: '5 Mbit/s' is not a mapping of hosts or cables to rates"),
    ("  hosts: 4", "  hosts: 4\n  rates: {h1: 5}", "5: network.rates.h1: 5 is not a rate; write such as `h1: 10 Mbit/s`"),
    ("  hosts: 4", "  hosts: 4\n  rates: {h1: 5 Mb}", "5: network.rates.h1: '5 Mb': unknown unit 'Mb'"),
    ("  hosts: 4", "  hosts: 4\n  rates: {h1: 0 bit/s}", "5: network.rates.h1: '0 bit/s' must be greater than 0"),
    ("  hosts: 4", "  hosts: 4\n  rates: {h1-h2: 5 Mbit/s}", "5: network.rates.h1-h2: no cable joins h1 and h2; one joins h4-s1"),
    ("  hosts: 4", "  hosts: 4\n  routing: 3", "5: network.routing: 3 is not one of destination, ecmp"),
    ("  hosts: 4", "  hosts: 4\n  routing: ecmp(seed=-1)", "5: network.routing: ecmp: seed: -1 is not a whole number from 0 on"),
    ("repeats: 2", "placement: [h1, h2]", "14: placement: a list is not a placement, its options in brackets; write such as `placement: packed`"),
    ("repeats: 2", "emulation: {datapath: kernal}", "14: emulation.datapath: 'kernal' is not one of auto, kernel, userspace; did you mean 'kernel'?"),
    ("repeats: 2", "emulation: {limits: {max_cpu_busy: .inf}}", "14: emulation.limits.max_cpu_busy: inf is not a finite number of at least 0"),
    ("repeats: 2", "emulation: {limits: {max_cpu_busy: .nan}}", "14: emulation.limits.max_cpu_busy: nan is not a finite number"),
    ("repeats: 2", "emulation: {progress_interval: 0 s}", "14: emulation.progress_interval: '0 s' is not a duration from 1 ms to 10 s"),
    ("repeats: 2", "emulation: {tso: 'no'}", "14: emulation.tso: 'no' is not true or false; write such as `tso: false`"),
    ("repeats: 2", "fluid: {classes: 9}", "14: fluid.classes: 9 is not a whole number from 1 to 8"),
    ("repeats: 2", "fluid: {burst: 2}", "14: fluid.burst: 2 is not a duration with its unit; write such as `burst: 2 ms`"),
]  # fmt: skip
NAMES = [
    ("  topology: single-switch", "  topology: single_switch", "3: network.topology: unknown topology 'single_switch'; did you mean 'single-switch'?"),
    ("  topology: single-switch", "  topology: leafspine", "did you mean 'leaf-spine'?"),
    ("  hosts: 4", "  hosts: 4\n  rates: {h5: 5 Mbit/s}", "5: network.rates.h5: 'h5' names no cable: write a host, a switch with hosts, or both ends, such as h4-s1; there is: h1, h2, h3, h4, s1"),
    ("  hosts: 4", "  hosts: 4\n  routing: ecpm", "5: network.routing: unknown routing 'ecpm'; did you mean 'ecmp'? there is: destination, ecmp"),
    ("    stages: 2", "    stages: 2\n    placement: paked", "10: jobs.0.placement: unknown placement 'paked'; did you mean 'packed'?"),
    ("    stages: 2", "    stages: 2\n    placement: random(sed=1)", "10: jobs.0.placement.random: sed: unknown key; did you mean 'seed'?"),
    ("    stages: 2", "    stages: 2\n    placement: fragmented(largest=0)", "10: jobs.0.placement.fragmented: largest: 0 GPUs are no gap"),
    ("repeats: 2", "placement: spred", "14: placement: unknown placement 'spred'; did you mean 'spread'?"),
    ("    paradigm: pipeline", "    paradigm: pipelin", "8: jobs.0.paradigm: unknown paradigm 'pipelin'; did you mean 'pipeline'?"),
    ("    stages: 2", "    stages: 2\n    profile: gpt2-smal-cpu", "10: jobs.0.profile: there is no file 'gpt2-smal-cpu' and no committed profile of that name; did you mean 'gpt2-small-cpu'?"),
    ("[fair, coflow(grouping=group)]", "[fare]", "13: policies.0: unknown policy 'fare'; did you mean 'fair'?"),
    ("[fair, coflow(grouping=group)]", "[coflow(groupin=group)]", "13: policies.0: policy coflow(groupin=group): groupin: unknown key; did you mean 'grouping'?"),
    ("[fair, coflow(grouping=group)]", "[coflow(grouping=groups)]", "13: policies.0: policy coflow(grouping=groups): grouping: 'groups' is not one of collective, group; did you mean 'group'?"),
    ("[fair, coflow(grouping=group)]", "[fair, fair]", "13: policies.1: 'fair' is listed twice; remove one"),
    ("[fair, coflow(grouping=group)]", "fair", "13: policies: 'fair' is not a list of at least one policy; write such as `policies: [fair, echelonflow]`"),
    ("[fair, coflow(grouping=group)]", "[]", "13: policies: an empty list is not a list of at least one policy"),
    ("[fair, coflow(grouping=group)]", "[fair, coflow(grouping=group, order=sebf)]", "13: policies.1: YAML ends a text at a comma between brackets; put this one in quotes: 'coflow(grouping=group, order=sebf)'"),
    ("[fair, coflow(grouping=group)]", "[coflow(grouping: group)]", "13: policies.0: YAML reads a colon as a mapping; write 'coflow(grouping=group)'"),
    ("[fair, coflow(grouping=group)]", "[coflow(grouping=group]", "13: policies.0: 'coflow(grouping=group' is not a name with options"),
    ("[fair, coflow(grouping=group)]", "[./mine.py]", "13: policies.0: "),
]  # fmt: skip
BOUNDS = [
    ("  hosts: 4", "  hosts: 10000000", "4: network.hosts: 10,000,000 is too many; the bound is 1,000,000"),
    ("  hosts: 4", "  hosts: 20000", "4: network.hosts: 20,000 is too many: 20,000 hosts are asked for; the bound is 10,000"),
    ("  hosts: 4", "  hosts: 1", "4: network.hosts: 1 is too few: a host needs another one to send to; the bound is 2"),
    ("  hosts: 4", "  hosts: 4\n  mtu: 40 B", "5: network.mtu: 40 B is beyond the bounds of a packet, 68 B to 65,535 B"),
    ("    stages: 2", "    stages: 100000000", "9: jobs.0.stages: 100,000,000 is too many; the bound is 1,000,000"),
    ("    stages: 2", "    stages: 200000", "9: jobs.0.stages: 200,000 (with micro_batches 2) is too many: 200,000 stages"),
    ("    micro_batches: 2", "    micro_batches: 900000", "10: jobs.0.micro_batches: 900,000 (with stages 2) is too many: "),
    ("    activation: 1 MB", "    activation: 1e308 s of link", "12: jobs.0.activation: '1e308 s' is beyond the bound of a time"),
    ("    activation: 1 MB", "    activation: 1e30 TB", "12: jobs.0.activation: '1e30 TB' is too large for a size"),
    ("repeats: 2", "repeats: 30000", "14: repeats: 30000 is not a whole number from 1 to 10,000"),
    ("repeats: 2", "seed: " + "9" * 5000, f"14: seed: '{'9' * 60}...' is no value that can be read"),
    ("    stages: 2", "    stages: 2\n    scaling: {time: 1e300, bandwidth: 1}", "10: jobs.0.scaling.time: 1e+300 is not a number from 1e-06 to 1,000,000"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "said"), [*KEYS, *VALUES, *NAMES, *BOUNDS], ids=lambda text: text[:40].strip()
)
def test_one_mistake_is_one_line_with_its_place_and_a_remedy(tmp_path, right, wrong, said):
    assert right in GOOD
    found = message(tmp_path, GOOD.replace(right, wrong))
    assert said in found


def test_a_job_on_one_host_that_computes_nothing_takes_no_time(tmp_path):
    text = GOOD.replace("  hosts: 4", "  hosts: 4\n  gpus_per_host: 2").replace("forward: 1 s", "forward: 0 s")
    assert "8: jobs.0: nothing in it takes any time: it computes for 0 s" in message(tmp_path, text)


def test_a_placement_that_yaml_cut_in_two_is_named(tmp_path):
    job = "jobs: [{name: a, paradigm: pipeline, placement: random(seed=1, x=2)}]\n"
    text = GOOD[: GOOD.index("jobs:")] + job + GOOD[GOOD.index("policies:") :]
    assert "put it in quotes: 'random(seed=1, ...)'" in message(tmp_path, text)


def test_all_mistakes_of_a_file_are_said_at_once_in_the_order_of_its_lines(tmp_path):
    text = (
        GOOD.replace("10 Mbit/s", "fast")
        .replace("stages: 2", "stages: two")
        .replace("repeats: 2", "repeat: 2\nseed: x")
    )
    found = message(tmp_path, text.replace("[fair, ", "[best, fair, fair, "))
    assert [line.split(":")[:2] for line in found.splitlines()[1:]] == [
        ["  5", " network.rate"], ["  9", " jobs.0.stages"], ["  13", " policies.0"], ["  13", " policies.2"],
        ["  14", " repeat"], ["  15", " seed"],
    ]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in formats.names() if hasattr(formats.load(name), "EXAMPLE_FILES")])
def test_a_file_of_a_format_given_as_an_experiment_is_named_with_its_way_in(tmp_path, name):
    text = next(iter(formats.load(name).EXAMPLE_FILES.values()))
    path = tmp_path / "w.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"is no experiment but .* so: .*format: {name}, file"):
        schema.load(path)


def test_a_job_file_a_profile_and_the_records_of_a_run_are_named_with_what_takes_them(tmp_path):
    job, record = tmp_path / "vgg.json", tmp_path / "manifest.json"
    job.write_text(json.dumps({"schema": "echelon-job", "version": 1, "ranks": 2, "steps": []}))
    record.write_text(json.dumps({"schema": "echelon-manifest", "version": 3}))
    for path, words in (
        (
            job,
            r"is no experiment but a job file.*import it so: `jobs: \[\{name: mine, import: \{format: job, files: \[vgg.json\]\}\}\]`",
        ),
        (PROFILES / "gpt2-small-cpu.json", r"is a profile of a model; name it in a job: `profile: "),
        (record, r"is a record of a run \(echelon-manifest\), no experiment; `echelon report "),
        (tmp_path, r"is the folder of a run, no experiment; `echelon report "),
    ):
        with pytest.raises(InputError, match=words):
            schema.load(path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu", "x"], "echelon: No such command 'rnu'; did you mean 'run'"),
        (["run", "--polcy", "fair", "x"], "echelon run: No such option: --polcy; did you mean --policy"),
        (["run", "--repeat", "two", "x"], "echelon run: --repeat: 'two' is not a whole number"),
        (["run", "--repeat=0", "x"], "echelon run: --repeat: '0' must be at least 1"),
        (["run", "--backend", "fluidd", "x"], "echelon run: --backend: 'fluidd' is not one of 'emulation', 'fluid'"),
        (["bench", "kils"], "echelon: unknown benchmark 'kils'; did you mean 'kills'?"),
        (["profile", "--show", "gpt2-smal-cpu"], "did you mean 'gpt2-small-cpu'?"),
        (["run", "experiments/pipelin.yaml"], "did you mean 'pipeline.yaml'?"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(echelon, arguments, said):
    done = echelon(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not FOREIGN.search(done.stderr)


def test_check_says_what_would_be_run_and_starts_nothing(echelon, tmp_path, monkeypatch):
    path, bad = tmp_path / "e.yaml", tmp_path / "bad.yaml"
    path.write_text(GOOD)
    bad.write_text(GOOD.replace("repeats: 2", "repeat: 2"))
    monkeypatch.chdir(tmp_path)
    done = echelon("check", path)
    assert done.returncode == 0
    assert "single-switch: 4 hosts, 4 cables of 10 Mbit/s" in done.stdout
    assert "a: 2 ranks, 1 iteration of 4 computations, 2 flows of 2 MB together" in done.stdout
    assert "runs       2 x 2 = 4" in done.stdout
    both = echelon("check", bad, path)
    assert both.returncode == 2
    assert "repeat: unknown key" in both.stderr
    assert f"{path}: can be run" in both.stdout
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bad.yaml", "e.yaml"]


def test_what_is_too_much_for_an_emulation_is_said_before_it_starts(echelon, tmp_path):
    path = tmp_path / "e.yaml"
    for right, wrong, said in (
        ("repeats: 2", "repeats: 10000", "repeats: 10,000 (with policies 2) is too many: 20,000 emulated runs"),
        ("hosts: 4", "hosts: 600", "hosts: 600 is too many: 600 emulated hosts are asked for; the bound is 500"),
    ):
        path.write_text(GOOD.replace(right, wrong))
        done = echelon("run", path, "--out", tmp_path / "out")
        assert done.returncode == 2
        assert said in done.stderr
        assert "emulation  no: " + said in echelon("check", path).stdout
        assert not (tmp_path / "out").exists()
