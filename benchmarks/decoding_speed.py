"""Decoding speed of Lamina, CTranslate2 and Hugging Face Marian with the same weights, in output tokens per second.

    pip install 'lamina[ctranslate2]' transformers
    python benchmarks/decoding_speed.py RUN SOURCE [--sentences N] [--rounds 3] [--batch 32 --batch 1] [--length N]
    python benchmarks/decoding_speed.py --random base [--vocabulary 10000] --sentences 64 --length 25

RUN is a run, checkpoint or model folder of a plain Transformer; SOURCE is text, one sentence per line. With `--random`,
a model of the given size with random weights translates random sources of 25 tokens. `--length` forces every output to
that length. Beam 5, length penalty 1. Output tokens are those of the best hypotheses, `</s>` included.

The systems are interleaved after a warm-up, which eliminates CTranslate2 threadings that are less than half as fast as
its best one. `2x1` means two workers with one thread each; one sentence at a time occupies one worker. Lamina
distributes its work over two cores. Marian uses two threads for batches and one for single sentences, where a second
thread would slow it down.
CTranslate2 and Marian finish a sentence when five hypotheses have ended (for Marian this is `early_stopping`, which is
faster than its default) or after 256 tokens; Lamina's limit depends on the source. Prints JSON with medians, the number
of outputs that equal Lamina's in float32, and ratios to CTranslate2's best threading at the same precision.
`--only lamina,ctranslate2` omits the rest.

Marian is post-norm, so pre-norm models are measured without it. Before timing, its greedy output is compared with
Lamina's log-probabilities on a few sentences.
"""

from __future__ import annotations

import argparse
import json
import operator
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

import lamina
from lamina.base.cpu import chosen_set
from lamina.engine.compilation import ready_folder
from lamina.interop.ctranslate2 import export_ctranslate2
from lamina.model.layers.positions import sinusoids
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.store.loading import load_run
from lamina.text.pipeline import TextPipeline, make_pipeline
from lamina.text.vocabulary import EOS, PAD, SPECIALS, Vocabulary
from lamina.translation import Translator

BEAM, LENPEN, LONGEST = 5, 1.0, 256
CORES = 2
POSITIONS = 1024
GREEDY_SENTENCES, GREEDY_TOKENS = 4, 40

Tokens = list[list[str]]
System = Callable[[Tokens], Tokens]  # sources without `</s>` to outputs that end with it


@dataclass(frozen=True)
class Weights:
    """One model in the format of each system."""

    ctranslate2: Path
    model: Seq2Seq
    text: TextPipeline
    length: int | None  # of every output, without eos

    @property
    def vocabulary(self) -> Vocabulary:
        return self.text.source.vocabulary

    @property
    def target(self) -> Vocabulary:
        return self.text.target.vocabulary


def make_lamina(weights: Weights, batch: int, int8: bool) -> System:
    translator = Translator([weights.model], weights.text, int8=int8)
    settings = SearchSettings(beam=BEAM, lenpen=LENPEN)
    if weights.length is not None:
        settings = replace(settings, min_length=weights.length, max_length=(0.0, weights.length))

    def call(sources: Tokens) -> Tokens:
        torch.set_num_threads(CORES)
        ended = [[*source, SPECIALS[EOS]] for source in sources]
        found = translator.translate_tokens(ended, batch_sentences=batch, **settings.model_dump())
        return [translation.tokens for translation in found]

    return call if batch > 1 else lambda sources: [call([source])[0] for source in sources]


