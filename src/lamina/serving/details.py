"""Details of one translation: a forced pass over the output, in torch, recording attention, weights and gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lamina.model.bridges.blocks import BlocksBridge
from lamina.model.bridges.collaborative import CollaborativeBridge
from lamina.model.bridges.layerwise import LayerwiseBridge
from lamina.model.bridges.top import TopBridge
from lamina.model.bridges.transparent import TransparentBridge
from lamina.model.heads.head import Head
from lamina.model.heads.pointer import PointerHead
from lamina.model.heads.surface import SurfaceHead
from lamina.model.heads.surface_readers import AttentionReader
from lamina.model.layers.dlcl import DlclWiring
from lamina.model.layers.fusion import GatedFusion
from lamina.model.seq2seq import ProjectedSource, Seq2Seq
from lamina.model.states import DecoderStates, EncoderStates
from lamina.serving.words import group_words
from lamina.translation.translator import Translator

CHOICES = 5  # of a distribution that is shown
Numbers = Any  # nested lists of floats


def describe_sentence(translator: Translator, source: Sequence[int], tokens: Sequence[int]) -> dict[str, Any]:
    """Everything that `details` adds; for an ensemble, of its first model."""
    model, text = translator.models[0], translator.text
    symbols = list(text.target.vocabulary.symbols)
    source_symbols = [text.source.vocabulary.symbols[token] for token in source]
    target_symbols = [symbols[token] for token in tokens]
    prefix = [model.start_id, *tokens[:-1]]
    with torch.inference_mode(), record_gates(model) as gates:
        source_BS = torch.tensor([list(source)], device=translator.device)
        prefix_BT = torch.tensor([prefix], device=translator.device)
        attention_JTS = torch.stack(
            [torch.stack(streams).mean(dim=(0, 2))[0] for streams in model.attention(source_BS, prefix_BT)]
        )
        for values in gates.values():
            for each in values:
                each.clear()
        enc = model.encode(source_BS)
        bridge = model.bridge(enc)
        memory = ProjectedSource(model.decoder.project_memories(bridge), model.head.project_source(enc))
        states = model.decode(prefix_BT, memory)
        log_probs_TV = model.head(states, memory.head).full()[0]
        chosen_T = log_probs_TV.gather(1, torch.tensor(list(tokens), device=log_probs_TV.device)[:, None])[:, 0]
        return {
            "source_tokens": source_symbols,
            "tokens": target_symbols,
            "source_words": group_words(text.source, source),
            "words": group_words(text.target, tokens),
            "attention": rounded(attention_JTS[-1]),
            "attention_layers": rounded(attention_JTS),
            "probabilities": rounded(chosen_T.exp().clamp(max=1.0)),
            "alternatives": top_choices(log_probs_TV, symbols),
            "layer_weights": layer_weights(model, enc, attention_JTS),
            "gates": describe_gates(gates),
            "surface": describe_surface(model.head, states, memory, symbols),
            "pointer": describe_pointer(model.head, states, memory, source, symbols),
        }


def layer_weights(model: Seq2Seq, enc: EncoderStates, attention_JTS: Tensor) -> dict[str, Any] | None:
    """Which encoder layers each decoder layer reads, and how much of each reaches every word.

    A word's share of a layer is the length of what that layer adds to the memory, where the word attends.
    """
    bridge, layers = model.bridge, len(enc.layers)
    names = [str(layer) for layer in range(1, layers + 1)]
    depth = len(attention_JTS)
    if isinstance(bridge, TransparentBridge):
        states = enc.layers
        if bridge.embedding is not None:
            embedding_BSD = enc.embedded_BSD if bridge.embedding == "input" else enc.surface_BSD
            states, names = (bridge.embedding_norm(embedding_BSD), *states), ["embedding", *names]
        weights = bridge.weights()
        scaled = weights if weights.dim() == 3 else weights[..., None]
        norms_JLS = (scaled[:, :, None] * torch.stack(states)[None, :, 0]).norm(dim=-1)
        shares_TJL = torch.einsum("jts,jls->tjl", attention_JTS, norms_JLS)
        shares_TJL = shares_TJL / shares_TJL.sum(dim=-1, keepdim=True).clamp(min=1e-9)
        mean_JL = weights.mean(dim=2) if weights.dim() == 3 else weights
        return {"layers": names, "weights": rounded(mean_JL), "words": rounded(shares_TJL)}
    if isinstance(bridge, TopBridge):
        read = [layers - 1] * depth
    elif isinstance(bridge, LayerwiseBridge):
        read = list(range(depth))
    elif isinstance(bridge, BlocksBridge | CollaborativeBridge):
        read = list(bridge.ends)
    else:
        return None
    found: dict[str, Any] = {
        "layers": names,
        "weights": [[float(each == end) for each in range(layers)] for end in read],
    }
    wiring = getattr(model.encoder, "wiring", None)
    if isinstance(wiring, DlclWiring):
        found["wiring"] = [rounded(row) for row in wiring.rows]
    return found


def describe_gates(gates: dict[str, list[list[Tensor]]]) -> dict[str, Numbers] | None:
    """Every gate at every position, averaged over its dimensions."""
    found = {side: [rounded(each[-1][0]) for each in values if each] for side, values in gates.items()}
    return {side: values for side, values in found.items() if values} or None


def describe_surface(
    head: Head, states: DecoderStates, memory: ProjectedSource, symbols: list[str]
) -> dict[str, Any] | None:
    """What the decoder alone and the source alone would predict, and the reader's attention."""
    if not isinstance(head, SurfaceHead):
        return None
    with record_reader(head) as recorded:
        sides = head.sides(states, memory.head)
    target_TV = head.softmax(sides.target_BTD).full()[0]
    source_TV = head.softmax(sides.source_BTD).full()[0]
    length = len(target_TV)
    gate = sides.gate if isinstance(sides.gate, float) else rounded(sides.gate[0, :, 0])
    return {
        "gate": [gate] * length if isinstance(gate, float) else gate,
        "decoder": top_choices(target_TV, symbols),
        "source": top_choices(source_TV, symbols),
        "attention": rounded(recorded[0][0].mean(dim=0)) if recorded else None,
    }


