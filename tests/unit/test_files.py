"""Files appear whole or not at all, and what the machine refuses is said in one line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from echelonflow.errors import StorageError
from echelonflow.files import Appended, refusal, write_whole, writing

FULL = Path("/dev/full")  # every write to it ends in ENOSPC


def test_a_file_is_written_whole(tmp_path):
    write_whole(tmp_path / "a.txt", "é\n", durable=True)
    assert (tmp_path / "a.txt").read_bytes() == "é\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_block_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, "before")
    with pytest.raises(ZeroDivisionError), writing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_there_is_readable_while_it_is_replaced(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, "before")
    with writing(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_text() == "before"
    assert path.read_text() == "after"


def test_a_missing_folder_and_a_full_disk_are_named(tmp_path, monkeypatch):
    with pytest.raises(StorageError, match=r"/none/a\.txt: cannot be written: No such file or directory"):
        write_whole(tmp_path / "none" / "a.txt", "x")

    def no_space(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageError, match=r"a\.txt: cannot be written: No space left on device; free some"):
        write_whole(tmp_path / "a.txt", "x", durable=True)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_regular_file_is_written_to_and_stays(tmp_path):
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    write_whole(link, "x")
    assert link.is_symlink()
    assert Path("/dev/null").is_char_device()


def test_the_file_behind_a_link_is_replaced(tmp_path):
    write_whole(tmp_path / "a.txt", "before")
    (tmp_path / "link").symlink_to("a.txt")
    write_whole(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a.txt").read_text() == "after"


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root's files are worth a link, and only root can lay one as another"
)
def test_root_writes_through_no_link_that_another_user_laid(tmp_path):
    write_whole(tmp_path / "a.txt", "before")
    (tmp_path / "link").symlink_to("a.txt")
    os.chown(tmp_path / "link", 54321, 54321, follow_symlinks=False)
    with pytest.raises(StorageError, match="link: is a link of another user's"):
        write_whole(tmp_path / "link", "after")
    assert (tmp_path / "a.txt").read_text() == "before"


def test_a_link_under_the_temporary_name_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("before")
    (tmp_path / f".a.txt.{os.getpid()}.part").symlink_to("victim")
    write_whole(tmp_path / "a.txt", "after")
    assert (tmp_path / "victim").read_text() == "before"
    assert not (tmp_path / "a.txt").is_symlink()
    assert (tmp_path / "a.txt").read_text() == "after"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_log_on_a_full_disk_says_which(tmp_path):
    link = tmp_path / "h1.jsonl"
    link.symlink_to(FULL)
    log = Appended(link)
    with pytest.raises(OSError, match="No space left on device") as raised:
        log.write(b"line\n")
    assert refusal(raised.value) == (
        f"{link}: No space left on device; free some space there, or name a folder on another disk"
    )


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.EMFILE, "ulimit -n"), (errno.EROFS, "can be written"), (errno.EAGAIN, "more processes")],
)
def test_every_refusal_comes_with_what_to_do(number, remedy):
    assert remedy in refusal(OSError(number, os.strerror(number)))
    assert refusal(OSError("words")) == "words"
