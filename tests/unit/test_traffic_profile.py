from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

import traffic.profile
from echelonflow.dag import iteration_times_without_network
from echelonflow.errors import InputError
from traffic import profiler
from traffic.paradigms import gpipe
from traffic.profile import Layer, Profile, Provenance, Timing, read, show, split_into_stages, write

COMMITTED = sorted((Path(traffic.profile.__file__).parent / "profiles").glob("*.json"))


def profile_of(times_s: list[float]) -> Profile:
    def timing(s: float) -> Timing:
        return Timing(median_s=s, p25_s=s, p75_s=s)

    provenance = Provenance(
        device="cpu", device_name="x", platform="x", python="3", torch="2", transformers="5",
        date="2026-01-01T00:00:00+00:00", batch=1, seq=8, dtype="float32", threads=1, warmup=0, repeats=1,
    )  # fmt: skip
    layers = [
        Layer(
            name=f"l{i}", kind="block", forward=timing(t / 3), backward=timing(t * 2 / 3), update=timing(0.5),
            parameter_bytes=10 * i, activation_bytes=100 + i,
        )
        for i, t in enumerate(times_s)
    ]  # fmt: skip
    return Profile(model="toy", provenance=provenance, layers=tuple(layers))


def test_the_split_is_the_best_of_all_splits():
    drawn = random.Random(5)
    for _ in range(30):
        times = [drawn.uniform(0.1, 2.0) for _ in range(drawn.randint(3, 8))]
        stages = drawn.randint(1, len(times))
        best = min(
            max(sum(times[a:b]) for a, b in itertools.pairwise([0, *cut, len(times)]))
            for cut in itertools.combinations(range(1, len(times)), stages - 1)
        )
        cut = split_into_stages(profile_of(times), stages)
        found = [f + b for f, b in zip(cut.forward_s, cut.backward_s, strict=True)]
        assert max(found) == pytest.approx(best)
        assert [name for part in cut.layers for name in part] == [f"l{i}" for i in range(len(times))]
        assert all(cut.layers)


def test_what_crosses_a_boundary_is_the_output_of_the_layer_before_it():
    cut = split_into_stages(profile_of([1.0, 1.0, 1.0, 1.0]), 2)
    assert cut.layers == (("l0", "l1"), ("l2", "l3"))
    assert cut.activation_bytes == (101,)
    assert cut.parameter_bytes == (10, 50)
    assert cut.update_s == (1.0, 1.0)


def test_more_stages_than_layers_is_refused():
    with pytest.raises(InputError, match="1 to 3"):
        split_into_stages(profile_of([1.0, 1.0, 1.0]), 4)


def test_a_profile_survives_the_file(tmp_path):
    profile = profile_of([1.0, 2.0])
    write(tmp_path / "p.json", profile)
    assert read(tmp_path / "p.json") == profile
    assert "l1" in show(profile)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"version": 1', '"version": 2'), "version"),
        (('"seq": 8', '"seq": -8'), "provenance.seq"),
        (('"kind"', '"kinds"'), "layers.0.kind"),
        (('"p75_s": 0.5', '"p75_s": 0.1'), "quartiles"),
    ],
)
def test_a_bad_profile_is_refused_by_file_and_key(tmp_path, change, words):
    path = tmp_path / "p.json"
    write(path, profile_of([1.0]))
    assert change[0] in path.read_text()
    path.write_text(path.read_text().replace(*change, 1))
    with pytest.raises(InputError, match=words) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_missing_profile_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.json"):
        read(tmp_path / "none.json")


@pytest.mark.parametrize("path", COMMITTED, ids=lambda p: p.stem)
def test_committed_profiles_are_of_whole_models(path):
    profile = read(path)
    assert profile.provenance.repeats >= 10
    assert profile.layers[0].kind == "embedding"
    assert profile.layers[-1].kind == "head"
    p = profile.provenance
    item_bytes = {"float32": 4, "bfloat16": 2, "float16": 2}[p.dtype]
    width = {"GPT-2 small": 768, "GPT-2 medium": 1024, "GPT-2 large": 1280}[profile.model]
    blocks = [layer for layer in profile.layers if layer.kind == "block"]
    for layer in blocks:
        assert layer.activation_bytes == p.batch * p.seq * width * item_bytes
        # 12 d^2 weights and 13 d biases and norms.
        assert layer.parameter_bytes == (12 * width * width + 13 * width) * item_bytes
        assert 0 < layer.forward_s < layer.backward_s * 3


def test_gpipe_from_a_profile():
    dag = gpipe.from_profile(profile_of([3.0] * 4), stages=4, micro_batches=5)
    assert iteration_times_without_network(dag, 1) == pytest.approx([(5 + 4 - 1) * 3.0 + 0.5])
    assert sorted({t.size_bytes for t in dag.transfers}) == [100, 101, 102]


def test_an_unknown_model_is_named():
    with pytest.raises(InputError, match="there is: gpt2"):
        profiler.measure("resnet")


def test_without_pytorch_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(InputError, match=r"setup\.sh --profile"):
        profiler.measure("gpt2")