def describe_pointer(
    head: Head, states: DecoderStates, memory: ProjectedSource, source: Sequence[int], symbols: list[str]
) -> dict[str, Any] | None:
    """What generating alone and copying alone would predict, and the share of the former."""
    if not isinstance(head, PointerHead):
        return None
    mixture = head.mixture(states, memory.head)
    copied_TS = mixture.copied_BTS[0]
    source_TS = torch.tensor([list(source)], device=copied_TS.device).expand_as(copied_TS)
    copied_TV = copied_TS.new_zeros(len(copied_TS), len(symbols)).scatter_add(1, source_TS, copied_TS)
    return {
        "gate": rounded(mixture.gate_BT[0].sigmoid()),
        "decoder": top_choices(head.softmax(states.features_BTD).full()[0], symbols),
        "source": top_choices(copied_TV.log(), symbols),
        "attention": rounded(copied_TS),
    }


def top_choices(log_probs_TV: Tensor, symbols: list[str]) -> list[list[list[Any]]]:
    """The most likely tokens at every position, with their probabilities."""
    values, places = log_probs_TV.exp().topk(min(CHOICES, log_probs_TV.shape[1]), dim=1)
    return [
        [[symbols[place], round(value, 4)] for place, value in zip(row, numbers, strict=True)]
        for row, numbers in zip(places.tolist(), values.tolist(), strict=True)
    ]


@contextmanager
def record_gates(model: Seq2Seq) -> Iterator[dict[str, list[list[Tensor]]]]:
    """Every gate that is computed within the context, averaged over dimensions."""
    seen: dict[str, list[list[Tensor]]] = {"encoder": [], "decoder": []}
    with ExitStack() as stack:
        for side, part in (("encoder", model.encoder), ("decoder", model.decoder)):
            for fusion in part.modules():
                if isinstance(fusion, GatedFusion):
                    seen[side].append([])
                    stack.callback(fusion.register_forward_hook(partial(_record_gate, seen[side][-1])).remove)
        yield seen


def _record_gate(values: list[Tensor], fusion: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    assert isinstance(fusion, GatedFusion)
    values.append(fusion.gate(*inputs).mean(dim=-1))


@contextmanager
def record_reader(head: SurfaceHead) -> Iterator[list[Tensor]]:
    """What the surface reader attends to within the context, if it attends."""
    if not isinstance(head.reader, AttentionReader):
        yield []
        return
    attention = head.reader.attention
    attention.recorded_weights = []
    try:
        yield attention.recorded_weights
    finally:
        attention.recorded_weights = None


def rounded(values: Tensor) -> Numbers:
    """Nested lists of four decimals."""
    return torch.round(values.float().cpu(), decimals=4).double().mul(1e4).round().div(1e4).tolist()
