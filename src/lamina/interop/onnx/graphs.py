"""Two twin graphs of a model: the encoder, and one decoder step.

source (B, S) ──► encoder, bridge, projections ──► valid (B, S) and memories, one row per source
tokens (R,), position, valid, memories, caches ──► one step ──► log_probs (R, V) and the caches with this step

R = B·W: the W rows (hypotheses) of a source are adjacent. The graphs are traced from the model's own modules; only the
position table and the preallocated caches are replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lamina.model.decoder import DecoderLayer
from lamina.model.layers.attention import KeysValues, additive_mask, mask_memory
from lamina.model.layers.positions import Frequencies, Positions, frequencies
from lamina.model.layers.residuals import run_stack
from lamina.model.layers.target_attention import Cache, CrossKV, PastKeys, RunningSum, StepContext
from lamina.model.seq2seq import ProjectedSource, Seq2Seq
from lamina.model.states import DecoderStates, map_tensors
from lamina.text.vocabulary import EOS, PAD

ROWS, PAST = 3, 4  # hypotheses per source and past positions of the traced example


class ComputedPositions(Positions):
    """Sinusoids computed on the fly, without a table and thus without a maximum length."""

    def __init__(self, d_model: int, first: int, kind: Frequencies) -> None:
        super().__init__(d_model, first)
        self.frequency = frequencies(d_model, kind)
        self.odd = d_model % 2

    def forward(self, positions: Tensor, longest: int) -> Tensor:
        """(…) → (…, D)."""
        angle = (positions + self.first).float()[..., None] * self.frequency
        return nn.functional.pad(torch.cat([angle.sin(), angle.cos()], dim=-1), (0, self.odd))

    def between(self, start: Any, end: Any, device: torch.device) -> Tensor:
        """Rows for the positions in [start, end), which may be tensors."""
        return self.forward(torch.arange(start, end), 0)


class RowKeys(PastKeys):
    """Keys and values by row, (R, H, T, K), of past positions only.

    They are grouped by source only after the new position is appended: a graph cannot reshape empty tensors.
    """

    def write(self, key_BHWK: Tensor, value_BHWK: Tensor, end: int) -> RowKeys:
        """Append one position to every row."""
        rows = key_BHWK.shape[2]
        key_RH1K, value_RH1K = (each.transpose(1, 2).flatten(0, 1)[:, :, None] for each in (key_BHWK, value_BHWK))
        return GroupedKeys(
            torch.cat([self.keys_BHMK, key_RH1K], dim=2), torch.cat([self.values_BHMK, value_RH1K], dim=2), rows
        )


@dataclass(frozen=True)
class GroupedKeys(RowKeys):
    """Keys and values after a step, with the number of rows per source."""

    rows: Any

    def until(self, end: int) -> KeysValues:
        """All keys and values, by source and position."""
        return KeysValues(by_source(self.keys_BHMK, self.rows), by_source(self.values_BHMK, self.rows))


class EncoderGraph(nn.Module):
    """source (B, S) → valid (B, S) and the memories: all that decoding needs from the sources."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, source_BS: Tensor) -> tuple[Tensor, ...]:
        """Padding may be on either side."""
        memory = self.model.project_source(source_BS)
        return (source_BS != self.model.pad_id, *(tensor for _, tensor in memory_tensors(memory)))


