"""Shared arithmetic: kernels against slow textbook versions, and compiled against interpreted, bit for bit."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.scheduling import fill, kernels
from tests.contract.snapshots import on_paths

needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="numba (extra `fast`) is not installed: nothing is compiled"
)


def made(flows, links, seed, *, tiny=False, groups=4):
    """A snapshot of random flows on random links; `tiny`: sizes from bytes to terabytes."""
    rng = np.random.default_rng(seed)
    paths = [rng.choice(links, rng.integers(1, min(links, 4) + 1), replace=False) for _ in range(flows)]
    even = rng.choice([1e5, 2e5, 3e5], flows)
    size = (
        10.0 ** rng.uniform(0, 12, flows)
        if tiny
        else np.where(rng.random(flows) < 0.5, even, rng.uniform(1, 1e6, flows))
    )
    group = rng.integers(0, groups, flows)
    return dataclasses.replace(
        on_paths(paths, rng.choice([1e6, 1e6, 3.3e6], links), groups),
        flow_id=rng.permutation(flows).astype(np.int64),
        remaining_bytes=size,
        ideal_finish_s=rng.choice([0.0, 0.5, 1.0, 3.0, rng.uniform(0, 5)], flows),
        group=group,
        coflow=group,
    )


snapshots = st.builds(made, st.integers(1, 40), st.integers(1, 9), st.integers(0, 10**6), tiny=st.booleans())
stage_counts = st.integers(1, 12)


def random_stages(snapshot, count, seed=0):
    return fill.sets_of(np.random.default_rng(seed).integers(0, count, snapshot.flows), count)


def path(snapshot, row):
    return snapshot.path_link[snapshot.path_start[row] : snapshot.path_start[row + 1]]


def volume_by_link(snapshot, rows, amount):
    found = np.zeros(snapshot.links)
    for row in rows:
        found[path(snapshot, row)] += amount[row]
    return found


def slow_max_min(snapshot, rows, weights, residual):
    """Progressive filling as in the book: all rates grow, step by step, until a link is full."""
    rates, growing = dict.fromkeys(rows, 0.0), list(rows)
    while True:
        full = residual <= 1e-9 * snapshot.capacity_Bps
        growing = [row for row in growing if not full[path(snapshot, row)].any()]
        if not growing:
            return rates
        pull = volume_by_link(snapshot, growing, weights)
        used = pull > 0
        level = np.min(residual[used] / pull[used])
        for row in growing:
            rates[row] += weights[row] * level
        residual[:] = np.maximum(residual - pull * level, 0.0)


def slow_service(snapshot, stages):
    """Stage after stage at MADD rates; then stage after stage what is left."""
    rates, residual = np.zeros(snapshot.flows), snapshot.capacity_Bps.copy()
    for rows in stages:
        volume = volume_by_link(snapshot, rows, snapshot.remaining_bytes)
        used = volume > 0
        if rows.size and np.all(residual[used] > 1e-9 * snapshot.capacity_Bps[used]):
            speed = np.min(residual[used] / volume[used])
            rates[rows] = snapshot.remaining_bytes[rows] * speed
            residual = np.maximum(residual - volume * speed, 0.0)
    for rows in stages:
        for row, rate in slow_max_min(snapshot, rows.tolist(), snapshot.remaining_bytes, residual).items():
            rates[row] += rate
    return rates


@settings(max_examples=150, deadline=None)
@given(snapshot=snapshots, count=stage_counts)
def test_service_in_order_by_the_book(snapshot, count):
    stages = random_stages(snapshot, count)
    found, slow = fill.serve_in_order(snapshot, stages), slow_service(snapshot, stages)
    np.testing.assert_allclose(found, slow, rtol=1e-6, atol=1e-6 * snapshot.capacity_Bps.max())


@settings(max_examples=150, deadline=None)
@given(snapshot=snapshots, even=st.booleans())
def test_max_min_by_the_book(snapshot, even):
    rows = np.flatnonzero(np.arange(snapshot.flows) % 3)
    weights = np.ones(snapshot.flows) if even else snapshot.remaining_bytes
    residual, left = snapshot.capacity_Bps * 0.7, snapshot.capacity_Bps * 0.7
    found = fill.max_min(snapshot, rows, weights[rows], residual)
    slow = slow_max_min(snapshot, rows.tolist(), weights, left)
    atol = 1e-6 * snapshot.capacity_Bps.max()
    np.testing.assert_allclose(found, [slow[row] for row in rows], rtol=1e-6, atol=atol)
    np.testing.assert_allclose(residual, left, atol=atol)


@settings(max_examples=100, deadline=None)
@given(snapshot=snapshots)
def test_bounds_by_the_book(snapshot):
    groups = len(snapshot.groups.id)
    tau, gamma = np.full(groups, -np.inf), np.zeros(groups)
    for row in range(snapshot.flows):
        group, due = snapshot.group[row], snapshot.ideal_finish_s[row]
        mates = np.flatnonzero(snapshot.group == group)
        first = [mate for mate in mates if snapshot.ideal_finish_s[mate] <= due]
        need_s = volume_by_link(snapshot, first, snapshot.remaining_bytes) / snapshot.capacity_Bps
        all_s = volume_by_link(snapshot, mates, snapshot.remaining_bytes) / snapshot.capacity_Bps
        tau[group] = max(tau[group], need_s[path(snapshot, row)].max() - (due - snapshot.now_s))
        gamma[group] = max(gamma[group], all_s.max())
    np.testing.assert_allclose(fill.least_tardiness_s(snapshot), tau, rtol=1e-9)
    np.testing.assert_allclose(fill.effective_bottleneck_s(snapshot, snapshot.group, groups), gamma, rtol=1e-9)


def everything(snapshot, stages):
    rows = np.arange(snapshot.flows)
    return [
        fill.serve_in_order(snapshot, stages),
        fill.max_min(snapshot, rows, np.ones(snapshot.flows), snapshot.capacity_Bps.copy()),
        fill.max_min(snapshot, rows, snapshot.remaining_bytes, snapshot.capacity_Bps.copy()),
        fill.madd(snapshot, rows[::2], snapshot.capacity_Bps.copy()),
        fill.least_tardiness_s(snapshot),
        fill.effective_bottleneck_s(snapshot, snapshot.group, len(snapshot.groups.id)),
    ]


@needs_numba
@settings(max_examples=200, deadline=None)
@given(snapshot=snapshots, count=stage_counts)
def test_compiled_and_interpreted_give_the_same_bits(snapshot, count):
    stages = random_stages(snapshot, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "of_this_process", compiled_runners)
        fast = everything(snapshot, stages)
        patch.setattr(kernels, "of_this_process", plain_runners)
        plain = everything(snapshot, stages)
    assert all(np.array_equal(a, b) for a, b in zip(fast, plain, strict=True))


@functools.cache
def compiled_runners():
    return kernels.Runners(patience_elements=0)


@functools.cache
def plain_runners():
    return kernels.Runners(patience_elements=math.inf)


@needs_numba
def test_the_compiler_is_loaded_once_plain_loops_have_cost_as_much():
    snapshot = made(10, 4, 1)
    runners = kernels.Runners(patience_elements=1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "of_this_process", lambda: runners)
        found = []
        while not runners.are_compiled:
            found.append(everything(snapshot, random_stages(snapshot, 3)))
        found.append(everything(snapshot, random_stages(snapshot, 3)))
    assert 1 < len(found) < 20
    assert all(np.array_equal(a, b) for more in found for a, b in zip(found[0], more, strict=True))


@pytest.mark.slow  # starts programs anew
@needs_numba
def test_a_small_case_loads_no_compiler_and_warming_up_does():
    code = """if True:
        import sys
        import numpy as np
        from echelonflow.scheduling import kernels
        kernels.madd(*(np.zeros(1, np.int64 if kind in "iI" else float) for kind in kernels.madd.arguments))
        print("numba" in sys.modules, kernels.warm_up(), "numba" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "numba", "True"]


