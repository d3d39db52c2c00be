"""What language models share: drawing tokens, and blocks that give a tensor or a tuple."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from traffic.workloads.profiler.built import Wanted
from traffic.workloads.profiler.torch_device import require


def draw_tokens(wanted: Wanted, vocabulary: int) -> Callable[[int], tuple[Any, Any]]:
    """Random tokens of shape (batch, tokens), which are their own labels."""
    torch = require("torch")

    def draw(batch: int) -> tuple[Any, Any]:
        tokens = torch.randint(vocabulary, (batch, wanted.size), device=wanted.device)
        return tokens, tokens

    return draw


def block(module: Any, **given: Any) -> Callable[[Any, Any], Any]:
    """How a block is run; `given` goes to it with every input."""

    def run(hidden: Any, _: Any) -> Any:
        output = module(hidden, **given)
        return output[0] if isinstance(output, tuple) else output  # a tuple in older transformers

    return run


def next_token_loss(scores: Any, tokens: Any) -> Any:
    """Cross-entropy of every token but the first, given the scores of shape (batch, tokens, vocabulary)."""
    functional = require("torch").nn.functional
    return functional.cross_entropy(scores[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def note(model: Any) -> str:
    """What a reader of the profile should know of how a language model was built."""
    attention = getattr(model.config, "_attn_implementation", "unknown")
    return f"attention {attention}; input embedding and head not tied: each stage holds its own"
