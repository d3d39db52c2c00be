"""Names of runs: unique, readable, and the same tomorrow."""

from __future__ import annotations

import pytest

from echelonflow.records.folder import policy_labels, run_label


def test_a_policy_is_recognised_by_its_label():
    assert policy_labels(["fair", "coflow(grouping=group)"]) == {
        "fair": "fair",
        "coflow(grouping=group)": "coflow-grouping-group",
    }
    assert run_label("fair", 3) == "fair-r3"


def test_two_spellings_of_one_policy_have_labels_of_their_own_that_stay():
    spellings = ["coflow(grouping=group)", "coflow( grouping = group )", "fair"]
    found = policy_labels(spellings)
    assert len(set(found.values())) == 3
    assert all(found[policy].startswith("coflow-grouping-group-") for policy in spellings[:2])
    assert policy_labels(spellings[::-1]) == found


@pytest.mark.parametrize("policy", ["./политика.py", "./方針.py", "./mein-Maß.py"])
def test_letters_of_other_scripts_are_kept(policy):
    label = policy_labels([policy])[policy]
    assert label == policy.removeprefix("./").replace(".py", "-py").lower()


@pytest.mark.parametrize(
    "policy", ["./" + "a" * 300 + ".py", "./" + "方" * 100 + ".py", "()", "\udcff.py", "../../x.py"]
)
def test_any_text_becomes_a_name_that_a_file_system_takes(policy, tmp_path):
    label = policy_labels([policy])[policy]
    assert "/" not in label
    (tmp_path / f"{run_label(label, 9_999)}-{'h' * 100}.pcap").write_bytes(b"")


def test_texts_that_differ_only_beyond_what_is_kept_differ_in_their_labels():
    policies = ["./" + "a" * 300 + ".py", "./" + "a" * 301 + ".py", "é.py", "e\u0301.py"]
    assert len(set(policy_labels(policies).values())) == 4