class StepGraph(nn.Module):
    """One token per row → log-probabilities of the next, and the extended caches."""

    def __init__(self, model: Seq2Seq, example: ProjectedSource) -> None:
        super().__init__()
        self.model = model
        self.example = example

    def forward(self, tokens_R: Tensor, position: Tensor, valid_BS: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        """`tensors` are the memories followed by the caches, in the order of their names."""
        names = [name for name, _ in memory_tensors(self.example)]
        memory = fill_memory(self.example, valid_BS, tensors[: len(names)])
        embedded_RD = self.model.target_embedding.step(tokens_R, position)  # type: ignore[arg-type]
        x_BWD = embedded_RD.view(valid_BS.shape[0], -1, self.model.config.d_model)
        caches = self.read_caches(x_BWD, iter(tensors[len(names) :]))
        context = StepContext(position, self.own_past(x_BWD, caches))  # type: ignore[arg-type]
        written: list[Cache] = []

        def advance(layer: DecoderLayer, memory: CrossKV, past: Cache, x_BWD: Tensor) -> Tensor:
            y_BWD, extended = layer.step(x_BWD, memory, past, context)
            written.append(extended)
            return y_BWD

        decoder = self.model.decoder
        triples = zip(decoder.layers, memory.decoder, caches, strict=True)
        layers = (partial(advance, layer, kv, past) for layer, kv, past in triples)
        outputs, result_BWD = run_stack(decoder.wiring, x_BWD, layers)
        states = DecoderStates(outputs, decoder.final_norm(result_BWD), x_BWD)
        log_probs_BWV = self.model.head(states, memory.head).full()
        return (log_probs_BWV.flatten(0, 1), *(tensor for cache in written for tensor in by_row(cache)))

    def read_caches(self, x_BWD: Tensor, tensors: Iterator[Tensor]) -> list[Cache]:
        """Convert caches by row to the layers' caches by source."""
        caches: list[Cache] = []
        for layer, kv in zip(self.model.decoder.layers, self.example.decoder, strict=True):
            if isinstance(layer.target_attention.empty_cache(kv, 1), RunningSum):
                caches.append(RunningSum(next(tensors).view(x_BWD.shape[0], -1, x_BWD.shape[2])))
            else:
                caches.append(RowKeys(next(tensors), next(tensors)))
        return caches

    def own_past(self, x_BWD: Tensor, caches: Sequence[Cache]) -> Tensor:
        """Attention mask (B, H, W, M): each row sees only its own past."""
        batch, rows, _ = x_BWD.shape
        keys = [cache.keys_BHMK for cache in caches if isinstance(cache, RowKeys)]
        if not keys:
            return x_BWD.new_zeros(batch, self.model.config.heads, rows, 0)
        numbers_W = torch.arange(rows)
        own_WW = additive_mask(numbers_W[:, None] == numbers_W[None, :], x_BWD.dtype)
        return own_WW.repeat(1, keys[0].shape[2] + 1).expand(batch, self.model.config.heads, -1, -1)


def by_source(keys_RHTK: Tensor, rows: Any) -> Tensor:
    """(R, H, T, K) → (B, H, T·W, K), ordered by position."""
    _, heads, length, width = keys_RHTK.shape
    keys_BWHTK = keys_RHTK.view(-1, rows, heads, length, width)
    return keys_BWHTK.permute(0, 2, 3, 1, 4).reshape(-1, heads, length * rows, width)


def by_row(cache: Cache) -> tuple[Tensor, ...]:
    """Tensors of a cache, one row per hypothesis."""
    if isinstance(cache, RunningSum):
        return (cache.sum_BWD.flatten(0, 1),)
    return (cache.keys_BHMK, cache.values_BHMK)


def memory_tensors(memory: ProjectedSource) -> list[tuple[str, Tensor]]:
    """Named tensors of a memory, without the padding mask, which is a separate input."""
    found = []
    for number, kv in enumerate(memory.decoder):
        for stream, each in enumerate(kv.streams):
            found += [
                (f"memory.{number}.{stream}.keys", each.keys_BHMK),
                (f"memory.{number}.{stream}.values", each.values_BHMK),
            ]
    return [*found, *named_tensors("head", memory.head)]


def named_tensors(name: str, tree: Any) -> Iterator[tuple[str, Tensor]]:
    """Named tensors of nested dataclasses and tuples, in the order of `map_tensors`."""
    if isinstance(tree, Tensor):
        yield name, tree
    elif isinstance(tree, tuple):
        for number, branch in enumerate(tree):
            yield from named_tensors(f"{name}.{number}", branch)
    elif hasattr(tree, "__dataclass_fields__"):
        for field in fields(tree):
            yield from named_tensors(f"{name}.{field.name.rpartition('_')[0] or field.name}", getattr(tree, field.name))


def fill_memory(example: ProjectedSource, valid_BS: Tensor, tensors: Sequence[Tensor]) -> ProjectedSource:
    """Copy the example memory with other tensors."""
    given = iter(tensors)
    decoder = []
    for kv in example.decoder:
        streams = tuple(KeysValues(next(given), next(given)) for _ in kv.streams)
        decoder.append(CrossKV(streams, valid_BS, mask_memory(valid_BS, streams[0].keys_BHMK)))
    return replace(example, decoder=tuple(decoder), head=map_tensors(lambda _: next(given), example.head))


class Traced(NamedTuple):
    """A graph to trace: module, example inputs, and names and dynamic axes of inputs and outputs."""

    module: nn.Module
    example: tuple[Tensor, ...]
    inputs: list[str]
    outputs: list[str]
    dynamic: dict[str, dict[int, str]]


def make_traceable(model: Seq2Seq) -> Seq2Seq:
    """Copy the model with positions that can be traced."""
    twin = copy.deepcopy(model).cpu().float().eval()
    for module in list(twin.modules()):
        for name, child in module.named_children():
            if isinstance(child, Positions):
                setattr(module, name, ComputedPositions(twin.config.d_model, child.first, child.kind))
    return twin


def describe_graphs(model: Seq2Seq) -> tuple[Traced, Traced]:
    """Describe both graphs of a traceable model. The example has padding, so that masks become part of the graphs."""
    words = list(range(EOS + 1, EOS + 7))
    words = [min(word, model.config.source_vocab - 1) for word in words]
    source_BS = torch.tensor([[*words[:6], EOS], [*words[:3], EOS, PAD, PAD, PAD]])
    memory, longer = (model.project_source(nn.functional.pad(source_BS, (0, more), value=PAD)) for more in (0, 1))
    names = [name for name, _ in memory_tensors(memory)]
    tensors = [tensor for _, tensor in memory_tensors(memory)]
    sizes: dict[str, dict[int, str]] = {"source": {0: "sources", 1: "length"}, "valid": {0: "sources", 1: "length"}}
    for (name, tensor), (_, other) in zip(memory_tensors(memory), memory_tensors(longer), strict=True):
        pairs = enumerate(zip(tensor.shape, other.shape, strict=True))
        sizes[name] = {0: "sources", **{axis: "length" for axis, (size, more) in pairs if size != more}}
    encoder = Traced(EncoderGraph(model), (source_BS,), ["source"], ["valid", *names], sizes)

    caches = cache_shapes(model, memory)
    rows = len(source_BS) * ROWS
    counts = {"rows": rows, "past": PAST}
    pasts = [torch.randn([counts[size] if isinstance(size, str) else size for size in shape]) for _, shape in caches]
    sizes = {**sizes, "tokens": {0: "rows"}, "log_probs": {0: "rows"}}
    for name, shape in caches:
        sizes[name] = {axis: str(size) for axis, size in enumerate(shape) if isinstance(size, str)}
        extended = {"rows": "rows", "past": "past + 1"}
        sizes[f"present.{name}"] = {axis: extended[size] for axis, size in sizes[name].items()}
    start_R = torch.full((rows,), model.start_id)
    example = (start_R, torch.tensor(PAST), source_BS != PAD, *tensors, *pasts)
    inputs = ["tokens", "position", "valid", *names, *(name for name, _ in caches)]
    outputs = ["log_probs", *(f"present.{name}" for name, _ in caches)]
    return encoder, Traced(StepGraph(model, memory), example, inputs, outputs, sizes)


def cache_shapes(model: Seq2Seq, memory: ProjectedSource) -> list[tuple[str, tuple[int | str, ...]]]:
    """Names and shapes of the decoder's caches, by row."""
    shapes: list[tuple[str, tuple[int | str, ...]]] = []
    heads, width = model.config.heads, model.config.d_model // model.config.heads
    for number, (layer, kv) in enumerate(zip(model.decoder.layers, memory.decoder, strict=True)):
        if isinstance(layer.target_attention.empty_cache(kv, 1), RunningSum):
            shapes.append((f"past.{number}.sum", ("rows", model.config.d_model)))
        else:
            shapes += [(f"past.{number}.{part}", ("rows", heads, "past", width)) for part in ("keys", "values")]
    return shapes
