"""LLaMA with 7 billion parameters (Touvron et al. 2023): pre-normalisation, rotary positions, gated feed-forward."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from traffic.workloads.profiler.built import BuiltModel, Model, ModelLayer, Wanted, alike
from traffic.workloads.profiler.models._language import block, draw_tokens, next_token_loss, note
from traffic.workloads.profiler.torch_device import require

POSITIONS = 2048


def _builder(layers: int, heads: int, width: int, feed_forward: int) -> Callable[[Wanted], BuiltModel]:
    def build(wanted: Wanted) -> BuiltModel:
        torch, transformers = require("torch"), require("transformers")
        config = transformers.LlamaConfig(
            num_hidden_layers=layers if wanted.whole else 1, num_attention_heads=heads, hidden_size=width,
            intermediate_size=feed_forward, max_position_embeddings=POSITIONS, vocab_size=32000,
            tie_word_embeddings=False, use_cache=False,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config).to(device=wanted.device, dtype=wanted.dtype).train()
        body = model.model
        positions = torch.arange(wanted.size, device=wanted.device)[None]
        # All blocks use the same rotation, which is worked out once in a forward pass.
        like = torch.empty(1, wanted.size, width, device=wanted.device, dtype=wanted.dtype)
        rotation = body.rotary_emb(like, position_ids=positions)
        run = functools.partial(block, position_embeddings=rotation, position_ids=positions)

        def embed(tokens: Any, _: Any) -> Any:
            return body.embed_tokens(tokens)

        def head(hidden: Any, tokens: Any) -> Any:
            return next_token_loss(model.lm_head(body.norm(hidden)), tokens)

        return BuiltModel(
            layers=[
                ModelLayer("embedding", "embedding", list(body.embed_tokens.parameters()), embed),
                *alike("block", layers, list(body.layers), run),
                ModelLayer("head", "head", [*body.norm.parameters(), *model.lm_head.parameters()], head),
            ],
            draw=draw_tokens(wanted, config.vocab_size),
            note=note(model),
        )

    return build


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "llama-7b": Model(
            "LLaMA 7B", "tokens", usual=512, least=2, most=POSITIONS, optimizer="AdamW",
            build=_builder(layers=32, heads=32, width=4096, feed_forward=11008),
        ),
    }
)  # fmt: skip
