"""What every policy must do, found by name: a new file in echelonflow/scheduling/policies is tested unasked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.errors import PolicyError
from echelonflow.scheduling import policies
from echelonflow.scheduling.allocation import Allocation, check
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowDeclaration
from tests.contract.snapshots import (
    NETWORK,
    VARIANTS,
    arrays,
    idle_share,
    load_scaled,
    scaled,
    shuffled,
    snapshots,
    words_of,
)


def keep_the_contract(text, snapshot, seed):
    policy = policies.load(text)
    before = arrays(snapshot)
    answer = policy(snapshot)  # raises PolicyError where a link is overloaded
    assert all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(before, arrays(snapshot), strict=True)
    ), "input was changed"
    again = policy(snapshot)
    assert np.array_equal(answer.rates_Bps, again.rates_Bps), "not deterministic"
    assert np.array_equal(answer.rank, again.rank), "not deterministic"
    assert answer.valid_until_s == again.valid_until_s, "not deterministic"
    assert np.any(answer.rates_Bps > 0), "nobody moves"
    if policy.promises.work_conserving:
        assert np.all(idle_share(snapshot, answer.rates_Bps) < 1e-6), "a link that some flow could use is idle"
    order, other = shuffled(snapshot, seed)
    moved = policy(other)
    assert np.array_equal(moved.rank, answer.rank[order]), "the order of rows decides"
    np.testing.assert_allclose(moved.rates_Bps, answer.rates_Bps[order], rtol=1e-9, atol=1e-6)
    assert moved.valid_until_s == pytest.approx(answer.valid_until_s, rel=1e-12)


@pytest.mark.parametrize("text", VARIANTS)
@settings(max_examples=25, deadline=None)
@given(snapshot=snapshots(), seed=st.integers(0, 99))
def test_contract(text, snapshot, seed):
    keep_the_contract(text, snapshot, seed)


@pytest.mark.parametrize("name", [name for name in policies.names() if len(words_of(name)) > 1])
@settings(max_examples=40, deadline=None)
@given(snapshot=snapshots(), seed=st.integers(0, 99), data=st.data())
def test_contract_of_any_combination_of_options(name, snapshot, seed, data):
    chosen = {option: data.draw(st.sampled_from(words)) for option, words in words_of(name).items()}
    keep_the_contract(f"{name}({','.join(f'{k}={v}' for k, v in chosen.items())})", snapshot, seed)


@pytest.mark.parametrize("text", VARIANTS)
@settings(max_examples=15, deadline=None)
@given(snapshot=snapshots(), by_bytes=st.sampled_from([1.0, 0.5, 1024.0]), by_s=st.sampled_from([1.0, 0.5, 16.0]))
def test_units_do_not_matter(text, snapshot, by_bytes, by_s):
    """All sizes times one number and all times another: the same order, the same shares."""
    other = load_scaled(text, by_bytes, by_s)(scaled(snapshot, by_bytes, by_s))
    answer = policies.load(text)(snapshot)
    assert np.array_equal(other.rank, answer.rank)
    np.testing.assert_allclose(other.rates_Bps, answer.rates_Bps * by_bytes / by_s, rtol=1e-9, atol=1e-6)
    assert other.valid_until_s == pytest.approx(answer.valid_until_s * by_s, abs=1e-5)


@pytest.mark.parametrize("text", VARIANTS)
def test_nothing_to_do(text):
    state = SchedulerState(NETWORK)
    snapshot, keys = state.snapshot(0.0)
    assert len(keys) == 0
    assert policies.load(text)(snapshot).rates_Bps.shape == (0,)


def test_too_much_is_refused_naming_policy_and_link():
    state = SchedulerState(NETWORK)
    flow = FlowDeclaration("f", 0, "c", "h1", "h2", 1000, 0.0, 1, 5001)
    state.declare(Declare("job", "g", "test", 1.0, (flow,)))
    state.release(("job", 0, "f"), 0.0)
    snapshot, _ = state.snapshot(0.0)
    greedy = Allocation(np.array([2e6]), np.array([0]))
    with pytest.raises(PolicyError, match=r"policy greedy allocates .* on h1->l1"):
        check(greedy, snapshot, "greedy")
    with pytest.raises(PolicyError, match="not a number"):
        check(Allocation(np.array([np.nan]), np.array([0])), snapshot, "nan")
    with pytest.raises(PolicyError, match="shape"):
        check(Allocation(np.array([1.0, 2.0]), np.array([0, 0])), snapshot, "long")
