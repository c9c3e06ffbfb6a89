"""One forward and backward pass, compared with a `torch.nn.Transformer` of the same size and with the same loss.

    python benchmarks/forward_backward.py [--size small] [--tokens 4096] [--repeats 7] [--dropout 0.1]

The two are interleaved, so that background load affects both. Prints JSON with the median of the time ratios; below 1
means that Lamina is faster.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lamina.model.layers.positions import sinusoids
from lamina.systems.build import build
from lamina.systems.published import SIZES


class TorchTransformer(nn.Module):
    """`nn.Transformer` with a shared embedding, sinusoidal positions and label smoothing."""

    def __init__(self, size: str, vocabulary: int, dropout: float) -> None:
        super().__init__()
        sizes = SIZES[size]
        self.embedding = nn.Embedding(vocabulary, sizes["d_model"], padding_idx=1)
        nn.init.normal_(self.embedding.weight, std=sizes["d_model"] ** -0.5)
        warnings.filterwarnings("ignore", "enable_nested_tensor")  # warns that pre-norm has no nested fast path
        self.transformer = nn.Transformer(
            sizes["d_model"],
            sizes["heads"],
            sizes["encoder"]["layers"],
            sizes["decoder"]["layers"],
            sizes["ffn_size"],
            dropout,
            batch_first=True,
            norm_first=True,
        )
        # The published backbone applies dropout to residuals only, not to attention weights or activations.
        for name, module in self.transformer.named_modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            if name.endswith(".dropout"):
                module.p = 0.0
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("positions", sinusoids(1024, sizes["d_model"]))

    def embed(self, tokens_BT: Tensor) -> Tensor:
        scaled_BTD = self.embedding(tokens_BT) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled_BTD + self.positions[: tokens_BT.shape[1]])

    def forward(self, source_BS: Tensor, prefix_BT: Tensor, target_BT: Tensor, smoothing: float) -> Tensor:
        features_BTD = self.transformer(
            self.embed(source_BS),
            self.embed(prefix_BT),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(prefix_BT.shape[1]),
            tgt_is_causal=True,
            src_key_padding_mask=source_BS == 1,
            memory_key_padding_mask=source_BS == 1,
        )
        logits = features_BTD @ self.embedding.weight.T
        return nn.functional.cross_entropy(
            logits.flatten(0, 1), target_BT.flatten(), ignore_index=1, label_smoothing=smoothing
        )


def make_batch(tokens: int, length: int, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    """Make a bucketed batch: targets of similar length, with up to 10 % padding."""
    rows = tokens // length
    batch = torch.randint(4, vocabulary, (3, rows, length))
    for row in range(rows):
        end = length - row % max(1, length // 10)
        batch[:, row, end:] = 1
    return batch[0], batch[1], batch[2]


def seconds(model: nn.Module, compute: Callable[[], Tensor]) -> float:
    model.zero_grad(set_to_none=True)
    started = time.perf_counter()
    compute().backward()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--length", type=int, default=32, help="tokens per sentence")
    parser.add_argument("--vocabulary", type=int, default=10124)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.manual_seed(1)
    batch = make_batch(options.tokens, options.length, options.vocabulary)
    lamina = build("transformer", size=options.size, vocab_size=options.vocabulary, dropout=options.dropout)
    reference = TorchTransformer(options.size, options.vocabulary, options.dropout)
    runs: list[tuple[float, float]] = []
    for _ in range(options.repeats + 1):
        ours = seconds(lamina, lambda: lamina(*batch, 0.1).mean())
        runs.append((ours, seconds(reference, lambda: reference(*batch, 0.1))))
    measured = runs[1:]  # the first is a warm-up
    report = {
        **vars(options),
        "threads": torch.get_num_threads(),
        "lamina_seconds": round(statistics.median(ours for ours, _ in measured), 4),
        "torch_seconds": round(statistics.median(theirs for _, theirs in measured), 4),
        "ratio": round(statistics.median(ours / theirs for ours, theirs in measured), 3),
        "ratios": [round(ours / theirs, 3) for ours, theirs in measured],
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
