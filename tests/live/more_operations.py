"""One rank of the comparison with Gloo, continued: groups of one and of some, coalesced forms, and kinds of numbers that are rare.

Prints what differs, and then "compared N".
"""

from __future__ import annotations

import torch
import torch.distributed as dist

AROUND_THE_RING = 40_000
"""Elements of a tensor that does not go along a tree."""
compared = []


def drawn(size, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_complex or dtype.is_floating_point:
        return torch.randn(size, generator=generator, dtype=dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 100, (size,), generator=generator).to(dtype)


def same(what, ours, theirs):
    compared.append(what)
    if ours.dtype != theirs.dtype or not torch.equal(ours, theirs):
        print(f"{what}: differs", flush=True)


def alone(rank, ranks):
    """All that a group of one can do."""
    pairs = [(dist.new_group([each]), dist.new_group.__wrapped__([each], backend="gloo")) for each in range(ranks)]
    mine = pairs[rank]
    for size in (0, 1, 5, AROUND_THE_RING):
        source = drawn(size, torch.float32, rank)
        found = []
        for group in mine:
            reduced, everybody, sent = source.clone(), source.clone(), source.clone()
            dist.all_reduce(reduced, group=group)
            dist.reduce(everybody, dst=rank, group=group)
            dist.broadcast(sent, src=rank, group=group)
            gathered, into = [torch.zeros(size)], torch.zeros(size)
            dist.all_gather(gathered, source, group=group)
            dist.all_gather_into_tensor(into, source, group=group)
            part, whole = torch.zeros(size), torch.zeros(size)
            dist.reduce_scatter(part, [source.clone()], group=group)
            dist.reduce_scatter_tensor(whole, source.clone(), group=group)
            root, scattered = [torch.zeros(size)], torch.zeros(size)
            dist.gather(source, root, dst=rank, group=group)
            dist.scatter(scattered, [source.clone()], src=rank, group=group)
            one = torch.zeros(size)
            dist.all_to_all_single(one, source, group=group)
            dist.barrier(group=group)
            found.append([reduced, everybody, sent, *gathered, into, part, whole, *root, scattered, one])
        for number, (ours, theirs) in enumerate(zip(*found, strict=True)):
            same(f"alone, {size} elements, operation {number}", ours, theirs)
    average = drawn(AROUND_THE_RING, torch.float32, rank)
    before = average.clone()
    dist.all_reduce(average, op=dist.ReduceOp.AVG, group=mine[0])
    same("average alone", average, before)


dist.init_process_group("gloo")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
alone(RANK, RANKS)
dist.barrier()
print(f"compared {len(compared)}", flush=True)
dist.destroy_process_group()
