"""Translate lines of text with the graphs in this folder: python run.py < input > output

Needs onnxruntime, numpy and sentencepiece (`pip install onnxruntime numpy sentencepiece`). Text that was prepared with
Moses and byte-pair encoding also needs sacremoses and subword-nmt. `python run.py --help` lists the options.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnxruntime

BOS, PAD, EOS, UNK = range(4)
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
BATCH, LONGEST = 32, 1024  # sentences per batch, maximum tokens per source unless text.json has another
BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufeff]+")
LINE_BREAK = "⏎"  # represents a line break within a document
ENDING = re.compile(r"""([.!?…]+["'”’»)\]]*)\s+(?=["'“‘«(\[]*[^\W_a-zа-яёіїєґ])""")
ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-ZА-ЯІЇЄҐ]|Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Inc|Ltd|Co|Corp|No|Nos|vs|etc|e\.g|i\.e|a\.m|p\.m|Fig|Sen|Rep"
    r"|Gov|Gen|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|ст|див|рис|гр|вул)\.$"
)
Ids = list[int]


class Graphs:
    """The two graphs and their description."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.about = read_description(folder)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(folder / name, options, providers=["CPUExecutionProvider"])
            for name in ("encoder.onnx", "decoder.onnx")
        )

    def encode(self, source_BS: np.ndarray) -> dict[str, np.ndarray]:
        """Compute the memories, all that decoding needs from the sources, one row per source."""
        outputs = self.encoder.run(None, {"source": source_BS})
        return dict(zip(["valid", *self.about["memories"]], outputs, strict=True))

    def empty_caches(self, rows: int) -> dict[str, np.ndarray]:
        """Empty caches for the first step."""
        sizes = {"rows": rows, "past": 0}
        return {
            cache["name"]: np.zeros([sizes.get(size, size) for size in cache["shape"]], np.float32)
            for cache in self.about["caches"]
        }

    def step(
        self, tokens_R: np.ndarray, position: int, memory: dict[str, np.ndarray], caches: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Feed one token per row; return log-probabilities (R, V) and the extended caches."""
        feeds = {"tokens": tokens_R, "position": np.array(position), **memory, **caches}
        log_probs_RV, *extended = self.decoder.run(None, {name: feeds[name] for name in self.inputs})
        return log_probs_RV, dict(zip(caches, extended, strict=True))

    @property
    def inputs(self) -> list[str]:
        """Names of the decoder graph's inputs; unused ones are not part of the graph."""
        return [each.name for each in self.decoder.get_inputs()]


class Search:
    """Beam search of one batch; a beam of 1 is greedy.

    In each step, the best 2·beam continuations of a source are considered. An eos among the first `beam` finishes a
    hypothesis with score = log p / length^lenpen; the first `beam` others continue. A source is done when it has `beam`
    finished hypotheses or reaches its maximum length.
    """

    def __init__(self, source_BS: np.ndarray, start_id: int, options: dict[str, Any]) -> None:
        self.beam, self.lenpen = options["beam"], options["lenpen"]
        self.min_length, self.ngram = options["min_length"], options["no_repeat_ngram"]
        slope, base = options["max_length"]
        self.limits = [int(slope * length + base) for length in (source_BS != PAD).sum(axis=1).tolist()]
        self.start_id, self.sources = start_id, len(source_BS)
        self.written: list[list[Ids]] = [[[]] for _ in range(self.sources)]
        self.totals = np.zeros((self.sources, 1), np.float32)
        self.finished: list[list[tuple[float, Ids]]] = [[] for _ in range(self.sources)]
        self.done = [False] * self.sources

    def run(self, graphs: Graphs, source_BS: np.ndarray) -> list[list[tuple[float, Ids]]]:
        """Search; return the finished hypotheses of each source as (score, tokens), best first."""
        memory, caches = graphs.encode(source_BS), graphs.empty_caches(self.sources)
        tokens_R, position = np.full(self.sources, self.start_id, np.int64), 0
        while True:
            log_probs_RV, caches = graphs.step(tokens_R, position, memory, caches)
            rows_R, tokens_R = self.advance(log_probs_RV.reshape(self.sources, -1, log_probs_RV.shape[1]), position)
            if all(self.done):
                break
            caches = {name: cache[rows_R] for name, cache in caches.items()}
            position += 1
        return [sorted(each, key=lambda found: -found[0]) for each in self.finished]

    def advance(self, scores_BWV: np.ndarray, position: int) -> tuple[np.ndarray, np.ndarray]:
        """Select the hypotheses that continue; return their rows and next tokens."""
        self.constrain(scores_BWV, position)
        sums_BX = (self.totals[..., None] + scores_BWV).reshape(self.sources, -1)
        rows, tokens, totals = [], [], []
        for source, sums_X in enumerate(sums_BX):
            active = self.split(source, sums_X, scores_BWV.shape[2], position)
            self.written[source] = [[*self.written[source][row], token] for row, token, _ in active]
            rows += [row + source * scores_BWV.shape[1] for row, _, _ in active]
            tokens += [token for _, token, _ in active]
            totals.append([total for _, _, total in active])
        self.totals = np.array(totals, np.float32)
        return np.array(rows), np.array(tokens, np.int64)

    def split(self, source: int, sums_X: np.ndarray, vocabulary: int, position: int) -> list[tuple[int, int, float]]:
        """Finish hypotheses that end here; return the others as (row, token, sum of log p)."""
        count = min(2 * self.beam, len(sums_X))
        best = np.argpartition(-sums_X, count - 1)[:count]
        active: list[tuple[int, int, float]] = []
        finished = self.finished[source]
        for rank, index in enumerate(best[np.argsort(-sums_X[best], kind="stable")].tolist()):
            row, token = divmod(index, vocabulary)
            total = float(sums_X[index])
            if token != EOS:
                active.append((row, token, total))
            elif rank < self.beam and len(finished) < self.beam and not self.done[source] and total > -np.inf:
                tokens = [*self.written[source][row], EOS]
                finished.append((total / len(tokens) ** self.lenpen, tokens))
        self.done[source] |= len(finished) == self.beam or position >= self.limits[source]
        active += [(0, UNK, -np.inf)] * (self.beam - len(active))  # if the vocabulary is smaller than the beam
        return active[: self.beam]

    def constrain(self, scores_BWV: np.ndarray, position: int) -> None:
        """Mask tokens that are not allowed next."""
        np.copyto(scores_BWV, -np.inf, where=np.isnan(scores_BWV))
        scores_BWV[..., PAD] = -np.inf
        ends_BW = scores_BWV[..., EOS].copy()
        if position < self.min_length:
            scores_BWV[..., EOS] = -np.inf
        for source, limit in enumerate(self.limits):
            if position >= limit:
                scores_BWV[source] = -np.inf
                scores_BWV[source, :, EOS] = ends_BW[source]
            elif self.ngram:
                for row, written in enumerate(self.written[source]):
                    scores_BWV[source, row, repeated(written, self.ngram)] = -np.inf


