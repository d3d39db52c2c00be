"""One rank of a model that is trained twice, plainly and layer by layer; prints what differs, and "steps N" in the end.

Momentum, decay and a rate that changes with every step: each must be what it was when the program asked for its step.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn

from echelonflow.errors import InputError
from traffic.live.layerwise import LayerwiseDataParallel

STEPS = 4


class Model(nn.Module):
    """With a weight that is used twice, a layer that is used without being entered, and one that needs few bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.small = nn.Linear(96, 96), nn.Linear(96, 96), nn.LayerNorm(96)
        self.aside = nn.Linear(96, 96)
        self.last = nn.Linear(96, 96, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.second(self.first(x)))
        x = nn.functional.linear(x, self.aside.weight, self.aside.bias)
        return self.last(self.small(x))


def train(scheduler: str | None, rank: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(7 if scheduler is None else 7 + rank)  # rank 0's parameters are everybody's
    plain = Model()
    model: nn.Module = plain if scheduler is None else LayerwiseDataParallel(plain, scheduler=scheduler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    lines = torch.Generator().manual_seed(100 + rank)
    for step in range(STEPS):
        optimizer.zero_grad()
        for more in (True, False):  # gradients of two passes add up
            loss = model(torch.randn(4, 96, generator=lines)).square().mean()
            if scheduler is None or not more:
                loss.backward()
            else:
                with model.no_sync():
                    loss.backward()
        if scheduler is None:
            for parameter in plain.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
        before = plain.second.weight.detach().clone()
        optimizer.step()
        rates.step()
        put_off = torch.equal(before, plain.second.weight)
        if put_off != (scheduler is not None and "bytescheduler" in scheduler):
            print(f"step {step} under {scheduler}: differs in when it was made", flush=True)
    return {name: value.clone() for name, value in plain.state_dict().items()}


def refused(wanted: str, action) -> None:
    try:
        action()
    except (InputError, RuntimeError) as error:
        if wanted in str(error):
            return
        print(f"differs: {error}", flush=True)
    else:
        print(f"differs: nothing said {wanted}", flush=True)


def main() -> None:
    dist.init_process_group(sys.argv[1])
    rank = dist.get_rank()
    plain = train(None, rank)
    for scheduler in ("bytescheduler(partition=5 kB, credit=20 kB)", "ddp(first=20 kB, bucket=50 kB)", "fifo"):
        ours = train(scheduler, rank)
        for name, value in plain.items():
            if not torch.allclose(value, ours[name], rtol=1e-5, atol=1e-7):
                print(f"{scheduler}, {name}: differs by {(value - ours[name]).abs().max()}", flush=True)
    model = LayerwiseDataParallel(Model(), scheduler="bytescheduler")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(1, 96)).sum()
    refused("has no gradients to make a step with", optimizer.step)
    loss.backward(retain_graph=True)
    refused("was computed twice", loss.backward)
    refused("closure", lambda: optimizer.step(lambda: loss))
    print(f"steps {STEPS}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