def make_ctranslate2(weights: Weights, batch: int, compute: str, workers: int, threads: int) -> System:
    """Translate all sentences in one call, which sorts them by length and distributes batches over workers, or singly.

    A few sentences are split into as many batches as there are workers.
    """
    import ctranslate2

    translator = ctranslate2.Translator(
        str(weights.ctranslate2), compute_type=compute, inter_threads=workers, intra_threads=threads
    )

    def call(sources: Tokens) -> Tokens:
        results = translator.translate_batch(
            sources,
            beam_size=BEAM,
            length_penalty=LENPEN,
            min_decoding_length=weights.length or 1,
            max_decoding_length=weights.length or LONGEST,
            max_batch_size=min(batch, -(-len(sources) // workers)),
            batch_type="examples",
            return_end_token=True,
        )
        return [result.hypotheses[0] for result in results]

    return call if batch > 1 else lambda sources: [call([source])[0] for source in sources]


def make_huggingface(weights: Weights, batch: int) -> System:
    model = copy_to_marian(weights.model)

    def translate(sources: Tokens) -> Tokens:
        torch.set_num_threads(CORES if batch > 1 else 1)
        outputs: Tokens = [[] for _ in sources]
        order = sorted(range(len(sources)), key=lambda number: -len(sources[number]))
        for first in range(0, len(order), batch):
            numbers = order[first : first + batch]
            rows = [weights.vocabulary.encode(sources[number]) for number in numbers]
            written = generate(model, rows, num_beams=BEAM, length_penalty=LENPEN, early_stopping=True)
            for number, ids in zip(numbers, written, strict=True):
                outputs[number] = [weights.target.symbols[token] for token in ids]
        return outputs

    return translate


# Systems measured with batches, and with single sentences.
MANY: dict[str, Callable[[Weights, int], System]] = {
    "lamina float32": partial(make_lamina, int8=False),
    "lamina int8": partial(make_lamina, int8=True),
    "ctranslate2 float32 1x2": partial(make_ctranslate2, compute="float32", workers=1, threads=2),
    "ctranslate2 float32 2x1": partial(make_ctranslate2, compute="float32", workers=2, threads=1),
    "ctranslate2 int8 2x1": partial(make_ctranslate2, compute="int8", workers=2, threads=1),
    "huggingface float32": make_huggingface,
}
ONE: dict[str, Callable[[Weights, int], System]] = {
    "lamina float32": partial(make_lamina, int8=False),
    "lamina int8": partial(make_lamina, int8=True),
    "ctranslate2 float32 1x1": partial(make_ctranslate2, compute="float32", workers=1, threads=1),
    "ctranslate2 float32 1x2": partial(make_ctranslate2, compute="float32", workers=1, threads=2),
    "ctranslate2 int8 1x1": partial(make_ctranslate2, compute="int8", workers=1, threads=1),
    "ctranslate2 int8 1x2": partial(make_ctranslate2, compute="int8", workers=1, threads=2),
    "huggingface float32": make_huggingface,
}
FAMILIES = ("lamina", "ctranslate2", "huggingface")


def copy_to_marian(model: Seq2Seq) -> Any:
    """`MarianMTModel` with Lamina's weights and positions."""
    from transformers import MarianConfig, MarianMTModel

    config = model.config
    marian = MarianMTModel(
        MarianConfig(
            vocab_size=config.source_vocab,
            decoder_vocab_size=config.target_vocab,
            share_encoder_decoder_embeddings=config.share_embeddings == "all",
            tie_word_embeddings=config.share_embeddings != "none",
            max_position_embeddings=POSITIONS,
            d_model=config.d_model,
            encoder_layers=config.encoder.layers,
            decoder_layers=config.decoder.layers,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            encoder_ffn_dim=config.ffn_size,
            decoder_ffn_dim=config.ffn_size,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            bos_token_id=None,
            forced_eos_token_id=None,
            decoder_start_token_id=config.start_id,
        )
    ).eval()
    positions = sinusoids(config.first_position + POSITIONS, config.d_model)[config.first_position :]
    with torch.no_grad():
        for name, weight in marian_weights(model, positions):
            marian.get_parameter(name).copy_(weight)
    return marian


def marian_weights(model: Seq2Seq, positions: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Marian's parameter names with Lamina's values."""

    def linear(name: str, weight: Tensor, bias: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield f"{name}.weight", weight
        yield f"{name}.bias", bias

    def attention(name: str, ours: Any, norm: nn.LayerNorm) -> Iterator[tuple[str, Tensor]]:
        parts = zip("qkv", ours.qkv.weight.chunk(3), ours.qkv.bias.chunk(3), strict=True)
        for part, weight, bias in parts:
            yield from linear(f"{name}.{part}_proj", weight, bias)
        yield from linear(f"{name}.out_proj", ours.out.weight, ours.out.bias)
        yield from linear(f"{name}_layer_norm", norm.weight, norm.bias)

    def feed_forward(name: str, ours: Any) -> Iterator[tuple[str, Tensor]]:
        yield from linear(f"{name}.fc1", ours.feed_forward.up_proj.weight, ours.feed_forward.up_proj.bias)
        yield from linear(f"{name}.fc2", ours.feed_forward.down_proj.weight, ours.feed_forward.down_proj.bias)
        norm = ours.feed_forward_residual.norm
        yield from linear(f"{name}.final_layer_norm", norm.weight, norm.bias)

    encoder: Any = model.encoder
    yield "model.encoder.embed_tokens.weight", model.source_embedding.tokens.weight
    yield "model.decoder.embed_tokens.weight", model.target_embedding.tokens.weight
    yield "lm_head.weight", model.head.weight_VD
    yield "model.encoder.embed_positions.weight", positions
    yield "model.decoder.embed_positions.weight", positions
    for index, layer in enumerate(encoder.layers):
        name = f"model.encoder.layers.{index}"
        yield from attention(f"{name}.self_attn", layer.attention, layer.attention_residual.norm)
        yield from feed_forward(name, layer)
    for index, part in enumerate(model.decoder.layers):
        name, ours = f"model.decoder.layers.{index}", part.target_attention.attention
        yield from attention(f"{name}.self_attn", ours, part.target_residual.norm)
        yield from attention(f"{name}.encoder_attn", part.cross_attention.streams[0], part.cross_residual.norm)
        yield from feed_forward(name, part)


def generate(model: Any, sources: list[list[int]], longest: int = LONGEST, **search: Any) -> list[list[int]]:
    """Marian's output without the start token, up to eos."""
    padded = nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in sources], batch_first=True, padding_value=PAD)
    with torch.inference_mode():
        output = model.generate(
            padded, attention_mask=(padded != PAD).long(), max_new_tokens=longest, do_sample=False, **search
        )
    rows = (ids[1:] for ids in output.tolist())
    return [ids[: ids.index(EOS) + 1] if EOS in ids else ids for ids in rows]


def instruction_set() -> str:
    """The instruction set of Lamina's engine; CTranslate2 chooses its own."""
    ready_folder()
    return chosen_set().name


def check_greedy(weights: Weights, sources: Tokens) -> None:
    """Exit unless Marian's greedy output matches Lamina's log-probabilities."""
    marian = copy_to_marian(weights.model)
    for source in sources:
        ids = weights.vocabulary.encode(source)
        (theirs,) = generate(marian, [ids], longest=GREEDY_TOKENS, num_beams=1)
        ours: list[int] = []
        with torch.inference_mode():
            while len(ours) < GREEDY_TOKENS and EOS not in ours:
                prefix = torch.tensor([[weights.model.start_id, *ours]])
                ours.append(int(weights.model.log_probs(torch.tensor([ids]), prefix)[0, -1].argmax()))
        if ours != theirs:
            raise SystemExit(f"Marian writes {theirs} where Lamina writes {ours}: the weights are not the same.")


def measure(systems: dict[str, System], sources: Tokens, rounds: int) -> dict[str, Any]:
    """Measure rounds in which every system translates all sentences once."""
    warm_up = {name: run(system, sources)[1] for name, system in systems.items()}
    systems = {
        name: system
        for name, system in systems.items()
        if warm_up[name] > max(value for other, value in warm_up.items() if kind(other) == kind(name)) / 2
    }
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    written: dict[str, Tokens] = {}
    for _ in range(rounds):
        for name, system in systems.items():
            time.sleep(0.5)  # let the previous system's threads go idle
            written[name], speed = run(system, sources)
            speeds[name].append(speed)
    ours = written.get("lamina float32", [])
    report: dict[str, Any] = {
        name: {
            "tokens_per_second": round(statistics.median(values), 1),
            "rounds": [round(value, 1) for value in values],
            "output_tokens": sum(map(len, written[name])),
            "as_lamina_float32": sum(map(operator.eq, written[name], ours)),
        }
        for name, values in speeds.items()
    }
    for bits in ("float32", "int8"):
        peers = [name for name in speeds if name.startswith(f"ctranslate2 {bits}")]
        if peers and f"lamina {bits}" in speeds:
            best = max(peers, key=lambda name: statistics.median(speeds[name]))
            ratios = [a / b for a, b in zip(speeds[f"lamina {bits}"], speeds[best], strict=True)]
            report[f"{bits} over {best}"] = {
                "median": round(statistics.median(ratios), 2),
                "rounds": [round(ratio, 2) for ratio in ratios],
            }
    return report


def run(system: System, sources: Tokens) -> tuple[Tokens, float]:
    """Return outputs and tokens per second."""
    started = time.perf_counter()
    written = system(sources)
    return written, sum(map(len, written)) / (time.perf_counter() - started)


def kind(name: str) -> list[str]:
    """A system's name and precision, without its threading."""
    return name.split()[:2]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("--random", metavar="SIZE", help="fresh weights of this size instead of a run")
    parser.add_argument("--system", default="transformer-post", help="with --random")
    parser.add_argument("--vocabulary", type=int, default=10_000, help="with --random")
    parser.add_argument("--length", type=int, help="tokens of every output")
    parser.add_argument("--sentences", type=int, help="number of sentences from the start; all if not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, action="append", help="sentences per batch; may be given again")
    parser.add_argument("--only", default=",".join(FAMILIES), help="systems, with commas between them")
    options = parser.parse_args()
    options.batch = options.batch or [32, 1]
    options.only = options.only.split(",")
    unknown = set(options.only) - set(FAMILIES)
    if unknown:
        parser.error(f"--only knows {', '.join(FAMILIES)}, but not {', '.join(sorted(unknown))}")
    if (options.source is None) == (options.random is None):
        parser.error("give RUN and SOURCE, or --random SIZE")
    return options


def make_random(options: argparse.Namespace) -> tuple[Seq2Seq, TextPipeline, Tokens]:
    """Make a model with random weights, an artificial vocabulary, and sources of 25 tokens."""
    torch.manual_seed(1)
    model = lamina.build(options.system, size=options.random, vocab_size=options.vocabulary).eval()
    vocabulary = Vocabulary((*SPECIALS, *(f"w{number}" for number in range(len(SPECIALS), options.vocabulary))))
    files = {f"vocabulary.{side}.txt": vocabulary.text().encode() for side in ("source", "target")}
    text = make_pipeline("none", ["en", "de"], False, files)
    ids = torch.randint(len(SPECIALS), options.vocabulary, (options.sentences or 64, 24)).tolist()
    return model, text, [[vocabulary.symbols[each] for each in row] for row in ids]


def main() -> None:
    options = parse()
    torch.set_num_threads(CORES)
    if options.random:
        model, text, sources = make_random(options)
    else:
        loaded = load_run(options.run)
        model, text = loaded.model.eval(), loaded.text
        lines = options.source.read_text(encoding="utf-8").removesuffix("\n").split("\n")[: options.sentences]
        sources = [text.source.vocabulary.decode(ids) for ids in text.source.encode(lines)]
    if model.config.norm == "pre" and "huggingface" in options.only:
        print("Marian is post-norm, but this model is pre-norm: measured without Hugging Face.", file=sys.stderr)
        options.only.remove("huggingface")
    report: dict[str, Any] = {
        "model": options.random or str(options.run),
        "instruction_set": instruction_set(),
        "sentences": len(sources),
        "beam": BEAM,
        "lenpen": LENPEN,
        "length": options.length,
    }
    with TemporaryDirectory() as scratch:
        weights = Weights(Path(scratch) / "ctranslate2", model, text, options.length)
        export_ctranslate2(model, text, weights.ctranslate2)
        if "huggingface" in options.only:
            check_greedy(weights, sources[:GREEDY_SENTENCES])
        for batch in options.batch:
            table = MANY if batch > 1 else ONE
            chosen = {name: make for name, make in table.items() if name.split()[0] in options.only}
            systems = {name: make(weights, batch) for name, make in chosen.items()}
            report[f"batch {batch}"] = measure(systems, sources, options.rounds)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