def repeated(written: Ids, size: int) -> Ids:
    """Tokens that would repeat an n-gram of this size."""
    last = written[len(written) - size + 1 :]
    starts = range(len(written) - size + 1)
    return [written[index + size - 1] for index in starts if written[index : index + size - 1] == last]


def open_text(folder: Path) -> tuple[Callable[[str], Ids], Callable[[Ids], str]]:
    """Return functions that encode a line to ids ending with eos, as in training, and decode ids."""
    about = json.loads((folder / "text.json").read_text(encoding="utf-8"))
    encode, decode = (open_sentencepiece if about["subwords"] == "sentencepiece" else open_words)(folder, about)
    if about["moses"]:
        encode, decode = add_moses(encode, decode, about["languages"])

    def encode_line(line: str) -> Ids:
        line = normalise(line)
        sentences = split_sentences(line) if about.get("sentences") else [line]
        ids = [index for sentence in sentences for index in (*encode(sentence)[:-1], BOS)][:-1]
        return [*ids[: (about.get("longest") or LONGEST) - 1], EOS]

    return encode_line, decode


def add_moses(
    encode: Callable[[str], Ids], decode: Callable[[Ids], str], languages: Sequence[str]
) -> tuple[Callable[[str], Ids], Callable[[Ids], str]]:
    """Tokenise before encoding, and detokenise after decoding."""
    from sacremoses import MosesDetokenizer, MosesTokenizer

    tokeniser, detokeniser = MosesTokenizer(lang=languages[0]), MosesDetokenizer(lang=languages[1])
    return (
        lambda line: encode(tokeniser.tokenize(line, escape=False, return_str=True)),
        lambda ids: detokeniser.detokenize(decode(ids).split(), unescape=False),
    )


def open_sentencepiece(folder: Path, about: Any) -> tuple[Callable[[str], Ids], Callable[[Ids], str]]:
    """Open one SentencePiece model for both sides, or one for each."""
    from sentencepiece import SentencePieceProcessor

    names = [f"subwords.{side}.model" for side in ("source", "target")]
    if (folder / "subwords.model").is_file():
        names = ["subwords.model"] * 2
    source, target = (SentencePieceProcessor(model_file=str(folder / name)) for name in names)
    return (
        lambda line: source.encode(line, add_eos=True),
        lambda ids: target.decode([index for index in ids if index not in (BOS, PAD, EOS)]),
    )


def open_words(folder: Path, about: Any) -> tuple[Callable[[str], Ids], Callable[[Ids], str]]:
    """Open vocabularies of space-separated tokens, optionally with byte-pair encoding."""
    contents = [(folder / f"vocabulary.{side}.txt").read_bytes().decode("utf-8") for side in ("source", "target")]
    source, target = (text.removesuffix("\n").split("\n") for text in contents)
    ids = {symbol: index for index, symbol in enumerate(source)}
    segment: Callable[[list[str]], list[str]] = list
    if about["subwords"] == "bpe":
        from subword_nmt.apply_bpe import BPE

        with (folder / "bpe.codes").open(encoding="utf-8") as codes:
            segment = BPE(codes, separator="@@").segment_tokens
    if about["subwords"] == "marian":
        return open_marian(folder, ids, target)

    def decode(written: Ids) -> str:
        text = " ".join(unescape(target[index]) for index in written if index not in (BOS, PAD, EOS))
        return f"{text} ".replace("@@ ", "").strip(" ") if about["subwords"] == "bpe" else text

    return lambda line: [*(ids.get(escape(token), UNK) for token in segment(line.split())), EOS], decode


