"""Trains a small GPT in a pipeline, a rank for each stage: torchrun --nproc-per-node 4 train_pipeline.py."""

import argparse

import torch
import torch.distributed as dist
from gpt import SEQUENCE, batch, gpt, loss_of
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32, help="lines in all")
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--schedule", choices=("gpipe", "1f1b"), default="gpipe")
    parser.add_argument(
        "--grow-after", type=int, default=0, help="steps with lines of half the length, before all of it"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(options.seed)
    parts = list(gpt(options.width, options.layers))
    each = -(-len(parts) // ranks)
    own = nn.Sequential(*parts[rank * each : (rank + 1) * each])
    kind = ScheduleGPipe if options.schedule == "gpipe" else Schedule1F1B
    optimizer = torch.optim.AdamW(own.parameters(), lr=1e-3)
    lines = torch.Generator().manual_seed(1000 + options.seed)
    for step in range(options.steps):
        if step in (0, options.grow_after):  # a stage takes one shape
            stage = PipelineStage(own, rank, ranks, torch.device("cpu"))
            schedule = kind(stage, n_microbatches=options.micro_batches, loss_fn=loss_of)
        length = SEQUENCE // 2 if step < options.grow_after else SEQUENCE
        text, wanted = (part[:, :length] for part in batch(options.batch, lines))
        optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        if rank == 0:
            schedule.step(text)
        elif rank == ranks - 1:
            schedule.step(target=wanted, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        if losses:
            print(f"step {step} loss {torch.stack(losses).mean().item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
