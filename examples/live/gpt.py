"""A small GPT, and text that is made: sums of two numbers, written out."""

import torch
from torch import nn

VOCABULARY = "0123456789+=."
SEQUENCE = 32


class Block(nn.Module):
    """Attention and a feed-forward layer, each behind a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, -1, x.shape[-1] // self.heads).transpose(1, 2)
            for part in self.qkv(self.before_attention(x)).chunk(3, dim=-1)
        )
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, -1))
        return x + self.down(nn.functional.gelu(self.up(self.before_feed(x))))


class Embedding(nn.Module):
    """Characters and their places, as vectors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(len(VOCABULARY), width), nn.Embedding(SEQUENCE, width)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.characters(text) + self.places(torch.arange(text.shape[1]))


def gpt(width: int, layers: int, heads: int = 4) -> nn.Sequential:
    """Embedding, blocks, and the head that says which character comes next."""
    blocks = [Block(width, heads) for _ in range(layers)]
    return nn.Sequential(Embedding(width), *blocks, nn.LayerNorm(width), nn.Linear(width, len(VOCABULARY)))


def batch(size: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """`size` lines of sums, and the same a character on."""
    numbers = torch.randint(0, 100, (size, 2 * SEQUENCE), generator=generator).tolist()
    lines = ["".join(f"{a}+{b}={a + b}." for a, b in zip(row[::2], row[1::2], strict=True)) for row in numbers]
    codes = torch.tensor([[VOCABULARY.index(c) for c in line[: SEQUENCE + 1]] for line in lines])
    return codes[:, :-1], codes[:, 1:]


def loss_of(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