def escape(token: str) -> str:
    """The symbol of a token: one that looks like a special symbol gets a backslash."""
    return f"\\{token}" if token.lstrip("\\") in SPECIALS else token


def unescape(symbol: str) -> str:
    """The token of a symbol, undoing `escape`."""
    return symbol[1:] if symbol.startswith("\\") and symbol.lstrip("\\") in SPECIALS else symbol


def open_marian(
    folder: Path, ids: dict[str, int], target: list[str]
) -> tuple[Callable[[str], Ids], Callable[[Ids], str]]:
    """Open Marian's SentencePiece models, which have a separate vocabulary."""
    from sentencepiece import SentencePieceProcessor

    pieces, words = (SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in ("source", "target"))

    def encode(line: str) -> Ids:
        code = re.match(r">>[^<>]*<<", line)
        found = [code.group()] if code else []
        found += pieces.encode(line[code.end() :] if code else line, out_type=str)
        return [*(ids.get(token, UNK) for token in found), EOS]

    def decode(written: Ids) -> str:
        text = words.decode([target[index] for index in written if index not in (BOS, PAD, EOS)])
        return str(text).replace("▁", " ").strip(" ")

    return encode, decode


def normalise(text: str) -> str:
    """Normalise to NFC with single spaces and without control characters."""
    return unicodedata.normalize("NFC", BLANK.sub(" ", text)).strip(" ")


def split_sentences(text: str) -> list[str]:
    """Split a document into sentences, as in training."""
    sentences = []
    for line in text.split(LINE_BREAK):
        start = 0
        for match in ENDING.finditer(line):
            candidate = line[start : match.end(1)]
            if match[1] != "." or not ABBREVIATION.search(candidate):
                sentences.append(candidate.strip())
                start = match.end()
        sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]


def translate(graphs: Graphs, sources: Sequence[Ids], options: dict[str, Any]) -> list[Ids]:
    """Translate sources; an empty source has an empty translation."""
    results: list[Ids] = [[] for _ in sources]
    order = sorted(
        (index for index, source in enumerate(sources) if len(source) > 1), key=lambda index: -len(sources[index])
    )
    for first in range(0, len(order), BATCH):
        numbers = order[first : first + BATCH]
        source_BS = np.full((len(numbers), len(sources[numbers[0]])), PAD, np.int64)
        for row, number in enumerate(numbers):
            source_BS[row, : len(sources[number])] = sources[number]
        found = Search(source_BS, graphs.about["start_id"], options).run(graphs, source_BS)
        for number, hypotheses in zip(numbers, found, strict=True):
            results[number] = hypotheses[0][1]
    return results


def read_description(folder: Path) -> dict[str, Any]:
    """`onnx.json`, if the files that it lists are as they were written; this script may be edited."""
    path = folder / "onnx.json"
    try:
        about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        digests = dict(about["sha256"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        fail(f"{path}: cannot be read ({error}).")
    digests.pop("run.py", None)
    for name, expected in digests.items():
        file = folder / name
        if not file.is_file():
            fail(f"{file}: not found, but onnx.json lists it.")
        if hashlib.sha256(file.read_bytes()).hexdigest() != expected:
            fail(f"{file}: damaged (SHA-256 does not match onnx.json).")
    return about


def read_lines(stream: Iterable[bytes]) -> Iterator[str]:
    """Lines of UTF-8."""
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            fail(f"stdin:{number}: not UTF-8 (byte 0x{line[error.start]:02x} at column {error.start + 1}).")


def fail(message: str) -> NoReturn:
    """End with one line."""
    print(f"run.py: {message}", file=sys.stderr)
    sys.exit(3)


def main() -> None:
    """Translate standard input to standard output, line by line."""
    folder = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Translate lines of text: python run.py < input > output")
    parser.add_argument("--beam", type=int, help="beam size; 1 is greedy")
    parser.add_argument("--lenpen", type=float, help="score = log p / length^lenpen")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: one per core)")
    given = parser.parse_args()
    graphs = Graphs(folder, given.threads)
    options = {**graphs.about["decode"], **{k: v for k, v in vars(given).items() if v is not None}}
    if options["beam"] < 1:
        parser.error("--beam must be at least 1.")
    encode, decode = open_text(folder)
    sources = [encode(line) for line in read_lines(sys.stdin.buffer)]
    for ids in translate(graphs, sources, options):
        sys.stdout.buffer.write(decode(ids).replace("\n", " ").encode("utf-8") + b"\n")


if __name__ == "__main__":
    main()
