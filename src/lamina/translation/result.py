"""The result of translating one line."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from lamina.errors import UsageError
from lamina.figures.figure import Figure
from lamina.figures.maps import Labels, heat_map

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, repr=False)
class Translation:
    """The translation of a line. `score` is log_prob / (length incl. eos)^lenpen; tokens end with eos.

    Example:
        >>> translation = lamina.load("runs/first").translate("A dog runs.", attention=True)
        >>> translation.source_tokens[-1]
        '</s>'
        >>> translation.plot_attention()
        Figure('Attention: the largest weight of each target token is 0... on average', ... characters of SVG)
    """

    text: str
    score: float = 0.0
    log_prob: float = 0.0
    tokens: list[str] = field(default_factory=list, hash=False)
    nbest: list[Translation] = field(default_factory=list, hash=False)  # this translation first; filled if nbest > 1
    attention: Tensor | None = field(default=None, compare=False)  # (target tokens, source tokens), if requested
    cut: int = 0  # number of source tokens dropped because the line is too long
    source_tokens: list[str] = field(default_factory=list, hash=False)  # tokens of the source, ending with eos

    def plot_attention(self) -> Figure:
        """Plot what each target token attended to: the last layer's attention, averaged over heads and streams."""
        if self.attention is None:
            raise UsageError(
                "No attention was recorded: call translate(…, attention=True). Alternatives and blank lines have none."
            )
        labels = Labels(self.tokens, self.source_tokens, "target", "source", "attention")
        largest = self.attention.amax(dim=-1).mean().item()
        title = f"Attention: the largest weight of each target token is {largest:.2f} on average"
        return Figure(heat_map(self.attention.tolist(), labels, full=1.0, title=title), title)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        nbest = f", nbest={len(self.nbest)}" if self.nbest else ""
        return f"Translation({self.text!r}, score={self.score:.4f}{nbest})"

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(each.text)} <small>{each.score:.3f}</small></li>" for each in self.nbest)
        shown = f"<ol>{items}</ol>" if items else f"<p>{escape(self.text)} <small>{self.score:.3f}</small></p>"
        return shown if self.attention is None else shown + self.plot_attention().svg
