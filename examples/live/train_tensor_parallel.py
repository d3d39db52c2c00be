"""Trains a small GPT whose feed-forward layers are split over ranks: torchrun --nproc-per-node 4 train_tensor_parallel.py."""

import argparse

import torch
import torch.distributed as dist
from gpt import Block, batch, gpt, loss_of
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8, help="lines, the same on all ranks")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(options.seed)
    model = gpt(options.width, options.layers)
    for part in model:
        if isinstance(part, Block):
            parallelize_module(part, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    lines = torch.Generator().manual_seed(1000 + options.seed)
    for step in range(options.steps):
        text, wanted = batch(options.batch, lines)
        optimizer.zero_grad()
        loss = loss_of(model(text), wanted)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
