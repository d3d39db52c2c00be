"""Users' policies in processes of their own: their answers, their mistakes, their malice, and what they cannot do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from controller.decision_cycle import digest
from controller.trial import trial_snapshot
from echelonflow.errors import InputError, PolicyError
from echelonflow.model import topologies
from echelonflow.scheduling import policies, user_file
from echelonflow.scheduling.own_policy import child, landlock, pipe, process, sandbox
from echelonflow.scheduling.own_policy.child import TimeLimit, wait_here
from echelonflow.scheduling.own_policy.output import plain
from echelonflow.scheduling.own_policy.process import PolicyProcess

HEAD = """
import os, time
import numpy as np
from echelonflow.scheduling.allocation import Allocation

def answer(snapshot, rate=1.0, rank=0):
    return Allocation(np.full(snapshot.flows, rate), np.full(snapshot.flows, rank))

"""
GOOD = "def allocate(snapshot, *, rate: float = 1.0):\n    print('thinking')\n    return answer(snapshot, rate)\n"
QUICK = TimeLimit(0.3, 1.0)
PATIENT = TimeLimit(0.3, 30.0)
"""For what computes: on a busy machine its share of a second may be less than that."""
LINE = r"mine\.py, line 10: "
BAD = {
    "while True:\n        pass": "had not decided after 0.3 s of computing",
    "import re\n    re.match('(a+)+b', 'a' * 40)": "had not decided after 0.3 s",  # one call into C, never back
    "time.sleep(60)": "had not decided after 1 s",
    "return answer(snapshot, float('nan'))": "the rate of flow . is negative or not a number",
    "return answer(snapshot, float('inf'))": "the rate of flow . is negative or not a number",
    "return answer(snapshot, 1e12)": "which carries",
    "return answer(snapshot, 1.0, np.nan)": "the rank of flow . is nan; ranks are whole numbers",
    "return answer(snapshot, 1.0, np.inf)": "the rank of flow . is inf; ranks are whole numbers",
    "return answer(snapshot, 1.0, 0.5)": "the rank of flow . is 0.5; ranks are whole numbers",
    "return answer(snapshot, 1.0, 1e300)": r"the rank of flow . is 1e\+300; ranks are whole numbers",
    "return answer(snapshot, 1.0, np.uint64(2**63))": "the rank of flow . is 9223372036854775808; ranks are whole numbers",
    "return answer(snapshot, 1.0, 'first')": "rank is no array of numbers",
    "return answer(snapshot, 1j)": "rates_Bps is no array of numbers",
    "return Allocation([[1.0], [1.0, 2.0]], [0, 0])": "rates_Bps is no array of numbers",
    "return Allocation(np.ones(3), np.zeros(3))": r"rates_Bps has shape \(3,\); \d+ flows were given",
    "return Allocation(np.zeros(snapshot.flows), np.zeros(snapshot.flows), 'soon')": "valid_until_s is soon",
    "return Allocation(np.zeros(snapshot.flows), np.zeros(snapshot.flows), -1.0)": "valid_until_s is -1.0",
    "return 3": "returned int, not an Allocation",
    "return 1 / 0": LINE + "ZeroDivisionError: division by zero",
    "raise SystemExit(3)": LINE + "SystemExit: 3",
    "raise KeyboardInterrupt": LINE + "KeyboardInterrupt",
    "raise ValueError('one\\ntwo\\x1b[2J')": LINE + r"ValueError: one two\?\[2J$",
    "snapshot.remaining_bytes[:] = 0": LINE + "ValueError: assignment destination is read-only",
    "os.fork()": LINE + "BlockingIOError",
    "import subprocess; subprocess.run(['id'])": "mine.*(BlockingIOError|PermissionError)",
    "import threading; threading.Thread(target=print).start()": "mine.*RuntimeError: can't start new thread",
    "bytearray(2 << 30)": LINE + "MemoryError",
    "import mmap; mmap.mmap(-1, 2 << 30)": LINE + "OSError",
    "open('/tmp/echelon-was-here', 'w')": LINE + "PermissionError",
    "open('/etc/passwd')": LINE + "PermissionError",
    "import socket; socket.create_connection(('127.0.0.1', 22), 1)": "mine.*(PermissionError|OSError)",
    "os.kill(os.getppid(), 15)": LINE + "PermissionError",
    "os.setuid(0)": LINE + "(PermissionError|OSError)",
    "os._exit(7)": r"its process ended before it had decided \(exit code 7\)",
    "os._exit(0)": r"its process ended before it had decided \(exit code 0\)",
    "os.abort()": r"its process ended before it had decided \(SIGABRT\)",
    "for fd in range(3, 64):\n        try: os.close(fd)\n        except OSError: pass": "its process ended|closed its pipes",
}  # fmt: skip
NEEDS_LANDLOCK = ("open(", "os.kill")


def load(path, body, limit=QUICK):
    path.write_text(HEAD + body)
    return process.load(str(path), limit=limit)


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


def test_a_policy_in_a_process_answers_as_the_same_code_here_does(path, snapshot, capfd):
    policy = load(path, "ENFORCER = 'rate'\nSTARVATION_FREE = True\n" + GOOD)
    assert (policy.enforcer, policy.isolated, policy.promises.starvation_free) == ("rate", True, True)
    assert policies.enforcer_of(str(path)) == "rate"
    here = policies.bind(user_file.execute(path, path.read_bytes()), str(path), {})(snapshot)
    for _ in range(3):
        there = policy(snapshot)
        assert np.array_equal(there.rates_Bps, here.rates_Bps)
        assert np.array_equal(there.rank, here.rank)
    assert capfd.readouterr().err.count("thinking") == 3  # what it prints disturbs nobody
    policy.close()
    with pytest.raises(PolicyError, match="its process has ended"):
        policy(snapshot)


def test_policies_of_our_own_stay_here():
    assert not policies.load("fair", wait_here).isolated


@pytest.mark.parametrize("body", list(BAD))
def test_a_policy_that_fails_is_named_and_stopped(path, snapshot, body):
    if landlock.version() < 6 and os.geteuid() != 0 and any(words in body for words in NEEDS_LANDLOCK):
        pytest.skip("this kernel has no Landlock that denies this, and tests do not run as root")
    limit = PATIENT if "0.3 s" in BAD[body] else QUICK
    policy = load(path, f"def allocate(snapshot):\n    {body}\n", limit)
    with pytest.raises(PolicyError, match=BAD[body]) as told:
        policy(snapshot)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)
    policy.close()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("1 / 0\n", r"mine\.py, line 9: ZeroDivisionError"),
        ("x = 1\n", "has no function allocate"),
        ("raise SystemExit\n", r"mine\.py, line 9: SystemExit"),
        ("os._exit(0)\n", r"its process ended before it had loaded \(exit code 0\)"),
        (
            "def memory():\n    return 1 / 0\ndef allocate(snapshot, memory): pass\n",
            r"mine\.py, line 10: ZeroDivisionError",
        ),
        ("def validate(): return 1 / 0\ndef allocate(snapshot): pass\n", r"mine\.py, line 9: ZeroDivisionError"),
        ("x = '" + "a" * (1 << 20) + "'\n", "longer than 1048576 bytes"),
        ("x = (" * 100000, "mine.py"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_place(path, body, words):
    with pytest.raises(InputError, match=words):
        load(path, body)


def test_a_file_that_never_ends_loading_is_given_up(path, monkeypatch):
    monkeypatch.setattr(process, "LOADING", QUICK)
    for body in ("while True:\n    pass\n", "time.sleep(60)\n"):
        with pytest.raises(PolicyError, match="had not loaded after"):
            load(path, body)


def test_a_file_may_take_its_time_to_load(path, snapshot):
    policy = load(path, "time.sleep(1.5)\n" + GOOD)
    assert policy(snapshot).rates_Bps[0] == 1.0
    policy.close()


def test_what_is_printed_without_end_neither_fills_anything_nor_disturbs(path, snapshot, capfd):
    policy = load(path, "def allocate(snapshot):\n    print('x' * 100_000)\n    return answer(snapshot)\n")
    for _ in range(20):
        policy(snapshot)
    assert len(capfd.readouterr().err) > 20 * 100_000
    policy.close()


def test_what_a_policy_counts_comes_with_its_answers(path, snapshot):
    memory = "class Memory(dict):\n    def counters(self): return dict(self)\ndef memory(): return Memory(asked=0)\n"
    policy = load(
        path, memory + "def allocate(snapshot, memory):\n    memory['asked'] += 1\n    return answer(snapshot)\n"
    )
    policy(snapshot), policy(snapshot)
    assert policy.counters() == {"asked": 2}
    policy.close()


def test_a_policy_that_knows_no_sizes_is_sent_none(path, snapshot):
    """Not even into its process, whose code could look where it should not."""
    policy = load(path, "KNOWS_SIZES = False\n" + GOOD)
    sent = []
    frame, process.frame = process.frame, lambda record: sent.append(record) or frame(record)
    try:
        policy(snapshot)
    finally:
        process.frame = frame
    assert np.isnan(sent[0].snapshot.remaining_bytes).all()
    policy.close()


def test_a_process_that_hangs_is_killed(path, snapshot, monkeypatch):
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1])
    policy = load(path, "def allocate(snapshot):\n    time.sleep(60)\n")
    (child,) = started
    assert alive(child.pid)
    with pytest.raises(PolicyError):
        policy(snapshot)
    child.wait(5)


def test_a_process_ends_with_whoever_started_it(path, tmp_path):
    """Also by kill -9, and while it computes."""
    path.write_text(HEAD + "print('I am', os.getpid(), flush=True)\nwhile True: pass\n")
    code = f"from echelonflow.scheduling.own_policy import process as p; c = p.PolicyProcess({str(path)!r})\n"
    code += "child = p._started(warm=False); print(child.process.pid, flush=True)\nimport time; time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.wait()
    until_s = time.monotonic() + 5
    while alive(pid):
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_a_policy_closed_while_it_is_waited_for_ends_the_wait(path, snapshot):
    path.write_text(HEAD + "def allocate(snapshot):\n    time.sleep(60)\n")

    def wait_and_close(descriptor, *, write, limit_s):
        if not write and loaded:
            running.close()
        return wait_here(descriptor, write=write, limit_s=limit_s)

    loaded = []
    running = PolicyProcess(str(path), wait_and_close)
    loaded.append(running.load())
    with pytest.raises(PolicyError, match="its process ended before it had decided"):
        running.allocate(snapshot)


def test_nothing_of_the_environment_and_no_descriptor_reaches_a_policy(path, capfd, monkeypatch):
    monkeypatch.setenv("SECRET", "4711")
    with Path(os.devnull).open() as held:
        os.set_inheritable(held.fileno(), True)
        load(path, "print(sorted(os.environ), os.getcwd(), os.listdir('/proc/self/fd'))\n" + GOOD).close()
    said = capfd.readouterr().err
    known = sorted([*sandbox.ENVIRONMENT, "HOME"])
    assert said.startswith(f"{known} / ['0', '1', '2', ")
    assert len(said.partition(" / ")[2].split(",")) == 6  # its own three, two pipes, and the list itself


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to give up")
def test_root_is_given_up_for_good(path, capfd):
    load(path, "print(open('/proc/self/status').read(), os.listdir('/proc/self/task'))\n" + GOOD).close()
    status = dict(line.split(":", 1) for line in capfd.readouterr().err.splitlines() if ":" in line)
    assert sandbox._FIRST_ID <= int(status["Uid"].split()[0]) < sandbox._FIRST_ID + sandbox._IDS
    assert len(set(status["Uid"].split() + status["Gid"].split())) == 1
    assert status["Groups"].split() == []
    assert {int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Amb")} == {0}
    assert status["NoNewPrivs"].strip() == "1"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, and setpriv")
@pytest.mark.parametrize(
    ("lacks", "words"),
    [
        ("setuid", "policy files run as an unprivileged user, and this process cannot become one"),
        # As in most containers: no namespaces, all else. Then a checkout that others cannot enter stays out of reach.
        ("sys_admin", "loaded by nobody|an unprivileged user, who cannot read"),
    ],
)
def test_where_root_cannot_be_given_up_no_file_is_run(path, lacks, words):
    path.write_text(HEAD + "print('loaded by', 'root' if os.getuid() == 0 else 'nobody')\n" + GOOD)
    code = f"from echelonflow.scheduling import policies; policies.load({str(path)!r}).close()"
    argv = ["setpriv", f"--bounding-set=-{lacks}", f"--inh-caps=-{lacks}", sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert re.search(words, done.stderr)
    assert "loaded by root" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a folder that others cannot enter")
def test_a_file_and_packages_in_a_closed_home_work_as_anywhere_else(tmp_path, snapshot, monkeypatch):
    """Root's home is closed to others; a checkout may lie in it, and a policy file anyway."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "mine.py").write_text(HEAD + "from echelonflow.scheduling import greedy\n" + GOOD)
    packages = home / "checkout"
    packages.mkdir()
    root = Path(process.__file__).parents[3]
    subprocess.run(["cp", "-r", str(root / "echelonflow"), str(packages)], check=True)
    argv = child.module_argv("echelonflow.scheduling.own_policy.worker")
    monkeypatch.setattr(
        child,
        "module_argv",
        lambda module, *rest, **_: [*argv[: argv.index(str(root))], str(packages), module, *rest],
    )
    policy = process.load(str(home / "mine.py"))
    assert policy(snapshot).rates_Bps[0] == 1.0
    policy.close()


