"""Validation loss and BLEU, computed in parallel on all ranks."""

from __future__ import annotations

from collections.abc import Callable

import torch

from lamina.base.devices import Precision, autocast
from lamina.corpus.batches import Batches
from lamina.corpus.prepared import PreparedData
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.scoring.sacre import corpus_bleu
from lamina.search.hypothesis import Hypothesis
from lamina.training.distributed import Ranks
from lamina.training.prefetch import as_tensors, prefetch
from lamina.training.statistics import Tally, Window

BLEU_CHUNK = 200  # sentences between progress updates
Show = Callable[[int, int], None]  # done, total


def validation_loss(
    model: Seq2Seq, valid: Batches, smoothing: float, precision: Precision, ranks: Ranks, show: Show
) -> tuple[Window, float | None]:
    """Return sums over all ranks, and the mean nll of the renormalised distribution if the head is not normalised."""
    tally, device = Tally(ranks.device), ranks.device
    normalised = torch.zeros((), dtype=torch.float64, device=device)
    updates = valid.updates(0)
    numbers = range(ranks.rank, len(updates), ranks.count)
    own = (batch for number in numbers for batch in valid.load(updates[number]).batches)
    with torch.no_grad(), autocast(device, precision if device.type == "cuda" else "fp32"):
        for done, batch in enumerate(prefetch(own, lambda batch: as_tensors(batch, device), device)):
            show(min(done, len(numbers)), len(numbers))
            tensors, _ = batch.to(device)
            tally.add(model(*tensors, smoothing), batch.tokens, batch.tokens)
            if not model.head.normalised:
                normalised += model.normalised_nll(*tensors).sum()
    gathered = ranks.gather((tally.read(), float(normalised)))
    total = Window.sum([window for window, _ in gathered])
    if model.head.normalised:
        return total, None
    return total, sum(nll for _, nll in gathered) / max(1, total.tokens)


def validation_bleu(
    model: Seq2Seq, data: PreparedData, decode: SearchSettings, sentences: int, ranks: Ranks, show: Show
) -> float:
    """sacreBLEU of the first validation pairs, decoded with the recipe's search settings and split over ranks."""
    from lamina.translation import Translator  # imports the compiled engine, which most training runs do not need

    split = data.split("valid")
    numbers = range(ranks.rank, min(sentences, len(split)), ranks.count)
    pairs = [split[number] for number in numbers]
    translator = Translator([model], data.text, decode)
    found: list[Hypothesis] = []
    for start in range(0, len(pairs), BLEU_CHUNK):
        show(start, len(pairs))
        found += translator.translate_ids([source.tolist() for source, _ in pairs[start : start + BLEU_CHUNK]])
    to_text = data.text.target.decode
    texts = [(to_text(best.tokens), to_text(target.tolist())) for best, (_, target) in zip(found, pairs, strict=True)]
    every = [text for share in ranks.gather(texts) for text in share]
    return corpus_bleu([text for text, _ in every], [reference for _, reference in every], data.text.target.language)
