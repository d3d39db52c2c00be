"""Times all_reduce on one rank: `python -m traffic.live.timing BACKEND BYTES`. Rank 0 prints the seconds that each took, as JSON.

RANK, WORLD_SIZE and ECHELON_STORE (a file by which ranks find each other) come from the environment, as for a training program.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
import torch.distributed as dist

import traffic.live  # noqa: F401  (makes torch know "echelon")
from traffic.live.script import STORE_VARIABLE

WARM_UP, TIMES = 2, 7
"""All_reduces that are not timed, and that are."""
BYTES_OF_FLOAT = 4


def times_s(size_bytes: int) -> list[float]:
    """Seconds of each of `TIMES` all_reduces of a tensor of float32; each begins when all ranks have ended the one before."""
    tensor = torch.zeros(size_bytes // BYTES_OF_FLOAT)
    found = []
    for _ in range(WARM_UP + TIMES):
        dist.barrier()
        begun_s = time.monotonic()
        dist.all_reduce(tensor)
        found.append(time.monotonic() - begun_s)
    return found[WARM_UP:]


def main(backend: str, size_bytes: int) -> None:
    """Be one rank."""
    torch.set_num_threads(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.FileStore(os.environ[STORE_VARIABLE], ranks)
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks)
    took_s = times_s(size_bytes)
    if not rank:
        print(json.dumps(took_s), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
