"""Lowering of whole models and ensembles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lamina.engine import machine
from lamina.engine.lowering.bridges import BRIDGES
from lamina.engine.lowering.decoder import DecoderLowering
from lamina.engine.lowering.encoders import ENCODERS
from lamina.engine.lowering.heads import HEADS
from lamina.engine.lowering.parts import Parts, UnsupportedModule, choose, expect
from lamina.engine.products import padded
from lamina.engine.program import Distribution, LoweredModel, Program, numbers, whole_vectors
from lamina.engine.vectors import LANES
from lamina.model.layers.embedding import SourceEmbedding, TargetEmbedding, TokenEmbedding
from lamina.model.layers.positions import Positions
from lamina.model.seq2seq import Seq2Seq


def lower(models: Sequence[Seq2Seq], int8: bool = False) -> LoweredModel:
    """Lower one model, or an ensemble whose probabilities are averaged."""
    program = Program(int8)
    lowered = [_lower_one(program, model) for model in models]
    distributions = [distribution for distribution, _ in lowered]
    return LoweredModel(
        program,
        _average(program, distributions),
        any(decoder.reads_both for _, decoder in lowered),
        models[0].config.heads,
        _find_readers(program, lowered[0][1]),
        models[0].start_id,
        models[0].config.source_vocab,
        models[0].config.target_vocab,
    )


def _lower_one(program: Program, model: Seq2Seq) -> tuple[Distribution, DecoderLowering]:
    expect(model, Seq2Seq)
    if any(parameter.dtype != torch.float32 or parameter.device.type != "cpu" for parameter in model.parameters()):
        raise UnsupportedModule("weights that are not 32-bit floats on a CPU")
    width = model.config.d_model
    parts = Parts(program, width, model.config.ffn_size)
    head = choose(HEADS, model.head)(parts, model.head)
    decoder = DecoderLowering(parts, model.decoder)
    bridge = choose(BRIDGES, model.bridge)(parts, model.bridge, len(model.decoder.layers), decoder.store_memory)
    program.begin_encoder()
    source, target = expect(model.source_embedding, SourceEmbedding), expect(model.target_embedding, TargetEmbedding)
    positions = program.position_register(width, expect(source.positions, Positions))
    surface = None
    if head.reads_surface or getattr(model.bridge, "embedding", None) == "surface":
        surface = program.register(width)
        _embed(program, surface, source.tokens, width, positions if source.surface_positions else -1)
    _embed(program, parts.x, source.tokens, width, positions)
    bridge.on_embedding(parts.x, surface)
    choose(ENCODERS, model.encoder)(parts, model.encoder, bridge)
    final = program.register(width)
    top = parts.norm_into(final, parts.x, cast("nn.Module", model.encoder.final_norm))
    bridge.finish(top)
    head.project_source(top, surface)
    program.begin_decoder()
    _embed(program, parts.x, target.tokens, width, positions)
    head.on_input(parts.x)
    return head.lower(decoder.lower(head.on_layer)), decoder


def _embed(program: Program, dst: int, tokens: TokenEmbedding, width: int, positions: int) -> None:
    weight = expect(tokens, TokenEmbedding).weight

    def table() -> tuple[NDArray[np.float32]]:
        rows = np.zeros((len(weight), padded(width, LANES)), np.float32)
        rows[:, :width] = numbers(weight)
        return (rows,)

    (address,) = program.once(("table", weight.data_ptr()), table)
    program.note_vocabulary(weight)
    program.emit(machine.EMBED, dst, 0, address, whole_vectors(width), program.scalar(math.sqrt(width)), positions)


def _average(program: Program, distributions: Sequence[Distribution]) -> Distribution:
    """log((p_1 + … + p_n) / n), with log n as the normaliser."""
    first = distributions[0]
    if len(distributions) == 1:
        return first
    scores, size = program.register(program.widths[first.scores]), 4 * program.widths[first.scores]
    program.score_registers.add(scores)
    for number, each in enumerate(distributions):
        program.emit(machine.LOG_ADD, scores, each.scores, each.normaliser, size, int(number > 0))
    return Distribution(scores, program.fixed_register(np.array([math.log(len(distributions))], np.float32)))


def _find_readers(program: Program, decoder: DecoderLowering) -> tuple[tuple[int, ...], ...]:
    """The instructions that attend to each memory, by decoder layer."""
    readers = {}
    for number, instruction in enumerate(program.decoder):
        if instruction[0] == machine.ATTEND:
            readers[instruction[3]] = number
    return tuple(tuple(readers[memory] for memory in memories) for memories in decoder.memories)
