"""Trains a small GPT data-parallel: torchrun --nproc-per-node 4 train_ddp.py."""

import argparse

import torch
import torch.distributed as dist
from gpt import batch, gpt, loss_of
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8, help="lines for each rank")
    parser.add_argument("--bucket", type=float, default=0.5, help="MB of gradients that are reduced together")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(options.seed)
    model = DistributedDataParallel(gpt(options.width, options.layers), bucket_cap_mb=options.bucket)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    lines = torch.Generator().manual_seed(1000 + options.seed * 100 + rank)
    for step in range(options.steps):
        text, wanted = batch(options.batch, lines)
        optimizer.zero_grad()
        loss = loss_of(model(text), wanted)
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
