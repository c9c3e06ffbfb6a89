"""A worker of `lamina serve` that decodes with CTranslate2: same HTTP code and weights, different engine."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import ctranslate2
import numpy as np
import torch
from numpy.typing import NDArray

from lamina.interop.ctranslate2 import export_ctranslate2
from lamina.recipe.decode import SearchSettings
from lamina.search.hypothesis import Hypothesis
from lamina.serving.worker import WorkerState, main
from lamina.text.vocabulary import SPECIALS
from lamina.translation.translator import Translator

LONGEST = 256


class PeerState(WorkerState):
    """Beam search with CTranslate2, one single-threaded worker per core."""

    engines: dict[int, Any] = {}  # noqa: RUF012  # by id of the translator

    def decode(
        self,
        translator: Translator,
        sources: list[list[int]],
        settings: SearchSettings,
        heads: list[list[int]],
        stop: NDArray[np.int64],
    ) -> list[list[Hypothesis]]:
        engine = self.engines.get(id(translator)) or self.engines.setdefault(id(translator), convert(translator))
        source, target = translator.text.source.vocabulary, translator.text.target.vocabulary
        results = engine.translate_batch(
            [[source.symbols[token] for token in ids if source.symbols[token] not in SPECIALS[:3]] for ids in sources],
            beam_size=settings.beam,
            length_penalty=settings.lenpen,
            max_decoding_length=LONGEST,
            return_end_token=True,
            return_scores=True,
        )
        return [
            [Hypothesis(target.encode(result.hypotheses[0])[:-1], 0.0, float(result.scores[0]))] for result in results
        ]


def convert(translator: Translator) -> Any:
    folder = Path(mkdtemp()) / "model"
    export_ctranslate2(translator.models[0], translator.text, folder)
    return ctranslate2.Translator(str(folder), compute_type="float32", inter_threads=2, intra_threads=1)


if __name__ == "__main__":
    torch.set_num_threads(2)
    main(PeerState)
