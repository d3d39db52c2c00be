"""GPT-2 in its four sizes (Radford et al. 2019; 1,024 positions, 50,257 tokens)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from traffic.workloads.profiler.built import BuiltModel, Model, ModelLayer, Wanted, alike
from traffic.workloads.profiler.models._language import block, draw_tokens, next_token_loss, note
from traffic.workloads.profiler.torch_device import require

POSITIONS = 1024


def _builder(layers: int, heads: int, width: int) -> Callable[[Wanted], BuiltModel]:
    def build(wanted: Wanted) -> BuiltModel:
        torch, transformers = require("torch"), require("transformers")
        built = layers if wanted.whole else 1
        config = transformers.GPT2Config(
            n_layer=built, n_head=heads, n_embd=width, n_positions=POSITIONS, tie_word_embeddings=False, use_cache=False
        )
        model = transformers.GPT2LMHeadModel(config).to(device=wanted.device, dtype=wanted.dtype).train()
        body = model.transformer
        positions = torch.arange(wanted.size, device=wanted.device)

        def embed(tokens: Any, _: Any) -> Any:
            return body.drop(body.wte(tokens) + body.wpe(positions))

        def head(hidden: Any, tokens: Any) -> Any:
            return next_token_loss(model.lm_head(body.ln_f(hidden)), tokens)

        return BuiltModel(
            layers=[
                ModelLayer("embedding", "embedding", [*body.wte.parameters(), *body.wpe.parameters()], embed),
                *alike("block", layers, list(body.h), block),
                ModelLayer("head", "head", [*body.ln_f.parameters(), *model.lm_head.parameters()], head),
            ],
            draw=draw_tokens(wanted, config.vocab_size),
            note=note(model),
        )

    return build


def _model(title: str, layers: int, heads: int, width: int) -> Model:
    return Model(
        title, "tokens", usual=512, least=2, most=POSITIONS, optimizer="AdamW", build=_builder(layers, heads, width)
    )


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "gpt2": _model("GPT-2 small", layers=12, heads=12, width=768),
        "gpt2-medium": _model("GPT-2 medium", layers=24, heads=16, width=1024),
        "gpt2-large": _model("GPT-2 large", layers=36, heads=20, width=1280),
        "gpt2-xl": _model("GPT-2 XL", layers=48, heads=25, width=1600),
    }
)
