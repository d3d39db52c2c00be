"""One rank of the comparison with Gloo, continued: groups of one and of some, coalesced forms, and kinds of numbers that are rare.

Prints what differs, and then "compared N".
"""

from __future__ import annotations

from datetime import timedelta

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


def both(ours, theirs, do):
    """What `do(group)` gives in our group and in Gloo's, tensor by tensor."""
    return zip(do(ours), do(theirs), strict=True)


def among_some(rank, ranks):
    """Groups in which ranks have other places than in the whole."""
    members = list(range(ranks))[1:]
    ours, theirs = dist.new_group(members), dist.new_group.__wrapped__(members, backend="gloo")
    if rank not in members:
        return
    for size in (5, AROUND_THE_RING):

        def do(group, size=size):
            reduced, sent = drawn(size, torch.int32, rank), drawn(size, torch.int32, rank)
            dist.all_reduce(reduced, group=group)
            dist.broadcast(sent, src=members[-1], group=group)
            gathered = [torch.zeros(size, dtype=torch.int32) for _ in members]
            dist.all_gather(gathered, drawn(size, torch.int32, rank), group=group)
            part = torch.zeros(size, dtype=torch.int32)
            dist.reduce_scatter(part, [drawn(size, torch.int32, rank + each) for each in members], group=group)
            return [reduced, sent, *gathered, part]

        for number, (one, other) in enumerate(both(ours, theirs, do)):
            same(f"among some, {size} elements, operation {number}", one, other)
    got = [torch.zeros(7), torch.zeros(7)]
    for group, buffer in zip((ours, theirs), got, strict=True):
        if rank == members[0]:
            dist.send(torch.full((7,), 3.0), members[-1], group=group)
        elif rank == members[-1]:
            dist.recv(buffer, members[0], group=group)
    same("message among some", *got)


def together(gloo, rank, ranks):
    """Several tensors in one operation."""
    sizes = (3, AROUND_THE_RING, 100)

    def all_reduced(group):
        tensors = [drawn(size, torch.int64, rank + size) for size in sizes]
        dist.all_reduce_coalesced(tensors, group=group)
        return tensors

    def managed(group):
        tensors = [drawn(size, torch.int64, rank + size) for size in sizes]
        with dist._coalescing_manager(group=group):
            for tensor in tensors:
                dist.all_reduce(tensor, group=group)
        return tensors

    def all_gathered(group):
        lists = [[torch.zeros(size) for size in sizes] for _ in range(ranks)]
        dist.all_gather_coalesced(lists, [drawn(size, torch.float32, rank + size) for size in sizes], group=group)
        return [tensor for each in lists for tensor in each]

    def into_one(group):
        outputs = [torch.zeros(size * ranks) for size in sizes]
        with dist._coalescing_manager(group=group):
            for output, size in zip(outputs, sizes, strict=True):
                dist.all_gather_into_tensor(output, drawn(size, torch.float32, rank + size), group=group)
        return outputs

    def scattered(group):
        outputs = [torch.zeros(size, dtype=torch.int64) for size in sizes]
        with dist._coalescing_manager(group=group):
            for output, size in zip(outputs, sizes, strict=True):
                dist.reduce_scatter_tensor(output, drawn(size * ranks, torch.int64, rank + size), group=group)
        return outputs

    for do in (all_reduced, managed, all_gathered, into_one, scattered):
        for number, (one, other) in enumerate(both(dist.group.WORLD, gloo, do)):
            same(f"{do.__name__}, tensor {number}", one, other)


def of_rare_numbers(gloo, rank, ranks):
    group = dist.group.WORLD
    for size in (5, AROUND_THE_RING):
        for operation in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
            for dtype in (torch.uint8, torch.int32, torch.int64):
                found = [drawn(size, dtype, size + rank) for _ in range(2)]
                dist.all_reduce(found[0], op=operation)
                dist.all_reduce(found[1], op=operation, group=gloo)
                same(f"{operation} {dtype} {size}", *found)
        for operation in (dist.ReduceOp.MAX, dist.ReduceOp.MIN):
            found = [drawn(size, torch.bool, size + rank) for _ in range(2)]
            dist.all_reduce(found[0], op=operation)
            dist.all_reduce(found[1], op=operation, group=gloo)
            same(f"{operation} bool {size}", *found)
        for dtype in (torch.complex64, torch.complex128):

            def do(group, size=size, dtype=dtype):
                reduced = drawn(size, dtype, size + rank)
                dist.all_reduce(reduced, group=group)
                gathered = [torch.zeros(size, dtype=dtype) for _ in range(ranks)]
                dist.all_gather(gathered, drawn(size, dtype, rank), group=group)
                sent = drawn(size, dtype, rank)
                dist.broadcast(sent, src=0, group=group)
                return [reduced, *gathered, sent]

            found = list(both(group, gloo, do))
            one, other = found.pop(0)
            close = torch.allclose(one, other, rtol=1e-5)  # summed in another order by three and more
            same(f"{dtype} {size}, reduced", one if ranks == 2 or not close else other, other)
            for number, pair in enumerate(found):
                same(f"{dtype} {size}, operation {number}", *pair)
    average = drawn(AROUND_THE_RING, torch.float64, rank)
    wanted = sum(drawn(AROUND_THE_RING, torch.float64, each) for each in range(ranks)) / ranks
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    same("average around the ring", average if not torch.allclose(average, wanted) else wanted, wanted)


def from_anybody(gloo, rank, ranks):
    """Rank 0 receives from whoever sends, and answers; tags keep two conversations apart."""
    for group in (dist.group.WORLD, gloo):
        if rank:
            dist.send(torch.full((1000,), float(rank)), 0, group=group, tag=5)
            answer = torch.zeros(3)
            dist.recv(answer, 0, group=group, tag=6)
            same("an answer", answer, torch.full((3,), 10.0 * rank))
            continue
        senders = set()
        for _ in range(ranks - 1):
            buffer = torch.zeros(1000)
            sender = dist.recv(buffer, group=group, tag=5)
            same("from anybody", buffer, torch.full((1000,), float(sender)))
            dist.send(torch.full((3,), 10.0 * sender), sender, group=group, tag=6)
            senders.add(sender)
        same("senders", torch.tensor(sorted(senders)), torch.arange(1, ranks))


def waits_no_longer(gloo, rank):
    """A wait with a limit ends by then, and says of what."""
    if rank:
        return
    for group in (dist.group.WORLD, gloo):
        work = dist.irecv(torch.zeros(3), 1, group=group, tag=77)
        try:
            work.wait(timedelta(milliseconds=50))
        except RuntimeError as error:
            compared.append("timeout")
            if group is not gloo and "recv (from 1) among ranks" not in str(error):
                print(f"a wait that ended differs: {error}", flush=True)
        else:
            print("a wait without an end differs", flush=True)


dist.init_process_group("gloo")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
alone(RANK, RANKS)
if RANKS > 1:
    GLOO = dist.new_group.__wrapped__(backend="gloo")  # torch's own, beside ours
    among_some(RANK, RANKS)
    together(GLOO, RANK, RANKS)
    of_rare_numbers(GLOO, RANK, RANKS)
    from_anybody(GLOO, RANK, RANKS)
    dist.barrier()
    waits_no_longer(GLOO, RANK)
dist.barrier()
print(f"compared {len(compared)}", flush=True)
dist.destroy_process_group()
