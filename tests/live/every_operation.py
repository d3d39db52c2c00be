"""One rank of the comparison with Gloo: every operation, on the same random tensors, by both; prints what differs, and then "compared N"."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
WHOLE = (torch.int8, torch.uint8, torch.int32, torch.int64)
SIZES = (1, 3, 7, 1000, 20_011, 300_007)
compared = []


def drawn(size, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(size, generator=generator).to(dtype)
    return torch.randint(0, 7, (size,), generator=generator).to(dtype)


def check(what, ours, theirs, exact):
    compared.append(what)
    if exact:
        if not torch.equal(ours, theirs):
            print(f"{what}: differs", flush=True)
    else:
        # Each of n - 1 sums is rounded once, whatever their order.
        eps = torch.finfo(ours.dtype).eps * dist.get_world_size() * 4
        if not torch.allclose(ours.double(), theirs.double(), rtol=eps, atol=eps * 4):
            print(f"{what}: differs by {(ours.double() - theirs.double()).abs().max()}", flush=True)


def reductions(gloo, rank, ranks):
    for dtype in (*FLOATS, *WHOLE):
        for size in SIZES:
            for operation in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
                ours = drawn(size, dtype, 31 * size + rank)
                theirs = ours.clone()
                dist.all_reduce(ours, op=operation)
                dist.all_reduce(theirs, op=operation, group=gloo)
                arithmetic = operation in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT) and dtype.is_floating_point
                check(f"all_reduce {operation} {dtype} {size}", ours, theirs, exact=not arithmetic or ranks == 2)
            ours = drawn(size, dtype, size + rank)
            theirs = ours.clone()
            dist.reduce(ours, dst=ranks - 1)
            dist.reduce(theirs, dst=ranks - 1, group=gloo)
            if rank == ranks - 1:
                check(f"reduce {dtype} {size}", ours, theirs, exact=not dtype.is_floating_point or ranks == 2)
    average = drawn(5000, torch.float32, rank)
    expected = sum(drawn(5000, torch.float32, other) for other in range(ranks)) / ranks
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    check("all_reduce AVG", average, expected, exact=False)


def gathers(gloo, rank, ranks):
    for dtype in (*FLOATS, *WHOLE, torch.bool):
        for size in SIZES:
            source = drawn(size, dtype, size + rank) if dtype is not torch.bool else drawn(size, torch.int32, rank) > 3
            ours, theirs = ([torch.zeros_like(source) for _ in range(ranks)] for _ in range(2))
            dist.all_gather(ours, source)
            dist.all_gather(theirs, source, group=gloo)
            check(f"all_gather {dtype} {size}", torch.cat(ours), torch.cat(theirs), exact=True)
            one = torch.zeros(size * ranks, dtype=dtype)
            dist.all_gather_into_tensor(one, source)
            check(f"all_gather_into_tensor {dtype} {size}", one, torch.cat(theirs), exact=True)
            ours, theirs = source.clone(), source.clone()
            dist.broadcast(ours, src=1)
            dist.broadcast(theirs, src=1, group=gloo)
            check(f"broadcast {dtype} {size}", ours, theirs, exact=True)
            ours, theirs = ([torch.zeros_like(source) for _ in range(ranks)] if rank == 1 else None for _ in range(2))
            dist.gather(source, ours, dst=1)
            dist.gather(source, theirs, dst=1, group=gloo)
            if rank == 1:
                check(f"gather {dtype} {size}", torch.cat(ours), torch.cat(theirs), exact=True)
            parts = [drawn(size, torch.int32, other).to(dtype) for other in range(ranks)] if rank == 0 else None
            ours, theirs = torch.zeros_like(source), torch.zeros_like(source)
            dist.scatter(ours, parts, src=0)
            dist.scatter(theirs, parts, src=0, group=gloo)
            check(f"scatter {dtype} {size}", ours, theirs, exact=True)


def scattered(rank, ranks):
    for dtype in (*FLOATS, *WHOLE):
        for size in SIZES:
            sources = [drawn(size * ranks, dtype, size + other) for other in range(ranks)]
            expected = sum(source.double() for source in sources).to(dtype)[rank * size : (rank + 1) * size]
            ours = torch.zeros(size, dtype=dtype)
            dist.reduce_scatter_tensor(ours, sources[rank].clone())
            check(f"reduce_scatter_tensor {dtype} {size}", ours, expected, exact=not dtype.is_floating_point)
            ours = torch.zeros(size, dtype=dtype)
            dist.reduce_scatter(ours, list(sources[rank].clone().chunk(ranks)))
            check(f"reduce_scatter {dtype} {size}", ours, expected, exact=not dtype.is_floating_point)
    sizes = [[(i + 2 * j) % 4 for j in range(ranks)] for i in range(ranks)]  # some of them 0
    source = torch.arange(sum(sizes[rank])) + 100 * rank
    ours = torch.zeros(sum(row[rank] for row in sizes), dtype=source.dtype)
    dist.all_to_all_single(ours, source, [row[rank] for row in sizes], sizes[rank])
    wanted = []
    for other in range(ranks):
        start = sum(sizes[other][:rank])
        wanted.append(torch.arange(sum(sizes[other]))[start : start + sizes[other][rank]] + 100 * other)
    check("all_to_all_single", ours, torch.cat(wanted), exact=True)
    outputs = [torch.zeros(5, dtype=torch.int64) for _ in range(ranks)]
    dist.all_to_all(outputs, [torch.full((5,), 10 * rank + other) for other in range(ranks)])
    check(
        "all_to_all", torch.cat(outputs), torch.cat([torch.full((5,), 10 * o + rank) for o in range(ranks)]), exact=True
    )


def messages(rank, ranks):
    following, previous = (rank + 1) % ranks, (rank - 1) % ranks
    sent = [torch.full((4000 * tag + 1,), 100.0 * rank + tag) for tag in range(3)]
    received = [torch.zeros(4000 * tag + 1) for tag in range(3)]
    work = [dist.isend(sent[tag], following, tag=tag) for tag in range(3)]
    work += [dist.irecv(received[tag], previous, tag=tag) for tag in (2, 0, 1)]  # another order
    for each in reversed(work):
        each.wait()
    for tag in range(3):
        check(f"message {tag}", received[tag], torch.full_like(received[tag], 100.0 * previous + tag), exact=True)
    got = torch.zeros(9)
    both = [dist.P2POp(dist.isend, torch.full((9,), float(rank)), following), dist.P2POp(dist.irecv, got, previous)]
    for each in dist.batch_isend_irecv(both):
        each.wait()
    check("batch_isend_irecv", got, torch.full((9,), float(previous)), exact=True)
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == [{"rank": other, "text": "x" * other} for other in range(ranks)]


def others(rank, ranks):
    table = torch.arange(60.0).view(6, 10).t() + rank  # its elements do not lie side by side
    dist.all_reduce(table)
    check("strided", table, torch.arange(60.0).view(6, 10).t() * ranks + sum(range(ranks)), exact=True)
    many = [torch.full((50_000,), float(rank + number)) for number in range(6)]
    work = [dist.all_reduce(tensor, async_op=True) for tensor in many]
    for each in reversed(work):
        each.wait()
    for number, tensor in enumerate(many):
        check("many at once", tensor, torch.full_like(tensor, float(sum(range(ranks)) + number * ranks)), exact=True)
    found = functional.all_reduce(torch.ones(3) * rank, "sum", dist.group.WORLD) + 0
    check("functional", found, torch.full((3,), float(sum(range(ranks)))), exact=True)
    # Groups are called in another order by each rank; what comes early waits.
    first, second = dist.new_group(list(range(ranks))), dist.new_group(list(range(ranks)))
    a, b = torch.ones(70_000) * rank, torch.ones(10) * rank
    pair = [(a, first), (b, second)] if rank % 2 else [(b, second), (a, first)]
    for each in [dist.all_reduce(tensor, group=group, async_op=True) for tensor, group in pair]:
        each.wait()
    check("groups", torch.cat([a, b]), torch.full((70_010,), float(sum(range(ranks)))), exact=True)
    dist.barrier()
    for wrong, words in (
        (lambda: dist.all_reduce(torch.ones(3, dtype=torch.int32), op=dist.ReduceOp.AVG), "average"),
        (lambda: dist.all_gather_into_tensor(torch.zeros(5), torch.zeros(4)), "elements"),
        (lambda: dist.all_reduce(torch.ones(3).to_sparse()), "dense"),
        (lambda: dist.recv(torch.ones(0)), "elements"),
    ):
        try:
            wrong()
        except (ValueError, RuntimeError, NotImplementedError) as error:
            if words not in str(error):
                print(f"{words} was to be said; it differs: {error}", flush=True)
        else:
            print(f"nothing was said of {words}", flush=True)


dist.init_process_group("gloo")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
assert type(dist.group.WORLD).__name__ == "EchelonProcessGroup", type(dist.group.WORLD)
GLOO = dist.new_group.__wrapped__(backend="gloo")  # torch's own, beside ours
reductions(GLOO, RANK, RANKS)
gathers(GLOO, RANK, RANKS)
scattered(RANK, RANKS)
messages(RANK, RANKS)
others(RANK, RANKS)
dist.barrier()
print(f"compared {len(compared)}", flush=True)
dist.destroy_process_group()
