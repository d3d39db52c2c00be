"""One rank of a job of which rank 1 is killed while all others are in an operation; says how long it took them to hear of it."""

import os
import signal
import time

import torch
import torch.distributed as dist

dist.init_process_group()
rank = dist.get_rank()
tensor = torch.ones(1_000_000)
dist.all_reduce(tensor)
if rank == 1:
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
began_s = time.monotonic()
try:
    if rank == 0:
        dist.recv(tensor, src=2)  # of a rank that lives, and never sends
    else:
        dist.all_reduce(tensor)
except RuntimeError as error:
    print(f"after {time.monotonic() - began_s:.3f} s: {error}", flush=True)
