"""`lamina shortlist`: a lexical table for faster decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.base.wording import counted


def shortlist(
    data: Annotated[Path, typer.Option("--data", help="Data folder that the model was trained on.")],
    out: Annotated[Path, typer.Option("--out", help="Output folder; must not exist yet.")],
    candidates: Annotated[
        int, typer.Option("--candidates", min=1, max=10_000, help="Number of target subwords per source subword.")
    ] = 40,
    frequent: Annotated[
        int,
        typer.Option("--frequent", min=0, max=1_000_000, help="Number of frequent target subwords to always include."),
    ] = 200,
) -> None:
    """Learn a vocabulary shortlist (IBM Model 1) for faster decoding with `lamina translate --shortlist`.

    [bold]Example[/bold]

        lamina shortlist --data data --out shortlist
    """
    from lamina.base.files import require_absent
    from lamina.corpus.prepared import PreparedData
    from lamina.search.shortlist import learn_shortlist

    require_absent(out)
    prepared = PreparedData(data)
    train = prepared.split("train")
    pairs = ((source.tolist(), target.tolist()) for source, target in map(train.__getitem__, range(len(train))))
    learn_shortlist(pairs, prepared.text, candidates, frequent).save(out)
    subwords = len(prepared.text.source.vocabulary)
    print(f"{out}: {counted(candidates, 'candidate')} for each of {subwords:,} source subwords")
