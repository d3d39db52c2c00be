from __future__ import annotations

import pytest

from echelonflow.errors import InputError
from echelonflow.model import units


@pytest.mark.parametrize(
    ("text", "bps"),
    [("100 Mbit/s", 1e8), ("1 Gbps", 1e9), ("12.5 MB/s", 1e8), ("1e9 bit/s", 1e9), ("1 Kibit/s", 1024.0)],
)
def test_rates(text, bps):
    assert units.parse_rate_bps(text) == bps


@pytest.mark.parametrize(("text", "size"), [("25 MB", 25_000_000), ("1.5 MiB", 1_572_864), ("1448 B", 1448)])
def test_sizes(text, size):
    assert units.parse_size_bytes(text) == size


@pytest.mark.parametrize(("text", "seconds"), [("1 s", 1.0), ("20 ms", 0.02), ("2 min", 120.0), ("5us", 5e-6)])
def test_durations(text, seconds):
    assert units.parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["100", 100, "", "fast", "100 Mbit", "100 Xbit/s", "-1 Mbit/s", None, "1 s"])
def test_a_rate_without_a_proper_unit_is_refused(text):
    with pytest.raises(InputError, match="such as '100 Mbit/s'"):
        units.parse_rate_bps(text)


@pytest.mark.parametrize("text", ["5", "5 Mb", "5 s", 5, "nan s"])
def test_a_size_without_a_proper_unit_is_refused(text):
    with pytest.raises(InputError):
        units.parse_size_bytes(text)


def test_payload_share_of_a_full_ethernet_frame():
    assert units.payload_share(1500) == pytest.approx(1460 / 1514)


def test_words():
    assert units.format_rate(1e8) == "100 Mbit/s"
    assert units.format_size(25e6) == "25 MB"
    assert units.format_duration(0.0125) == "12.5 ms"
