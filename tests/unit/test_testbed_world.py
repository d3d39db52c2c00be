"""The machine lock, the first process of a world, and the refusal to work outside one. No root needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from echelonflow.errors import InputError, RunError
from testbed import init, world
from tests.waiting import line_of, started

HOLD = """
import sys
from testbed.world import machine_lock
with machine_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock_name():
    return f"echelon-test-{os.getpid()}"


def test_a_second_emulation_is_told_who_holds_the_machine(lock_name):
    argv = [sys.executable, "-c", HOLD, lock_name]
    with started(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as holder:
        assert line_of(holder) == b"held\n"
        with pytest.raises(InputError, match=f"process {holder.pid} "), world.machine_lock(lock_name):
            pass
        holder.kill()
        holder.wait()
    with world.machine_lock(lock_name):  # the kernel gave it back
        pass


def test_the_lock_can_be_taken_again_after_it_was_left(lock_name):
    for _ in range(2):
        with world.machine_lock(lock_name):
            pass


def test_outside_a_world_nothing_is_changed():
    assert not world.is_inside()
    with pytest.raises(RunError, match=r"testbed\.world\.spawn"):
        world.enter()


def serve(*argv):
    argv = [sys.executable, "-I", "-S", init.__file__, "serve", *argv]
    return started(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_first_process_ends_with_its_program_and_with_its_code(command, code):
    with serve("sh", "-c", command) as first:
        assert first.wait(10) == code


def test_the_first_process_passes_an_interrupt_on():
    program = "import time\ntry:\n print('up', flush=True)\n time.sleep(60)\nexcept KeyboardInterrupt:\n print('told')"
    with serve(sys.executable, "-c", program) as first:
        assert line_of(first) == b"up\n"
        first.send_signal(signal.SIGINT)
        assert line_of(first) == b"told\n"
        assert first.wait(10) == 0


def test_the_first_process_ends_when_its_maker_lets_go():
    with serve("sh", "-c", "echo $$; exec sleep 60") as first:
        program = int(line_of(first))
        try:
            first.stdin.close()
            assert first.wait(10) == 137
        finally:
            os.kill(program, signal.SIGKILL)  # in a world the kernel does this


def test_the_guard_does_not_start_what_nobody_waits_for():
    argv = [sys.executable, "-I", "-S", init.__file__, "guard", "1" if os.getpid() != 1 else "2", "echo", "started"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stdout == ""


def test_a_failed_script_says_what_and_why():
    with pytest.raises(RunError, match=r"painting failed.*no such colour"):
        world.finish(world.run_script("echo no such colour >&2\nexit 3\n"), "painting")
