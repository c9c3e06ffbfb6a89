"""The wiring of depth growing: new layers read the output of the trained ones plus their input."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from lamina.model.layers.residuals import Wiring


def count_new_layers(layers: int, given: int | None) -> int:
    """The number of new layers: as given, or a quarter of all (2 of 8, as published), at least one."""
    return max(1, layers // 4) if given is None else given


class GrownWiring(Wiring):
    """A residual stack in which the first new layer reads Z1 + LN(input) (Wu et al. 2019)."""

    def __init__(self, bottom: int, d_model: int) -> None:
        super().__init__()
        self.bottom = bottom  # trained layers
        self.input_norm = nn.LayerNorm(d_model)

    def keep(self, index: int, output_BTD: Tensor) -> Tensor:
        return output_BTD

    def combine(self, kept: Sequence[Tensor]) -> Tensor:
        """The newest output; for the first new layer plus the normalised input."""
        return kept[-1] + self.input_norm(kept[0]) if len(kept) == self.bottom + 1 else kept[-1]
