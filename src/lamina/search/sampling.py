"""Sampling: tokens are drawn one after another from the head's distribution, or chosen greedily."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from lamina.base.arguments import check_counts, reject
from lamina.errors import UsageError
from lamina.recipe.decode import SearchSettings
from lamina.search.constraints import constrain, to_device
from lamina.search.hypothesis import Hypothesis
from lamina.search.stepper import Stepper
from lamina.text.vocabulary import EOS, PAD


@dataclass(frozen=True)
class SamplingSettings:
    """Settings of sampling; temperature 0 is greedy.

    Example:
        >>> sampling = lamina.SamplingSettings(temperature=0.8, top_p=0.9, seed=7)
        >>> lamina.load("runs/first").translate("A dog runs.", sampling=sampling)
        Translation('...', score=-...)
    """

    temperature: float = 1.0
    top_k: int | None = None  # sample from the k most likely tokens
    top_p: float | None = None  # nucleus sampling (Holtzman et al. 2020)
    seed: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.temperature, int | float) or not 0 <= self.temperature <= 100:
            reject("temperature", "between 0 and 100", self.temperature)
        if self.top_p is not None and (not isinstance(self.top_p, int | float) or not 0 < self.top_p <= 1):
            reject("top_p", "above 0 and at most 1", self.top_p)
        check_counts(top_k=self.top_k)
        check_counts(0, seed=self.seed)
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"seed must be between 0 and 2^63 - 1, but is {self.seed} instead.")


def sample(
    stepper: Stepper,
    source_BS: Tensor,
    settings: SearchSettings,
    sampling: SamplingSettings,
    start_id: int,
    generator: torch.Generator,
    samples: int = 1,
) -> list[list[Hypothesis]]:
    """Draw independent samples for every source; their log p is that of the unmodified distribution."""
    sources, rows = len(source_BS), samples
    limits_B = [settings.limit(length) for length in (source_BS != PAD).sum(dim=1).tolist()]
    limits_B1 = to_device([limits_B], source_BS.device).T
    state = stepper.start(source_BS, rows)
    tokens_R = torch.full((sources * rows,), start_id, device=source_BS.device)
    written_BWT = torch.zeros(sources, rows, 0, dtype=torch.long)
    log_prob_BW = torch.zeros(sources, rows, device=source_BS.device)
    ended_BW = torch.zeros(sources, rows, dtype=torch.bool, device=source_BS.device)
    for position in count():
        log_probs, state = stepper.step(tokens_R, state)
        scores_BWV = log_probs.scores_BTV
        constrain(log_probs, written_BWT.numpy(), settings, limits_B)
        token_BW = draw(scores_BWV, sampling, generator)
        chosen_BW = scores_BWV.gather(2, token_BW[..., None])[..., 0] - log_probs.normaliser_BT1[..., 0]
        log_prob_BW += chosen_BW.masked_fill(ended_BW, 0.0)
        ended_BW |= (token_BW == EOS) | (limits_B1 <= position)
        token_and_end_2BW = torch.stack([token_BW, ended_BW.long()]).cpu()  # the step's only synchronisation
        written_BWT = torch.cat([written_BWT, token_and_end_2BW[0, ..., None]], dim=2)
        if bool(token_and_end_2BW[1].all()):
            break
        tokens_R = token_BW.flatten()
    return [
        [finish(tokens, log_prob, settings.lenpen) for tokens, log_prob in zip(outputs, sums, strict=True)]
        for outputs, sums in zip(written_BWT.tolist(), log_prob_BW.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class Sampler:
    """Draws the same number of samples for every source, from one generator."""

    settings: SearchSettings
    sampling: SamplingSettings
    generator: torch.Generator
    samples: int

    def __call__(self, stepper: Stepper, source_BS: Tensor, start_id: int) -> list[list[Hypothesis]]:
        return sample(stepper, source_BS, self.settings, self.sampling, start_id, self.generator, self.samples)


def draw(scores_BWV: Tensor, sampling: SamplingSettings, generator: torch.Generator) -> Tensor:
    """Draw a token for every row."""
    if sampling.temperature == 0:
        return scores_BWV.argmax(dim=2)
    scores_BWV = scores_BWV / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < scores_BWV.shape[2]:
        least_BW1 = scores_BWV.topk(sampling.top_k, dim=2).values[..., -1:]
        scores_BWV = scores_BWV.masked_fill(scores_BWV < least_BW1, -torch.inf)
    probs_BWV = scores_BWV.softmax(dim=2)
    if sampling.top_p is not None:
        ordered_BWV, order_BWV = probs_BWV.sort(dim=2, descending=True)
        outside = ordered_BWV.cumsum(dim=2) - ordered_BWV >= sampling.top_p
        probs_BWV = probs_BWV.scatter(2, order_BWV, ordered_BWV.masked_fill(outside, 0.0))
    return torch.multinomial(probs_BWV.flatten(0, 1), 1, generator=generator).view(scores_BWV.shape[:2])


def finish(tokens: list[int], log_prob: float, lenpen: float) -> Hypothesis:
    """Truncate after the first eos."""
    tokens = tokens[: tokens.index(EOS) + 1]
    return Hypothesis(tokens, log_prob, log_prob / len(tokens) ** lenpen)
