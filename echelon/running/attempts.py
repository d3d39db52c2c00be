"""Asked for is what one gets: which runs are made again, in the place of those that do not count, and how many at most.

Runs are made in rounds. The first has the runs that were asked for. When it has ended they are analysed, and the next has
what is missing, in a fresh world with links measured anew. Analysis never goes on beside a run: it would disturb it.
Runs that do not count keep their numbers; others are added behind those asked for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from echelon.experiment.extent import MOST_EMULATED_RUNS
from echelon.experiment.schema import Experiment
from echelonflow.errors import InputError
from echelonflow.records.assignment import AssignedRun
from echelonflow.records.folder import policy_labels, run_label
from echelonflow.records.run_record import RunRecord
from results.analysis.summary import RunResult, lacking

ENOUGH_IN_VAIN = 2
"""Of so many runs of a policy none counted: what makes them invalid is no passing spell, so one more is tried at a time."""


def half_as_many_again(repeats: int) -> int:
    """The most runs of a policy by default, where so many valid ones are asked for."""
    return repeats + -(-repeats // 2)


def extra(attempts: int | None, repeats: int) -> int:
    """How many runs of each policy may be made again, where `attempts` may be made in all (None: the default).

    InputError where fewer attempts than repeats are asked for.
    """
    if attempts is None:
        return half_as_many_again(repeats) - repeats
    if attempts < repeats:
        raise InputError(
            f"--attempts is {attempts}, and {repeats} runs of each policy are asked for; give at least as many"
        )
    return attempts - repeats


def runs_of(
    experiment: Experiment, predictions: Mapping[str, RunRecord], given: Mapping[str, int] | None = None
) -> tuple[AssignedRun, ...]:
    """All runs, repeat by repeat, the policies of a repeat in an order drawn by the seed.

    Policies take turns so that a machine that slows down in the course of an hour slows all of them. Of each there are
    as many runs as it was `given`, or as many as were asked for.
    """
    runs: list[AssignedRun] = []
    labels = policy_labels(experiment.policies)
    given = given or dict.fromkeys(experiment.policies, experiment.repeats)
    for repeat in range(max(given.values())):
        turn = list(experiment.policies)
        random.Random(experiment.seed * 1_000_003 + repeat).shuffle(turn)
        for policy in turn:
            if repeat >= given[policy]:
                continue
            label = run_label(labels[policy], repeat)
            runs.append(
                AssignedRun(len(runs), policy, label, repeat, experiment.enforcer_of(policy), predictions[policy].end_s)
            )
    return tuple(runs)


def given_next(
    runs: Sequence[RunResult], asked: int, given: Mapping[str, int], begun: Mapping[str, int], more: int
) -> dict[str, int]:
    """How many runs each policy has with the next round: the same as `given` where there is nothing to be made again.

    A policy gets one for each valid run that it lacks of those `asked` for. That makes `more` at most on top of those
    that it had when the command was `begun`. Where none of several counted it gets one alone, and no other if that does not
    count either: repeating what cannot work would cost half an experiment.
    """
    now = dict(given)
    valid = Counter(run.policy for run in runs if run.valid)
    for policy, missing in lacking(runs, tuple(given), asked).items():
        in_vain = not valid[policy] and given[policy] >= ENOUGH_IN_VAIN
        room = begun[policy] + more - given[policy]
        if room > 0 and not (in_vain and given[policy] > begun[policy]):
            now[policy] += 1 if in_vain else min(missing, room)
    return now if sum(now.values()) <= MOST_EMULATED_RUNS else dict(given)


def told(runs: Sequence[RunResult], policies: Sequence[str], asked: int, made_again: int) -> str:
    """In words, which runs do not count and that so many are made in their place."""
    missing = lacking(runs, policies, asked)
    against = [run for run in runs if run.policy in missing and not run.valid]
    first = f"{against[0].label}: {against[0].reasons[0]}" if against else "some are missing"
    others = f"; and {len(against) - 1} more" if len(against) > 1 else ""
    return (
        f"{len(against)} of {len(runs)} runs do not count ({first}{others}); "
        f"{made_again} {'is' if made_again == 1 else 'are'} made again"
    )
