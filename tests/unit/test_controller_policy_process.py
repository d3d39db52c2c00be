"""Users' policies in processes of their own: their answers, their mistakes, and policies that never answer."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import numpy as np
import pytest

from controller import policy_pipe
from controller.flow_books import digest
from controller.policy_process import PolicyProcess, load_isolated
from controller.trial import trial_snapshot
from echelonflow.errors import InputError, PolicyError
from echelonflow.model import topologies
from echelonflow.scheduling import policies

HEAD = """
import os, time
import numpy as np
from echelonflow.scheduling.allocation import Allocation

def answer(snapshot, rate):
    return Allocation(np.full(snapshot.flows, rate), np.zeros(snapshot.flows, np.int64))

"""
GOOD = "def allocate(snapshot, *, rate: float = 1.0):\n    print('thinking')\n    return answer(snapshot, rate)\n"
BAD = {
    "while True:\n        pass": "had not decided after 0.5 s",
    "import re\n    re.match('(a+)+b', 'a' * 40)": "had not decided after 0.5 s",  # one call into C, never back
    "time.sleep(60)": "had not decided after 0.5 s",
    "return answer(snapshot, float('nan'))": "is negative or not a number",
    "return answer(snapshot, 1e12)": "which carries",
    "return 3": "returned int, not an Allocation",
    "return 1 / 0": "raised ZeroDivisionError",
    "os._exit(7)": "its process ended",
}


def wait(descriptor, *, write, limit_s):
    ready = select.select([] if write else [descriptor], [descriptor] if write else [], [], limit_s)
    return bool(ready[0] or ready[1])


def load(path, body):
    path.write_text(HEAD + body)
    return load_isolated(policies.load, wait, deadline_s=0.5)(str(path))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mine.py"


@pytest.fixture
def snapshot():
    return trial_snapshot(topologies.build("dumbbell", {"hosts": 4, "rate_bps": 8e6}))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_policy_in_a_process_answers_as_one_loaded_here_does(path, snapshot, capfd):
    policy = load(path, "ENFORCER = 'rate'\n" + GOOD)
    assert (policy.enforcer, policy.isolated) == ("rate", True)
    here = policies.load(str(path))(snapshot)
    for _ in range(3):
        there = policy(snapshot)
        assert np.array_equal(there.rates_Bps, here.rates_Bps)
        assert np.array_equal(there.rank, here.rank)
    policy.close()
    assert "thinking" in capfd.readouterr().err  # what it prints disturbs nobody
    with pytest.raises(PolicyError, match="its process has ended"):
        policy(snapshot)


def test_policies_of_our_own_stay_here():
    assert not load_isolated(policies.load, wait)("fair").isolated


@pytest.mark.parametrize("body", list(BAD))
def test_a_policy_that_fails_is_named_and_stopped_in_time(path, snapshot, body):
    policy = load(path, f"def allocate(snapshot):\n    {body}\n")
    began_s = time.monotonic()
    with pytest.raises(PolicyError, match=BAD[body]) as told:
        policy(snapshot)
    assert str(path) in str(told.value)
    assert time.monotonic() - began_s < 5
    policy.close()


def test_a_process_that_hangs_is_killed(path, snapshot, tmp_path):
    note = tmp_path / "pid"
    policy = load(
        path, f"open({str(note)!r}, 'w').write(str(os.getpid()))\ndef allocate(snapshot):\n    time.sleep(60)\n"
    )
    pid = int(note.read_text())
    assert alive(pid)
    with pytest.raises(PolicyError):
        policy(snapshot)
    until_s = time.monotonic() + 5
    while alive(pid):
        assert time.monotonic() < until_s
        os.sched_yield()


def test_what_is_wrong_in_the_file_is_told_as_it_would_be_here(path):
    with pytest.raises(InputError, match=r"mine\.py, line \d+: ZeroDivisionError"):
        load(path, "1 / 0\n")
    with pytest.raises(InputError, match="has no function allocate"):
        load(path, "x = 1\n")


def test_a_policy_closed_while_it_is_waited_for_ends_the_wait(path, snapshot):
    path.write_text(HEAD + "def allocate(snapshot):\n    time.sleep(60)\n")

    def wait_and_close(descriptor, *, write, limit_s):
        if not write and loaded:
            process.close()
        return wait(descriptor, write=write, limit_s=limit_s)

    loaded = []
    process = PolicyProcess(str(path), wait_and_close, 5.0)
    loaded.append(process.load())
    with pytest.raises(PolicyError, match="its process ended before it had decided"):
        process.allocate(snapshot)


SAYS = """
import pickle, struct, sys

class Intruder:
    def __reduce__(self):
        return open, ({note!r}, "w")

def say(data, length=None):
    os.write(int(sys.argv[2]), struct.pack("!Q", len(data) if length is None else length) + data)

def allocate(snapshot):
    {body}
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("say(pickle.dumps(Intruder()))", "no answer"),
        ("say(b'', 1 << 40)", "1099511627776 bytes are too many"),
        ("say(b'nonsense')", "no answer"),
        ("from controller import policy_pipe as p; os.write(int(sys.argv[2]), p.frame(p.Loaded('rate', '')))", "its answer is to no question"),
    ],
)  # fmt: skip
def test_nothing_that_a_policys_process_says_runs_here(path, snapshot, tmp_path, body, words):
    """A user's code can write to the pipe itself."""
    note = tmp_path / "was-here"
    policy = load(path, SAYS.format(note=str(note), body=body))
    with pytest.raises(PolicyError, match=words) as told:
        policy(snapshot)
    assert str(path) in str(told.value)
    assert not note.exists()
    policy.close()


def test_a_snapshot_goes_through_the_pipe_bit_by_bit(snapshot):
    request = policy_pipe.decode_request(
        policy_pipe.frame(policy_pipe.AskAllocation(snapshot))[policy_pipe.HEADER.size :]
    )
    assert digest(request.snapshot) == digest(snapshot)
    assert request.snapshot.link_names == snapshot.link_names
    request.snapshot.remaining_bytes[:] = 0.0  # a policy's own copy, to do with as it likes
    blind = snapshot.without_sizes()
    again = policy_pipe.decode_request(policy_pipe.frame(policy_pipe.AskAllocation(blind))[policy_pipe.HEADER.size :])
    assert digest(again.snapshot) == digest(blind)
