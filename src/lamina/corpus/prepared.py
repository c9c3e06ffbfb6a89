"""A prepared data folder, read through memory maps."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from lamina.base.reading import damage_named, read_json
from lamina.base.wording import counted, listed
from lamina.corpus.shards import Ids, Shard, find_damage
from lamina.errors import DataError
from lamina.text.pipeline import TextPipeline

FORMAT = 2  # 1 had no digests of the text pipeline
META = "meta.json"


class PreparedData:
    """A data folder written by `lamina prepare`: a text pipeline and the splits `train`, `valid` and optionally `test`.

    Example:
        >>> data = lamina.PreparedData("data")
        >>> len(data.split("valid"))
        30
        >>> source, target = data.split("train")[0]  # ids, each ending with eos
        >>> data.text.source.decode(source), len(data.text.source.vocabulary)
        ('...', ...)
        >>> data.text.source.encode(["A dog runs."])  # your own text
        [[..., 2]]
        >>> print(data.report)
        # Prepared data: en → de
        ...
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        path = self.folder / META
        if not path.exists():
            raise DataError(f"{self.folder}: is not a finished data folder; create one with `lamina prepare`.")
        self.meta = read_json(path)
        if self.meta.get("format") != FORMAT:
            found = self.meta.get("format")
            raise DataError(f"{path}: format must be {FORMAT}, but is {found} instead. Prepare the data again.")
        with damage_named(path):
            self.id_type = np.dtype(f"uint{int(self.meta['id_bits'])}")
            self.shards = {
                name: [str(shard["name"]) for shard in split["shards"]] for name, split in self.meta["splits"].items()
            }
            self.text_digests = dict(self.meta["text"])
            if any(Path(shard).name != shard for names in self.shards.values() for shard in names):
                raise ValueError("the name of a shard is not a plain name")

    def __fspath__(self) -> str:
        return os.fspath(self.folder)

    def __repr__(self) -> str:
        source, target = self.meta["plan"]["languages"]
        pairs = listed([f"{split['pairs']:,} {name}" for name, split in self.meta["splits"].items()])
        sizes = self.meta["vocabulary"]
        counts = [sizes["source"]] if self.meta["shared_vocabulary"] else list(sizes.values())
        entries = " and ".join(f"{count:,}" for count in counts)
        asked = self.meta["plan"]["vocab_size"]
        limit = f" of at most {asked:,}" if asked is not None and max(counts) < asked else ""
        return f"PreparedData({str(self.folder)!r}, {source} → {target}, {pairs} pairs, vocabulary {entries}{limit})"

    @property
    def report(self) -> str:
        """The report of `lamina prepare`, as Markdown: sizes, vocabulary, and which pairs were dropped and why."""
        return (self.folder / "report.md").read_text(encoding="utf-8")

    @cached_property
    def text(self) -> TextPipeline:
        """The text pipeline the data was encoded with."""
        text = TextPipeline.load(self.folder / "text")
        if text.digests() != self.text_digests:
            raise DataError(
                f"{self.folder / 'text'}: does not match the text pipeline that the data was encoded with. "
                "Prepare the data again."
            )
        return text

    def split(self, name: str, verify: bool = False) -> Split:
        """A split by name; `verify` first checks every file against its digest."""
        if name not in self.shards:
            raise DataError(f"{self.folder}: has no {name} data, only {', '.join(self.shards)}.")
        folders = [self.folder / name / shard for shard in self.shards[name]]
        for folder in folders if verify else ():
            damaged = find_damage(folder)
            if damaged is not None:
                reason = "damaged (SHA-256 mismatch)" if damaged.exists() else "not found"
                raise DataError(f"{damaged}: {reason}. Rerun `lamina prepare` to repair it.")
        return Split([Shard(folder, self.id_type) for folder in folders])

    def is_whole(self) -> bool:
        """Whether every file matches its digest; reads the whole folder."""
        try:
            return all(len(self.split(name, verify=True)) >= 0 for name in self.shards) and bool(self.text)
        except DataError:
            return False


class Split:
    """The encoded pairs of a split, indexed across its shards."""

    def __init__(self, shards: list[Shard]) -> None:
        self.shards = shards
        self.starts = np.cumsum([0, *(len(shard) for shard in shards)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __repr__(self) -> str:
        return f"Split({counted(len(self), 'pair')})"

    @overload
    def __getitem__(self, index: int) -> tuple[Ids, Ids]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[Ids, Ids]]: ...

    def __getitem__(self, index: int | slice) -> tuple[Ids, Ids] | list[tuple[Ids, Ids]]:
        """Source and target ids of a pair, or of several; each ends with eos.

        Ids are NumPy arrays of unsigned integers; `torch.tensor(ids, dtype=torch.long)` makes tensors of them.
        """
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        index %= len(self)
        number = int(np.searchsorted(self.starts, index, side="right")) - 1
        shard, offset = self.shards[number], index - int(self.starts[number])
        return shard.sentence("source", offset), shard.sentence("target", offset)

    def lengths(self, side: str) -> NDArray[np.int32]:
        """The length of every sentence, eos included."""
        parts = [shard.lengths(side) for shard in self.shards]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
