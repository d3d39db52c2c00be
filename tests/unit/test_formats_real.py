"""Other projects' own files, where they are at hand: what they are known to contain."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.benchmarks import _traces, conservation
from echelonflow.errors import InputError
from echelonflow.model.dag import Job
from traffic.agent.plan import check_observable
from traffic.workloads import formats
from traffic.workloads.formats import _chakra_messages as messages

DATA = Path(__file__).parents[3] / "shared" / "data"


def read(name, *files, **options):
    paths = [DATA / file for file in files]
    if not all(path.exists() for path in paths):
        pytest.skip(f"others' files are not published with this project: {paths[0]} is absent")
    imported = formats.read(name, paths, options)
    dag = imported.dag
    check_observable(Job("j", dag, tuple(f"h{rank}" for rank in range(dag.ranks))))
    return imported


def test_resnet50_of_the_profiler_reduces_its_25_557_032_parameters():
    found = read("kineto", "kineto/nccl_allreduce_2gpu_one_step.json.gz", symmetric=True)
    reduced = [t.size_bytes for t in found.dag.transfers if "all-reduce" in t.name and t.src_rank == 0]
    assert reduced == [8_196_000, 31_502_336, 26_255_360, 26_550_272, 9_724_160]
    assert sum(reduced) == 4 * 25_557_032
    assert sum(s.duration_s for s in found.dag.computes if s.rank == 0) == pytest.approx(0.038, abs=0.001)


def test_gloo_of_two_ranks_is_put_together():
    files = [f"kineto/kineto_gloo_rank{rank}.json.gz" for rank in range(2)]
    assert [t.size_bytes for t in read("kineto", *files).dag.transfers] == [4 * 1_059_850] * 2 + [4 * 525_312] * 2
    kinds = {group.kind for group in read("kineto", *files, step="all").dag.groups}
    assert kinds == {"all-reduce", "all-gather", "broadcast", "all-to-all", "send"}


@pytest.mark.parametrize(("model", "parameters"), [("vgg16", 138_357_544), ("resnet50", 25_557_032)])
def test_pipedreams_models_have_their_parameters(model, parameters):
    found = read("pipedream", f"pipedream/{model}.graph.txt", paradigm="data-parallel", ranks=2)
    assert found.report.balance.job.size_bytes == pytest.approx(2 * 4 * parameters, rel=0.001)
    assert [words.partition(":")[2] for words in found.report.dropped] == [
        " loading data, no layer",
        " replicas do not send them",
    ]


def test_astra_sims_resnet_has_its_54_layers():
    found = read("astra-sim", "astra-sim/Resnet50_DataParallel.txt", ranks=4)
    assert len(found.dag.groups) == 54
    assert read("astra-sim", "astra-sim/Transformer_HybridParallel.txt", ranks=8).dag.ranks == 8


def test_simais_files_with_either_header():
    assert read("simai", "aicb/SimAI_example_microAllReduce.txt").dag.ranks == 8
    assert read("simai", "aicb/L7B-M1-C04_Llama7B_megatron_tp2_pp1_mbs1_A100.txt", ranks=4).dag.ranks == 4
    with pytest.raises(InputError, match=r"header .line 2. says 1789 layers and there are 38"):
        read("simai", "aicb/SimAI_example_workload_analytical.head40.txt", empty="drop")
    with pytest.raises(InputError, match="line 10: the input-gradient REDUCESCATTER has 0 bytes"):
        read("simai", "aicb/SimAI_example_workload_analytical.head40.txt")


def test_chakras_samples_and_one_with_ranks_missing():
    found = read("chakra", *[f"chakra/all_reduce/all_reduce.{rank}.et" for rank in range(4)])
    assert found.report.balance.job.size_bytes == 2 * 3 * (1 << 20)
    with pytest.raises(InputError, match="comm_dst is rank 2, whose file is missing"):
        read(
            "chakra",
            *[f"chakra/custom_ring_8npus/astra_custom_ring_allreduce_8npus_1MB.{rank}.et" for rank in range(2)],
        )


@pytest.mark.slow
def test_nothing_of_any_file_is_lost_without_a_cause(monkeypatch):
    if not DATA.exists():
        pytest.skip(f"others' files are not published with this project: {DATA} is absent")
    monkeypatch.setenv(_traces.VARIABLE, str(DATA))
    said: list[str] = []
    figures = conservation.run(1, said.append)
    assert len(figures) == len(conservation.FOLDERS), said[-20:]
    assert [figure for figure in figures if not figure.ok] == []


@pytest.mark.parametrize(
    "file",
    [
        "all_gather/all_gather.1.et",
        "all_reduce/all_reduce.3.et",
        "generated/two_comp_nodes_dependent.0.et",
        "generated/ALL_TO_ALL.1.et",
    ],
)
def test_nodes_are_written_as_googles_library_writes_them(file):
    path = DATA / "chakra" / file
    if not path.exists():
        pytest.skip(f"others' files are not published with this project: {path} is absent")
    _, nodes = messages.read(path)
    head = len(messages.encode({}, iter(())))  # both versions have as many letters
    assert messages.encode({}, iter(nodes))[head:] == path.read_bytes()[head:]
