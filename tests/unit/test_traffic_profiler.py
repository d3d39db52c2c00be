"""The profiler, on a clock, tensors and models made for the test; with PyTorch only where it is installed."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from typer.testing import CliRunner

from echelon.cli.main import app
from echelonflow.errors import InputError
from traffic.workloads import profiler
from traffic.workloads.profile import read, write
from traffic.workloads.profiler import quiet
from traffic.workloads.profiler.built import BuiltModel, Model, ModelLayer, Wanted, alike
from traffic.workloads.profiler.measuring import measure_on
from traffic.workloads.profiler.quiet import keep_quiet, others_share, worst
from traffic.workloads.profiler.step import training_step
from traffic.workloads.profiler.torch_device import TorchDevice


@dataclass
class FakeClock:
    """Stands still but for what fake tensors and optimisers take. Marks count only once `finish` was called."""

    now_s: float = 0.0
    finished: bool = False

    def mark(self) -> float:
        self.finished = False
        return self.now_s

    def finish(self) -> None:
        self.finished = True

    def between_s(self, first: float, last: float) -> float:
        assert self.finished
        return last - first


@dataclass
class FakeTensor:
    """An output whose backward pass takes `backward_s` and leaves gradients for its parameters and its input."""

    clock: FakeClock
    items: int
    source: FakeTensor | None = None
    parameters: tuple[FakeTensor, ...] = ()
    backward_s: float = 0.0
    grad: Any = None
    wants_gradient: bool = False
    seen: list[str] = field(default_factory=list)
    name: str = ""

    def detach(self) -> FakeTensor:
        return FakeTensor(self.clock, self.items)

    def requires_grad_(self) -> FakeTensor:
        self.wants_gradient = True
        return self

    def numel(self) -> int:
        return self.items

    def element_size(self) -> int:
        return 4

    def backward(self, gradient: FakeTensor | None) -> None:
        assert gradient is None or gradient.items == self.items
        self.clock.now_s += self.backward_s
        self.seen.append(self.name)
        for parameter in self.parameters:
            parameter.grad = FakeTensor(self.clock, parameter.items)
        if self.source is not None and self.source.wants_gradient:
            self.source.grad = FakeTensor(self.clock, self.source.items)


class FakeOptimiser:
    def __init__(self, clock: FakeClock, parameters: tuple[FakeTensor, ...]) -> None:
        self.clock, self.parameters = clock, parameters

    def step(self) -> None:
        self.clock.now_s += 0.01 * sum(p.items for p in self.parameters)

    def zero_grad(self, *, set_to_none: bool) -> None:
        for parameter in self.parameters:
            parameter.grad = None


class FakeDevice:
    name = "cpu"
    full_name = "abacus"
    threads = 3

    def __init__(self) -> None:
        self.the_clock = FakeClock()
        self.seeds: list[int] = []

    def dtype(self, name: str) -> str:
        return name

    def seed(self, seed: int) -> None:
        self.seeds.append(seed)

    def clock(self) -> FakeClock:
        return self.the_clock

    def optimiser(self, kind: str, parameters: Any) -> FakeOptimiser | None:
        return FakeOptimiser(self.the_clock, parameters) if parameters else None

    def fault(self, error: Exception) -> InputError | None:
        return InputError("too large") if "out of memory" in str(error) else None


def layer(clock, name, forward_s, *, parameters=(), outputs=5, order=None, repeats=1, step_of=None):
    """A layer whose backward pass takes twice its forward time; `step_of` may slow single steps down."""
    held = tuple(FakeTensor(clock, items) for items in parameters)

    def run(given, labels):
        slow = step_of() if step_of else 1.0
        clock.now_s += forward_s * slow
        return FakeTensor(
            clock, outputs, given, held, 2 * forward_s * slow, seen=order if order is not None else [], name=name
        )

    return ModelLayer(name, "block", held, run, repeats)


def test_each_layer_has_its_own_times_and_bytes():
    clock, order = FakeClock(), []
    layers = [
        layer(clock, "a", 1.0, parameters=(7, 3), outputs=6, order=order),
        layer(clock, "b", 10.0, outputs=2, order=order),
        layer(clock, "c", 100.0, parameters=(1,), outputs=1, order=order),
    ]
    optimisers = [FakeOptimiser(clock, layers[0].parameters), None, FakeOptimiser(clock, layers[2].parameters)]
    step = training_step(layers, optimisers, FakeTensor(clock, 4), None, clock)
    assert [(t.forward_s, t.backward_s) for t in step.times] == [(1.0, 2.0), (10.0, 20.0), (100.0, 200.0)]
    assert [t.update_s for t in step.times] == pytest.approx([0.1, 0.0, 0.01])
    assert [s.parameter_bytes for s in step.sizes] == [40, 0, 4]
    assert [s.gradient_bytes for s in step.sizes] == [40, 0, 4]
    assert [s.activation_bytes for s in step.sizes] == [24, 8, 4]
    assert order == ["c", "b", "a"]
    assert all(p.grad is None for part in layers for p in part.parameters)  # nothing is left for the next step


def fake_model(device: FakeDevice, durations: list[float]) -> Model:
    """A model of three alike blocks; the k-th step takes `durations[k]` times as long."""
    steps = iter(durations)

    def build(wanted):
        assert (wanted.device, wanted.dtype, wanted.size) == ("cpu", "float32", 16)
        clock = device.the_clock
        block = layer(clock, "block", 1.0, parameters=(2,), repeats=3, step_of=lambda: next(steps))
        return BuiltModel([block], lambda batch: (FakeTensor(clock, batch * 16), None), note="made up")

    return Model("Fake", "tokens", usual=16, least=1, most=32, optimizer="AdamW", build=build)


def test_the_profile_has_medians_and_quartiles_of_what_comes_after_the_warm_up(tmp_path, monkeypatch):
    monkeypatch.setattr(quiet, "_busy_s", lambda: None)
    device = FakeDevice()
    profile = measure_on(
        device, fake_model(device, [500.0, 500.0, 1.0, 2.0, 3.0, 4.0, 90.0]), 16, batch=2, repeats=5, warmup=2, seed=9
    )
    block = profile.measured[0]
    assert (block.forward.median_s, block.forward.p25_s, block.forward.p75_s) == (3.0, 2.0, 4.0)
    assert block.backward.median_s == 6.0
    assert block.update.median_s == pytest.approx(0.02)
    assert [x.name for x in profile.layers] == ["block0", "block1", "block2"]
    p = profile.provenance
    assert (p.device_name, p.threads, p.repeats, p.warmup, p.tries, p.others_share) == ("abacus", 3, 5, 2, 5, None)
    assert (p.seq, p.image, p.batch, p.optimizer) == (16, None, 2, "AdamW")
    assert "made up" in p.note
    assert "measured once" in p.note
    assert device.seeds == [9]
    write(tmp_path / "p.json", profile)
    assert read(tmp_path / "p.json") == profile


def test_a_single_step_has_no_spread(monkeypatch):
    monkeypatch.setattr(quiet, "_busy_s", lambda: None)
    device = FakeDevice()
    profile = measure_on(device, fake_model(device, [4.0]), 16, batch=1, repeats=1, warmup=0)
    forward = profile.layers[0].forward
    assert forward.p25_s == forward.median_s == forward.p75_s == 4.0


def test_too_little_memory_is_told_as_bad_input_and_other_faults_are_not():
    device = FakeDevice()

    def failing(text):
        def build(wanted):
            raise RuntimeError(text)

        return Model("Fake", "tokens", usual=16, least=1, most=32, optimizer="AdamW", build=build)

    with pytest.raises(InputError, match="too large"):
        measure_on(device, failing("CUDA out of memory"), 16, batch=1)
    with pytest.raises(RuntimeError, match="a bug"):
        measure_on(device, failing("a bug"), 16, batch=1)


def test_disturbed_steps_are_measured_again():
    shares = iter([0.3, 0.0, 0.2, 0.04, 0.01])
    kept, of_kept, tries = keep_quiet(3, lambda: (share := next(shares), share))
    assert sorted(kept) == sorted(of_kept) == [0.0, 0.01, 0.04]
    assert tries == 5
    assert worst(of_kept) == 0.04


def test_on_a_busy_machine_the_least_disturbed_steps_are_kept_and_it_ends():
    shares = iter([0.9, 0.5, 0.8, 0.4, 0.7, 0.6, 0.1])
    kept, of_kept, tries = keep_quiet(2, lambda: (share := next(shares), share))
    assert sorted(kept) == [0.4, 0.5]
    assert worst(of_kept) == 0.5
    assert tries == 2 * quiet.TRIES_PER_STEP


def test_the_share_of_others_is_what_the_machine_did_less_what_we_did(monkeypatch):
    now = {"wall": 0.0, "own": 0.0, "all": 100.0}
    monkeypatch.setattr(quiet.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(quiet.time, "perf_counter", lambda: now["wall"])
    monkeypatch.setattr(quiet.time, "process_time", lambda: now["own"])
    monkeypatch.setattr(quiet, "_busy_s", lambda: now["all"])

    def work():
        now.update(wall=2.0, own=3.0, all=105.0)
        return "done"

    found, share = others_share(work)
    assert found == "done"
    assert share == pytest.approx((5.0 - 3.0) / (2.0 * 4))


def test_busy_time_leaves_out_idle_and_waiting(tmp_path, monkeypatch):
    stat = tmp_path / "stat"
    # user nice system idle iowait irq softirq steal guest guest_nice: the last two are part of user and nice.
    stat.write_text("cpu  100 20 30 9999 8888 4 5 6 77 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    monkeypatch.setattr(quiet, "_STAT", stat)
    monkeypatch.setattr(quiet.os, "sysconf", lambda _: 100)
    assert quiet._busy_s() == pytest.approx(1.65)
    monkeypatch.setattr(quiet, "_STAT", tmp_path / "none")
    assert quiet._busy_s() is None


class FakeModule:
    def __init__(self, name: str) -> None:
        self.name = name

    def parameters(self):
        return [self.name]


def test_one_built_block_stands_for_all_and_several_for_themselves():
    one = alike("block", 24, [FakeModule("x")], lambda m: m)
    assert [(x.name, x.repeats, x.parameters) for x in one] == [("block", 24, ["x"])]
    every = alike("block", 2, [FakeModule("x"), FakeModule("y")], lambda m: m)
    assert [(x.name, x.repeats, x.parameters) for x in every] == [("block0", 1, ["x"]), ("block1", 1, ["y"])]


def test_the_models_that_are_promised_are_there():
    assert {"gpt2", "gpt2-medium", "gpt2-xl", "bert-large", "llama-7b", "resnet50", "vgg16"} <= set(
        profiler.model_names()
    )


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("resnet", {}, "there is: bert-large"),
        ("gpt2", {"seq": 1025}, "--seq 1025: gpt2 takes 2 to 1024 tokens"),
        ("gpt2", {"seq": 1}, "--seq 1"),
        ("gpt2", {"image": 224}, "--image 224: gpt2 takes tokens"),
        ("vgg16", {"seq": 512}, "--seq 512: vgg16 takes pixels"),
        ("vgg16", {"image": 31}, "--image 31: vgg16 takes at least 32"),
    ],
)
def test_what_a_model_cannot_take_is_said_before_anything_is_built(name, given, words):
    with pytest.raises(InputError, match=words):
        profiler.measure(name, **given)


@pytest.mark.parametrize("name", ["gpt2", "vgg16"])
def test_without_pytorch_the_remedy_is_named(monkeypatch, name):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(InputError, match=r"setup\.sh --profile"):
        profiler.measure(name)


@pytest.fixture
def undisturbed(monkeypatch):
    """Nothing is measured again, however busy the machine is."""
    monkeypatch.setattr(quiet, "_busy_s", lambda: None)


SMALL = {
    # family: class of the whole model, builder's arguments, parameters of a block of width 32
    "gpt2": ("GPT2LMHeadModel", {"layers": 3, "heads": 2, "width": 32}, 12 * 32**2 + 13 * 32),
    "bert": ("BertForMaskedLM", {"layers": 3, "heads": 2, "width": 32}, 12 * 32**2 + 13 * 32),
    "llama": (
        "LlamaForCausalLM",
        {"layers": 3, "heads": 2, "width": 32, "feed_forward": 80},
        4 * 32**2 + 3 * 32 * 80 + 2 * 32,
    ),
}


def small(family: str) -> Model:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    build = importlib.import_module(f"traffic.workloads.profiler.models.{family}")._builder(**SMALL[family][1])
    return Model("Small", "tokens", usual=8, least=2, most=64, optimizer="AdamW", build=build)


@pytest.mark.parametrize("family", SMALL)
def test_pytorch_one_block_for_all_has_the_bytes_of_the_model_in_full(family, undisturbed):
    model, device = small(family), TorchDevice("cpu")
    once = measure_on(device, model, 8, batch=2, repeats=1, warmup=0)
    every = measure_on(device, model, 8, batch=2, repeats=1, warmup=0, whole=True)
    assert (len(once.measured), len(every.measured)) == (3, 5)
    assert [x.name for x in once.layers] == [x.name for x in every.layers]
    for a, b in zip(once.layers, every.layers, strict=True):
        assert (a.parameter_bytes, a.activation_bytes) == (b.parameter_bytes, b.activation_bytes)
        assert a.gradient_bytes == b.gradient_bytes == a.parameter_bytes
    assert once.layers[1].parameter_bytes == 4 * SMALL[family][2]
    assert {x.activation_bytes for x in once.layers[:-1]} == {2 * 8 * 32 * 4}


@pytest.mark.parametrize("family", SMALL)
def test_pytorch_layers_one_by_one_are_the_model(family, monkeypatch):
    """Their loss is what the library's own forward pass of the whole model gives, for the same weights and tokens."""
    model = small(family)
    torch = pytest.importorskip("torch")
    wanted = Wanted("cpu", torch.float32, 8, whole=True)
    model.build(wanted)  # transformers loads lazily, and puts another module in its own place meanwhile
    transformers = importlib.import_module("transformers")
    real, made = getattr(transformers, SMALL[family][0]), []
    monkeypatch.setattr(transformers, SMALL[family][0], lambda config: made.append(real(config)) or made[-1])
    built = model.build(wanted)
    whole = made[0].eval()  # without dropout, or no two passes are alike
    with torch.no_grad():  # fresh weights are so small that every loss is that of guessing
        for weights in whole.parameters():
            weights.mul_(10)
    inputs, labels = built.draw(2)
    hidden = inputs
    for part in built.layers:
        hidden = part.run(hidden, labels)
    expected = whole(input_ids=inputs, labels=labels).loss
    assert hidden.item() == pytest.approx(expected.item(), rel=1e-5)
    assert abs(hidden.item() - math.log(whole.config.vocab_size)) > 0.3  # far from guessing
    timed = sum(p.numel() for part in built.layers for p in part.parameters)
    assert timed == sum(p.numel() for name, p in whole.named_parameters() if name != "cls.predictions.bias")


