from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from echelonflow.errors import InputError
from echelonflow.model.dag import iteration_times_without_network
from traffic.workloads import profile as profile_module
from traffic.workloads.paradigms import gpipe
from traffic.workloads.profile import Layer, Profile, Provenance, Timing, read, show, split_into_stages, write

COMMITTED = sorted((Path(profile_module.__file__).parent / "profiles").glob("*.json"))


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
        (('"version": 2', '"version": 3'), "version"),
        (('"seq": 8', '"seq": -8'), "provenance.seq"),
        (('"kind"', '"kinds"'), "layers.0.kind"),
        (('"p75_s": 0.5', '"p75_s": 0.1'), "quartiles"),
        (('"median_s": 0.5', '"median_s": NaN'), "layers.0.update.median_s"),
        (('"repeats": 1,\n   "forward"', '"repeats": 0,\n   "forward"'), "layers.0.repeats"),
        (('"repeats": 1,\n   "forward"', '"repeats": 1000000000,\n   "forward"'), "layers.0.repeats"),
        (('"parameter_bytes": 0', '"parameter_bytes": -1'), "layers.0.parameter_bytes"),
        (('"image": null', '"image": 224'), "either seq"),
        (('"seq": 8', '"seq": null'), "either seq"),
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


@pytest.mark.parametrize("text", ["", "[]", "3", '{"layers": []}', "{" * 5000, '"\ud800"'])
def test_what_is_no_profile_is_refused(tmp_path, text):
    path = tmp_path / "p.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=r"p\.json"):
        read(path)


def test_damaged_files_are_refused_or_still_profiles(tmp_path):
    """Bytes lost, doubled or changed: an InputError that names the file, or a profile; nothing else."""
    drawn, path, refused = random.Random(7), tmp_path / "p.json", 0
    whole = COMMITTED[0].read_bytes()
    for _ in range(300):
        at, length = drawn.randrange(len(whole)), drawn.randint(0, 30)
        middle = drawn.choice([b"", b"NaN", b"-1", b"1e999", b"null", b"{", b"\xff", whole[at : at + length] * 2])
        path.write_bytes(whole[:at] + middle + whole[at + length :] * drawn.choice([0, 1, 1, 1]))
        try:
            show(read(path))
        except InputError as error:
            refused += str(path) in str(error)
    assert refused > 200


def test_layers_that_are_alike_are_written_once_and_count_one_by_one(tmp_path):
    one = profile_of([1.0, 2.0, 4.0])
    first, block, last = one.measured
    profile = one.model_copy(update={"measured": (first, block.model_copy(update={"repeats": 3}), last)})
    write(tmp_path / "p.json", profile)
    found = read(tmp_path / "p.json")
    assert len(found.measured) == 3
    assert [layer.name for layer in found.layers] == ["l0", "l10", "l11", "l12", "l2"]
    assert [layer.forward_s for layer in found.layers] == pytest.approx([1 / 3, 2 / 3, 2 / 3, 2 / 3, 4 / 3])
    assert split_into_stages(found, 5).parameter_bytes == (0, 10, 10, 10, 20)
    table = show(found).splitlines()
    assert table[-1].split()[:2] == ["total", "5"]
    assert table[-1].split()[2:4] == ["3.667", "s"]  # (1 + 3 * 2 + 4) / 3


def test_two_layers_of_one_name_are_refused(tmp_path):
    one = profile_of([1.0, 2.0])
    path = tmp_path / "p.json"
    write(path, one)
    path.write_text(path.read_text().replace('"l1"', '"l0"'))
    with pytest.raises(InputError, match="two are called 'l0'"):
        read(path)


def test_version_1_is_read():
    """Its only committed file: no repeats, no gradient bytes."""
    path = next(path for path in COMMITTED if path.stem == "gpt2-small-cpu")
    assert '"version": 1' in path.read_text()
    profile = read(path)
    assert profile.version == 2
    assert len(profile.layers) == len(profile.measured) == 14
    assert all(layer.gradient_bytes == layer.parameter_bytes > 0 for layer in profile.layers)


PARAMETERS = {
    # Published counts; of language models plus an output layer of its own where the published one shares the input's.
    "GPT-2 small": 124_439_808 + 50257 * 768,
    "GPT-2 medium": 354_823_168 + 50257 * 1024,
    "GPT-2 large": 774_030_080 + 50257 * 1280,
    "GPT-2 XL": 1_557_611_200 + 50257 * 1600,
    # Without the pooler (d^2 + d), which the loss on masked words does not use; with that loss's own layers.
    "BERT-large": 335_141_888 - (1024**2 + 1024) + (1024**2 + 3 * 1024) + 30522 * 1025,
    "LLaMA 7B": 6_738_415_616,
    "ResNet-50": 25_557_032,
    "VGG-16": 138_357_544,
}
WIDTHS = {
    "GPT-2 small": 768,
    "GPT-2 medium": 1024,
    "GPT-2 large": 1280,
    "GPT-2 XL": 1600,
    "BERT-large": 1024,
    "LLaMA 7B": 4096,
}


@pytest.mark.parametrize("path", COMMITTED, ids=lambda p: p.stem)
def test_committed_profiles_are_of_whole_models(path):
    profile = read(path)
    p = profile.provenance
    item_bytes = {"float32": 4, "bfloat16": 2, "float16": 2}[p.dtype]
    assert p.repeats >= 10
    assert p.others_share is None or p.others_share <= 0.05
    assert sum(layer.parameter_bytes for layer in profile.layers) == PARAMETERS[profile.model] * item_bytes
    assert all(layer.gradient_bytes == layer.parameter_bytes for layer in profile.layers)
    assert all(layer.forward_s > 0 and layer.backward_s > 0 and layer.update_s > 0 for layer in profile.layers)
    assert profile.layers[-1].kind == "head"
    assert profile.layers[-1].activation_bytes == 4  # the loss
    if p.seq is not None:
        assert profile.layers[0].kind == "embedding"
        assert {layer.activation_bytes for layer in profile.layers[:-1]} == {
            p.batch * p.seq * WIDTHS[profile.model] * item_bytes
        }


def test_gpipe_from_a_profile():
    dag = gpipe.from_profile(profile_of([3.0] * 4), stages=4, micro_batches=5)
    assert iteration_times_without_network(dag, 1) == pytest.approx([(5 + 4 - 1) * 3.0 + 0.5])
    assert sorted({t.size_bytes for t in dag.transfers}) == [100, 101, 102]
