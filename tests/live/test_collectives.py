"""The process group against Gloo, and when a rank dies."""

import re

import pytest

from tests.live.forked import codes_of, forked
from tests.live.processes import ROOT, printed


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_every_operation_gives_what_gloo_gives(tmp_path, ranks):
    script = ROOT / "tests/live/every_operation.py"
    with forked(tmp_path, ranks, script, MASTER_ADDR="127.0.0.1") as started:
        codes = codes_of(started)
    said = [printed(tmp_path, rank) for rank in range(ranks)]
    assert codes == [0] * ranks, said
    assert not [line for text in said for line in text.splitlines() if "differs" in line or "nothing was said" in line]
    assert all(int(re.search(r"compared (\d+)", text)[1]) > 400 for text in said)


@pytest.mark.parametrize("ranks", [1, 3])
def test_groups_of_one_and_of_some_and_rare_forms_give_what_gloo_gives(tmp_path, ranks):
    with forked(tmp_path, ranks, ROOT / "tests/live/more_operations.py", MASTER_ADDR="127.0.0.1") as started:
        codes = codes_of(started)
    said = [printed(tmp_path, rank) for rank in range(ranks)]
    assert codes == [0] * ranks, said
    assert not [line for text in said for line in text.splitlines() if "differs" in line], said
    assert all(int(re.search(r"compared (\d+)", text)[1]) > 40 for text in said)


def test_all_ranks_hear_of_the_death_of_one_by_its_name(tmp_path):
    with forked(tmp_path, 4, ROOT / "tests/live/dies.py") as started:
        codes = codes_of(started)
    assert codes[1] == -9
    for rank in (0, 2, 3):
        after_s, words = re.search(r"after ([\d.]+) s: (.*)", printed(tmp_path, rank)).groups()
        assert float(after_s) < 5.0
        assert "lost rank 1 at 127.0.0.1" in words