def real(name, **given):
    pytest.importorskip("torch")
    return profiler.measure(name, repeats=1, warmup=0, **given)


@pytest.mark.parametrize(("name", "parameters"), [("resnet50", 25_557_032), ("vgg16", 138_357_544)])
def test_pytorch_image_models_have_the_published_parameters(name, parameters, undisturbed):
    profile = real(name, image=64, batch=2)
    assert sum(x.parameter_bytes for x in profile.layers) == 4 * parameters
    assert sum(x.gradient_bytes for x in profile.layers) == 4 * parameters
    assert all(x.forward_s > 0 and math.isfinite(x.backward_s) for x in profile.layers)
    assert profile.layers[-1].activation_bytes == 4


@pytest.mark.parametrize(("share", "warned"), [(0.01, False), (None, False), (0.5, True)])
def test_the_command_writes_the_profile_and_warns_of_a_busy_machine(tmp_path, monkeypatch, share, warned):
    monkeypatch.setattr(quiet, "_busy_s", lambda: None)
    device = FakeDevice()
    made = measure_on(device, fake_model(device, [1.0]), 16, batch=1, repeats=1, warmup=0)
    made = made.model_copy(update={"provenance": made.provenance.model_copy(update={"others_share": share})})
    asked = []
    monkeypatch.setattr(profiler, "measure", lambda name, **given: asked.append((name, given)) or made)
    target = tmp_path / "p.json"
    found = CliRunner().invoke(app, ["profile", "gpt2", "--batch", "4", "--seq", "16", "--out", str(target)])
    assert found.exit_code == 0
    assert ("machine that is left alone" in found.output) == warned
    assert read(target) == made
    name, given = asked[0]
    assert (name, given["batch"], given["seq"], given["image"], given["whole"]) == ("gpt2", 4, 16, None, False)


def test_a_folder_that_is_not_there_is_told_before_measuring(tmp_path, monkeypatch):
    monkeypatch.setattr(profiler, "measure", lambda *_, **__: pytest.fail("measured"))
    found = CliRunner().invoke(app, ["profile", "gpt2", "--out", str(tmp_path / "none" / "p.json")])
    assert isinstance(found.exception, InputError)
    assert "there is no folder" in str(found.exception)
