"""A prepared data folder, read through memory maps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.corpus.shards import Ids, Shard, verify
from lamina.errors import DataError
from lamina.text.pipeline import TextPipeline

FORMAT = 1
META = "meta.json"


class PreparedData:
    """What `lamina prepare` wrote: a text pipeline, and the splits `train`, `valid` and perhaps `test`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / META
        try:
            self.meta: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise DataError(f"{folder}: is not a finished data folder; `lamina prepare` makes one.") from error
        except ValueError as error:
            raise DataError(f"{path}: not JSON ({error}).") from error
        if self.meta.get("format") != FORMAT:
            raise DataError(f"{path}: format must be {FORMAT}, but is {self.meta.get('format')} instead.")

    @cached_property
    def text(self) -> TextPipeline:
        """From text to ids and back."""
        text = TextPipeline.load(self.folder / "text")
        for side, language in (("source", text.source), ("target", text.target)):
            entries, wanted = len(language.vocabulary), self.meta["vocabulary"][side]
            if entries != wanted:
                raise DataError(
                    f"{self.folder / 'text'}: the {side} vocabulary has {entries} entries, but the data was encoded "
                    f"with {wanted}. Prepare the data again."
                )
        return text

    def split(self, name: str) -> Split:
        """One part of the data."""
        if name not in self.meta["splits"]:
            raise DataError(f"{self.folder}: has no {name} data, only {', '.join(self.meta['splits'])}.")
        kind = np.dtype(f"uint{self.meta['id_bits']}")
        folders = (self.folder / name / shard["name"] for shard in self.meta["splits"][name]["shards"])
        return Split([Shard(folder, kind) for folder in folders])

    def damaged(self) -> Iterator[Path]:
        """Files that are not what was written; reads everything."""
        for name, split in self.meta["splits"].items():
            for shard in split["shards"]:
                folder = self.folder / name / shard["name"]
                yield from (folder / file for file in verify(folder))


class Split:
    """Encoded pairs by number, over all shards."""

    def __init__(self, shards: list[Shard]) -> None:
        self.shards = shards
        self.starts = np.cumsum([0, *(len(shard) for shard in shards)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, index: int) -> tuple[Ids, Ids]:
        """Source and target ids of one pair, each ending with eos."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        number = int(np.searchsorted(self.starts, index, side="right")) - 1
        shard, place = self.shards[number], index - int(self.starts[number])
        return shard.sentence("source", place), shard.sentence("target", place)

    def lengths(self, side: str) -> NDArray[np.int32]:
        """The length of every sentence, eos included."""
        parts = [shard.lengths(side) for shard in self.shards]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
