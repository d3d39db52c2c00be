"""The tuner: what it tries in which order, that nothing is lost when it is stopped, and what is said in the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.experiment import schema
from echelon.tuning import showing, verifying
from echelon.tuning.history import Asked, History, Sample, asked_in, check_same, write_asked
from echelon.tuning.space import Point, Space
from echelon.tuning.trials import NO_LIMIT, Found, experiment_with, value_s, with_options, with_settings
from echelon.tuning.tuning import Tuner
from echelonflow.errors import InputError, RunError
from results.analysis.limits import Limits
from tests.unit.test_tuning_methods import bowl_s

EXPERIMENT = """
name: e
network: {topology: single-switch, hosts: 2, rate: 100 Mbit/s}
jobs:
  - {name: a, paradigm: data-parallel, ranks: 2, layers: 4, forward: 50 ms, backward: 100 ms, parameter: 2 MB, iterations: 3,
     scheduler: bytescheduler}
policies: [fair]
emulation: {limits: {max_moved_iteration: 0.01}}
"""
FILE_S_OPTIONS = Point(16_000_000, 64_000_000)
SPACE = Space((256_000, 32_000_000), (1_000_000, 64_000_000))


def asked(**changes):
    given = {
        "experiment_file": "e.yaml", "experiment_folder": "/nowhere", "policy": "fair", "targets": (("a", "b"),),
        "experiment": {
            "name": "e",
            "jobs": [
                {"name": name, "paradigm": "data-parallel", "scheduler": "bytescheduler(form=fixed)"} for name in "ab"
            ],
        },
        "method": "random", "samples": 6, "seed": 1, "space": SPACE, "backend": "fluid", "repeats": 1,
    }  # fmt: skip
    return Asked(**{**given, **changes})


class Simulated:
    """Trials that cost nothing: job `b` takes twice as long as job `a`; the file's options are those of `default`.

    Left off, job `a` takes `off_s`.
    """

    def __init__(self, default=FILE_S_OPTIONS, *, stop_after=None, fails=(), off_s=99.0):
        self.default, self.stop_after, self.fails, self.off_s = default, stop_after, fails, off_s
        self.calls = []

    def __call__(self, settings, label, repeats, backend):
        if self.stop_after is not None and len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        self.calls.append((dict(settings), label, repeats, backend))
        if len(self.calls) in self.fails:
            return Found({}, "every run was invalid; see /some/where")
        given = {job: settings.get(job, self.default) for job in "ab"}
        plain = {job: self.off_s if point is None else bowl_s(point) for job, point in given.items()}
        times = {job: plain[job] * factor for job, factor in (("a", 1.0), ("b", 2.0))}
        return Found({job: [time_s * (1 + 0.01 * k) for k in range(repeats)] for job, time_s in times.items()})


def tuner(folder, trials, **changes):
    said = []
    made = Tuner(asked(**changes), History(folder), trials, lambda words, sample: said.append((words, sample)))
    return made, said


def test_the_file_s_options_come_first_then_none_then_as_many_points_as_asked(tmp_path):
    trials = Simulated()
    made, said = tuner(tmp_path, trials)
    (best,) = made.tune()
    assert [call[0] == {} for call in trials.calls] == [True] + [False] * 7
    assert trials.calls[1][0] == {"a": None, "b": None}
    assert all(settings["a"] == settings["b"] is not None for settings, *_ in trials.calls[2:])
    assert best.default.value_s == pytest.approx(1.5 * bowl_s(trials.default))
    assert best.best.value_s == min(sample.value_s for sample in [best.default, *best.samples])
    assert best.gain == pytest.approx(best.default.value_s / best.best.value_s - 1)
    assert said[0] == ("the options of the file", None)
    assert said[2] == ("the job scheduler left off", None)
    assert said[4][0].startswith("sample 1 of 6: partition ")


def test_where_nothing_is_better_the_file_s_options_stay(tmp_path):
    made, _ = tuner(tmp_path, Simulated(default=Point(2_000_000, 8_000_000)))
    (best,) = made.tune()
    assert best.best.point is None
    assert best.gain == 0
    assert verifying.winners([best]) == {}
    assert "nothing was better than what the file says" in showing.told(made.asked, [best], None)


def test_where_nothing_beats_fifo_the_job_scheduler_is_left_off(tmp_path):
    trials = Simulated(off_s=0.01)
    made, _ = tuner(tmp_path, trials, targets=(("a",), ("b",)))
    found = made.tune()
    assert [best.best.role for best in found] == ["off", "off"]
    assert found[0].gain == pytest.approx(bowl_s(trials.default) / 0.01 - 1)
    assert all(settings["a"] is None for settings, *_ in trials.calls[8:])  # in force for what is tuned next
    assert verifying.winners(found) == {"a": None, "b": None}
    text = showing.told(made.asked, found, verifying.verify(made, found, 2))
    assert "in the file, for a:  scheduler: fifo" in text
    assert "for b nothing was better than leaving the job scheduler off" in text
    assert trials.calls[-2][0] == {"a": None, "b": None}
    assert made.history.samples == History(tmp_path).samples


@pytest.mark.parametrize("stop_after", [0, 1, 3, 6])
def test_a_tuner_that_is_stopped_goes_on_without_losing_a_sample(tmp_path, stop_after):
    made, _ = tuner(tmp_path / "whole", Simulated(), method="random")
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole = made.tune()
    first, _ = tuner(tmp_path / "parts", Simulated(stop_after=stop_after))
    with pytest.raises(KeyboardInterrupt):
        first.tune()
    assert len(History(tmp_path / "parts").samples) == stop_after
    rest = Simulated()
    second, _ = tuner(tmp_path / "parts", rest)
    found = second.tune()
    assert len(rest.calls) == 8 - stop_after
    assert [sample.point for sample in found[0].samples] == [sample.point for sample in whole[0].samples]


def test_half_a_line_at_the_end_costs_that_sample_alone(tmp_path):
    made, _ = tuner(tmp_path, Simulated())
    made.tune()
    path = tmp_path / "history.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert len(History(tmp_path).samples) == 7
    trials = Simulated()
    again, _ = tuner(tmp_path, trials)
    again.tune()
    assert len(trials.calls) == 1
    assert len(History(tmp_path).samples) == 8


def test_a_line_that_is_no_sample_is_named(tmp_path):
    made, _ = tuner(tmp_path, Simulated())
    made.tune()
    path = tmp_path / "history.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], "{}", *lines[2:]]) + "\n")
    with pytest.raises(InputError, match=r"history\.jsonl, line 3: missing field"):
        History(tmp_path)


def test_more_samples_go_on_where_the_others_ended(tmp_path):
    made, _ = tuner(tmp_path, Simulated())
    (before,) = made.tune()
    trials = Simulated()
    again, _ = tuner(tmp_path, trials, samples=9)
    (after,) = again.tune()
    assert len(trials.calls) == 3
    assert after.samples[:6] == before.samples


def test_what_is_found_for_one_job_is_in_force_for_the_next(tmp_path):
    trials = Simulated()
    made, _ = tuner(tmp_path, trials, targets=(("a",), ("b",)))
    first, second = made.tune()
    assert first.jobs == ("a",)
    assert second.jobs == ("b",)
    for settings, *_ in trials.calls[9:]:
        assert settings["a"] == first.best.point
    assert verifying.winners([first, second]).keys() == {"a", "b"}
    assert second.default.value_s == pytest.approx(2 * bowl_s(trials.default))


def test_on_packets_the_first_trial_is_thrown_away_and_the_median_of_the_runs_counts(tmp_path):
    trials = Simulated()
    made, said = tuner(tmp_path, trials, backend="emulation", repeats=3)
    (best,) = made.tune()
    assert len(trials.calls) == 9
    assert [sample.role for sample in made.history.samples[:4]] == ["warm-up", "default", "off", "sample"]
    assert best.default.value_s == pytest.approx(1.5 * 1.01 * bowl_s(trials.default))
    assert said[0][0] == "a first try, which does not count"
    assert len({label for _, label, *_ in trials.calls}) == 9


def test_a_trial_without_a_valid_run_is_kept_and_left_out(tmp_path):
    made, _ = tuner(tmp_path, Simulated(fails=(4,)))
    (best,) = made.tune()
    assert [sample.value_s is None for sample in best.samples] == [False, True, False, False, False, False]
    assert best.samples[1].why == "every run was invalid; see /some/where"
    assert "no run counts" in showing.told(made.asked, [best], None)
    assert "5/6" in showing.told(made.asked, [best], None)


def test_trial_after_trial_without_a_valid_run_ends_it(tmp_path):
    made, _ = tuner(tmp_path, Simulated(fails=(4, 5, 6)))
    with pytest.raises(RunError, match="3 trials in a row came to nothing, the last because: every run was invalid"):
        made.tune()
    first, _ = tuner(tmp_path / "other", Simulated(fails=(1,)))
    (tmp_path / "other").mkdir()
    with pytest.raises(RunError, match="with the options that the file has, no run counts: every run was invalid"):
        first.tune()
    again, _ = tuner(tmp_path / "other", Simulated())
    assert again.tune()[0].default.value_s is not None


def test_a_folder_of_another_tuning_is_refused_by_what_differs(tmp_path):
    write_asked(tmp_path, asked())
    earlier = asked_in(tmp_path)
    assert earlier == asked()
    check_same(tmp_path, earlier, asked(samples=99))
    with pytest.raises(InputError, match=r"something else \(method, seed differ\)"):
        check_same(tmp_path, earlier, asked(method="grid", seed=3))


def test_winners_are_verified_in_turns_and_once(tmp_path):
    trials = Simulated()
    made, _ = tuner(tmp_path, trials)
    found = made.tune()
    verified = verifying.verify(made, found, 3)
    runs = trials.calls[8:]
    assert [backend for *_, backend in runs] == ["emulation"] * 6
    assert [not settings for settings, *_ in runs] == [True, False, False, True, True, False]
    assert [each.job for each in verified] == ["a", "b"]
    assert verified[0].speed_up.median == pytest.approx(bowl_s(trials.default) / bowl_s(found[0].best.point))
    assert verifying.verify(made, found, 3) == verified
    assert len(trials.calls) == 14
    text = showing.told(made.asked, found, verified)
    assert "speed-up" in text
    assert "in the file, for a:  scheduler: bytescheduler(form=fixed, partition=" in text
    shown = showing.to_json(made.asked, found, verified)
    assert shown["targets"][0]["gain"] == pytest.approx(found[0].gain)
    assert len(shown["targets"][0]["path"]) == 6


def test_a_turn_without_a_valid_run_is_left_out_with_its_neighbour(tmp_path):
    trials = Simulated(fails=(10,))
    made, _ = tuner(tmp_path, trials)
    verified = verifying.verify(made, made.tune(), 3)
    assert verified[0].speed_up.n == 2


def test_the_options_are_written_into_the_scheduler():
    point = Point(4_190_000, 16_000_000)
    assert with_options("bytescheduler", point) == "bytescheduler(partition=4.19 MB, credit=16 MB)"
    assert with_options("bytescheduler(credit=1 MB, form=fixed)", point) == (
        "bytescheduler(credit=16 MB, form=fixed, partition=4.19 MB)"
    )
    source = asked().experiment
    assert with_settings(source, {"a": None})["jobs"][0]["scheduler"] == "fifo"
    changed = with_settings(source, {"b": point})
    assert changed["jobs"][0] == source["jobs"][0]
    assert "4.19 MB" in changed["jobs"][1]["scheduler"]
    assert "4.19" not in source["jobs"][1]["scheduler"]


def test_on_packets_a_trial_counts_however_far_it_is_off_the_simulation_but_not_if_the_machine_spoilt_it(tmp_path):
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    source = schema.load(tmp_path / "e.yaml").source
    known = asked(experiment=source, experiment_folder=str(tmp_path), experiment_file="e.yaml")
    limits = {where: experiment_with(known, {}, backend=where).limits for where in ("fluid", "emulation")}
    assert limits["fluid"].max_unexplained_iteration == Limits().max_unexplained_iteration
    assert limits["emulation"].max_unexplained_iteration == NO_LIMIT
    assert limits["emulation"].max_moved_iteration == 0.01, "as the file says"
    assert limits["emulation"].max_link_error == Limits().max_link_error


def test_what_nothing_explains_of_a_trial_is_shown(tmp_path):
    trials = Simulated()
    made, _ = tuner(tmp_path, lambda *args: replace(trials(*args), unexplained=-0.021), backend="emulation")
    (best,) = made.tune()
    assert {sample.unexplained for sample in best.samples} == {-0.021}
    text = showing.told(made.asked, [best], None)
    assert "-2.1%" in text
    assert "unexplained: what no measured cause explains" in text


def test_the_value_is_the_mean_over_jobs_of_the_median_over_runs():
    found = Found({"a": [1.0, 5.0, 2.0], "b": [4.0]})
    assert value_s(found, ("a", "b")) == 3.0
    assert value_s(found, ("a", "c")) is None


def test_the_path_is_drawn(tmp_path):
    made, _ = tuner(tmp_path, Simulated(fails=(4,)), targets=(("a",), ("b",)))
    path = showing.draw(tmp_path, made.asked, made.tune())
    assert path.stat().st_size > 10_000
    assert "a by random (simulated)" in path.with_suffix(".svg").read_text()


def test_a_sample_is_read_back_as_it_was_written(tmp_path):
    point = Point(1, 2)
    sample = Sample(0, "sample", 0, point, {"a": point}, 1.5, {"a": (1.5,)}, None, 0.25)
    history = History(tmp_path)
    history.add(sample)
    assert History(tmp_path).samples == [sample]
