"""One rank of a program whose results are known; from some iteration on it may do otherwise than before. Prints what differs, and "steps N".

    departs.py STEPS [HOW AT [GROWS]]

Without ECHELON_LIVE_PART, as in a lesson, it does not depart. From step GROWS on large tensors are twice as large, and in that step it also waits at a barrier.
"""

from __future__ import annotations

import os
import signal
import sys

import torch
import torch.distributed as dist

LARGE, SMALL, PART = 30_000, 100, 2000
"""Elements of a tensor that goes around the ring, of one that goes along the tree, and of what goes from each to each."""

SIZES = {
    "two of three": lambda a, b: PART + ({a, b} == {1, 2}),
    "nothing for 0": lambda a, b: PART * (0 not in (a, b)),
}
"""Of a changed all-to-all: what one rank has for another."""


def check(step, what, ours, wanted):
    if not torch.equal(ours, wanted):
        print(f"step {step}, {what}: differs", flush=True)


def reduced(step, size, rank, ranks):
    tensor = torch.full((size,), float(rank + step))
    dist.all_reduce(tensor)
    check(step, f"all-reduce of {size}", tensor, torch.full((size,), float(sum(range(ranks)) + ranks * step)))


def gathered(step, size, rank, ranks):
    into = torch.zeros(size * ranks)
    dist.all_gather_into_tensor(into, torch.full((size,), float(rank + step)))
    check(step, "all-gather", into, torch.cat([torch.full((size,), float(each + step)) for each in range(ranks)]))


def each_to_each(step, rank, ranks, size_of):
    """`size_of` two ranks is how much the one has for the other."""
    sent = [torch.full((size_of(rank, to),), float(100 * rank + to + step)) for to in range(ranks)]
    found = [torch.zeros(size_of(src, rank)) for src in range(ranks)]
    dist.all_to_all(found, sent)
    for src, tensor in enumerate(found):
        check(step, f"all-to-all from {src}", tensor, torch.full_like(tensor, float(100 * src + rank + step)))


def passed_on(step, rank, ranks, size):
    got = torch.zeros(size)
    works = [
        dist.irecv(got, (rank - 1) % ranks),
        dist.isend(torch.full((size,), float(rank + step)), (rank + 1) % ranks),
    ]
    for work in works:
        work.wait()
    check(step, "message", got, torch.full((size,), float((rank - 1) % ranks + step)))


def main():
    steps = int(sys.argv[1])
    how, at = (sys.argv[2], int(sys.argv[3])) if len(sys.argv) > 3 else ("", -1)
    grows = int(sys.argv[4]) if len(sys.argv) > 4 else steps
    if "ECHELON_LIVE_PART" not in os.environ:
        how = ""
    dist.init_process_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for step in range(steps):
        now, large = how if step == at else "", LARGE * (1 + (step >= grows))
        if step == grows:
            dist.barrier()
        reduced(step, large, rank, ranks)
        if now == "extra":
            reduced(step, large, rank, ranks)
        if now == "kind":
            gathered(step, large, rank, ranks)
        elif now != "skipped":
            reduced(step, large + (now == "larger"), rank, ranks)
        each_to_each(step, rank, ranks, SIZES.get(now, lambda _, __: PART))
        if rank == 1 and now == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1 and now == "raises":
            raise ValueError("the program's own")
        passed_on(step, rank, ranks, large)
        reduced(step, SMALL, rank, ranks)
        if now == "last":
            dist.barrier()
        optimizer.step()
    dist.barrier()
    print(f"steps {steps}", flush=True)
    dist.destroy_process_group()


main()
