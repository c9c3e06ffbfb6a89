"""Encoded pairs on disk: memory-mapped ids and offsets, in shards that are written atomically.

train/00000/source.ids       the ids of all sources, concatenated, 16 or 32 bits each
            source.offsets   the start of each source and the end of the last, 64 bits each
            target.ids, target.offsets
            shard.json       pairs, tokens and a digest of every file; written last, then the folder is renamed
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.base.files import digest, partial_name, publish_folder, remove
from lamina.base.reading import damage_named, read_json
from lamina.errors import DataError

SIDES, KINDS = ("source", "target"), ("ids", "offsets")
Ids = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Encoded:
    """One side of a batch of pairs: concatenated ids, and the length of each sentence."""

    ids: Ids
    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_] | None = None  # mask of truncated sentences

    def head(self, sentences: int) -> Encoded:
        """The first sentences."""
        cut = None if self.truncated is None else self.truncated[:sentences]
        return Encoded(self.ids[: int(self.lengths[:sentences].sum())], self.lengths[:sentences], cut)

    def tail(self, sentences: int) -> Encoded:
        """All but the first sentences."""
        cut = None if self.truncated is None else self.truncated[sentences:]
        return Encoded(self.ids[int(self.lengths[:sentences].sum()) :], self.lengths[sentences:], cut)


class ShardWriter:
    """Appends encoded pairs to a shard under a temporary name; `finish` publishes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.partial = partial_name(folder)
        remove(self.partial)
        self.partial.mkdir(parents=True)
        names = [f"{side}.{kind}" for side in SIDES for kind in KINDS]
        self.files = {name: (self.partial / name).open("wb") for name in names}
        self.digests = {name: hashlib.sha256() for name in self.files}
        self.ends = dict.fromkeys(SIDES, 0)
        self.pairs = self.truncated = 0
        for side in SIDES:
            self._write(f"{side}.offsets", np.zeros(1, dtype=np.int64).tobytes())

    def append(self, source: Encoded, target: Encoded) -> None:
        """Append encoded pairs."""
        for side, encoded in zip(SIDES, (source, target), strict=True):
            offsets = np.cumsum(encoded.lengths) + self.ends[side]
            self._write(f"{side}.ids", encoded.ids.tobytes())
            self._write(f"{side}.offsets", offsets.astype(np.int64).tobytes())
            self.ends[side] += int(encoded.lengths.sum())
        self.pairs += len(source.lengths)
        self.truncated += 0 if source.truncated is None else int(source.truncated.sum())

    def finish(self) -> None:
        """Write `shard.json`, flush everything to disk, and rename the folder."""
        for stream in self.files.values():
            stream.close()
        facts = {
            "pairs": self.pairs,
            "tokens": self.ends,
            "truncated": self.truncated,
            "sha256": {name: each.hexdigest() for name, each in self.digests.items()},
        }
        (self.partial / "shard.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        publish_folder(self.folder)

    def _write(self, name: str, content: bytes) -> None:
        self.files[name].write(content)
        self.digests[name].update(content)


class Shard:
    """A finished shard, read through memory maps."""

    def __init__(self, folder: Path, ids: np.dtype[Any]) -> None:
        self.folder = folder
        self.id_type = ids
        path = folder / "shard.json"
        self.facts = read_json(path)
        with damage_named(path):
            pairs, tokens = int(self.facts["pairs"]), {side: int(self.facts["tokens"][side]) for side in SIDES}
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        for side in SIDES:
            wanted = {"ids": tokens[side] * ids.itemsize, "offsets": (pairs + 1) * 8}
            for kind, size in wanted.items():
                found = sizes.get(f"{side}.{kind}")
                if found != size:
                    what = "is missing" if found is None else f"has {found:,} bytes instead of {size:,}"
                    raise DataError(f"{folder / f'{side}.{kind}'}: {what}. Prepare the data again.")

    def __len__(self) -> int:
        return int(self.facts["pairs"])

    @cached_property
    def _maps(self) -> dict[str, Any]:
        maps: dict[str, Any] = {}
        for side in SIDES:
            maps[f"{side}.offsets"] = np.memmap(self.folder / f"{side}.offsets", dtype=np.int64, mode="r")
            empty = self.facts["tokens"][side] == 0
            path = self.folder / f"{side}.ids"
            maps[f"{side}.ids"] = np.zeros(0, self.id_type) if empty else np.memmap(path, dtype=self.id_type, mode="r")
        return maps

    def sentence(self, side: str, index: int) -> Ids:
        """The ids of one sentence, ending with eos."""
        offsets = self._maps[f"{side}.offsets"]
        sentence: Ids = self._maps[f"{side}.ids"][offsets[index] : offsets[index + 1]]
        return sentence

    def lengths(self, side: str) -> NDArray[np.int32]:
        """The length of every sentence."""
        return np.diff(self._maps[f"{side}.offsets"]).astype(np.int32)


def find_damage(folder: Path) -> Path | None:
    """The first file of a shard that is missing or does not match its digest, if any."""
    path = folder / "shard.json"
    with damage_named(path):
        expected = {f"{side}.{kind}": read_json(path)["sha256"][f"{side}.{kind}"] for side in SIDES for kind in KINDS}
    for name, sha256 in expected.items():
        if not (folder / name).is_file() or digest(folder / name) != sha256:
            return folder / name
    return None
