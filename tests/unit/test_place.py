"""Folders of experiments: nobody gets another's, and one that nothing came of is gone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from echelon.running import place
from echelonflow.errors import InputError
from echelonflow.files import write_whole


def test_many_at_once_get_a_folder_each(tmp_path):
    together = threading.Barrier(8)

    def reserve(_):
        together.wait()
        with place.reserved(None, "e", tmp_path / "runs") as root:
            together.wait()
            (root / "mine").touch()  # which makes the folder stay
            return root

    with ThreadPoolExecutor(8) as pool:
        roots = list(pool.map(reserve, range(8)))
    assert len(set(roots)) == 8
    assert all((root / "mine").exists() for root in roots)


def test_a_default_folder_that_stays_empty_is_removed(tmp_path):
    with pytest.raises(InputError), place.reserved(None, "e", tmp_path) as root:
        assert root.is_dir()
        raise InputError("refused")
    assert list(tmp_path.iterdir()) == []


def open_it(root, **options):
    with place.opened(root, **options):
        pass


def refuse(root):
    with place.opened(root) as folder:
        place.make_parts(folder)
        write_whole(folder.manifest, "{}")
        raise InputError("another emulation is going on")


def test_a_refused_experiment_is_in_nobodys_way(tmp_path):
    root = tmp_path / "out"
    for _ in range(2):
        with pytest.raises(InputError, match="another emulation"):
            refuse(root)
        assert not root.exists()


def test_a_folder_that_was_there_before_stays(tmp_path):
    with pytest.raises(InputError, match="another emulation"):
        refuse(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_work_that_is_done_is_kept_whatever_happens(tmp_path):
    with pytest.raises(KeyboardInterrupt), place.opened(tmp_path / "out") as folder:
        write_whole(folder.simulated_runs, "{}")
        raise KeyboardInterrupt
    assert (tmp_path / "out" / "runs.json").exists()


def test_a_folder_serves_one_process_at_a_time(tmp_path):
    with place.opened(tmp_path / "out"), pytest.raises(InputError, match="another process is at work there"):
        open_it(tmp_path / "out", again=True)
    open_it(tmp_path / "out", again=True)


@pytest.mark.parametrize("name", ["thesis.tex", "thesis.part", ".thesis"])
def test_a_folder_with_something_in_it_is_not_begun_in(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(InputError, match="not empty; name another folder with --out, or go on there with --resume"):
        open_it(tmp_path)
    assert (tmp_path / name).exists()


def test_half_a_file_of_a_killed_process_is_no_obstacle_and_goes_with_the_next_try(tmp_path):
    (tmp_path / ".manifest.json.77.part").write_text("{")
    with place.opened(tmp_path) as folder:
        place.remove_parts_of_files(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["file/out", "file"])
def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path, where):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot be made: .*name another folder"):
        open_it(tmp_path / where)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