@needs_numba
def test_what_cannot_be_kept_on_disk_is_compiled_all_the_same():
    made_in_memory = {}
    exec("def one_more(number):\n    return number + 1\n", made_in_memory)  # no source file to keep it beside
    assert kernels.kept_on_disk(made_in_memory["one_more"])(1) == 2


@pytest.mark.slow  # compiles
@needs_numba
def test_what_is_kept_on_disk_is_made_anew_when_a_file_beside_it_changes(tmp_path):
    (tmp_path / "outer.py").write_text(
        "from echelonflow.scheduling.kernels import kept_on_disk\nimport inner\n"
        "run = kept_on_disk(lambda: inner.number())\n"
    )
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import outer; print(outer.run(), len(outer.run.stats.cache_hits))"
    )
    found = []
    for number in (1, 1, 22):
        (tmp_path / "inner.py").write_text(f"from numba import njit\n\n\n@njit\ndef number():\n    return {number}\n")
        if number == 1:
            os.utime(tmp_path / "inner.py", (1, 1))
        argv = [sys.executable, "-c", code, str(tmp_path)]
        found.append(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    assert found == [["1", "0"], ["1", "1"], ["22", "0"]]  # what it gives, and whether it was kept


@pytest.mark.slow  # compiles
@needs_numba
def test_what_is_kept_on_disk_and_cannot_be_read_any_more_is_made_anew(tmp_path):
    """As when a class that it names was renamed."""
    (tmp_path / "outer.py").write_text(
        "from echelonflow.scheduling.kernels import kept_on_disk\nrun = kept_on_disk(lambda: 7)\n"
    )
    code = "import sys; sys.path.insert(0, sys.argv[1]); import outer; print(outer.run())"
    argv = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(argv, capture_output=True, text=True, check=True)
    (index,) = (tmp_path / "__pycache__").glob("*.nbi")
    with index.open("rb") as file:
        version = pickle.load(file)  # what is left of it was made for this very numba
    index.write_bytes(pickle.dumps(version) + b"cnumba\nNoSuchClass\n.")
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["7"]


def test_the_environment_can_forbid_compiling():
    code = "from echelonflow.scheduling import kernels; import sys; print(kernels.warm_up(), 'numba' in sys.modules)"
    environment = {**os.environ, kernels.PLAIN_VARIABLE: "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain", "False"]


@needs_numba
def test_arrays_that_may_not_be_written_or_have_gaps_are_read():
    snapshot = made(10, 4, 1)
    expected = everything(snapshot, random_stages(snapshot, 3))
    for name in ("remaining_bytes", "path_link", "path_start", "capacity_Bps"):
        array = getattr(snapshot, name)
        spread = np.repeat(array, 2)[::2]
        spread.flags.writeable = False
        object.__setattr__(snapshot, name, spread)
    found = everything(snapshot, random_stages(snapshot, 3))
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


def test_sizes_that_are_no_numbers_give_rates_that_are_none_and_an_end():
    snapshot = made(12, 3, 2)
    snapshot.remaining_bytes[:] = np.nan
    assert not np.isfinite(
        fill.serve_in_order(snapshot, random_stages(snapshot, 3))
    ).all()  # the policy's check sees it
    rates = fill.max_min(snapshot, np.arange(12), snapshot.remaining_bytes, snapshot.capacity_Bps.copy())
    assert not np.isfinite(rates).all()


def test_a_few_bytes_beside_a_terabyte_get_their_share():
    """What is left of a sum of weights when the large ones are taken off must not be their rounding."""
    snapshot = made(3, 3, 0, groups=1)
    object.__setattr__(snapshot, "path_start", np.array([0, 2, 3, 4]))
    object.__setattr__(snapshot, "path_link", np.array([0, 1, 0, 0]))
    object.__setattr__(snapshot, "capacity_Bps", np.array([1e6, 1e3, 1e6]))
    weights = np.array([1e15, 1.0, 3.0])  # the first is held back by link 1, the others share what is left of link 0
    rates = fill.max_min(snapshot, np.arange(3), weights, snapshot.capacity_Bps.copy())
    np.testing.assert_allclose(rates, [1e3, 0.25 * 999e3, 0.75 * 999e3], rtol=1e-12)


keys = st.lists(
    st.tuples(*[st.sampled_from([-(2**62), -3, 0, 1, 5, 2**40, 2**61, 2**62]) | st.integers(-4, 4)] * 3),
    min_size=1,
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(rows=keys)
def test_ranks_are_places_in_the_order_of_all_keys(rows):
    place = {row: i for i, row in enumerate(sorted(set(rows)))}
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    assert fill.dense_rank(columns).tolist() == [place[row] for row in rows]


@pytest.mark.parametrize("most", [1, 300, 70_000, 2**31])
def test_sets_keep_the_order_of_rows(most):
    member = np.random.default_rng(0).integers(0, most, 2000)
    assert fill.in_order_of(member).tolist() == np.argsort(member, kind="stable").tolist()


def test_stages_are_a_sequence_of_rows():
    stages = fill.stages_of(np.array([2, 0, 1, 0]))
    assert [rows.tolist() for rows in stages] == [[1, 3], [2], [0]]
    assert stages[-1].tolist() == [0]
    assert [rows.tolist() for rows in stages[::-1]] == [[0], [2], [1, 3]]
    with pytest.raises(IndexError):
        stages[3]
    again = fill.RowSets.of([np.array([1, 3]), np.array([2]), np.array([0])])
    assert again.start.tolist() == stages.start.tolist()
    assert again.rows.tolist() == stages.rows.tolist()
    assert len(fill.stages_of(np.zeros(0, np.int64))) == 0
