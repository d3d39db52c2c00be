"""BERT (Devlin et al. 2019), pre-training on masked words: 15 % of all tokens are to be guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from traffic.workloads.profiler.built import BuiltModel, Model, ModelLayer, Wanted, alike
from traffic.workloads.profiler.models._language import block, draw_tokens, note
from traffic.workloads.profiler.torch_device import require

POSITIONS = 512
MASKED_SHARE = 0.15
NO_LABEL = -100  # what PyTorch's cross-entropy leaves out


def _builder(layers: int, heads: int, width: int) -> Callable[[Wanted], BuiltModel]:
    def build(wanted: Wanted) -> BuiltModel:
        torch, transformers = require("torch"), require("transformers")
        config = transformers.BertConfig(
            num_hidden_layers=layers if wanted.whole else 1, num_attention_heads=heads, hidden_size=width,
            intermediate_size=4 * width, max_position_embeddings=POSITIONS, vocab_size=30522, tie_word_embeddings=False,
        )  # fmt: skip
        model = transformers.BertForMaskedLM(config).to(device=wanted.device, dtype=wanted.dtype).train()
        body, predictions = model.bert, model.cls.predictions
        draw_inputs = draw_tokens(wanted, config.vocab_size)

        def draw(batch: int) -> tuple[Any, Any]:
            tokens, _ = draw_inputs(batch)
            masked = torch.rand(tokens.shape, device=wanted.device) < MASKED_SHARE
            masked[:, 0] = True  # never none
            return tokens, torch.where(masked, tokens, NO_LABEL)

        def embed(tokens: Any, _: Any) -> Any:
            return body.embeddings(input_ids=tokens)

        def head(hidden: Any, labels: Any) -> Any:
            scores = predictions.decoder(predictions.transform(hidden))
            return torch.nn.functional.cross_entropy(
                scores.flatten(0, 1).float(), labels.flatten(), ignore_index=NO_LABEL
            )

        return BuiltModel(
            layers=[
                ModelLayer("embedding", "embedding", list(body.embeddings.parameters()), embed),
                *alike("block", layers, list(body.encoder.layer), block),
                # Not all of `predictions`: it keeps a bias that is only used where weights are tied.
                ModelLayer(
                    "head",
                    "head",
                    [*predictions.transform.parameters(), *predictions.decoder.parameters()],
                    head,
                ),
            ],
            draw=draw,
            note=note(model),
        )

    return build


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "bert-large": Model(
            "BERT-large", "tokens", usual=512, least=2, most=POSITIONS, optimizer="AdamW",
            build=_builder(layers=24, heads=16, width=1024),
        ),
    }
)  # fmt: skip
