"""Dynamic linear combination of layers, the wiring of DLCL stacks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lamina.model.layers.residuals import Norm, Wiring


class DlclWiring(Wiring):
    """DLCL (Wang et al. 2019): a layer reads a learned combination of everything below it.

        pre:   x_{l+1} = Σ_{k≤l} W_{l+1,k}·LN_k(y_k)        post:   x_{l+1} = LN_l(Σ_{k≤l} W_{l+1,k}·y_k)

    y_0 is the stack's input, y_l the output of layer l, LN_0 the identity. Row l+1 of W is initialised to the average.
    There are `rows` combinations; beyond them the newest output passes through, so that a stack whose top is not read
    has no parameters without a gradient.
    """

    def __init__(self, rows: int, d_model: int, norm: Norm) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.rows = nn.ParameterList(torch.full((n + 1,), 1.0 / (n + 1)) for n in range(rows))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(rows - 1))

    def keep(self, index: int, output_BTD: Tensor) -> Tensor:
        """LN_k(y_k) in a pre-norm stack, computed once for all the layers above."""
        if self.pre and 0 < index <= len(self.norms):
            return self.norms[index - 1](output_BTD)
        return output_BTD

    def combine(self, kept: Sequence[Tensor]) -> Tensor:
        """Apply row `len(kept)` of W to everything below."""
        if len(kept) > len(self.rows):
            return kept[-1]
        weights = self.rows[len(kept) - 1].unbind()
        mixed_BTD = weights[0] * kept[0]
        for weight, output_BTD in zip(weights[1:], kept[1:], strict=True):
            mixed_BTD = mixed_BTD + weight * output_BTD
        if self.pre or len(kept) == 1:
            return mixed_BTD
        return self.norms[len(kept) - 2](mixed_BTD)
