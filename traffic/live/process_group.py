"""The process group `echelon`: torch's operations as exchanges between ranks.

Signatures are torch's, of `torch.distributed.ProcessGroup`; several names of one operation are of several torch releases.
What torch asks for and is not here raises in the caller's words. Buffers of tensors are sent and filled as they lie in memory; only those whose
elements do not lie side by side are copied.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from echelonflow.errors import EchelonError
from traffic.live.anysource import AnySource
from traffic.live.direct import Direct
from traffic.live.exchange import MOST_TAG, Exchange, Key, lane_of
from traffic.live.memory import flat, is_flat, split
from traffic.live.observing import Operation, Part
from traffic.live.process import Process
from traffic.live.reduction import Reduction
from traffic.live.ring import Ring
from traffic.live.tree import Tree
from traffic.live.work import LiveWork

SMALL_BYTES = 1 << 15
"""What is reduced goes along a tree up to here, and around a ring beyond: few steps count more than few bytes."""


class EchelonProcessGroup(dist.ProcessGroup):  # type: ignore[misc, unused-ignore]
    """One group of ranks, as one of them sees it; `ranks` are global."""

    def __init__(self, process: Process, group_id: str, ranks: Sequence[int], place: int, timeout: timedelta) -> None:
        super().__init__(place, len(ranks))
        self._process = process
        self._ranks, self._place = tuple(ranks), place
        self._timeout = timeout
        self._number = int.from_bytes(hashlib.blake2b(group_id.encode(), digest_size=8).digest(), "big") | 1
        self._counts: Counter[int] = Counter()
        """How many operations each lane has had."""
        self._lock = threading.Lock()

    # What torch asks

    def getBackendName(self) -> str:
        return "echelon"

    def size(self) -> int:
        return len(self._ranks)

    def getSize(self) -> int:
        return len(self._ranks)

    @property
    def group_name(self) -> str:
        name: str = dist.distributed_c10d._world.pg_names[self]
        return name

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def shutdown(self) -> None:
        self._process.leave(self)

    def abort(self) -> None:
        self._process.leave(self)

    def __repr__(self) -> str:
        return f"EchelonProcessGroup(rank {self._place} of {len(self._ranks)})"

    # Reducing

    def allreduce(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None) -> LiveWork:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        return self._reduce_all("all-reduce", tensors, opts)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> LiveWork:
        return self._reduce_all("all-reduce", tensors, opts)

    def _reduce_all(self, kind: str, tensors: Sequence[torch.Tensor], opts: Any) -> LiveWork:
        kept, buffers, back = self._buffers(tensors)
        exchanges = [self._reduced(buffer, opts) for buffer in buffers]
        return self._start(kind, exchanges, kept, back, opts)

    def _reduced(self, buffer: torch.Tensor, opts: Any) -> Exchange:
        reduction = _reduction(opts, buffer.dtype)
        if buffer.numel() * buffer.element_size() <= SMALL_BYTES:
            return Tree(buffer, self._ranks, self._place, reduction=reduction)
        parts = split(buffer.numel(), len(self._ranks))
        return Ring(buffer, parts, self._ranks, self._place, reduction=reduction, gather=True)

    def reduce(self, tensors: Any, opts: Any = None) -> LiveWork:
        kept, buffers, back = self._buffers([tensors] if isinstance(tensors, torch.Tensor) else tensors)
        root = 0 if opts is None else opts.rootRank
        if root != self._place:  # ours is not to be overwritten by what our branch adds up to
            buffers, back = [buffer.clone() for buffer in buffers], _nothing
        exchanges = [
            Tree(buffer, self._ranks, self._place, root=root, reduction=_reduction(opts, buffer.dtype), down=False)
            for buffer in buffers
        ]
        return self._start("reduce", exchanges, kept, back, opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> LiveWork:
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        works = [
            (output, torch.cat([flat(part) for part in parts])) for output, parts in zip(outputs, inputs, strict=True)
        ]
        return self._scatter_reduced(works, [[part.numel() for part in parts] for parts in inputs], opts)

    def reduce_scatter_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> LiveWork:
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> LiveWork:
        self._same(inputs, [output.numel() * len(self._ranks) for output in outputs], "reduce-scatter: an input")
        works = [(output, flat(source).clone()) for output, source in zip(outputs, inputs, strict=True)]
        return self._scatter_reduced(works, [[output.numel()] * len(self._ranks) for output in outputs], opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _scatter_reduced(self, works: Sequence[tuple[torch.Tensor, torch.Tensor]], sizes: Any, opts: Any) -> LiveWork:
        """`works` are (output, copy of the input, which is worked in)."""
        exchanges, own = [], []
        for (_, buffer), elements in zip(works, sizes, strict=True):
            parts = _parts(elements)
            own.append(parts[self._place])
            exchanges.append(
                Ring(buffer, parts, self._ranks, self._place, reduction=_reduction(opts, buffer.dtype), gather=False)
            )

        def back() -> None:
            for (output, buffer), (start, stop) in zip(works, own, strict=True):
                output.copy_(buffer[start:stop].view(output.shape))

        return self._start("reduce-scatter", exchanges, [output for output, _ in works], back, opts)

    # Gathering

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> LiveWork:
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        return self._gather_all(outputs, inputs, opts)

    def allgather_coalesced(self, output_lists: Any, inputs: Any, opts: Any = None) -> LiveWork:
        """The lists are of ranks, and have an output for each input."""
        by_tensor = [[lists[place] for lists in output_lists] for place in range(len(inputs))]
        return self._gather_all(by_tensor, inputs, opts)

    def _gather_all(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any
    ) -> LiveWork:
        """`outputs[tensor][rank]`, which may have different sizes."""
        exchanges: list[Exchange] = []
        buffers: list[tuple[torch.Tensor, list[tuple[int, int]]]] = []
        for each, source in zip(outputs, inputs, strict=True):
            self._same([each[self._place]], [source.numel()], "all-gather: this rank's output")
            parts = _parts([output.numel() for output in each])
            buffer = torch.empty(parts[-1][1], dtype=source.dtype)
            start, stop = parts[self._place]
            buffer[start:stop] = flat(source)
            buffers.append((buffer, parts))
            exchanges.append(Ring(buffer, parts, self._ranks, self._place, reduction=None, gather=True))

        def back() -> None:
            for each, (buffer, parts) in zip(outputs, buffers, strict=True):
                for output, (start, stop) in zip(each, parts, strict=True):
                    output.copy_(buffer[start:stop].view(output.shape))

        return self._start("all-gather", exchanges, [output for each in outputs for output in each], back, opts)

    def all_gather_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> LiveWork:
        return self.all_gather_single_coalesced([output], [source], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> LiveWork:
        self._same(outputs, [source.numel() * len(self._ranks) for source in inputs], "all-gather: an output")
        kept, buffers, back = self._buffers(outputs)
        exchanges = []
        for buffer, source in zip(buffers, inputs, strict=True):
            elements = source.numel()
            own = buffer[self._place * elements : (self._place + 1) * elements]
            if own.data_ptr() != source.data_ptr():
                own.copy_(flat(source))
            exchanges.append(
                Ring(
                    buffer, _parts([elements] * len(self._ranks)), self._ranks, self._place, reduction=None, gather=True
                )
            )
        return self._start("all-gather", exchanges, kept, back, opts)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> LiveWork:
        root = 0 if opts is None else opts.rootRank
        source = inputs[0]
        if root != self._place:
            return self._directly("gather", {self._ranks[root]: source}, {}, opts, label=f"to {self._ranks[root]}")
        others = {self._ranks[i]: output for i, output in enumerate(outputs[0]) if i != root}
        outputs[0][root].copy_(source)
        return self._directly("gather", {}, others, opts, label=f"to {self._ranks[root]}")

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> LiveWork:
        root = 0 if opts is None else opts.rootRank
        label = f"from {self._ranks[root]}"
        if root != self._place:
            return self._directly("scatter", {}, {self._ranks[root]: outputs[0]}, opts, label=label)
        outputs[0].copy_(inputs[0][root])
        others = {self._ranks[i]: source for i, source in enumerate(inputs[0]) if i != root}
        return self._directly("scatter", others, {}, opts, label=label)

    def broadcast(self, tensors: Any, opts: Any = None) -> LiveWork:
        kept, buffers, back = self._buffers([tensors] if isinstance(tensors, torch.Tensor) else tensors)
        root = 0 if opts is None else opts.rootRank
        exchanges = [Tree(buffer, self._ranks, self._place, root=root) for buffer in buffers]
        return self._start("broadcast", exchanges, kept, back, opts)

    # To each its own

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> LiveWork:
        outputs[self._place].copy_(inputs[self._place])
        n = len(self._ranks)
        order = [(self._place + d) % n for d in range(1, n)]  # so that no receiver is everybody's first
        sent = {self._ranks[i]: inputs[i] for i in order}
        return self._directly("all-to-all", sent, {self._ranks[i]: outputs[i] for i in order}, opts)

    def all_to_all_single(
        self, output: torch.Tensor, source: torch.Tensor, output_sizes: Any, input_sizes: Any, opts: Any = None
    ) -> LiveWork:
        n = len(self._ranks)
        for what, tensor, sizes in (("output", output, output_sizes), ("input", source, input_sizes)):
            rows = len(tensor) if tensor.dim() else 0
            if (sizes and (len(sizes) != n or sum(sizes) != rows)) or (not sizes and rows % n):
                raise ValueError(
                    f"all-to-all: the {what} has {rows} rows, which do not go into {list(sizes) or n} parts"
                )
        outputs = list(output.split(list(output_sizes))) if output_sizes else list(output.chunk(n))
        inputs = list(source.split(list(input_sizes))) if input_sizes else list(source.chunk(n))
        return self.alltoall(outputs, inputs, opts)

    alltoall_base = all_to_all_single

    def send(self, tensors: Any, dst: int, tag: int = 0) -> LiveWork:
        key = self._message_key(self._place, dst, tag)
        return self._message("send", key, {self._ranks[dst]: tensors[0]}, {}, f"to {self._ranks[dst]}")

    def recv(self, tensors: Any, src: int, tag: int = 0) -> LiveWork:
        key = self._message_key(src, self._place, tag)
        return self._message("recv", key, {}, {self._ranks[src]: tensors[0]}, f"from {self._ranks[src]}")

    def recv_anysource(self, tensors: Any, tag: int = 0) -> LiveWork:
        self._check_tag(tag)
        (tensor,), (buffer,), back = self._buffers(tensors)
        if not buffer.numel():
            raise ValueError("a message without elements has no first sender; name the rank that it is received from")
        operation = Operation("recv", self._ranks, (), label="from any rank", is_from_any=True)
        work = LiveWork(operation, self._process.observer, 1, [tensor], back, self._timeout)

        def taken(rank: int, key: Key, exchange: Exchange) -> None:
            operation.parts = (Part.of(key, exchange),)
            operation.source_rank = self._ranks.index(rank)

        lanes = {
            rank: lane_of(place, self._place, len(self._ranks), tag)
            for place, rank in enumerate(self._ranks)
            if place != self._place
        }
        self._process.observer.called(operation)
        self._process.submit_any(
            AnySource(self._number, lanes, self._counts.__getitem__, self._count, buffer, taken, work.part_done)
        )
        return work

    def barrier(self, opts: Any = None) -> LiveWork:
        token = torch.zeros(1, dtype=torch.uint8)
        return self._start("barrier", [self._reduced(token, None)], [token], _nothing, opts)

    # How all of these go

    def _message_key(self, src: int, dst: int, tag: int) -> Key:
        self._check_tag(tag)
        lane = lane_of(src, dst, len(self._ranks), tag)
        return Key(self._number, lane, self._count(lane))

    def _count(self, lane: int) -> int:
        """One more operation of a lane, from any thread; returns how many that makes."""
        with self._lock:
            self._counts[lane] += 1
            return self._counts[lane]

    def _check_tag(self, tag: int) -> None:
        if not 0 <= tag < MOST_TAG:
            raise ValueError(f"tag is {tag}; it must be 0 to {MOST_TAG - 1}")

    def _message(self, kind: str, key: Key, sent: Any, received: Any, label: str) -> LiveWork:
        return self._directly(kind, sent, received, None, key=key, label=label)

    def _directly(
        self, kind: str, sent: Any, received: Any, opts: Any, *, key: Key | None = None, label: str = ""
    ) -> LiveWork:
        kept, buffers, back = self._buffers(list(received.values()))
        exchange = Direct(
            {rank: flat(tensor) for rank, tensor in sent.items()}, dict(zip(received, buffers, strict=True))
        )
        return self._start(kind, [exchange], kept, back, opts, keys=None if key is None else [key], label=label)

    def _start(
        self,
        kind: str,
        exchanges: Sequence[Exchange],
        result: Sequence[torch.Tensor],
        back: Callable[[], None],
        opts: Any,
        *,
        keys: Sequence[Key] | None = None,
        label: str = "",
    ) -> LiveWork:
        if keys is None:
            keys = [Key(self._number, 0, self._count(0)) for _ in exchanges]
        operation = Operation(
            kind,
            self._ranks,
            tuple(Part.of(key, exchange) for key, exchange in zip(keys, exchanges, strict=True)),
            label=label,
        )
        said = getattr(opts, "timeout", None)
        timeout = said if isinstance(said, timedelta) and said > timedelta(0) else self._timeout
        work = LiveWork(operation, self._process.observer, len(exchanges), result, back, timeout)
        self._process.observer.called(operation)
        for part, exchange in zip(operation.parts, exchanges, strict=True):
            self._process.submit(operation, part, exchange, work.part_done)
        return work

    def _buffers(
        self, tensors: Sequence[torch.Tensor]
    ) -> tuple[Sequence[torch.Tensor], list[torch.Tensor], Callable[[], None]]:
        """Flat buffers over the tensors' memory, or copies; and what copies these back at the end."""
        for tensor in tensors:
            if tensor.device.type != "cpu" or tensor.is_sparse or tensor.layout is not torch.strided:
                raise ValueError(
                    f"the backend echelon takes dense tensors on the CPU, not {tensor.layout} on {tensor.device}"
                )
        buffers = [flat(tensor) for tensor in tensors]
        copied = [(tensor, buffer) for tensor, buffer in zip(tensors, buffers, strict=True) if not is_flat(tensor)]

        def back() -> None:
            for tensor, buffer in copied:
                tensor.detach().copy_(buffer.view(tensor.shape))

        return tensors, buffers, back if copied else _nothing

    def _same(self, tensors: Sequence[torch.Tensor], elements: Sequence[int], what: str) -> None:
        for tensor, wanted in zip(tensors, elements, strict=True):
            if tensor.numel() != wanted:
                raise ValueError(
                    f"{what} has {tensor.numel()} elements; {wanted} were expected among {len(self._ranks)} ranks"
                )


def create(options: Any) -> EchelonProcessGroup:
    """What torch calls for each new group; `options` are its DistributedBackendOptions."""
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    try:
        process = Process.of(options.store, options.group_rank, options.group_size, options.timeout)
    except EchelonError as error:
        raise dist.DistNetworkError(str(error)) from None
    group = EchelonProcessGroup(process, options.group_id, ranks, options.group_rank, options.timeout)
    process.join(group)
    return group


def _reduction(opts: Any, dtype: torch.dtype) -> Reduction:
    operation = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
    try:
        return Reduction(operation, dtype)
    except EchelonError as error:
        raise ValueError(str(error)) from None


def _parts(elements: Sequence[int]) -> list[tuple[int, int]]:
    """Where parts of so many elements begin and end, side by side."""
    found, start = [], 0
    for count in elements:
        found.append((start, start + count))
        start += count
    return found


def _nothing() -> None:
    """There is nothing to copy back."""