def test_libraries_load_without_a_word(path, snapshot, capfd):
    """Some want threads as they load, and complain at length where they get none."""
    pytest.importorskip("numba")
    source = "from numba import njit\nimport scipy.linalg, scipy.sparse\n@njit\ndef one(): return 1.0\none()\n"
    policy = load(path, source + "def allocate(snapshot):\n    return answer(snapshot, one())\n")
    assert policy(snapshot).rates_Bps[0] == 1.0
    policy.close()
    assert capfd.readouterr().err == ""


def test_only_what_may_use_our_loops_waits_for_them():
    assert not process._may_use_kernels(HEAD.encode())
    assert process._may_use_kernels(b"from echelonflow.scheduling.fill import max_min")
    assert process._may_use_kernels(b"from echelonflow.scheduling import fill")


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
        ("from echelonflow.scheduling.own_policy import pipe as p; os.write(int(sys.argv[2]), p.frame(p.Loaded('rate', '')))", "its answer is to no question"),
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
    request = pipe.decode_request(pipe.frame(pipe.AskAllocation(snapshot))[pipe.HEADER.size :])
    assert digest(request.snapshot) == digest(snapshot)
    assert request.snapshot.link_names == snapshot.link_names
    with pytest.raises(ValueError, match="read-only"):
        request.snapshot.remaining_bytes[:] = 0.0
    blind = snapshot.without_sizes()
    again = pipe.decode_request(pipe.frame(pipe.AskAllocation(blind))[pipe.HEADER.size :])
    assert digest(again.snapshot) == digest(blind)


def test_what_a_policy_prints_neither_commands_a_terminal_nor_turns_its_text_round():
    assert plain("a\x1b[31m\x9b\x07\tb\n\u202ec\u2066\u200bé 漢\ufeff", 100) == "a?[31m??\tb\n?c??é 漢?"
