"""A program: instructions, registers and one buffer of packed weights.

`lowering` writes it from torch modules; what it holds are plain numbers, so that it can be kept on disk and executed
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
    """A place in the buffer of weights, in floats from its beginning."""

    offset: int


class PositionVectors(NamedTuple):
    """Sinusoids: the number of the first position, how many frequencies there are, and where they are."""

    first: int
    size: int
    frequencies: Weight


class VocabularyInstruction(NamedTuple):
    """An instruction of the decoder with a row of weights for each entry of the target vocabulary."""

    number: int
    rows: Weight | None  # of a product: where the same matrix also is row by row, if it is a table of embeddings too


class Distribution(NamedTuple):
    """log p = scores − normaliser, in two registers."""

    scores: int
    normaliser: int


Field = int | Weight
Arrange = Callable[[Floats], Floats]


def as_it_is(array: Floats) -> Floats:
    """No other arrangement."""
    return array


@dataclass
class Program:
    """What `lowering` writes: the encoder's instructions, and those of one step of the decoder."""

    int8: bool = False
    encoder: list[tuple[Field, ...]] = field(default_factory=list)
    decoder: list[tuple[Field, ...]] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)  # of the registers, in floats
    kinds: list[int] = field(default_factory=list)  # what each register has a row for
    fixed: dict[int, Weight] = field(default_factory=dict)  # registers that are the same weights for every row
    positions: dict[int, PositionVectors] = field(default_factory=dict)  # registers that hold position vectors
    size: int = 0  # of all weights, in floats
    vocabulary: list[VocabularyInstruction] = field(default_factory=list)
    score_registers: set[int] = field(default_factory=set)  # as wide as the vocabulary
    quantised: tuple[int, int] | None = None  # registers of a row in 8 bits and of its scale

    def __post_init__(self) -> None:
        self.pieces: list[Floats] = []  # the weights, in order
        self._known: dict[Hashable, tuple[Weight, ...]] = {}
        self._code = self.encoder

    def begin_decoder(self) -> None:
        """What follows is done at every step."""
        self._code = self.decoder

    def begin_encoder(self) -> None:
        """What follows is done once for every source."""
        self._code = self.encoder

    def emit(self, op: int, *fields: Field) -> None:
        """Append an instruction."""
        self._code.append((op, *fields))

    def note_vocabulary(self, weight_VD: Tensor) -> None:
        """The next instruction has a row of this matrix for each entry of the target vocabulary."""
        if self._code is self.decoder:
            rows = self._known.get(("table", weight_VD.data_ptr()), (None,))[0]
            self.vocabulary.append(VocabularyInstruction(len(self.decoder), rows))

    # registers

    def register(self, width: int, kind: int = ROW) -> int:
        """A new register, as wide as a whole number of panels."""
        self.widths.append(padded(width, PANEL))
        self.kinds.append(kind)
        return len(self.widths) - 1

    def fixed_register(self, values: Floats) -> int:
        """A register whose every row is the same."""
        register = self.register(values.size, FIXED)
        self.fixed[register] = self.vector(values, self.widths[register])
        return register

    def position_register(self, width: int, positions: Positions) -> int:
        """A register with the vector of every position."""
        register, frequencies = self.register(width, POSITION_VECTOR), numbers(positions.frequencies())
        self.positions[register] = PositionVectors(positions.first, len(frequencies), self.put(frequencies))
        return register

    # weights

    def put(self, array: NDArray[np.generic]) -> Weight:
        """Append an array of 32-bit values, at the beginning of a cache line."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.float32)
        piece = np.zeros(padded(flat.size, 16), np.float32)
        piece[: flat.size] = flat
        place, self.size = Weight(self.size), self.size + piece.size
        self.pieces.append(piece)
        return place

    def once(self, key: Hashable, make: Callable[[], tuple[NDArray[np.generic], ...]]) -> tuple[Weight, ...]:
        """Weights that several instructions share are kept once."""
        if key not in self._known:
            self._known[key] = tuple(self.put(array) for array in make())
        return self._known[key]

    def vector(self, values: Floats, width: int, fill: float = 0.0) -> Weight:
        """A vector with something in its padding."""
        whole = np.full(padded(width, PANEL), fill, np.float32)
        whole[: values.size] = values
        return self.put(whole)

    def scalar(self, value: float) -> Weight:
        """One number."""
        return self.put(np.array([value], np.float32))

    # instructions that need some preparation

    def product(
        self,
        dst: int,
        src: int,
        weight_ND: Tensor,
        bias_N: Tensor | None,
        mode: int = STORE,
        offset: int = 0,
        layout: Arrange = as_it_is,
        inputs: Arrange = as_it_is,
        hide_padding: bool = False,
    ) -> None:
        """[dst] = [src]·Wᵀ + b, from an offset (in floats) on. `layout` rearranges the rows of W and b, `inputs` the
        columns of W.
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
        """[dst] (+)= w ⊙ [src], w a vector or the same everywhere."""
        spread = np.broadcast_to(np.asarray(weights, np.float32), (width,))
        self.emit(machine.MIX, dst, src, self.vector(spread, width), whole_vectors(width), int(accumulate))

    def copy(self, dst: int, src: int, width: int) -> None:
        """[dst] = [src]."""
        self.mix(dst, src, 1.0, width)

    def add(self, dst: int, src: int, width: int) -> None:
        """[dst] += [src]."""
        self.mix(dst, src, 1.0, width, accumulate=True)


@dataclass(frozen=True)
class LoweredModel:
    """The program of a model or an ensemble, and where its results are."""

    program: Program
    distribution: Distribution
    reads_both: bool
    heads: int  # of the first model's attention
    readers: tuple[tuple[int, ...], ...]  # of the first model: by decoder layer, the instructions that read its memory
    start_id: int
    source_vocabulary: int  # entries
    target_vocabulary: int

    @property
    def copies(self) -> bool:
        """Whether a head copies from the source, whatever the vocabulary is restricted to."""
        return any(instruction[0] == machine.POINT for instruction in self.program.decoder)


def numbers(tensor: Tensor) -> Floats:
    """A tensor's values."""
    values: Floats = tensor.detach().numpy()
    return values


def whole_vectors(width: int) -> int:
    """Bytes of this many floats, rounded up to whole vectors."""
    return 4 * padded(width, LANES)
