"""A plain reimplementation of the SurfaceFusion release: an oracle for the importer.

Written from the meaning of the flags, one sentence and position at a time, without sharing code with Lamina.
`test_fairseq.py` first compares it with recorded outputs of the release, then uses it for flags that were not recorded.
"""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Any

import torch
from torch import Tensor

Weights = dict[str, Tensor]

FLAGS: dict[str, Any] = {
    "encoder_embed_dim": 16,
    "decoder_embed_dim": 16,
    "decoder_input_dim": 16,
    "decoder_output_dim": 16,
    "encoder_ffn_embed_dim": 24,
    "decoder_ffn_embed_dim": 24,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "share_all_embeddings": True,
    "share_decoder_input_output_embed": True,
    "layer_wise_attention": False,
    "transparent_attention": False,
    "fine_grained_ta": False,
    "ta_source_embedding": False,
    "ta_posedemb": False,
    "no_ta_embnorm": False,
    "surfacefusion": "att",
    "sf_gate": 0.8,
    "sf_mode": "hard",
    "sf_linear": False,
    "sf_ffn": True,
    "sf_no_posedemb": True,
    "sf_softmax_tau": 1.0,
    "sf_attention_heads": 1,
    "sf_idx": 2,
}


def make_weights(flags: Namespace, vocabulary: int, seed: int = 5) -> Weights:
    """Random weights with the names that the release saves for these flags."""
    d, f = flags.encoder_embed_dim, flags.encoder_ffn_embed_dim
    shapes: dict[str, tuple[int, ...]] = {"encoder.version": (1,), "decoder.version": (1,)}

    def linear(name: str, out: int, inner: int, bias: bool = True) -> None:
        shapes[f"{name}.weight"] = (out, inner)
        if bias:
            shapes[f"{name}.bias"] = (out,)

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (d,)

    def attention(name: str) -> None:
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(f"{name}.{part}", d, d)

    for side in ("encoder", "decoder"):
        shapes[f"{side}.embed_tokens.weight"] = (vocabulary, d)
        shapes[f"{side}.embed_positions._float_tensor"] = (1,)
        for index in range(getattr(flags, f"{side}_layers")):
            layer = f"{side}.layers.{index}"
            attention(f"{layer}.self_attn")
            norm(f"{layer}.self_attn_layer_norm")
            if side == "decoder":
                attention(f"{layer}.encoder_attn")
                norm(f"{layer}.encoder_attn_layer_norm")
            linear(f"{layer}.fc1", f, d)
            linear(f"{layer}.fc2", d, f)
            norm(f"{layer}.final_layer_norm")
        if flags.encoder_normalize_before:
            norm(f"{side}.layer_norm")
    if flags.transparent_attention:
        columns = flags.encoder_layers + flags.ta_source_embedding
        shapes["decoder.ta_weight"] = (flags.decoder_layers, columns, *([d] if flags.fine_grained_ta else []))
        norm("decoder.ta_final_layernorm")
        if flags.ta_source_embedding and not flags.encoder_normalize_before:
            norm("encoder.layernorm_srcemb")
    if not flags.share_decoder_input_output_embed:
        shapes["decoder.embed_out"] = (vocabulary, d)
    attention("decoder.sf_attn")
    linear("decoder.tgt_out_dim", d, d, bias=False)
    linear("decoder.src_out_dim", d, d, bias=False)
    shapes["decoder.meanmaxweight"] = (1, 2 * d)
    if flags.sf_ffn:
        linear("decoder.fc1", f, d)
        linear("decoder.fc2", d, f)
    generator = torch.Generator().manual_seed(seed)
    weights = {name: torch.randn(shape, generator=generator) * 0.4 for name, shape in shapes.items()}
    if flags.share_all_embeddings:
        weights["encoder.embed_tokens.weight"] = weights["decoder.embed_tokens.weight"]
    return weights


