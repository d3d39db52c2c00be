"""Tests of training programs need PyTorch, which is not part of the default set-up."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


def pytest_report_header():
    if collect_ignore_glob:
        return "tests/live is skipped: there is no PyTorch here; scripts/setup.sh --live installs it"
    return None
