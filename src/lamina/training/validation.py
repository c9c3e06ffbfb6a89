"""BLEU at validation: a sample of the validation pairs, translated and scored."""

from __future__ import annotations

from lamina.corpus.prepared import PreparedData
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.scoring.sacre import corpus_bleu
from lamina.training.distributed import Ranks


def validation_bleu(model: Seq2Seq, data: PreparedData, decode: SearchSettings, sentences: int, ranks: Ranks) -> float:
    """sacreBLEU of the first validation pairs, decoded as the recipe says; each rank translates its share."""
    from lamina.translation import Translator  # with compiled loops, which most trainings do without

    split = data.split("valid")
    numbers = range(ranks.rank, min(sentences, len(split)), ranks.count)
    pairs = [split[number] for number in numbers]
    translator = Translator([model], data.text, decode)
    found = translator.translate_ids([source.tolist() for source, _ in pairs])
    to_text = data.text.target.decode
    texts = [(to_text(best.tokens), to_text(target.tolist())) for best, (_, target) in zip(found, pairs, strict=True)]
    every = [text for share in ranks.gather(texts) for text in share]
    return corpus_bleu([text for text, _ in every], [reference for _, reference in every], data.text.target.language)