class Release:
    """The release's model, one sentence at a time without batches or padding."""

    def __init__(self, flags: Namespace, weights: Weights) -> None:
        self.flags, self.weights = flags, weights
        self.pre = flags.encoder_normalize_before
        self.d = flags.encoder_embed_dim

    def linear(self, x: Tensor, name: str) -> Tensor:
        result = x @ self.weights[f"{name}.weight"].T
        return result + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else result

    def norm(self, x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        scaled = centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attend(self, name: str, query: Tensor, key: Tensor, value: Tensor, heads: int, causal: bool = False) -> Tensor:
        q, k, v = (self.linear(x, f"{name}.{part}_proj") for x, part in ((query, "q"), (key, "k"), (value, "v")))
        size = self.d // heads
        joined = torch.zeros(len(query), self.d)
        for head in range(heads):
            columns = slice(head * size, (head + 1) * size)
            for row in range(len(query)):
                seen = row + 1 if causal else len(key)
                scores = k[:seen, columns] @ q[row, columns] / math.sqrt(size)
                joined[row, columns] = scores.softmax(dim=0) @ v[:seen, columns]
        return self.linear(joined, f"{name}.out_proj")

    def feed_forward(self, x: Tensor, name: str) -> Tensor:
        return self.linear(self.linear(x, f"{name}.fc1").clamp(min=0), f"{name}.fc2")

    def sublayer(self, x: Tensor, norm: str, function: Any) -> Tensor:
        if self.pre:
            return x + function(self.norm(x, norm))
        return self.norm(x + function(x), norm)

    def positions(self, length: int) -> Tensor:
        half = self.d // 2
        rows = []
        for position in range(2, 2 + length):
            angles = [position * 10000 ** (-i / (half - 1)) for i in range(half)]
            rows.append([math.sin(a) for a in angles] + [math.cos(a) for a in angles])
        return torch.tensor(rows, dtype=torch.float32)

    def embed(self, side: str, tokens: Tensor) -> Tensor:
        return math.sqrt(self.d) * self.weights[f"{side}.embed_tokens.weight"][tokens]

    def log_probs(self, source: Tensor, prefix: Tensor) -> Tensor:
        flags, heads = self.flags, self.flags.encoder_attention_heads
        surface = self.embed("encoder", source)
        x = surface + self.positions(len(source))
        if flags.ta_posedemb or not flags.sf_no_posedemb:
            surface = x
        states = []
        if flags.ta_source_embedding:
            normed = not self.pre and not flags.no_ta_embnorm and flags.transparent_attention
            states.append(self.norm(surface, "encoder.layernorm_srcemb") if normed else surface)
        for index in range(flags.encoder_layers):
            name = f"encoder.layers.{index}"
            x = self.sublayer(
                x, f"{name}.self_attn_layer_norm", lambda y, n=name: self.attend(f"{n}.self_attn", y, y, y, heads)
            )
            x = self.sublayer(x, f"{name}.final_layer_norm", lambda y, n=name: self.feed_forward(y, n))
            states.append(x)
        if self.pre:
            x = self.norm(x, "encoder.layer_norm")
            if not flags.transparent_attention:
                states[-1] = x
        top = x
        y = self.embed("decoder", prefix) + self.positions(len(prefix))
        for index in range(flags.decoder_layers):
            name, memory = f"decoder.layers.{index}", self.memory(index, states, top)
            y = self.sublayer(
                y,
                f"{name}.self_attn_layer_norm",
                lambda z, n=name: self.attend(f"{n}.self_attn", z, z, z, heads, causal=True),
            )
            y = self.sublayer(
                y,
                f"{name}.encoder_attn_layer_norm",
                lambda z, n=name, m=memory: self.attend(f"{n}.encoder_attn", z, m, m, heads),
            )
            y = self.sublayer(y, f"{name}.final_layer_norm", lambda z, n=name: self.feed_forward(z, n))
            if index == flags.sf_idx:
                read = self.attend("decoder.sf_attn", y, top, surface, flags.sf_attention_heads)
        if self.pre:
            y = self.norm(y, "decoder.layer_norm")
        return self.fuse(y, self.pool(source, surface, len(prefix)) if flags.surfacefusion != "att" else read)

    def memory(self, index: int, states: list[Tensor], top: Tensor) -> Tensor:
        flags = self.flags
        if not flags.layer_wise_attention:
            return top
        if not flags.transparent_attention:
            return states[index]
        raw = self.weights["decoder.ta_weight"][index]
        weights = raw.softmax(dim=0)
        mixed = sum(weights[n] * state for n, state in enumerate(states))
        return self.norm(mixed, "decoder.ta_final_layernorm")

    def pool(self, source: Tensor, surface: Tensor, length: int) -> Tensor:
        kept = (source >= 50).float()[:, None]
        if self.flags.surfacefusion == "mean":
            pooled = (surface * kept).sum(dim=0) / max(1.0, float(kept.sum()))
        else:
            pooled = (surface * kept).max(dim=0).values
        return pooled.repeat(length, 1)

    def fuse(self, u: Tensor, r: Tensor) -> Tensor:
        flags = self.flags
        if flags.sf_ffn:
            u, r = u + self.feed_forward(u, "decoder"), r + self.feed_forward(r, "decoder")
        if flags.sf_linear:
            u, r = self.linear(u, "decoder.tgt_out_dim"), self.linear(r, "decoder.src_out_dim")
        shared = flags.share_decoder_input_output_embed
        matrix = self.weights["decoder.embed_tokens.weight" if shared else "decoder.embed_out"]
        a, b = u @ matrix.T, r @ matrix.T
        if flags.sf_mode == "hard":
            gate = flags.sf_gate or (torch.cat([u, r], dim=-1) @ self.weights["decoder.meanmaxweight"].T).sigmoid()
            return gate * a.log_softmax(dim=-1) + (1 - gate) * b.log_softmax(dim=-1)
        source = (flags.sf_softmax_tau * b).log_softmax(dim=-1)
        target = a.log_softmax(dim=-1) if flags.sf_mode == "postnorm" else a
        return (target + source).log_softmax(dim=-1)
