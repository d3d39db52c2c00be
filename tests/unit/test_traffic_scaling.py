from __future__ import annotations

import pytest

from echelonflow.errors import InputError
from echelonflow.model.dag import iteration_times_without_network
from traffic.workloads import paradigms, scaling

LINK_BPS = 12.5e6


@pytest.fixture
def original():
    options = {"stages": 2, "micro_batches": 3, "forward_s": 0.01, "backward_s": 0.02, "activation_bytes": 25_000_000}
    return paradigms.build("gpipe", options)


def test_every_ratio_is_kept(original):
    scaled = scaling.scale(original, bandwidth=1000, time=50)
    fast_Bps = LINK_BPS * 1000
    for before, after in zip(original.transfers, scaled.transfers, strict=True):
        assert after.size_bytes / LINK_BPS == pytest.approx(50 * before.size_bytes / fast_Bps)
    assert iteration_times_without_network(scaled, 2) == pytest.approx(
        [50 * t for t in iteration_times_without_network(original, 2)]
    )
    assert scaled.offset_s == pytest.approx({name: 50 * offset for name, offset in original.offset_s.items()})


def test_both_clocks_are_described(original):
    scaled = scaling.scale(original, bandwidth=1000, time=50)
    found = scaling.describe(original, scaled, bandwidth=1000, time=50, payload_Bps=LINK_BPS)
    assert "bandwidth divided by 1000, time stretched by 50" in found.facts[0]
    assert "1.25 MB, 857 segments, 100 ms on an idle link, 100 round trips of 1 ms" in found.facts[1]
    assert "25 MB, 17,124 segments, 2 ms on an idle link, 100 round trips of 20 us" in found.facts[2]
    assert found.warnings == ()


def test_short_flows_are_warned_about(original):
    scaled = scaling.scale(original, bandwidth=1000, time=20)
    found = scaling.describe(original, scaled, bandwidth=1000, time=20, payload_Bps=LINK_BPS)
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("6 of 6 flows take less than 50 ms")


def test_without_scaling_one_clock_is_enough(original):
    found = scaling.describe(original, original, bandwidth=1, time=1, payload_Bps=LINK_BPS)
    assert len(found.facts) == 1


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf")])
def test_factors_must_be_positive(original, factor):
    with pytest.raises(InputError, match=r"scaling\.time"):
        scaling.scale(original, bandwidth=1, time=factor)
