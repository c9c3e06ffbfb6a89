"""A program: instructions, registers and one buffer of packed weights.

`lowering` builds it from torch modules. It contains only plain numbers, so that it can be stored on disk and executed
without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamina.engine import machine
from lamina.engine.int8 import DEPTH_MULTIPLE, INPUT_BYTES, pack_int8
from lamina.engine.operations import HIDDEN
from lamina.engine.products import PANEL, STORE, pack, padded
from lamina.engine.search import FIXED, POSITION_VECTOR, ROW
from lamina.engine.tuning import UNROLL
from lamina.engine.vectors import LANES

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lamina.model.layers.positions import Positions

Floats = NDArray[np.float32]


class Weight(NamedTuple):
    """An offset into the buffer of weights, in floats."""

    offset: int


class PositionVectors(NamedTuple):
    """Sinusoids: the index of the first position, and the number and offset of the frequencies."""

    first: int
    size: int
    frequencies: Weight


class VocabularyInstruction(NamedTuple):
    """A decoder instruction with a row of weights for each entry of the target vocabulary."""

    number: int
    rows: Weight | None  # of a product: the same matrix as an embedding table, if there is one


class Distribution(NamedTuple):
    """log p = scores − normaliser, in two registers."""

    scores: int
    normaliser: int


Field = int | Weight
Arrange = Callable[[Floats], Floats]


def identity(array: Floats) -> Floats:
    """Keep the arrangement."""
    return array


@dataclass
class Program:
    """The instructions of the encoder and of one decoding step, their registers and weights."""

    int8: bool = False
    encoder: list[tuple[Field, ...]] = field(default_factory=list)
    decoder: list[tuple[Field, ...]] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)  # widths of the registers in floats
    kinds: list[int] = field(default_factory=list)  # what the rows of each register stand for
    fixed: dict[int, Weight] = field(default_factory=dict)  # registers whose rows are all the same weights
    positions: dict[int, PositionVectors] = field(default_factory=dict)  # registers that hold position vectors
    size: int = 0  # floats of all weights
    vocabulary: list[VocabularyInstruction] = field(default_factory=list)
    score_registers: set[int] = field(default_factory=set)  # registers as wide as the vocabulary
    quantised: tuple[int, int] | None = None  # scratch registers for 8-bit rows and their scales

    def __post_init__(self) -> None:
        self.pieces: list[Floats] = []  # the weights, in order
        self._known: dict[Hashable, tuple[Weight, ...]] = {}
        self._code = self.encoder

    def begin_decoder(self) -> None:
        """Emit the following instructions to the decoder."""
        self._code = self.decoder

    def begin_encoder(self) -> None:
        """Emit the following instructions to the encoder."""
        self._code = self.encoder

    def emit(self, op: int, *fields: Field) -> None:
        """Append an instruction."""
        self._code.append((op, *fields))

    def note_vocabulary(self, weight_VD: Tensor) -> None:
        """Record that the next instruction has a row of this matrix for each entry of the target vocabulary."""
        if self._code is self.decoder:
            rows = self._known.get(("table", weight_VD.data_ptr()), (None,))[0]
            self.vocabulary.append(VocabularyInstruction(len(self.decoder), rows))

    # registers

    def register(self, width: int, kind: int = ROW) -> int:
        """Allocate a register, whose width is rounded up to whole panels."""
        self.widths.append(padded(width, PANEL))
        self.kinds.append(kind)
        return len(self.widths) - 1

    def fixed_register(self, values: Floats) -> int:
        """Allocate a register whose rows are all the same."""
        register = self.register(values.size, FIXED)
        self.fixed[register] = self.vector(values, self.widths[register])
        return register

    def position_register(self, width: int, positions: Positions) -> int:
        """Allocate a register with the vector of every position."""
        register, frequencies = self.register(width, POSITION_VECTOR), numbers(positions.frequencies())
        self.positions[register] = PositionVectors(positions.first, len(frequencies), self.put(frequencies))
        return register

    # weights

    def put(self, array: NDArray[np.generic]) -> Weight:
        """Append an array of 32-bit values, aligned to a cache line."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.float32)
        piece = np.zeros(padded(flat.size, 16), np.float32)
        piece[: flat.size] = flat
        weight, self.size = Weight(self.size), self.size + piece.size
        self.pieces.append(piece)
        return weight

    def once(self, key: Hashable, make: Callable[[], tuple[NDArray[np.generic], ...]]) -> tuple[Weight, ...]:
        """Store weights that several instructions share only once."""
        if key not in self._known:
            self._known[key] = tuple(self.put(array) for array in make())
        return self._known[key]

    def vector(self, values: Floats, width: int, fill: float = 0.0) -> Weight:
        """Store a vector, padded with `fill`."""
        filled = np.full(padded(width, PANEL), fill, np.float32)
        filled[: values.size] = values
        return self.put(filled)

    def scalar(self, value: float) -> Weight:
        """Store a scalar."""
        return self.put(np.array([value], np.float32))

    # instructions

    def product(
        self,
        dst: int,
        src: int,
        weight_ND: Tensor,
        bias_N: Tensor | None,
        mode: int = STORE,
        offset: int = 0,
        layout: Arrange = identity,
        inputs: Arrange = identity,
        hide_padding: bool = False,
    ) -> None:
        """[dst] = [src]·Wᵀ + b, from an offset in floats on. `layout` rearranges the rows of W and b, `inputs` the
        columns of W; `hide_padding` masks padded outputs.
        """
        matrix = inputs(layout(numbers(weight_ND)).T).T
        bias = np.zeros(len(matrix), np.float32) if bias_N is None else layout(numbers(bias_N))
        panels = padded(len(matrix), PANEL) // PANEL
        shift = self.vector(bias, panels * PANEL, float(HIDDEN) if hide_padding else 0.0)
        key = (weight_ND.data_ptr(), weight_ND.shape, weight_ND.stride(), matrix.shape, self.int8)
        at = 4 * offset
        if not self.int8:
            (packed,) = self.once(key, lambda: (pack(matrix),))
            depth = padded(matrix.shape[1], UNROLL)
            self.emit(machine.PRODUCT, dst, src, packed, shift, depth, panels, mode, at)
            return
        depth = padded(matrix.shape[1], DEPTH_MULTIPLE)
        packed, columns, starts = self.once(key, lambda: pack_int8(matrix))
        if self.quantised is None:
            self.quantised = self.register(0), self.register(1)
        row, scale = self.quantised
        self.widths[row] = max(self.widths[row], padded(INPUT_BYTES * depth // 4, PANEL))
        fields = (packed, shift, depth, panels, mode, at, columns, starts, row, scale)
        self.emit(machine.PRODUCT_INT8, dst, src, *fields)

    def norm(self, dst: int, src: int, norm: nn.LayerNorm) -> None:
        """[dst] = norm([src])."""
        (width,) = norm.normalized_shape
        gain = np.ones(width, np.float32) if norm.weight is None else numbers(norm.weight)
        shift = np.zeros(width, np.float32) if norm.bias is None else numbers(norm.bias)
        parts = self.vector(gain, width), self.vector(shift, width)
        self.emit(machine.NORM, dst, src, *parts, width, self.scalar(norm.eps))

    def mix(self, dst: int, src: int, weights: Floats | float, width: int, accumulate: bool = False) -> None:
        """[dst] (+)= w ⊙ [src], where w is a vector or a scalar."""
        vector = np.broadcast_to(np.asarray(weights, np.float32), (width,))
        self.emit(machine.MIX, dst, src, self.vector(vector, width), whole_vectors(width), int(accumulate))

    def copy(self, dst: int, src: int, width: int) -> None:
        """[dst] = [src]."""
        self.mix(dst, src, 1.0, width)

    def add(self, dst: int, src: int, width: int) -> None:
        """[dst] += [src]."""
        self.mix(dst, src, 1.0, width, accumulate=True)


@dataclass(frozen=True)
class LoweredModel:
    """The program of a model or an ensemble, and the registers of its results."""

    program: Program
    distribution: Distribution
    reads_both: bool
    heads: int  # attention heads of the first model
    readers: tuple[tuple[int, ...], ...]  # of the first model: per decoder layer, the instructions that read its memory
    start_id: int
    source_vocabulary: int  # entries
    target_vocabulary: int

    @property
    def copies(self) -> bool:
        """Whether a head copies source tokens, which a shortlist could not restrict."""
        return any(instruction[0] == machine.POINT for instruction in self.program.decoder)


def numbers(tensor: Tensor) -> Floats:
    """The values of a tensor."""
    values: Floats = tensor.detach().numpy()
    return values


def whole_vectors(width: int) -> int:
    """Bytes of `width` floats, rounded up to whole vectors."""
    return 4 * padded(width, LANES)
