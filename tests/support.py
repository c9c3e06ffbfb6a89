"""Small models and batches, and all combinations of sockets."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest
import torch
import typer
from torch import Tensor

from lamina.cli import main
from lamina.engine.compilation import make_engine
from lamina.engine.lowering import UnsupportedModule
from lamina.engine.stepper import EngineStepper
from lamina.errors import Problem
from lamina.model.bridges import BRIDGES
from lamina.model.config import ModelConfig
from lamina.model.encoders import ENCODERS
from lamina.model.heads import HEADS
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.search.beam import beam_search
from lamina.search.ensemble import EnsembleStepper
from lamina.search.hypothesis import Hypothesis
from lamina.search.sampling import SamplingSettings, sample
from lamina.search.stepper import Stepper, TorchStepper
from lamina.store.model_folder import write_model_folder
from lamina.systems.build import build
from lamina.systems.published import override, settings
from lamina.text.pipeline import pipeline_of_words
from lamina.text.vocabulary import SPECIALS, Vocabularies, Vocabulary

typer.main.get_command = cache(typer.main.get_command)  # building the command takes longer than running most

VOCABULARY = 23
WORDS = Vocabulary((*SPECIALS, *(f"w{n}" for n in range(VOCABULARY - len(SPECIALS)))))
SHARED = Path(__file__).parents[2] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared, which is not part of the repository")


class Finished(NamedTuple):
    """Outcome of a command, with the fields of `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


def run_lamina(*arguments: str | Path, stdin: str | IO[bytes] = "") -> Finished:
    """Run a command in this process, since importing torch takes longer than most commands."""
    before = sys.argv, sys.stdin
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["lamina", *map(str, arguments)]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode("utf-8")) if isinstance(stdin, str) else stdin)
    code: Any = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv, sys.stdin = before
    return Finished(code or 0, out.getvalue(), err.getvalue())


def save(model: Seq2Seq, folder: Path) -> None:
    """Save a model with this module's vocabulary as a model folder."""
    write_model_folder(folder, model, pipeline_of_words(Vocabularies(WORDS, WORDS)), "Made by a test.")


class Combination(NamedTuple):
    encoder: str
    bridge: str
    head: str
    attention: str
    norm: str

    def __str__(self) -> str:
        return "-".join(self)

    def choices(self) -> dict[str, Any]:
        """Four encoder and two decoder layers, or two of each if the bridge needs equal depths."""
        deep, shallow = self.at_depth(4), self.at_depth(2)
        return shallow if len(problems(shallow)) < len(problems(deep)) else deep

    def at_depth(self, layers: int) -> dict[str, Any]:
        return {
            "d_model": 16,
            "ffn_size": 24,
            "heads": 2,
            "dropout": 0.0,
            "norm": self.norm,
            "encoder": {"type": self.encoder, "layers": layers},
            "bridge": {"type": self.bridge},
            "head": {"type": self.head},
            "decoder": {"layers": 2, "attention": self.attention},
        }


def problems(choices: dict[str, Any]) -> list[Problem]:
    chosen = settings(None, "tiny", choices)
    config = ModelConfig.model_validate({**chosen, "source_vocab": VOCABULARY, "target_vocab": VOCABULARY})
    return config.problems()


ALL = [
    Combination(*names)
    for names in product(ENCODERS, BRIDGES, HEADS, ("self", "average", "merged", "mixed"), ("pre", "post"))
]
LEGAL = [combination for combination in ALL if not problems(combination.choices())]
ILLEGAL = [combination for combination in ALL if problems(combination.choices())]


class Variant(NamedTuple):
    """An option of a socket or of the whole model, on a plain pre-norm model."""

    name: str
    own: dict[str, Any]
    head: str = "softmax"

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def choices(self) -> dict[str, Any]:
        plain = Combination("stack", "top", self.head, "self", "pre").choices()
        return override(plain, self.own)


def surface(**own: Any) -> dict[str, Any]:
    return {"head": {"type": "surface", **own}}


MSC = {"bridge": {"type": "collaborative"}}
VARIANTS = [
    *(
        Variant(
            f"dlcl-wiring-{attention}-{norm}", {"decoder": {"wiring": "dlcl", "attention": attention}, "norm": norm}
        )
        for attention, norm in product(("self", "average", "merged", "mixed"), ("pre", "post"))
    ),
    *(
        Variant(
            f"tied-{encoder}-{norm}",
            {
                "encoder": {"type": encoder, "layers": 2},
                "bridge": {"type": "layerwise"},
                "decoder": {"attention": "mixed", "tie_encoder": True},
                "norm": norm,
            },
        )
        for encoder, norm in product(ENCODERS, ("pre", "post"))
    ),
    Variant("hierarchical", {"bridge": {"type": "aggregation", "mode": "hierarchical"}}),
    Variant("no-embedding-column", {"bridge": {"type": "transparent", "embedding": None}}),
    Variant("layerwise-last-norm", {"encoder": {"layers": 2}, "bridge": {"type": "layerwise", "norms": "last"}}),
    Variant("unequal-blocks", {"encoder": {"type": "msc", "layers": 5, "blocks": [4, 1]}, **MSC}),
    Variant(
        "msc-added", {"encoder": {"type": "msc", "fusion": "add"}, "bridge": {"type": "collaborative", "fusion": "add"}}
    ),
    Variant("msc-ffn-cell", {"encoder": {"type": "msc", "cell": "ffn"}, **MSC}),
    Variant("msc-plain-layers", {"encoder": {"type": "msc", "context_attention": False}, **MSC}),
    Variant("one-decoder-layer", {"encoder": {"type": "msc"}, "decoder": {"layers": 1}, **MSC}),
    Variant("one-decoder-layer-top", {"encoder": {"type": "msc"}, "decoder": {"layers": 1}}),
    Variant("share-decoder", {"share_embeddings": "decoder", **surface()}, "surface"),
    Variant("share-none", {"share_embeddings": "none", **surface()}, "surface"),
    Variant("soft", surface(mode="soft", tau=0.7), "surface"),
    Variant("learned-gate", surface(gate="learned"), "surface"),
    Variant("learned-gate-renormalised", surface(gate="learned", renormalise=True), "surface"),
    Variant("surface-linear", surface(linear=True, ffn=False), "surface"),
    Variant("surface-two-heads-layer-one", surface(reader_heads=2, layer=1), "surface"),
    Variant("surface-mean", surface(reader="mean"), "surface"),
    Variant("surface-max", surface(reader="max"), "surface"),
    Variant("surface-mean-bare", surface(reader="mean", ffn=False), "surface"),
    *(
        Variant(
            f"grown-{wiring}-{norm}",
            {"encoder": {"type": "grown"}, "bridge": {"type": "grown", "wiring": wiring}, "norm": norm},
        )
        for wiring, norm in product(("paper", "release"), ("pre", "post"))
    ),
    Variant("pointer-without-input", {"head": {"type": "pointer", "reads_input": False}}, "pointer"),
    Variant(
        "pointer-share-none-coverage",
        {"share_embeddings": "none", "head": {"type": "pointer", "coverage": 1.0}},
        "pointer",
    ),
]


def features(combination: Combination) -> set[tuple[Any, ...]]:
    """The encoder × bridge × head of a combination, and all pairs of its parts."""
    return {combination[:3], *combinations(enumerate(combination), 2)}


def parts(combination: Combination) -> set[tuple[Any, ...]]:
    return set(enumerate(combination))


def cover(features_of: Callable[[Combination], set[tuple[Any, ...]]]) -> set[Combination]:
    """A small subset of the legal combinations with every feature that occurs."""
    having = {each: features_of(each) for each in LEGAL}
    missing, chosen = set().union(*having.values()), set()
    while missing:
        best = max(having, key=lambda each: len(having[each] & missing))
        missing -= having[best]
        chosen.add(best)
    return chosen


def parametrize(fast: set[Combination]) -> pytest.MarkDecorator:
    """All variants and legal combinations; combinations are slow except for the given ones."""
    marked = (pytest.param(each, marks=() if each in fast else pytest.mark.slow) for each in LEGAL)
    return pytest.mark.parametrize("combination", [*marked, *VARIANTS], ids=str)


COVERING = cover(features)
every_combination = parametrize(COVERING)
every_part = parametrize(cover(parts))


def small(system: str | None = None, **own: Any) -> Seq2Seq:
    """Build a model of a few thousand weights, without dropout, in evaluation mode."""
    torch.manual_seed(1)
    chosen = {"d_model": 16, "ffn_size": 24, "heads": 2, "dropout": 0.0, **own}
    for stack in ("encoder", "decoder"):
        chosen[stack] = {"layers": 2, **chosen.get(stack, {})}
    return scramble(build(system, size="tiny", vocab_size=VOCABULARY, **chosen).eval())


def scramble(model: Seq2Seq) -> Seq2Seq:
    """Randomise weights as after some training: no zero biases, unit norms or equal mixing weights."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


@cache
def build_combination(combination: Combination | Variant) -> Seq2Seq:
    torch.manual_seed(1)
    return scramble(build(size="tiny", vocab_size=VOCABULARY, **combination.choices()).eval())


class Batch(NamedTuple):
    source_BS: Tensor
    prefix_BT: Tensor
    target_BT: Tensor


def make_batch(source_lengths: tuple[int, ...] = (5, 2, 7), target_lengths: tuple[int, ...] = (4, 6, 1)) -> Batch:
    """Make sources that end with eos and prefixes that begin with the start token, padded on the right."""
    generator = torch.Generator().manual_seed(7)

    def words(length: int) -> list[int]:
        return torch.randint(4, VOCABULARY, (length,), generator=generator).tolist()

    sources = [[*words(length - 1), 2] for length in source_lengths]
    targets = [[*words(length - 1), 2] for length in target_lengths]
    return Batch(pad(sources), pad([[0, *target[:-1]] for target in targets]), pad(targets))


def pad(rows: list[list[int]], left: bool = False, extra: int = 0) -> Tensor:
    width = max(len(row) for row in rows) + extra
    return torch.tensor([[1] * (width - len(row)) + row if left else row + [1] * (width - len(row)) for row in rows])


def rows_of(tokens: Tensor) -> list[list[int]]:
    return [row[row != 1].tolist() for row in tokens]


every_backend = pytest.mark.parametrize("backend", ["torch", "engine", "engine-int8"])


class Searcher:
    """Searches with one model or an ensemble on one of the backends."""

    def __init__(self, backend: str, *models: Seq2Seq) -> None:
        if backend == "torch":
            steppers = [TorchStepper(model) for model in models]
            self.stepper: Stepper = steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)
            self.engine = None
        else:
            try:
                self.engine = make_engine(models, int8=backend == "engine-int8")
            except UnsupportedModule as reason:  # a new part; test_engine.py covers existing ones
                pytest.skip(f"the engine has no instructions for {reason}")
            self.stepper = EngineStepper(self.engine)
        self.models, self.start = models, models[0].start_id

    def search(self, source_BS: Tensor, settings: SearchSettings, prefixes: Any = None) -> list[list[Hypothesis]]:
        if self.engine is not None:
            return self.engine.search(rows_of(source_BS), settings, prefixes)
        return self.search_in_python(source_BS, settings, prefixes)

    def search_in_python(
        self, source_BS: Tensor, settings: SearchSettings, prefixes: Any = None
    ) -> list[list[Hypothesis]]:
        with torch.inference_mode():
            return beam_search(self.stepper, source_BS, settings, self.start, prefixes)

    def draw(self, source_BS: Tensor, settings: SearchSettings, how: SamplingSettings) -> list[list[Hypothesis]]:
        generator = torch.Generator().manual_seed(how.seed)
        with torch.inference_mode():
            return sample(self.stepper, source_BS, settings, how, self.start, generator)

    def log_probs(self, source: list[int], prefix: list[int]) -> Tensor:
        """Log-probabilities of a whole prefix, (T, V)."""
        return self.all_log_probs([source], [prefix])[0]

    def all_log_probs(self, sources: list[list[int]], prefixes: list[list[int]]) -> Tensor:
        """Log-probabilities of prefixes of equal length, (B, T, V)."""
        if self.engine is not None:
            return torch.from_numpy(self.engine.teacher_forced(sources, prefixes).log_probs)
        with torch.inference_mode():
            each = [model.log_probs(pad(sources), torch.tensor(prefixes)) for model in self.models]
        return torch.stack(each).logsumexp(dim=0) - math.log(len(each))


def check_agreement(ours: list[Any], theirs: list[Any], exact: Callable[[int], Any], most: int = 3) -> None:
    """Check that two searches agree, apart from a few near-ties at a beam's edge, which rounding decides.

    There, one of them must agree with `exact`, the result in double precision.
    """
    differing = [number for number, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    assert len(differing) <= most, differing
    for number in differing:
        assert exact(number) in (ours[number], theirs[number])


def search_in_double(model: Seq2Seq, source: list[int], settings: SearchSettings) -> list[Hypothesis]:
    """Search with a copy of the model in double precision."""
    return Searcher("torch", deepcopy(model).double()).search_in_python(torch.tensor([source]), settings)[0]
