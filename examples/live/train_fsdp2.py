"""Trains a small GPT with FSDP2, each block a shard of its own: torchrun --nproc-per-node 4 train_fsdp2.py."""

import argparse

import torch
import torch.distributed as dist
from gpt import Block, batch, gpt, loss_of
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8, help="lines for each rank")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(options.seed)
    model = gpt(options.width, options.layers)
    for part in model:
        if isinstance(part, Block):
            fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
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
