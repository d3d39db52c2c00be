"""Importers under nonsense: whatever is in a file, there is a job or one message, soon, and in little memory."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from echelon.experiment.import_jobs import GIVEN
from echelonflow.bounds import MOST_RANKS
from echelonflow.errors import InputError
from echelonflow.model.dag import to_dict
from echelonflow.options import bind
from tests.unit.format_files import CASES, GLOO_STEP, NCCL_STEP, chakra_ring, kineto, valid_files, write
from traffic.workloads import formats
from traffic.workloads.formats import _chakra_messages as messages
from traffic.workloads.formats import _coflows, _files, _iteration
from traffic.workloads.formats._account import Amount
from traffic.workloads.formats._chakra_job import MARK

DATA = Path(__file__).parents[3] / "shared" / "data"
REAL = {
    "astra-sim": (["astra-sim/Resnet50_DataParallel.txt"], {"ranks": 4}),
    "simai": (["aicb/SimAI_example_microAllReduce.txt"], {}),
    "pipedream": (["pipedream/gnmt.graph.txt"], {"stages": 3}),
    "chakra": ([f"chakra/all_gather/all_gather.{rank}.et" for rank in range(4)], {}),
    "kineto": ([f"kineto/kineto_gloo_rank{rank}.json.gz" for rank in range(2)], {"step": "all"}),
    "coflow-benchmark": (["coflow-benchmark/FB2010-1Hr-150-0.txt"], {"coflows": 3}),
    "sincronia": (["sincronia/200-0.9-FB-UPWS.txt"], {}),
}
NAMES = {"chakra": "t.0.et", "kineto": "k.json", "job": "j.json"}
NAMES |= {name: "w.txt" for name in formats.names() if name not in NAMES}
OPTIONS = {"astra-sim": {"ranks": 4}, "pipedream": {"stages": 2}, "kineto": {"symmetric": True}}
OPTIONS |= {
    name: bind(formats.load(name).read, formats.load(name).EXAMPLE, given=GIVEN)
    for name in formats.names()
    if hasattr(formats.load(name), "EXAMPLE")
}
MUTATIONS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def survive(name, paths, options):
    """Import; anything but a job or one line of InputError that names a file is a failure."""
    try:
        imported = formats.read(name, paths, options)
    except InputError as error:
        words = str(error)
    else:
        assert imported.report.balance.unexplained == Amount()
        return imported
    assert "\n" not in words
    assert any(str(path.parent) in words for path in paths), words
    return None


def mutated(data: bytes, seed: int) -> bytes:
    """`data` with a few cuts, copies and changes, mostly where they are hard to see."""
    chance = random.Random(seed)
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out) or 1)
        size = chance.choice([1, 1, 2, 5, 30])
        match chance.randrange(5):
            case 0:
                del out[at:]
            case 1:
                del out[at : at + size]
            case 2:
                out[at:at] = out[at : at + size] * chance.choice([1, 2, 20])
            case 3:
                out[at : at + 1] = bytes([chance.randrange(256)])
            case 4:
                # A digit becomes another number, where there is one.
                digits = [i for i in range(len(out)) if 48 <= out[i] < 58]
                if digits:
                    at = chance.choice(digits)
                    out[at : at + 1] = chance.choice(
                        [b"0", b"9", b"-1", b"1e308", b"nan", b"99999999999999", b"0.5", b""]
                    )
    return bytes(out)


@pytest.mark.parametrize("name", sorted(NAMES))
@given(data=st.binary(max_size=200))
@example(data=b"\x1f\x8b\x08")
@example(data=b"\n" * 50)
@example(data=b"{" * 200)
@settings(max_examples=40, deadline=None)
def test_arbitrary_bytes(name, data):
    with tempfile.TemporaryDirectory() as folder:
        survive(name, [write(Path(folder), NAMES[name], data)], OPTIONS.get(name, {}))


@pytest.mark.slow  # many files, each with another fault
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@MUTATIONS
@given(seed=st.integers(0, 1 << 32))
def test_files_with_faults(case, seed):
    with tempfile.TemporaryDirectory() as folder:
        name, paths, options = valid_files(Path(folder))[case]
        victim = paths[seed % len(paths)]
        data = victim.read_bytes()
        if name == "kineto":  # inside the packing is where faults are hard to see
            data = gzip.decompress(data)
            victim.write_bytes(gzip.compress(mutated(data, seed)))
        else:
            victim.write_bytes(mutated(data, seed))
        survive(name, paths, options)


@pytest.mark.parametrize("name", sorted(REAL))
@settings(MUTATIONS, max_examples=25)
@given(seed=st.integers(0, 1 << 32))
def test_real_files_with_faults(name, seed):
    files, options = REAL[name]
    if not (DATA / files[0]).exists():
        pytest.skip(f"others' files are not published with this project: {DATA / files[0]} is absent")
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, file in enumerate(files):
            data = (DATA / file).read_bytes()
            packed = file.endswith(".gz")
            data = gzip.decompress(data) if packed else data
            data = mutated(data, seed) if i == seed % len(files) else data
            paths.append(write(Path(folder), Path(file).name.removesuffix(".gz"), data))
        survive(name, paths, options)


ODD = [
    None,
    True,
    -1,
    0,
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    10**400,
    "",
    "x",
    "1",
    [],
    [[]],
    [1, [2]],
    {},
    {"a": []},
]


def with_an_odd_value(tree, chance):
    """`tree` (JSON) with something of another kind somewhere in it."""
    place = tree
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = chance.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and chance.random() < 0.85:
            place = place[key]
            continue
        place[key] = chance.choice(ODD)
        return tree


@pytest.mark.slow  # many files, each with another fault
@pytest.mark.parametrize("kind", ["nccl", "gloo", "job", "chakra"])
@settings(MUTATIONS, max_examples=150)
@given(seed=st.integers(0, 1 << 32))
def test_values_of_another_kind(kind, seed):
    with tempfile.TemporaryDirectory() as folder:
        survive(*with_values_of_another_kind(kind, Path(folder), random.Random(seed)))


def with_values_of_another_kind(kind, folder, chance):
    """Format, files and options of a job with an odd value somewhere in its JSON."""
    if kind in ("nccl", "gloo"):
        tree = with_an_odd_value(json.loads(json.dumps(kineto(NCCL_STEP if kind == "nccl" else GLOO_STEP))), chance)
        return "kineto", [write(folder, "k.json", json.dumps(tree))], {"symmetric": True}
    dag = formats.read("chakra", chakra_ring(folder), {}).dag
    if kind == "job":
        tree = with_an_odd_value(json.loads(json.dumps(to_dict(dag))), chance)
        return "job", [write(folder, "j.json", json.dumps(tree))], {}
    paths = formats.write_chakra(dag, folder / "o")
    metadata, nodes = messages.read(paths[0])
    mark = with_an_odd_value(json.loads(str(metadata[MARK])), chance)
    write(folder, "o.0.et", messages.encode({MARK: json.dumps(mark)}, iter(nodes)))
    return "chakra", paths, {}


def test_a_file_that_unpacks_without_end_is_refused_at_a_limit(tmp_path):
    path = write(tmp_path, "b.gz", gzip.compress(b"0" * (8 << 20)))
    with pytest.raises(InputError, match="larger than 2 MiB unpacked"):
        _files.read_bytes(path, 2 << 20)


def test_a_pipe_or_folder_is_not_waited_for(tmp_path):
    for name in sorted(NAMES):
        with pytest.raises(InputError, match=r"is not a regular file|is not called"):
            formats.read(name, [tmp_path], OPTIONS.get(name, {}))
    with pytest.raises(InputError, match="cannot be read"):
        _files.read_bytes(tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("astra-sim", "DATA\n1\nx -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 5 1\n", {"ranks": 10**8}),
        ("astra-sim", "MICRO\n1\nx -1 1 NONE 0 1 NONE 0 1 ALLTOALL 5 1\n", {"ranks": 100_000}),
        ("simai", "MICRO all_gpus: 90000000\n1\nx -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 5 1\n", {}),
    ],
)
def test_jobs_beyond_the_limit_are_refused_before_they_are_made(tmp_path, name, text, options):
    limits = f"{_iteration.MAX_STEPS:,} steps, which is the limit|ranks are asked for; the bound is {MOST_RANKS:,}"
    with pytest.raises(InputError, match=limits):
        formats.read(name, [write(tmp_path, "w.txt", text)], options)


def test_a_trace_beyond_the_limit_is_refused_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(_coflows, "MAX_STEPS", 1000)
    path = write(tmp_path, "w.txt", "2 1\n1 0 1000 1 1" + " 0 1 1" * 1000)
    with pytest.raises(InputError, match="1,000 steps, which is the limit"):
        formats.read("sincronia", [path], {})
